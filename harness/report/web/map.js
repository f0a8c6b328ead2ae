// Problem × step: the number of right members or the mean points of proofs, and the problems that
// are lost or won by the last step.

const hasPoints = (step) => step.members.some(isProof);
/**
 * The share of right members, the mean score (step.hasScores), or the mean points as a share of all
 * points. Proofs have no vote, only a mean.
 */
function rightShare(step) {
  if (hasPoints(step)) return step.majority_correct ?? 0;
  if (step.hasScores) {
    return step.members.reduce((sum, m) => sum + scoreOf(m), 0) / step.members.length;
  }
  return step.members.filter((member) => member.correct).length / step.members.length;
}
function isRight(step) {
  if (hasPoints(step)) return step.majority_correct * data.most > data.good - 1e-9;
  return step.hasScores ? step.majority_correct === 1 : step.majority_correct > 0.5;
}
const isUngraded = (step) => step.majority_correct == null; // no grader has graded it
/** The text of a population's cell. */
function shareOf(step) {
  if (hasPoints(step)) return inPoints(step.majority_correct);
  if (step.hasScores) return asScore(rightShare(step));
  return `${Math.round(rightShare(step) * step.members.length)}/${step.members.length}`;
}
/** The mark of a vote. A tie scores the mean of its answers. */
function voteMark(step) {
  if (isUngraded(step) || hasPoints(step)) return "";
  return { 1: "✓", 0: "✗" }[step.majority_correct] ?? (step.hasScores ? "◐" : "½");
}

/** The change of a problem's majority or points from t=0 to its last step, as a key of FATES. */
function fate(problem) {
  if (!problem.steps.length) return "none";
  const first = problem.steps[0];
  const last = problem.steps.at(-1);
  if (isUngraded(last)) return "ungraded";
  if (isUngraded(first)) return "graded"; // but its first step is not
  if (isRight(first)) return isRight(last) ? "kept" : "lost";
  return isRight(last) ? "won" : "never";
}
const FATES = {
  lost: "▼ lost",
  won: "▲ won",
  kept: "kept",
  never: "right at neither end",
  none: "not begun",
  ungraded: NOT_GRADED,
  graded: "graded",
};
const withFate = (run, which) => run.problems.filter((problem) => fate(problem) === which).length;
const lost = (run) => withFate(run, "lost");
const won = (run) => withFate(run, "won");

function tokensOf(problem) {
  const members = problem.steps.flatMap((step) => step.members);
  return members.reduce((sum, member) => plus(sum, member.completion_tokens), 0);
}
const finalOf = (problem) => (problem.steps.length ? rightShare(problem.steps.at(-1)) : -1);
function gainOf(problem) {
  if (!problem.steps.length || isUngraded(problem.steps[0])) return 0;
  return finalOf(problem) - rightShare(problem.steps[0]);
}
const ORDERS = {
  "as in the set": (a, b) => a.number - b.number,
  "final result": (a, b) => finalOf(a) - finalOf(b) || a.number - b.number,
  gain: (a, b) => gainOf(a) - gainOf(b) || a.number - b.number,
  tokens: (a, b) => tokensOf(b) - tokensOf(a) || a.number - b.number,
};
const hasMember = (problem, test) => problem.steps.some((step) => step.members.some(test));
const KINDS = {
  all: () => true,
  lost: (problem) => fate(problem) === "lost",
  won: (problem) => fate(problem) === "won",
  "right at neither end": (problem) => fate(problem) === "never",
  "with truncated": (problem) => hasMember(problem, (m) => m.finish_reason === "length"),
  "with failed": (problem) => hasMember(problem, (m) => m.error),
};

const mapState = { order: "as in the set", kind: "all" };

