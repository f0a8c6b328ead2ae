// Several results: accuracy against tokens, paired differences, wins and losses.

function frontier(runs, metric, name, yLabel = `${name.toLowerCase()}, %`) {
  const colors = ["right", "wrong", "third", "fourth", "fifth", "sixth"].map(color);
  const series = runs.map((run, n) => {
    const sums = spent(run.head.metrics.steps),
      isKnown = !sums.includes(null);
    const block = Math.floor(n / colors.length); // 18 results differ, also in grey
    const name = runs.every((other) => other.head.problem_set.n === run.head.problem_set.n)
      ? withN(run.name, run)
      : `${run.name}, n=${run.head.problem_set.n}`;
    return {
      name,
      plain: runs.length > colors.length,
      color: colors[n % colors.length],
      shape: SHAPE_NAMES[(n + block) % SHAPE_NAMES.length],
      dash: [null, "6 4", "2 3"][block % 3],
      points:
        !isKnown || !isGraded(run)
          ? []
          : run.head.metrics.steps.map((step, t) =>
              asPoint(
                sums[t] / Math.max(1, run.head.problem_set.n) / (run.head.runs?.seeds.length || 1),
                step[metric],
                `${run.name}, ${stepName(step)}, ${count(sums[t])} tokens in all`,
              ),
            ),
    };
  });
  return figure(
    {
      title: `${name} against tokens`,
      xLabel: "completion tokens per problem so far",
      yLabel,
      series,
    },
    `frontier-${metric}`,
  );
}

/** Each problem's final mean accuracy or points in every result. Problems on which results differ come first. With a `caption`,
    the table has no columns of differences. */
function problemTable(runs, name = "Results by problem", caption) {
  const rows = new Map();
  for (const [n, run] of runs.entries())
    for (const problem of run.problems) {
      const id = `${problem.id}\u0000${problem.answer}`;
      rows.set(id, rows.get(id) || runs.map(() => null));
      rows.get(id)[n] = problem;
    }
  const spread = (there) => {
    const found = there.filter(Boolean).map(finalOf);
    return found.length > 1 ? Math.max(...found) - Math.min(...found) : -1;
  };
  return scroll(
    name,
    h(
      "table",
      { class: "map" },
      h(
        "caption",
        {},
        h(
          "span",
          {},
          caption ||
            (runs.every(ofProofs)
              ? `Mean points (of ${data.most}) after the last step, and the difference from the first result in % of ${data.most} points.`
              : "Right members after the last step, and the difference from the first result in percentage points.") +
              " Problems on which results differ most come first.",
        ),
      ),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "problem"),
          runs.map((run) => h("th", { scope: "col" }, run.name)),
          !caption &&
            runs.slice(1).map((run) => h("th", { scope: "col" }, run.name + ", difference")),
        ),
      ),
      h(
        "tbody",
        {},
        [...rows.values()]
          .sort((a, b) => spread(b) - spread(a))
          .map((there) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, there.find(Boolean).id),
              there.map((problem, n) => {
                const step = problem?.steps.at(-1);
                if (!step) return h("td", { class: "cell" }, "–");
                const share = rightShare(step);
                if (isUngraded(step)) return h("td", { class: "cell" }, NOT_GRADED);
                return h(
                  "td",
                  { class: "cell" },
                  h(
                    "a",
                    {
                      href: link(runs[n], problem),
                      style: { "--share": `${Math.round(100 * share)}%` },
                    },
                    shareOf(step),
                    h("span", { class: "mark" }, voteMark(step)),
                  ),
                );
              }),
              !caption &&
                there
                  .slice(1)
                  .map((problem) =>
                    h(
                      "td",
                      {},
                      problem?.steps.length &&
                        there[0]?.steps.length &&
                        ![problem, there[0]].some((one) => isUngraded(one.steps.at(-1)))
                        ? signed(finalOf(problem) - finalOf(there[0]))
                        : "–",
                    ),
                  ),
            ),
          ),
      ),
    ),
  );
}

/** The tables of a comparison, sweep or race, its figures, and the notes below its tables. */
function tabled({ name, text, figures }) {
  const blocks = text.trim().split("\n\n"),
    isTable = (block) => /\n-+ /.test(block);
  return [
    scroll(
      name,
      blocks.filter(isTable).map((block) => h("pre", {}, block)),
    ),
    h(
      "div",
      { class: "figures" },
      Object.entries(figures).map(([of, src]) =>
        h("figure", {}, h("img", { src, alt: `${of} of ${name}` })),
      ),
    ),
    blocks
      .filter((block) => !isTable(block))
      .join("\n")
      .split("\n")
      .map((note) => h("p", { class: "quiet" }, note.replace(/^note: /, ""))),
  ];
}

function comparing(data) {
  const { runs, comparison } = data;
  return [
    h("h2", {}, data.table?.name ?? "Comparison"),
    data.table && tabled(data.table),
    comparison.notes.map((note) =>
      h("p", { class: "warning" }, h("span", { "aria-hidden": "true" }, "⚠ "), note),
    ),
    !lab.problems &&
      runs.some(isGraded) &&
      h(
        "div",
        { class: "figures" },
        runs.every(ofProofs)
          ? frontier(runs, "mean_accuracy", "Mean points", MEAN_POINTS())
          : [
              frontier(runs, "mean_accuracy", "Mean accuracy"),
              frontier(runs, "majority_accuracy", "Majority accuracy"),
            ],
      ),
    comparison.table && tableView(comparison.table),
    h("h3", {}, "Problem by problem"),
    lab.problems ? lab.problems(data) : problemTable(runs),
  ];
}
