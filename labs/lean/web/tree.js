// The tree of a search in Lean.

const DEEPEST = 60; // most levels that are indented
const OPENED = 40; // the largest failed search whose states are all open at first

/** Return the root states of a tree as objects with their children. A row's parent precedes it. */
function grown(rows) {
  const byNumber = new Map();
  const roots = [];
  for (const [number, parent, tactic, goals, logprob, energy, isOn] of rows) {
    const state = { number, tactic, goals, logprob, energy, isOn, children: [] };
    const above = byNumber.get(parent);
    (above ? above.children : roots).push(state);
    state.isSibling = !isOn && Boolean(above?.isOn);
    byNumber.set(number, state);
  }
  return roots;
}

/**
 * Return the element for a state's goals. Conclusions are emphasised, and hypotheses can be hidden.
 */
function goalsOf(text) {
  if (!text) return h("p", { class: "goals done" }, "no goals left");
  const lines = text.split("\n").map((line) => {
    let kind = line.trim() ? "hypothesis" : null;
    if (line.startsWith("⊢")) kind = "goal";
    return h("span", { class: kind }, line + "\n");
  });
  return h("pre", { class: "goals" }, lines);
}

/** Return a state's goals in short. */
function briefly(text) {
  const goals = text.split("\n").filter((line) => line.startsWith("⊢"));
  if (goals.length > 1) return `${goals[0]} (and ${goals.length - 1} more)`;
  return goals[0] || (text ? cut(text, 80) : "no goals left");
}

/** List `states` and all their descendants, each before its children. */
function flattened(states) {
  const flat = [];
  const open = states.toReversed();
  while (open.length) {
    const state = open.pop();
    flat.push(state);
    open.push(...state.children.toReversed());
  }
  return flat;
}

/** Return the states that are drawn below a state. Below DEEPEST, descendants have one level. */
function childrenAt(state, depth) {
  if (depth === DEEPEST) return [];
  return depth + 1 === DEEPEST ? flattened(state.children) : state.children;
}

/** Return the kinds of a state: on the proof, beside it, or found after it. */
function kindsOf(state, theorem) {
  const kinds = [];
  if (state.isOn) kinds.push("on");
  if (state.isSibling) kinds.push("sibling");
  if (theorem.proved && state.number > theorem.nodes) kinds.push("harvested");
  return kinds;
}

const KIND_WORDS = { on: "proof", sibling: "sibling", harvested: "harvested" };

function stateOf(state, theorem, depth, isOpen) {
  const kinds = kindsOf(state, theorem);
  const figures = [];
  if (depth) figures.push(`log p ${fixed(state.logprob)}`);
  if (state.energy != null) figures.push(`energy ${fixed(state.energy)}`);
  const children = childrenAt(state, depth).map((child) =>
    stateOf(child, theorem, depth + 1, isOpen),
  );
  const hasTactic = depth || state.tactic;
  const summary = h(
    "summary",
    {},
    h("span", { class: "order" }, `#${state.number}`),
    hasTactic ? code(state.tactic, "tactic") : h("span", { class: "quiet" }, "start"),
    h("span", { class: "brief" }, briefly(state.goals)),
    h("span", { class: "figures-of" }, figures.join(" · ")),
    kinds.map((kind) => h("span", { class: `kind ${kind}` }, KIND_WORDS[kind])),
  );
  const box = h(
    "details",
    { open: isOpen(state, depth) },
    summary,
    goalsOf(state.goals),
    children.length > 0 && h("ul", {}, children),
  );
  const classes = ["state", ...kinds];
  if (!state.children.length) classes.push("leaf");
  return h("li", { class: classes.join(" "), "data-number": state.number }, box);
}

function treeView(run, theorem, rows) {
  const isOpen = (state, depth) =>
    theorem.proved ? state.isOn : rows.length <= OPENED || depth < 2;
  const states = grown(rows).map((state) => stateOf(state, theorem, 0, isOpen));
  const tree = h("ul", { class: chosen.hypotheses ? "tree" : "tree brief-goals" }, states);
  const button = (name, opens) => {
    const openAll = () => {
      for (const box of tree.querySelectorAll("details")) box.open = opens(box.parentElement);
    };
    return h("button", { type: "button", onclick: openAll }, name);
  };
  return [
    h("h3", {}, "Search tree"),
    quiet(treeWords(theorem, rows)),
    h(
      "div",
      { class: "chips" },
      theorem.proved && button("proof", (item) => item.classList.contains("on")),
      button("open all", () => true),
      button("close all", () => false),
      hypothesesButton(tree),
    ),
    scroll("Search tree", tree, "tree-frame"),
  ];
}

function hypothesesButton(tree) {
  const change = (event) => {
    chosen.hypotheses = !chosen.hypotheses;
    event.target.setAttribute("aria-pressed", chosen.hypotheses);
    tree.classList.toggle("brief-goals", !chosen.hypotheses);
  };
  const pressed = String(chosen.hypotheses);
  return h("button", { type: "button", "aria-pressed": pressed, onclick: change }, "hypotheses");
}

/** Return what the search did, and how to read its tree. */
function treeWords(theorem, rows) {
  const after = theorem.proved ? rows.filter(([number]) => number > theorem.nodes).length : 0;
  const before = Math.max(0, rows.length - after - 1);
  const tactics = plural(theorem.nodes, "tactic");
  const applied = `applied ${tactics} in ${plural(theorem.expanded, "state")}`;
  const sentences = [`The search ${applied} and reached ${plural(before, "new state")}.`];
  if (after) {
    const reached = `reached ${plural(after, "more state")} (harvested)`;
    sentences.push(`After the proof, other tactics along its path ${reached}.`);
  }
  sentences.push(
    "Each state is below the state in which its tactic was applied, and # is its number in the",
    "search. The tree omits tactics that failed or led to a known state.",
  );
  return sentences.join(" ");
}
