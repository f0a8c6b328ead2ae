// Show searches in Lean: tables and theorems (tree.js shows their trees). The address selects the
// view: #/figures, #/SEARCHES/overview, #/SEARCHES/theorem/NUMBER.

let data = null;
const MOST = 300; // theorems shown at first
const FATES = {
  all: () => true,
  proved: (theorem) => theorem.proved,
  "not proved": (theorem) => !theorem.proved,
};
const chosen = { fate: "all", words: "", hypotheses: true };

const listOf = (run) => `#/${run.number}/overview`;
const treeOf = (run, theorem) => `#/${run.number}/theorem/${theorem.number}`;
/** List the theorems that have the chosen fate and words. */
function listed(run) {
  const words = chosen.words.toLowerCase();
  const hasWords = (text) => text.toLowerCase().includes(words);
  return run.theorems.filter((theorem) => {
    if (!FATES[chosen.fate](theorem)) return false;
    return hasWords(theorem.name) || hasWords(theorem.statement);
  });
}
const fixed = (x, digits = 2) => (x == null ? "–" : x.toFixed(digits).replace("-", "−"));
const code = (text, more) => h("code", { class: more }, text);
const fate = (theorem) =>
  theorem.proved
    ? h("span", { class: "fate right" }, "✓ proved")
    : h("span", { class: "fate wrong" }, "✗ not proved");

// The list of theorems

function theoremsView(run) {
  const list = h("ol", { class: "theorems" });
  const shown = h("span", { role: "status", class: "quiet" });
  const more = h("button", { type: "button" });
  const draw = (most) => {
    const theorems = listed(run);
    const items = theorems.slice(0, most).map((theorem) => theoremItem(run, theorem));
    shown.textContent = `${count(theorems.length)} of ${plural(run.theorems.length, "theorem")}`;
    list.replaceChildren(...items);
    more.hidden = theorems.length <= most;
    more.textContent = `show more (${count(theorems.length - most)} left)`;
  };
  more.addEventListener("click", () => draw(list.childElementCount + MOST));
  const box = h("input", {
    type: "search",
    id: "search",
    value: chosen.words,
    placeholder: "name or statement",
    "aria-label": "find by name or statement",
    oninput: (event) => {
      chosen.words = event.target.value;
      draw(MOST);
    },
  });
  draw(MOST);
  return [
    h("h2", {}, `Theorems: ${run.name}`),
    quiet(
      `Each search had at most ${plural(run.nodes, "node")}. `,
      "Click a theorem to see its search tree.",
    ),
    h("div", { class: "bar" }, box, h("div", { class: "chips" }, fateChips(run, draw)), shown),
    list,
    h("p", {}, more),
  ];
}

function theoremItem(run, theorem) {
  const proof = `${plural(theorem.at, "node")}, ${plural(theorem.tactics, "tactic")}`;
  const search = `${plural(theorem.nodes, "node")}, ${theorem.reason}`;
  const outcome = h("span", { class: "quiet" }, theorem.proved ? proof : search);
  return h(
    "li",
    {},
    h(
      "a",
      { href: treeOf(run, theorem) },
      h("span", { class: "name" }, theorem.name),
      code(theorem.statement),
      h("span", { class: "came" }, fate(theorem), outcome),
    ),
  );
}

/** A button for each fate, with its number of theorems. */
function fateChips(run, draw) {
  return Object.entries(FATES).map(([name, has]) => {
    const choose = (event) => {
      chosen.fate = name;
      for (const chip of event.target.parentElement.children) {
        chip.setAttribute("aria-pressed", chip === event.target);
      }
      draw(MOST);
    };
    const pressed = String(name === chosen.fate);
    const n = count(run.theorems.filter(has).length);
    const attributes = { type: "button", "aria-pressed": pressed, onclick: choose };
    return h("button", attributes, `${name} (${n})`);
  });
}

// A theorem

/** Return links to the same theorem in other searches. */
function elsewhere(run, theorem) {
  const links = [];
  for (const other of data.runs) {
    if (other === run) continue;
    for (const same of other.theorems) {
      if (same.statement !== theorem.statement) continue;
      const outcome = same.proved ? ` ✓ ${plural(same.at, "node")}` : " ✗";
      if (links.length) links.push(" · ");
      links.push(h("a", { href: treeOf(other, same) }, other.name), outcome);
    }
  }
  if (!links.length) return null;
  const words = h("span", { class: "quiet" }, "the same theorem in other searches: ");
  return h("p", { class: "elsewhere" }, words, links);
}

function theoremView(run, theorem) {
  const place = h("div", { role: "status" }, quiet("unpacking …"));
  showTree(run, theorem, place);
  const step = (by, words) => {
    const next = neighbour(run, theorem, by);
    return next && h("a", { class: "button", href: treeOf(run, next) }, words);
  };
  return [
    h(
      "div",
      { class: "bar" },
      h("a", { class: "button", href: listOf(run) }, "↑ all theorems"),
      step(-1, "← previous"),
      step(1, "next →"),
    ),
    h("h2", {}, theorem.name, " ", fate(theorem)),
    code(theorem.statement, "statement"),
    theoremFacts(run, theorem),
    elsewhere(run, theorem),
    theorem.lean && [
      h("h3", {}, "Proof"),
      scroll("Proof", h("pre", { class: "proof" }, theorem.lean), "proof-frame"),
    ],
    place,
  ];
}

