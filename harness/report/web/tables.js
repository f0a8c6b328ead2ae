// Tables from harness/report/table.py. Rows may open their results.
const opened = (place) => `#/${place}/overview`;

function tableView(table) {
  const hasLinks = table.links.some((links) => links.length);
  const heads = table.heads.map((name, n) =>
    h("th", { scope: "col", title: table.meanings[n] || null }, name),
  );
  if (hasLinks) heads.push(h("th", { scope: "col" }, "opens"));
  const legend = table.legend && h("span", {}, table.legend);
  return scroll(
    table.title,
    h(
      "table",
      { class: "rows" },
      h("caption", {}, h("span", {}, table.title), legend),
      h("thead", {}, h("tr", {}, heads)),
      h(
        "tbody",
        {},
        table.rows.map((row, n) => tableRow(row, table.marks[n], hasLinks && table.links[n])),
      ),
    ),
  );
}

/** A row of a table. A cell is its text, or its text, its hint and a flag that marks the cell. */
function tableRow([name, ...cells], mark, links) {
  const tag = mark && h("span", { class: "tag" }, mark);
  const shown = cells.map((cell) => {
    const [text, title, isHigh] = [cell].flat();
    return h("td", { title, class: isHigh ? "high" : null }, text);
  });
  return h("tr", {}, h("th", { scope: "row" }, name, tag), shown, links && tableLinks(links));
}

function tableLinks(links) {
  const anchors = links.map(([word, place], n) => {
    const label = `${word}: ${data.runs[place].name}`;
    return [n > 0 && " · ", h("a", { href: opened(place), "aria-label": label }, word)];
  });
  return h("td", {}, anchors);
}
