// Several results: accuracy against tokens, paired differences, wins and losses.

const SERIES_COLORS = ["right", "wrong", "third", "fourth", "fifth", "sixth"];
const SERIES_DASHES = [null, "6 4", "2 3"];

function frontier({ runs, title: set }, metric, name, yLabel = `${name.toLowerCase()}, %`) {
  const series = runs.map((run, n) => {
    const block = Math.floor(n / SERIES_COLORS.length); // 18 results differ, also in grey
    return {
      name: frontierName(run, runs),
      plain: runs.length > SERIES_COLORS.length,
      color: color(SERIES_COLORS[n % SERIES_COLORS.length]),
      shape: SHAPE_NAMES[(n + block) % SHAPE_NAMES.length],
      dash: SERIES_DASHES[block % SERIES_DASHES.length],
      points: frontierPoints(run, metric),
    };
  });
  const title = `${name} against tokens${set}`;
  const xLabel = "completion tokens per problem so far";
  return figure({ title, xLabel, yLabel, series }, `frontier-${metric}`);
}

function frontierName(run, runs) {
  const n = run.head.problem_set.n;
  const isSameSize = runs.every((other) => other.head.problem_set.n === n);
  return isSameSize ? withN(run.name, run) : `${run.name}, n=${n}`;
}

function frontierPoints(run, metric) {
  const problems = Math.max(1, run.head.problem_set.n);
  const seeds = run.head.runs?.seeds.length || 1;
  return againstTokens(run, metric).map(({ tokens, rate, words }) => {
    const all = `${run.name}, ${words}, ${count(tokens)} tokens in all`;
    return asPoint(tokens / problems / seeds, rate, all);
  });
}

/**
 * Each problem's final mean accuracy or points in every result. Problems on which results differ
 * come first. With a `caption`, the table has no columns of differences.
 */
function problemTable(runs, name = "Results by problem", caption) {
  const rows = problemRows(runs).sort((a, b) => spread(b) - spread(a));
  const heads = ["problem", ...runs.map((run) => run.name)];
  if (!caption) heads.push(...runs.slice(1).map((run) => run.name + ", difference"));
  const elements = rows.map((problems) => {
    const cells = problems.map((problem, n) => problemCell(runs[n], problem));
    const [first, ...others] = problems;
    const differences = others.map((problem) => h("td", {}, difference(first, problem)));
    const id = problems.find(Boolean).id;
    return h("tr", {}, h("th", { scope: "row" }, id), cells, !caption && differences);
  });
  const words = h("span", {}, caption || problemCaption(runs));
  const table = h(
    "table",
    { class: "map" },
    h("caption", {}, words),
    tableHead(heads),
    h("tbody", {}, elements),
  );
  return scroll(name, table);
}

/** The problems by id and reference answer: for each, a list with the problem in every run. */
function problemRows(runs) {
  const rows = new Map();
  for (const [n, run] of runs.entries()) {
    for (const problem of run.problems) {
      const id = `${problem.id}\u0000${problem.answer}`;
      if (!rows.has(id))
        rows.set(
          id,
          runs.map(() => null),
        );
      rows.get(id)[n] = problem;
    }
  }
  return [...rows.values()];
}

/** The range of a problem's final results, or -1 if only one run has it. */
function spread(problems) {
  const results = problems.filter(Boolean).map(finalOf);
  return results.length > 1 ? Math.max(...results) - Math.min(...results) : -1;
}

function problemCaption(runs) {
  const from = "and the difference from the first result";
  const result = runs.some(hasScores) ? "Right members or mean scores" : "Right members";
  const difference = runs.every(ofProofs)
    ? `Mean points (of ${data.most}) after the last step, ${from} in % of ${data.most} points.`
    : `${result} after the last step, ${from} in percentage points.`;
  return difference + " Problems on which results differ most come first.";
}

function problemCell(run, problem) {
  const step = problem?.steps.at(-1);
  if (!step) return h("td", { class: "cell" }, "–");
  if (isUngraded(step)) return h("td", { class: "cell" }, NOT_GRADED);
  const style = { "--share": `${Math.round(100 * rightShare(step))}%` };
  const mark = h("span", { class: "mark" }, voteMark(step));
  const anchor = h("a", { href: link(run, problem), style }, shareOf(step), mark);
  return h("td", { class: "cell" }, anchor);
}

function difference(first, problem) {
  const isKnown = [first, problem].every(
    (one) => one?.steps.length && !isUngraded(one.steps.at(-1)),
  );
  return isKnown ? signed(finalOf(problem) - finalOf(first)) : "–";
}

/** The tables of a comparison, sweep or race, its figures, and the notes below its tables. */
function tabled({ name, text, figures }) {
  const blocks = text.trim().split("\n\n");
  const isTable = (block) => /\n-+ /.test(block);
  const tables = blocks.filter(isTable).map((block) => h("pre", {}, block));
  const images = Object.entries(figures).map(([title, src]) =>
    h("figure", {}, h("img", { src, alt: `${title} of ${name}` })),
  );
  const rest = blocks.filter((block) => !isTable(block)).join("\n");
  const notes = rest.split("\n").map((note) => quiet(note.replace(/^note: /, "")));
  return [scroll(name, tables), h("div", { class: "figures" }, images), notes];
}

function comparing(data) {
  const { runs, comparison } = data;
  return [
    h("h2", {}, data.table?.name ?? "Comparison"),
    data.table && tabled(data.table),
    comparison.notes.map(warning),
    !lab.problems && h("div", { class: "figures" }, bySet(runs.filter(isGraded)).map(frontiers)),
    comparison.table && tableView(comparison.table),
    h("h3", {}, "Problem by problem"),
    lab.problems ? lab.problems(data) : problemTable(runs),
  ];
}

/** The runs by model and problem set: only they can share an axis. Several groups have titles. */
function bySet(runs) {
  const groups = new Map();
  for (const run of runs) {
    const name = `${run.head.model.name} on ${run.head.problem_set.name}`;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(run);
  }
  const isTitled = groups.size > 1;
  return [...groups].map(([name, runs]) => ({ runs, title: isTitled ? `: ${name}` : "" }));
}

function frontiers(group) {
  const { runs } = group;
  if (runs.every(ofProofs)) return frontier(group, "mean_accuracy", "Mean points", MEAN_POINTS());
  const name = runs.some(hasScores) ? "score" : "accuracy";
  return [
    frontier(group, "majority_accuracy", `Majority ${name}`),
    frontier(group, "mean_accuracy", `Mean ${name}`),
  ];
}