async function showTree(run, theorem, place) {
  try {
    const trees = await treesOf(run.number, theorem);
    const elements = treeView(run, theorem, trees[theorem.number]);
    place.replaceChildren(...elements.flat(Infinity).filter(Boolean));
  } catch (error) {
    const words = `The tree can't be shown: ${error.message}`;
    place.replaceChildren(h("p", { class: "warning" }, words));
  }
}

function theoremFacts(run, theorem) {
  const fact = (name, value) => value && h("div", {}, h("dt", {}, name), h("dd", {}, value));
  const failures = Object.entries(theorem.failures).map(([kind, n]) => `${kind} ${n}`);
  const reason = [theorem.reason, theorem.why].filter(Boolean).join(": ");
  return h(
    "dl",
    { class: "facts short" },
    fact("searches", run.name),
    fact("nodes", `${count(theorem.at ?? theorem.nodes)} of ${count(run.nodes)}`),
    fact("ended", !theorem.proved && reason),
    fact("tactics of the proof", theorem.proved && count(theorem.tactics)),
    fact("time", seconds(theorem.seconds)),
    fact("tactics without a new state", failures.join(", ")),
  );
}

/** The trees of a part of a run's theorems, by number. */
function treesOf(number, theorem) {
  const id = `t${number}-${theorem.part}`;
  if (!parts.has(id)) {
    parts.set(id, unpacked(byId(id).textContent));
    if (parts.size > KEPT) parts.delete(parts.keys().next().value);
  }
  return parts.get(id);
}

/** Return the theorem `by` places after this theorem in the filtered list, if there is one. */
function neighbour(run, theorem, by) {
  const filtered = listed(run);
  const theorems = filtered.includes(theorem) ? filtered : run.theorems;
  return theorems[theorems.indexOf(theorem) + by];
}

// Views and navigation

function figuresView() {
  return [
    h("h2", {}, "Figures"),
    data.notes.map((note) => warning(note)),
    data.tables.map(tableView),
  ];
}

function route() {
  const [head, view, number] = location.hash.replace(/^#\/?/, "").split("/");
  const run = /^\d+$/.test(head) ? data.runs[Number(head)] : null;
  return { run, theorem: run && view === "theorem" ? run.theorems[Number(number)] : null };
}

function menu(run) {
  const open = (event) => (location.hash = listOf(data.runs[event.target.value]));
  const options = data.runs.map((other) =>
    h("option", { value: other.number, selected: other === run }, other.name),
  );
  const none = h("option", { value: "", selected: true, disabled: true }, "searches …");
  byId("nav").replaceChildren(
    h("a", { href: "#/figures", "aria-current": run ? null : "page" }, "Figures"),
    h("a", { href: listOf(run || data.runs[0]), "aria-current": run ? "page" : null }, "Theorems"),
    h("select", { "aria-label": "searches", onchange: open }, !run && none, options),
  );
}

function viewOf(run, theorem) {
  if (theorem) return theoremView(run, theorem);
  return run ? theoremsView(run) : figuresView();
}

let last = null; // the address that is shown
function show() {
  const { run, theorem } = route();
  menu(run);
  byId("main").replaceChildren(...viewOf(run, theorem).flat(Infinity).filter(Boolean));
  document.title = [theorem?.name, run?.name, "lean", "qed-rsa"].filter(Boolean).join(" · ");
  if (last != null && last !== location.hash) {
    window.scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
  }
  last = location.hash;
}

function onKey(event) {
  const isTyping = event.target.matches("input, select, textarea");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const { run, theorem } = route();
  const open = (by) => {
    const next = neighbour(run, theorem, by);
    if (next) location.hash = treeOf(run, next);
  };
  const keys = { "/": () => find(run) };
  if (theorem) {
    keys.n = () => open(1);
    keys.p = () => open(-1);
    keys.Escape = () => (location.hash = listOf(run));
  }
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
}

/** Move the focus to the search box of the list of theorems. */
function find(run) {
  const address = listOf(run || data.runs[0]);
  if (location.hash !== address) {
    history.pushState(null, "", address);
    show();
  }
  byId("search").focus();
}

function begin(known) {
  data = known;
  data.runs.forEach((run, number) => {
    run.number = number;
    run.theorems.forEach((theorem, n) => (theorem.number = n));
  });
  show();
  addEventListener("hashchange", show);
  addEventListener("keydown", onKey);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address "#main" is not a view
    byId("main").focus();
  });
}

function fail(error) {
  const advice = "Use a browser of 2023 or later.";
  const words = `This page can't be shown in full: ${error.message}. ${advice}`;
  byId("main").prepend(h("p", { class: "warning" }, words));
}

unpacked(byId("data").textContent).then(begin).catch(fail);
