// Problem × step: the number of right members or the mean points of proofs, and the problems lost or won by the last step.

const hasPoints = (step) => step.members.some(isProof);
/** The share of right members, or the mean points as a share of all points. Proofs have no vote, only a mean. */
const rightShare = (step) =>
  hasPoints(step)
    ? (step.majority_correct ?? 0)
    : step.members.filter((member) => member.correct).length / step.members.length;
const isRight = (step) =>
  hasPoints(step)
    ? step.majority_correct * data.most > data.good - 1e-9
    : step.majority_correct > 0.5;
const isUngraded = (step) => step.majority_correct == null; // no grader has graded it
/** The text of a population's cell. */
const shareOf = (step) =>
  hasPoints(step)
    ? inPoints(step.majority_correct)
    : `${Math.round(rightShare(step) * step.members.length)}/${step.members.length}`;
const voteMark = (step) =>
  isUngraded(step) || hasPoints(step)
    ? ""
    : step.majority_correct === 1
      ? "✓"
      : step.majority_correct === 0
        ? "✗"
        : "½"; // a tie scores its share of right answers

/** The change of a problem's majority or points from t=0 to its last step, as a key of FATES. */
function fate(problem) {
  if (!problem.steps.length) return "none";
  if (isUngraded(problem.steps.at(-1))) return "ungraded";
  if (isUngraded(problem.steps[0])) return "graded"; // but its first step is not
  const first = isRight(problem.steps[0]),
    last = isRight(problem.steps.at(-1));
  return first ? (last ? "kept" : "lost") : last ? "won" : "never";
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

const tokensOf = (problem) =>
  problem.steps.reduce(
    (sum, step) => step.members.reduce((all, m) => plus(all, m.completion_tokens), sum),
    0,
  );
const finalOf = (problem) => (problem.steps.length ? rightShare(problem.steps.at(-1)) : -1);
const gainOf = (problem) =>
  problem.steps.length && !isUngraded(problem.steps[0])
    ? finalOf(problem) - rightShare(problem.steps[0])
    : 0;
const ORDERS = {
  "as in the set": (a, b) => a.number - b.number,
  "final result": (a, b) => finalOf(a) - finalOf(b) || a.number - b.number,
  gain: (a, b) => gainOf(a) - gainOf(b) || a.number - b.number,
  tokens: (a, b) => tokensOf(b) - tokensOf(a) || a.number - b.number,
};
const KINDS = {
  all: () => true,
  lost: (p) => fate(p) === "lost",
  won: (p) => fate(p) === "won",
  "right at neither end": (p) => fate(p) === "never",
  "with truncated": (p) =>
    p.steps.some((step) => step.members.some((m) => m.finish_reason === "length")),
  "with failed": (p) => p.steps.some((step) => step.members.some((m) => m.error)),
};

const mapState = { order: "as in the set", kind: "all" };

function problemsMap(run) {
  const steps = Math.max(0, ...run.problems.map((problem) => problem.steps.length));
  const body = h("tbody", {}),
    shown = h("span", { role: "status" });
  const draw = () => {
    const rows = run.problems.filter(KINDS[mapState.kind]).sort(ORDERS[mapState.order]);
    shown.textContent = `${rows.length} of ${plural(run.problems.length, "problem")}`;
    body.replaceChildren(
      ...rows.map((problem) => {
        const became = fate(problem);
        const cells = Array.from({ length: steps }, (_, t) => {
          const step = problem.steps[t];
          if (!step) return h("td", { class: "cell" }, "");
          const share = rightShare(step),
            n = step.members.length;
          if (isUngraded(step))
            return h(
              "td",
              { class: "cell" },
              h(
                "a",
                {
                  href: `#/${run.number}/problem/${problem.number}/${step.step}/0`,
                  title: `${stepName(step)}: ${n}, ${NOT_GRADED}`,
                },
                n,
              ),
            );
          return h(
            "td",
            { class: "cell" },
            h(
              "a",
              {
                href: `#/${run.number}/problem/${problem.number}/${step.step}/0`,
                style: { "--share": `${Math.round(100 * share)}%` },
                title: hasPoints(step)
                  ? `${stepName(step)}: ${step.members.map(pointsOf).join(", ")}`
                  : `${stepName(step)}: ${Math.round(share * n)} of ${n} right, majority ${step.majority_answer ?? "none"} (${step.majority_correct === 1 ? "right" : step.majority_correct === 0 ? "wrong" : "tied"})`,
              },
              shareOf(step),
              h("span", { class: "mark" }, voteMark(step)),
            ),
          );
        });
        return h(
          "tr",
          { class: became },
          h(
            "th",
            { scope: "row" },
            h("a", { href: `#/${run.number}/problem/${problem.number}` }, problem.id),
          ),
          cells,
          h("td", {}, FATES[became]),
          h(
            "td",
            {},
            problem.steps.length && !["ungraded", "graded"].includes(became)
              ? signed(gainOf(problem))
              : "–",
          ),
          h("td", {}, count(tokensOf(problem))),
        );
      }),
    );
  };
  const choice = (name, key, options) =>
    h(
      "label",
      {},
      name + " ",
      h(
        "select",
        {
          onchange: (event) => {
            mapState[key] = event.target.value;
            draw();
          },
        },
        Object.keys(options).map((option) =>
          h("option", { selected: mapState[key] === option }, option),
        ),
      ),
    );
  draw();
  return [
    h("h2", {}, "Problems × steps"),
    h(
      "p",
      { class: "quiet" },
      ofProofs(run)
        ? `Mean points (of ${data.most}) by problem and step. Lost: a mean of ${data.good} or more at t=0, but not at the end. Won: the reverse. `
        : "Right members by problem and step. ✓: the majority is right, ✗: it is wrong, ½: right and wrong answers tie. ",
      "Click a cell to open the population.",
    ),
    h(
      "div",
      { class: "bar" },
      choice("order by", "order", ORDERS),
      choice("show", "kind", KINDS),
      shown,
    ),
    scroll(
      "Problems by steps",
      h(
        "table",
        { class: "map" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "problem"),
            Array.from({ length: steps }, (_, t) => h("th", { scope: "col" }, `t=${t}`)),
            (ofProofs(run)
              ? [`${data.good} points or more`, `gain, % of ${data.most} points`, "members' tokens"]
              : ["majority", "gain, percentage points", "members' tokens"]
            ).map((name) => h("th", { scope: "col" }, name)),
          ),
        ),
        body,
      ),
    ),
  ];
}
