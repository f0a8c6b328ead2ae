// Show searches in Lean: tables, theorems, trees. The address selects the view: #/figures, #/SEARCHES/overview,
// #/SEARCHES/theorem/NUMBER.

let data = null;
const MOST = 300; // theorems shown at first
const DEEPEST = 60; // most levels that are indented
const OPENED = 40; // the largest failed search whose states are all open at first
const FATES = {
  all: () => true,
  proved: (theorem) => theorem.proved,
  "not proved": (theorem) => !theorem.proved,
};
const chosen = { fate: "all", words: "", hypotheses: true };

const listOf = (run) => `#/${run.number}/overview`;
const treeOf = (run, theorem) => `#/${run.number}/theorem/${theorem.number}`;
const lower = (text) => text.toLowerCase();
const listed = (run) =>
  run.theorems.filter(
    (theorem) =>
      FATES[chosen.fate](theorem) &&
      [theorem.name, theorem.statement].some((text) => lower(text).includes(lower(chosen.words))),
  );
const fixed = (x, digits = 2) => (x == null ? "–" : x.toFixed(digits).replace("-", "−"));
const code = (text, more) => h("code", { class: more }, text);
const fate = (theorem) =>
  h(
    "span",
    { class: "fate " + (theorem.proved ? "right" : "wrong") },
    theorem.proved ? "✓ proved" : "✗ not proved",
  );

// The list of theorems

function theoremsView(run) {
  const list = h("ol", { class: "theorems" }),
    shown = h("span", { role: "status", class: "quiet" });
  const more = h("button", { type: "button", onclick: () => draw(list.childElementCount + MOST) });
  const draw = (most) => {
    const found = listed(run);
    shown.textContent = `${count(found.length)} of ${plural(run.theorems.length, "theorem")}`;
    list.replaceChildren(
      ...found
        .slice(0, most)
        .map((theorem) =>
          h(
            "li",
            {},
            h(
              "a",
              { href: treeOf(run, theorem) },
              h("span", { class: "name" }, theorem.name),
              code(theorem.statement),
              h(
                "span",
                { class: "came" },
                fate(theorem),
                h(
                  "span",
                  { class: "quiet" },
                  theorem.proved
                    ? `${plural(theorem.at, "node")}, ${plural(theorem.tactics, "tactic")}`
                    : `${plural(theorem.nodes, "node")}, ${theorem.reason}`,
                ),
              ),
            ),
          ),
        ),
    );
    more.hidden = found.length <= most;
    more.textContent = `show more (${count(found.length - most)} left)`;
  };
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
  const chips = Object.entries(FATES).map(([name, is]) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(name === chosen.fate),
        onclick: (event) => {
          chosen.fate = name;
          for (const chip of event.target.parentElement.children)
            chip.setAttribute("aria-pressed", chip === event.target);
          draw(MOST);
        },
      },
      `${name} (${count(run.theorems.filter(is).length)})`,
    ),
  );
  draw(MOST);
  return [
    h("h2", {}, `Theorems: ${run.name}`),
    h(
      "p",
      { class: "quiet" },
      `Each search had at most ${plural(run.nodes, "node")}. Click a theorem to see its search tree.`,
    ),
    h("div", { class: "bar" }, box, h("div", { class: "chips" }, chips), shown),
    list,
    h("p", {}, more),
  ];
}

// The tree of a search

/** Return the root states of a tree as objects with their children. A row's parent precedes it. */
function grown(rows) {
  const byNumber = new Map(),
    tops = [];
  for (const [number, parent, tactic, goals, logprob, energy, isOn] of rows) {
    const state = { number, tactic, goals, logprob, energy, isOn, children: [] },
      above = byNumber.get(parent);
    (above ? above.children : tops).push(state);
    state.isSibling = !isOn && Boolean(above?.isOn);
    byNumber.set(number, state);
  }
  return tops;
}

/** Return the element for a state's goals. Conclusions are emphasised, and hypotheses can be hidden. */
function goalsOf(text) {
  if (!text) return h("p", { class: "goals done" }, "no goals left");
  return h(
    "pre",
    { class: "goals" },
    text
      .split("\n")
      .map((line) =>
        h(
          "span",
          { class: line.startsWith("⊢") ? "goal" : line.trim() ? "hypothesis" : null },
          line + "\n",
        ),
      ),
  );
}

function briefly(text) {
  const goals = text.split("\n").filter((line) => line.startsWith("⊢"));
  return goals.length > 1
    ? `${goals[0]} (and ${goals.length - 1} more)`
    : goals[0] || (text ? cut(text, 80) : "no goals left");
}

