// Graded lines: the tables, and each proof with its problem, the points of each item of the scheme, and the grader's words.

const KINDS = {
  all: () => true,
  right: (row) => row.worth != null && row.worth * data.most > data.good - 1e-9,
  wrong: (row) => row.worth != null && !KINDS.right(row),
  "no grade": (row) => row.worth == null,
  "truncated or empty": (row) => row.is_cut,
};
let data = null,
  kind = "all",
  wanted = "";
const outOf = (points, most) =>
  `${points == null ? "no points" : decimal(points).replace(".0", "")}${most == null ? "" : ` of ${decimal(most).replace(".0", "")}`}`;

function itemView(item, number, of) {
  return [
    h("h3", {}, [item.title, outOf(item.points, item.most)].filter(Boolean).join(": ")),
    item.about && h("p", {}, rich(item.about)),
    item.words && prose(item.words, `The grader's words ${number + 1} ${of}`),
  ];
}

function whole(found, of) {
  return [
    h("h3", {}, "Problem"),
    h("div", { class: "statement", tabindex: 0 }, rich(found.statement)),
    h("h3", {}, "Proof"),
    prose(found.proof || "(empty)", `Proof ${of}`),
    found.items.map((item, number) => itemView(item, number, of)),
    found.scheme && [h("h3", {}, "Scheme"), prose(found.scheme, `Scheme ${of}`)],
    found.solution &&
      h(
        "details",
        {},
        h("summary", {}, "Reference solution"),
        prose(found.solution, `Reference solution ${of}`),
      ),
  ];
}

function rowView(row) {
  const worth =
    row.worth == null
      ? row.why || "no grade"
      : outOf(row.worth * data.most, data.most) +
        (row.why ? ` (${row.why.replace("cut off", "truncated")})` : "");
  const named = [
    cut(row.problem, 200),
    data.runs > 1 && row.run,
    ...Object.values(row.groups),
    worth,
    row.tokens != null && `${count(row.tokens)} tokens`,
    row.grader,
  ];
  const place = h(
    "details",
    { class: "member" },
    h(
      "summary",
      { class: KINDS.right(row) ? "right" : KINDS.wrong(row) ? "wrong" : "quiet" },
      named.filter(Boolean).join(" · "),
    ),
  );
  place.addEventListener(
    "toggle",
    () =>
      place.open &&
      place.childElementCount === 1 &&
      place.append(
        ...whole(row, `of ${cut(row.problem, 200)}, ${row.run}`)
          .flat(Infinity)
          .filter(Boolean),
      ),
  );
  return place;
}

function show() {
  const found = data.rows.filter(
    (row) => KINDS[kind](row) && `${row.problem} ${row.run}`.toLowerCase().includes(wanted),
  );
  byId("rows").replaceChildren(...found.map(rowView));
  byId("counted").textContent = plural(found.length, "proof");
  for (const button of document.querySelectorAll(".chips button"))
    button.setAttribute("aria-pressed", button.textContent === kind);
}

unpacked(byId("data").textContent)
  .then((known) => {
    data = known;
    byId("main").replaceChildren(
      ...data.notes.map((note) => h("p", { class: "quiet" }, note)),
      ...data.tables.map(tableView),
      h("h2", {}, "Proofs"),
      h(
        "div",
        { class: "chips" },
        Object.keys(KINDS).map((name) =>
          h(
            "button",
            {
              type: "button",
              onclick: () => {
                kind = name;
                show();
              },
            },
            name,
          ),
        ),
        h("input", {
          type: "search",
          "aria-label": "find a problem",
          placeholder: "problem",
          oninput: (event) => {
            wanted = event.target.value.toLowerCase();
            show();
          },
        }),
        h("span", { id: "counted", class: "quiet", role: "status" }),
      ),
      h("div", { id: "rows" }),
    );
    show();
  })
  .catch((error) =>
    byId("main").prepend(
      h(
        "p",
        { class: "warning" },
        `This page can't be shown in full: ${error.message}. Use a browser of 2023 or later.`,
      ),
    ),
  );
