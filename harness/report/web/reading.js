// The reading view: a problem, its lineage, and one member.

const PARTLY = "partly right";
const FILTERS = {
  all: () => true,
  wrong: (m) => isRightOne(m) === false && !isPartlyRight(m),
  [PARTLY]: (m) => isPartlyRight(m),
  right: (m) => isRightOne(m),
  truncated: (m) => m.finish_reason === "length",
  "no answer": (m) => hasNoAnswer(m),
  doubtful: (m) => m.doubt != null && !m.error && !hasNoAnswer(m),
  undecided: (m) => m.doubt != null && m.doubt.split(", ").includes("undecided"),
  failed: (m) => Boolean(m.error),
  forced: (m) => m.unforced != null && m.finish_reason === "length",
  elicited: (m) => m.unforced != null && m.finish_reason !== "length",
};

/** The names of the filters. Without scores, no member is partly right. */
const filterNames = (areScores) =>
  Object.keys(FILTERS).filter((name) => areScores || name !== PARTLY);

function hasNoAnswer(member) {
  const isWrong = !isProof(member) && isRightOne(member) === false;
  return isWrong && member.doubt != null && member.answer == null && !member.error;
}

const GRADED_BY = {
  solution: "Reference solution",
  guidelines: "Guidelines for graders",
  grading_scheme: "Marking scheme",
};

/** The texts for graders of a problem's proofs. Each is read when it is opened. */
const gradedBy = (run, problem) =>
  (problem.graded_by || []).map((name) => {
    const title = GRADED_BY[name] ?? name;
    const details = h("details", {}, h("summary", {}, title));
    details.addEventListener("toggle", () => {
      if (details.childElementCount > 1) return;
      const place = h("div", {}, "reading …");
      details.append(place);
      readGradedBy(run, problem, name, title, place);
    });
    return details;
  });

async function readGradedBy(run, problem, name, title, place) {
  try {
    const tier = await texts(run.number, problem.number, "a");
    const text = tier?.problem?.[name] ?? "The text is not in this report.";
    place.replaceChildren(...[prose(text, title)].flat());
  } catch (error) {
    place.textContent = `The text can't be read: ${error.message}.`;
  }
}

function link(run, problem, t, i) {
  const address = `#/${run.number}/problem/${problem.number}`;
  return t == null ? address : `${address}/${t}/${i}`;
}

/** The members that pass the filter, in the order of the keys j and k. */
function passing(problem) {
  const places = [];
  for (const [t, step] of problem.steps.entries()) {
    for (const [i, member] of step.members.entries()) {
      if (FILTERS[readingState.filter](member)) places.push([t, i]);
    }
  }
  return places;
}

const KEYS =
  "Keys: arrows move in the picture, j and k go to the next and previous member, n and p to the " +
  "next and previous problem.";

function reading(run, problem, t, i) {
  const head = problemHead(run, problem);
  if (!problem.steps.length) return [head, quiet("No step is finished yet.")];
  const chosen = problem.steps[t]?.members[i] ? `${t},${i}` : null;
  const frame = scroll("Lineage", [], "lineage-frame");
  const place = h("article", { class: "member", tabindex: -1, "aria-label": "Member" });
  let picture;
  const draw = () => {
    const dims = (member) => !FILTERS[readingState.filter](member);
    const open = (a, b) => (location.hash = link(run, problem, a, b));
    picture = lineage(problem, chosen, dims, open);
    frame.replaceChildren(picture);
  };
  const show = () => {
    if (chosen) showMember(run, problem, t, i, place);
    else place.replaceChildren(quiet(`Choose a member to read it. ${KEYS}`));
  };
  draw();
  show();
  const arePoints = problem.steps.some(hasPoints);
  const areScores = hasScores(run);
  if (!areScores && readingState.filter === PARTLY) readingState.filter = "all";
  const order = arePoints ? "order by points" : "group by answer";
  const caption = h(
    "figcaption",
    {},
    lineageLegend(arePoints, areScores),
    toggle(order, lineageState, "byAnswer", draw),
    exporting(() => picture, `${run.name}-${problem.id}-lineage`),
  );
  return [
    head,
    h("figure", {}, caption, filterBar(problem, areScores, draw), frame),
    h("div", { class: "bar" }, toggle("source text", readingState, "source", show)),
    place,
  ];
}