/** List `states` and all their descendants, each before its children. */
function flattened(states) {
  const found = [];
  for (const open = states.toReversed(); open.length;) {
    found.push(open.pop());
    open.push(...found.at(-1).children.toReversed());
  }
  return found;
}

function stateOf(state, theorem, depth, isOpen) {
  const isHarvested = theorem.proved && state.number > theorem.nodes;
  const tags = [
    state.isOn && ["on", "proof"],
    state.isSibling && ["sibling", "sibling"],
    isHarvested && ["harvested", "harvested"],
  ].filter(Boolean);
  const figures = [
    depth && `log p ${fixed(state.logprob)}`,
    state.energy != null && `energy ${fixed(state.energy)}`,
  ]
    .filter(Boolean)
    .join(" · ");
  const children =
    depth === DEEPEST ? [] : depth + 1 === DEEPEST ? flattened(state.children) : state.children;
  const below = children.map((child) => stateOf(child, theorem, depth + 1, isOpen));
  const box = h(
    "details",
    { open: isOpen(state, depth) },
    h(
      "summary",
      {},
      h("span", { class: "order" }, `#${state.number}`),
      depth || state.tactic ? code(state.tactic, "tactic") : h("span", { class: "quiet" }, "start"),
      h("span", { class: "brief" }, briefly(state.goals)),
      h("span", { class: "figures-of" }, figures),
      tags.map(([kind, word]) => h("span", { class: `kind ${kind}` }, word)),
    ),
    goalsOf(state.goals),
    below.length > 0 && h("ul", {}, below),
  );
  return h(
    "li",
    {
      class: ["state", ...tags.map(([kind]) => kind), !state.children.length && "leaf"]
        .filter(Boolean)
        .join(" "),
      "data-number": state.number,
    },
    box,
  );
}

function treeView(run, theorem, rows) {
  const all = grown(rows);
  const onPath = (state, depth) =>
    theorem.proved ? state.isOn : rows.length <= OPENED || depth < 2;
  const tree = h(
    "ul",
    { class: "tree" + (chosen.hypotheses ? "" : " brief-goals") },
    all.map((state) => stateOf(state, theorem, 0, onPath)),
  );
  const openAll = (which) => {
    for (const box of tree.querySelectorAll("details")) box.open = which(box.parentElement);
  };
  const button = (name, which) =>
    h("button", { type: "button", onclick: () => openAll(which) }, name);
  const hypotheses = h(
    "button",
    {
      type: "button",
      "aria-pressed": String(chosen.hypotheses),
      onclick: () => {
        chosen.hypotheses = !chosen.hypotheses;
        hypotheses.setAttribute("aria-pressed", chosen.hypotheses);
        tree.classList.toggle("brief-goals", !chosen.hypotheses);
      },
    },
    "hypotheses",
  );
  const harvested = theorem.proved ? rows.filter(([number]) => number > theorem.nodes).length : 0,
    others = Math.max(0, rows.length - harvested - 1);
  return [
    h("h3", {}, "Search tree"),
    h(
      "p",
      { class: "quiet" },
      `The search applied ${plural(theorem.nodes, "tactic")} in ${plural(theorem.expanded, "state")} and reached ${plural(others, "new state")}. ` +
        `${harvested ? `After the proof, other tactics along its path reached ${plural(harvested, "more state")} (harvested). ` : ""}` +
        "Each state is below the state in which its tactic was applied, and # is its number in the search. The tree omits tactics that failed or led to a known state.",
    ),
    h(
      "div",
      { class: "chips" },
      theorem.proved && button("proof", (item) => item.classList.contains("on")),
      button("open all", () => true),
      button("close all", () => false),
      hypotheses,
    ),
    scroll("Search tree", tree, "tree-frame"),
  ];
}

/** Return links to the same theorem in other searches. */
function elsewhere(run, theorem) {
  const others = data.runs.flatMap((other) =>
    other === run
      ? []
      : other.theorems
          .filter((each) => each.statement === theorem.statement)
          .map((each) => [other, each]),
  );
  return (
    others.length > 0 &&
    h(
      "p",
      { class: "elsewhere" },
      h("span", { class: "quiet" }, "the same theorem in other searches: "),
      others.map(([other, each], at) => [
        at > 0 && " · ",
        h("a", { href: treeOf(other, each) }, other.name),
        ` ${each.proved ? `✓ ${plural(each.at, "node")}` : "✗"}`,
      ]),
    )
  );
}

