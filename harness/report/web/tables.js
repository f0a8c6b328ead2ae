// Tables from harness/report/table.py. Rows may open their results.
const opened = (place) => `#/${place}/overview`;

function tableView(table) {
  const has = (what) => table[what].some((each) => each.length);
  const cell = ([text, title, isHigh]) => h("td", { title, class: isHigh ? "high" : null }, text);
  return scroll(
    table.title,
    h(
      "table",
      { class: "rows" },
      h("caption", {}, h("span", {}, table.title), table.legend && h("span", {}, table.legend)),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          table.heads.map((name, n) =>
            h("th", { scope: "col", title: table.meanings[n] || null }, name),
          ),
          has("links") && h("th", { scope: "col" }, "opens"),
        ),
      ),
      h(
        "tbody",
        {},
        table.rows.map(([name, ...cells], n) =>
          h(
            "tr",
            {},
            h(
              "th",
              { scope: "row" },
              name,
              table.marks[n] && h("span", { class: "tag" }, table.marks[n]),
            ),
            cells.map((each) => cell([each].flat())),
            has("links") &&
              h(
                "td",
                {},
                table.links[n].map(([word, place], at) => [
                  at > 0 && " · ",
                  h(
                    "a",
                    { href: opened(place), "aria-label": `${word}: ${data.runs[place].name}` },
                    word,
                  ),
                ]),
              ),
          ),
        ),
      ),
    ),
  );
}