/** The problem's name with links to its neighbours, its statement, and texts for graders. */
function problemHead(run, problem) {
  let reference = `reference answer ${problem.answer}`;
  if (problem.graded_by) reference = "asks for a proof";
  else if (problem.answer == null) reference = "no reference answer";
  const about = `${reference} · ${FATES[fate(problem)]}`;
  const statement = { class: "statement", tabindex: 0, role: "region", "aria-label": "Statement" };
  return [
    h(
      "div",
      { class: "bar" },
      neighbour(run, problem, -1, "‹", "prev", "previous problem"),
      h("h2", {}, `Problem ${problem.id}`),
      neighbour(run, problem, 1, "›", "next", "next problem"),
      h("span", { class: "quiet" }, about),
    ),
    problem.statement != null && h("div", statement, rich(cut(problem.statement, 20000))),
    gradedBy(run, problem),
  ];
}

function neighbour(run, problem, by, sign, rel, label) {
  const other = run.problems[problem.number + by];
  const href = other ? link(run, other) : null;
  return h("a", { class: "button", href, "aria-label": label, rel }, sign);
}

function lineageLegend(arePoints, areScores) {
  const partly = areScores ? "◐ partly right (score)  " : "";
  const marks = arePoints
    ? `Lineage, coloured by points: ● ${data.good} or more  ■ fewer  ◇ no grade  ? doubtful`
    : `Lineage: ● right  ${partly}■ wrong  ◇ no answer or grade  ? doubtful`;
  const parent = arePoints ? "has fewer" : "is wrong";
  const means = areScores ? ". A step has its mean score above its members" : "";
  const edges = "An edge leads from each parent to its child";
  return `${marks}${means}. ${edges}, and is dashed if the parent ${parent}`;
}

/** A button for each filter that any member passes, with its number of members. */
function filterBar(problem, areScores, draw) {
  const members = problem.steps.flatMap((step) => step.members);
  const choose = (name, chosen) => {
    readingState.filter = name;
    for (const button of filters.children) {
      button.setAttribute("aria-pressed", String(button === chosen));
    }
    draw();
  };
  const size = (name) => members.filter(FILTERS[name]).length;
  const counted = filterNames(areScores).map((name) => [name, size(name)]);
  const shown = counted.filter(([name, n]) => n || name === "all" || name === readingState.filter);
  const buttons = shown.map(([name, n]) => {
    const attributes = {
      type: "button",
      "aria-pressed": String(readingState.filter === name),
      onclick: (event) => choose(name, event.target),
    };
    return h("button", attributes, `${name} ${n}`);
  });
  const attributes = { class: "chips", role: "group", "aria-label": "Members shown" };
  const filters = h("div", attributes, buttons);
  return filters;
}

/** A box that switches `state[key]`, and then calls `after`. */
function toggle(name, state, key, after) {
  const change = (event) => {
    state[key] = event.target.checked;
    after();
  };
  const box = h("input", { type: "checkbox", checked: state[key], onchange: change });
  return h("label", { class: "toggle" }, box, " " + name);
}

/** Open the next or previous member that passes the filter. */
function stepMember(run, problem, t, i, by) {
  const places = passing(problem);
  if (!places.length) return;
  const at = places.findIndex(([a, b]) => a === t && b === i);
  let next = (at + by + places.length) % places.length;
  if (at < 0) next = by > 0 ? 0 : places.length - 1;
  const [a, b] = places[next];
  location.hash = link(run, problem, a, b);
}
