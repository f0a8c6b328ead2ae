// Several results side by side: the frontier of accuracy against tokens, paired differences, wins and losses.

function frontier(runs, metric, name) {
  const colors = ["right", "wrong", "third", "fourth", "fifth", "sixth"].map(color);
  const series = runs.map((run, n) => {
    const sums = spent(run.head.metrics.steps), isKnown = !sums.includes(null);
    const block = Math.floor(n / colors.length); // 18 results are told apart, also in grey
    return { name: withN(run.name, run), plain: runs.length > colors.length, color: colors[n % colors.length], shape: SHAPE_NAMES[(n + block) % SHAPE_NAMES.length], dash: [null, "6 4", "2 3"][block % 3],
      points: !isKnown || !isGraded(run) ? [] : run.head.metrics.steps.map((step, t) =>
        asPoint(sums[t] / Math.max(1, run.head.problem_set.n) / (run.head.runs?.seeds.length || 1), step[metric], `${run.name}, ${stepName(step)}, ${count(sums[t])} tokens in all`)) };
  });
  return figure({ title: `${name} against tokens`, xLabel: "completion tokens per problem so far",
    yLabel: `${name.toLowerCase()}, %`, series }, `frontier-${metric}`);
}

function pairedTable(comparison) {
  const several = comparison.pairs.length > 1;
  const chance = (p) => h("td", {}, p < 0.001 ? "< 0.001" : p.toFixed(3));
  return scroll("Differences", h("table", {},
    h("caption", {}, h("span", {}, `Each against ${comparison.first}, paired by problem. Differences in points with 95% intervals; p: two-sided sign-flip permutation test, with which the intervals agree${
      several ? "; Holm: corrected for all p-values of this table" : ""}.`)),
    h("thead", {}, h("tr", {}, ["result", "metric", "difference", "p", ...(several ? ["p (Holm)"] : []), "problems", "wins", "losses", "ties"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, comparison.pairs.flatMap((pair) => [
      ...pair.metrics.map((m) => h("tr", {}, h("th", { scope: "row" }, pair.name), h("td", {}, m.name),
        h("td", {}, `${signed(m.difference)} [${signed(m.low)}, ${signed(m.high)}]`), chance(m.p), several && chance(m.p_holm),
        [m.n, m.wins, m.losses, m.ties].map((n) => h("td", {}, n)))),
      h("tr", {}, h("th", { scope: "row" }, pair.name), h("td", {}, "completion tokens"),
        h("td", {}, pair.tokens ? `${signed(pair.tokens.value)}%` + (pair.tokens.low == null ? "" : ` [${signed(pair.tokens.low)}, ${signed(pair.tokens.high)}]`) : "unknown"),
        h("td", {}), several && h("td", {}), h("td", {}, pair.tokens?.n), h("td", {}), h("td", {}), h("td", {})),
    ]))));
}

/** Each problem's final mean accuracy in every result; those where results differ come first. `rounds`: what the rounds
    of one run are called, whose differences speak for themselves. */
function problemTable(runs, rounds) {
  const rows = new Map();
  for (const [n, run] of runs.entries()) for (const problem of run.problems) {
    const id = `${problem.id}\u0000${problem.answer}`;
    rows.set(id, rows.get(id) || runs.map(() => null));
    rows.get(id)[n] = problem;
  }
  const spread = (there) => {
    const found = there.filter(Boolean).map(finalOf);
    return found.length > 1 ? Math.max(...found) - Math.min(...found) : -1;
  };
  return scroll(rounds || "Results by problem", h("table", { class: "map" },
    h("caption", {}, h("span", {}, rounds ? "Right at temperature 0, round by round; the problems on which rounds differ come first." : (runs.every(ofProofs) ? `Mean points (of ${data.most}) after the last step, and % of them more than in the first result;`
      : "Members that are right after the last step, and points more than in the first result;") + " the problems on which results differ most come first.")),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "problem"), runs.map((run) => h("th", { scope: "col" }, run.name)),
      !rounds && runs.slice(1).map((run) => h("th", { scope: "col" }, run.name + ", points")))),
    h("tbody", {}, [...rows.values()].sort((a, b) => spread(b) - spread(a)).map((there) => h("tr", {},
      h("th", { scope: "row" }, there.find(Boolean).id),
      there.map((problem, n) => {
        const step = problem?.steps.at(-1);
        if (!step) return h("td", { class: "cell" }, "–");
        const share = rightShare(step);
        if (isUngraded(step)) return h("td", { class: "cell" }, NOT_GRADED);
        return h("td", { class: "cell" }, h("a", { href: link(runs[n], problem),
          style: { "--share": `${Math.round(100 * share)}%` } }, shareOf(step), h("span", { class: "mark" }, voteMark(step))));
      }),
      !rounds && there.slice(1).map((problem) => h("td", {}, problem?.steps.length && there[0]?.steps.length && ![problem, there[0]].some((one) => isUngraded(one.steps.at(-1))) ? signed(finalOf(problem) - finalOf(there[0])) : "–")))))));
}

/** The table of a comparison at equal budgets, and the notes below it. */
function atBudgets(text) {
  const [table, ...notes] = text.trim().split("\n\n");
  return [h("h3", {}, "At equal budgets"), scroll("At equal budgets", h("pre", {}, table)),
    notes.join("\n").split("\n").map((note) => h("p", { class: "quiet" }, note))];
}

/** The problems of a run in rounds, round by round; of several runs, each where it is asked for. */
function byRounds(runs, isOpen) {
  const name = `Problems of ${runs[0].name} and the rounds behind it`;
  if (isOpen) return problemTable(runs, name);
  const details = h("details", {}, h("summary", {}, name));
  details.addEventListener("toggle", () => details.childElementCount === 1 && details.append(problemTable(runs, name)));
  return details;
}

function comparing(data) {
  const { runs, comparison } = data;
  return [
    h("h2", {}, "Comparison"),
    data.table && atBudgets(data.table),
    comparison.notes.map((note) => h("p", { class: "warning" }, h("span", { "aria-hidden": "true" }, "⚠ "), note)),
    !comparison.groups && runs.some(isGraded) && h("div", { class: "figures" }, runs.every(ofProofs) ? frontier(runs, "mean_accuracy", MEAN_POINTS())
      : [frontier(runs, "mean_accuracy", "Mean accuracy"), frontier(runs, "majority_accuracy", "Majority accuracy")]),
    comparison.pairs.length > 0 && pairedTable(comparison),
    h("h3", {}, "Problem by problem"), comparison.groups ? comparison.groups.map((group) => byRounds(group.map((n) => runs[n]), comparison.groups.length === 1)) : problemTable(runs),
  ];
}