function problemsMap(run) {
  const steps = Math.max(0, ...run.problems.map((problem) => problem.steps.length));
  const body = h("tbody", {});
  const shown = h("span", { role: "status" });
  const draw = () => {
    const rows = run.problems.filter(KINDS[mapState.kind]).sort(ORDERS[mapState.order]);
    shown.textContent = `${rows.length} of ${plural(run.problems.length, "problem")}`;
    body.replaceChildren(...rows.map((problem) => mapRow(run, problem, steps)));
  };
  draw();
  const choices = [
    mapChoice("order by", "order", ORDERS, draw),
    mapChoice("show", "kind", KINDS, draw),
  ];
  const numbers = Array.from({ length: steps }, (_, t) => `t=${t}`);
  const head = tableHead(["problem", ...numbers, ...mapColumns(run), "members' tokens"]);
  return [
    h("h2", {}, "Problems × steps"),
    quiet(mapLegend(run), "Click a cell to open the population."),
    h("div", { class: "bar" }, choices, shown),
    scroll("Problems by steps", h("table", { class: "map" }, head, body)),
  ];
}

function mapColumns(run) {
  if (ofProofs(run)) return [`${data.good} points or more`, `gain, % of ${data.most} points`];
  const majority = hasScores(run) ? "majority, full score" : "majority";
  return [majority, "gain, percentage points"];
}

function mapLegend(run) {
  if (ofProofs(run)) {
    const good = `a mean of ${data.good} or more at t=0, but not at the end`;
    return `Mean points (of ${data.most}) by problem and step. Lost: ${good}. Won: the reverse. `;
  }
  if (hasScores(run)) {
    const marks = "✓: the majority has the full score, ✗: it scores 0, ◐: between";
    const lost = "Lost: the full score at t=0, but not at the end. Won: the reverse";
    return `Mean score (0 to 1) by problem and step. ${marks}. ${lost}. `;
  }
  const marks = "✓: the majority is right, ✗: it is wrong, ½: right and wrong answers tie";
  return `Right members by problem and step. ${marks}. `;
}

function mapChoice(name, key, options, draw) {
  const choose = (event) => {
    mapState[key] = event.target.value;
    draw();
  };
  const elements = Object.keys(options).map((option) =>
    h("option", { selected: mapState[key] === option }, option),
  );
  return h("label", {}, name + " ", h("select", { onchange: choose }, elements));
}

function mapRow(run, problem, steps) {
  const outcome = fate(problem);
  const cells = Array.from({ length: steps }, (_, t) => mapCell(run, problem, problem.steps[t]));
  const hasGain = problem.steps.length && !["ungraded", "graded"].includes(outcome);
  return h(
    "tr",
    { class: outcome },
    h("th", { scope: "row" }, h("a", { href: link(run, problem) }, problem.id)),
    cells,
    h("td", {}, FATES[outcome]),
    h("td", {}, hasGain ? signed(gainOf(problem)) : "–"),
    h("td", {}, count(tokensOf(problem))),
  );
}

function mapCell(run, problem, step) {
  if (!step) return h("td", { class: "cell" }, "");
  const href = link(run, problem, step.step, 0);
  const n = step.members.length;
  if (isUngraded(step)) {
    const title = `${stepName(step)}: ${n}, ${NOT_GRADED}`;
    return h("td", { class: "cell" }, h("a", { href, title }, n));
  }
  const style = { "--share": `${Math.round(100 * rightShare(step))}%` };
  const title = `${stepName(step)}: ${populationText(step)}`;
  const mark = h("span", { class: "mark" }, voteMark(step));
  return h("td", { class: "cell" }, h("a", { href, style, title }, shareOf(step), mark));
}

/** The points of a population, or its right members and its vote. */
function populationText(step) {
  if (hasPoints(step)) return step.members.map(pointsOf).join(", ");
  const n = step.members.length;
  if (step.hasScores) {
    const scores = step.members.map((member) => asScore(scoreOf(member))).join(", ");
    const vote = `majority ${step.majority_answer ?? "none"}`;
    return `scores ${scores}; ${vote} (${asScore(step.majority_correct)})`;
  }
  const right = `${Math.round(rightShare(step) * n)} of ${n} right`;
  const verdict = { 1: "right", 0: "wrong" }[step.majority_correct] ?? "tied";
  return `${right}, majority ${step.majority_answer ?? "none"} (${verdict})`;
}
