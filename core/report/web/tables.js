// Tables of a record, whose rows open what they tell of.
const opened = (place) => `#/${place}/overview`;

function tableView(table) {
  const has = (what) => table[what].some((each) => each.length);
  return scroll(table.title, h("table", { class: "rounds" },
    h("caption", {}, h("span", {}, table.title)),
    h("thead", {}, h("tr", {}, table.heads.map((name) => h("th", { scope: "col" }, name)), has("links") && h("th", { scope: "col" }, "opens"))),
    h("tbody", {}, table.rows.map(([name, ...cells], n) => h("tr", {},
      h("th", { scope: "row" }, name, table.marks[n] && h("span", { class: "tag" }, table.marks[n])), cells.map((cell) => h("td", {}, cell)),
      has("links") && h("td", {}, table.links[n].map(([word, place], at) => [at > 0 && " · ", h("a", { href: opened(place), "aria-label": `${word}: ${data.runs[place].name}` }, word)])))))));
}