function theoremView(run, theorem) {
  const place = h("div", { role: "status" }, h("p", { class: "quiet" }, "unpacking …"));
  const fact = (name, value) => value && h("div", {}, h("dt", {}, name), h("dd", {}, value));
  const failures = Object.entries(theorem.failures)
    .map(([what, n]) => `${what} ${n}`)
    .join(", ");
  texts_(run.number, theorem)
    .then((trees) =>
      place.replaceChildren(
        ...treeView(run, theorem, trees[theorem.number]).flat(Infinity).filter(Boolean),
      ),
    )
    .catch((error) =>
      place.replaceChildren(
        h("p", { class: "warning" }, `The tree can't be shown: ${error.message}`),
      ),
    );
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
    h(
      "dl",
      { class: "facts short" },
      fact("searches", run.name),
      fact("nodes", `${count(theorem.at ?? theorem.nodes)} of ${count(run.nodes)}`),
      fact("ended", !theorem.proved && [theorem.reason, theorem.why].filter(Boolean).join(": ")),
      fact("tactics of the proof", theorem.proved && count(theorem.tactics)),
      fact("time", seconds(theorem.seconds)),
      fact("tactics without a new state", failures),
    ),
    elsewhere(run, theorem),
    theorem.lean && [
      h("h3", {}, "Proof"),
      scroll("Proof", h("pre", { class: "proof" }, theorem.lean), "proof-frame"),
    ],
    place,
  ];
}

const texts_ = (number, theorem) => {
  const id = `t${number}-${theorem.part}`;
  if (!parts.has(id)) {
    parts.set(id, unpacked(byId(id).textContent));
    if (parts.size > KEPT) parts.delete(parts.keys().next().value);
  }
  return parts.get(id);
};

/** Return the theorem `by` places after this theorem in the filtered list, if there is one. */
function neighbour(run, theorem, by) {
  const found = listed(run).includes(theorem) ? listed(run) : run.theorems;
  return found[found.indexOf(theorem) + by];
}

// Views and navigation

function figuresView() {
  return [
    h("h2", {}, "Figures"),
    data.notes.map((note) =>
      h("p", { class: "warning" }, h("span", { "aria-hidden": "true" }, "⚠ "), note),
    ),
    data.tables.map(tableView),
  ];
}

function route() {
  const [head, view, number] = location.hash.replace(/^#\/?/, "").split("/"),
    run = /^\d+$/.test(head) ? data.runs[Number(head)] : null;
  return { run, theorem: run && view === "theorem" ? run.theorems[Number(number)] : null };
}

let last = null;
function show() {
  const { run, theorem } = route();
  byId("nav").replaceChildren(
    h("a", { href: "#/figures", "aria-current": run ? null : "page" }, "Figures"),
    h("a", { href: listOf(run || data.runs[0]), "aria-current": run ? "page" : null }, "Theorems"),
    h(
      "select",
      {
        "aria-label": "searches",
        onchange: (event) => (location.hash = listOf(data.runs[event.target.value])),
      },
      !run && h("option", { value: "", selected: true, disabled: true }, "searches …"),
      data.runs.map((each) =>
        h("option", { value: each.number, selected: each === run }, each.name),
      ),
    ),
  );
  byId("main").replaceChildren(
    ...[theorem ? theoremView(run, theorem) : run ? theoremsView(run) : figuresView()]
      .flat(Infinity)
      .filter(Boolean),
  );
  document.title = [theorem?.name, run?.name, "lean", "qed-rsa"].filter(Boolean).join(" · ");
  if (last != null && last !== location.hash) {
    window.scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
  }
  last = location.hash;
}

function onKey(event) {
  if (
    event.target.matches("input, select, textarea") ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey
  )
    return;
  const { run, theorem } = route();
  const to = (by) => {
    const next = neighbour(run, theorem, by);
    if (next) location.hash = treeOf(run, next);
  };
  const look = () => {
    const there = listOf(run || data.runs[0]);
    if (location.hash !== there) {
      history.pushState(null, "", there);
      show();
    }
    byId("search").focus();
  };
  const keys = {
    "/": look,
    ...(theorem && {
      n: () => to(1),
      p: () => to(-1),
      Escape: () => (location.hash = listOf(run)),
    }),
  };
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
}

unpacked(byId("data").textContent)
  .then((found) => {
    data = found;
    data.runs.forEach((run, number) => {
      run.number = number;
      run.theorems.forEach((theorem, n) => (theorem.number = n));
    });
    show();
    addEventListener("hashchange", show);
    addEventListener("keydown", onKey);
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      byId("main").focus();
    }); // the address "#main" is not a view
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
