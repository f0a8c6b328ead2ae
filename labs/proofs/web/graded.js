// Graded lines: the tables, and each proof with its problem, the points of each item of the scheme,
// and the grader's words.

const KINDS = {
  all: () => true,
  right: (row) => row.points_share != null && row.points_share * data.most > data.good - 1e-9,
  wrong: (row) => row.points_share != null && !KINDS.right(row),
  "no grade": (row) => row.points_share == null,
  "truncated or empty": (row) => row.is_cut,
};
let data = null;
let kind = "all"; // the kind of proofs shown
let wanted = ""; // words in their names
const whole = (points) => decimal(points).replace(".0", "");
function outOf(points, most) {
  const text = points == null ? "no points" : whole(points);
  return most == null ? text : `${text} of ${whole(most)}`;
}

/** An item of a scheme. `name` says whose. */
function itemView(item, number, name) {
  return [
    h("h3", {}, [item.title, outOf(item.points, item.most)].filter(Boolean).join(": ")),
    item.about && h("p", {}, rich(item.about)),
    item.words && prose(item.words, `The grader's words ${number + 1} ${name}`),
  ];
}

/** The problem, the proof and its grades. */
function proofView(row, name) {
  const solution =
    row.solution &&
    h(
      "details",
      {},
      h("summary", {}, "Reference solution"),
      prose(row.solution, `Reference solution ${name}`),
    );
  return [
    h("h3", {}, "Problem"),
    h("div", { class: "statement", tabindex: 0 }, rich(row.statement)),
    h("h3", {}, "Proof"),
    prose(row.proof || "(empty)", `Proof ${name}`),
    row.items.map((item, number) => itemView(item, number, name)),
    row.scheme && [h("h3", {}, "Scheme"), prose(row.scheme, `Scheme ${name}`)],
    solution,
  ];
}

function pointsText(row) {
  if (row.points_share == null) return row.why || "no grade";
  const points = outOf(row.points_share * data.most, data.most);
  return row.why ? `${points} (${row.why.replace("cut off", "truncated")})` : points;
}

function verdictOf(row) {
  if (KINDS.right(row)) return "right";
  return KINDS.wrong(row) ? "wrong" : "quiet";
}

function rowView(row) {
  const problem = cut(row.problem, 200);
  const parts = [
    problem,
    data.runs > 1 && row.run,
    ...Object.values(row.groups),
    pointsText(row),
    row.tokens != null && `${count(row.tokens)} tokens`,
    row.grader,
  ];
  const summary = h("summary", { class: verdictOf(row) }, parts.filter(Boolean).join(" · "));
  const place = h("details", { class: "member" }, summary);
  place.addEventListener("toggle", () => {
    if (!place.open || place.childElementCount > 1) return;
    const elements = proofView(row, `of ${problem}, ${row.run}`);
    place.append(...elements.flat(Infinity).filter(Boolean));
  });
  return place;
}

function show() {
  const rows = data.rows.filter((row) => {
    const name = `${row.problem} ${row.run}`.toLowerCase();
    return KINDS[kind](row) && name.includes(wanted);
  });
  byId("rows").replaceChildren(...rows.map(rowView));
  byId("counted").textContent = plural(rows.length, "proof");
  for (const button of document.querySelectorAll(".chips button")) {
    button.setAttribute("aria-pressed", button.textContent === kind);
  }
}

/** Return the kinds of which there are proofs. */
function kindsShown() {
  return Object.keys(KINDS).filter((name) => name === "all" || data.rows.some(KINDS[name]));
}

function kindButton(name) {
  const choose = () => {
    kind = name;
    show();
  };
  return h("button", { type: "button", onclick: choose }, name);
}

function begin(known) {
  data = known;
  const find = (event) => {
    wanted = event.target.value.toLowerCase();
    show();
  };
  const box = h("input", {
    type: "search",
    "aria-label": "find a problem",
    placeholder: "problem",
    oninput: find,
  });
  const counted = h("span", { id: "counted", class: "quiet", role: "status" });
  byId("main").replaceChildren(
    ...data.notes.map((note) => quiet(note)),
    ...data.tables.map(tableView),
    h("h2", {}, "Proofs"),
    h("div", { class: "chips" }, kindsShown().map(kindButton), box, counted),
    h("div", { id: "rows" }),
  );
  show();
}

function fail(error) {
  const advice = "Use a browser of 2023 or later.";
  const words = `This page can't be shown in full: ${error.message}. ${advice}`;
  byId("main").prepend(h("p", { class: "warning" }, words));
}

unpacked(byId("data").textContent).then(begin).catch(fail);
