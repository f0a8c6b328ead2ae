// Draw STaR runs: the curve over the rounds, the tables, and the samples of a round.

const DROPPED = "dropped: ",
  TRACES = 200; // rows to show at once
const COLORS = ["right", "wrong", "third", "fourth", "fifth", "sixth"],
  DASHES = [null, "6 4", "2 3"];
/** Return whether a result has the samples of a round. Each sample was kept for training, or dropped. */
const isCollected = (run) =>
  data.lab.runs.some((of) => Object.values(of.collected).includes(run.number));
/** Return the reason why a sample was dropped, or null if it was kept. */
const droppedFor = (one) =>
  one.notes?.find((note) => note.startsWith(DROPPED))?.slice(DROPPED.length) ?? null;
const isDropped = (one) => droppedFor(one) != null;
const fateOf = (one) => (isDropped(one) ? `✗ dropped: ${droppedFor(one)}` : "✓ kept");

function roundsFigure({ name, runs }) {
  const points = (run, of, words) =>
    run.rounds
      .filter((each) => each[of])
      .map((each) => asPoint(each.round, each[of], `${words}, round ${each.round}`));
  const arms = [...new Set(runs.map((run) => run.arm))],
    several = runs.length > COLORS.length;
  const series =
    runs.length > 1
      ? runs.map((run) => {
          // an arm determines colour and shape, a seed the dashes
          const arm = arms.length > 1 ? arms.indexOf(run.arm) : runs.indexOf(run);
          const seed =
            arms.length > 1 ? runs.filter((other) => other.arm === run.arm).indexOf(run) : 0;
          return {
            name: run.label,
            color: color(COLORS[arm % COLORS.length]),
            shape: SHAPE_NAMES[(arm + Math.floor(arm / COLORS.length)) % SHAPE_NAMES.length],
            dash: DASHES[seed % DASHES.length],
            plain: several,
            points: points(run, "accuracy", run.label),
          };
        })
      : [
          {
            name: "at temperature 0",
            color: color("right"),
            shape: "circle",
            points: points(runs[0], "accuracy", "at temperature 0"),
          },
          {
            name: "sampled",
            color: color("wrong"),
            shape: "square",
            dash: "6 4",
            points: points(runs[0], "sampled", "sampled"),
          },
        ].filter((one) => one.points.length);
  return figure(
    {
      title: `Accuracy over rounds${several ? " at temperature 0 (the tables have the intervals)" : ", with 95% bands"}`,
      xLabel: "round",
      yLabel: "right, %",
      whole: true,
      series,
    },
    `${name}-rounds`,
  );
}

/** Return cards with the results of a run: round 0, the best round and the last round. Links open the evaluations. */
function roundCards(run) {
  const at = (number) => run.rounds.find((each) => each.round === number);
  const card = (name, each, more) =>
    h(
      "div",
      { class: "card" },
      h("span", {}, name),
      h("strong", {}, percent(each.accuracy.value) + " %"),
      h(
        "span",
        {},
        `[${percent(each.accuracy.low)}, ${percent(each.accuracy.high)}]`,
        more && ` · ${more}`,
      ),
      each.results != null &&
        h("a", { href: opened(each.results) }, `evaluation of round ${each.round}`),
    );
  const first = run.rounds[0],
    best = at(run.best),
    last = run.rounds.at(-1);
  return h(
    "div",
    { class: "cards" },
    card("round 0: before training", first),
    best !== first && card(`best: round ${best.round}`, best, `${best.gain} since round 0`),
    last !== first &&
      card(
        `last${run.complete ? "" : " so far"}: round ${last.round}`,
        last,
        `${last.gain} since round 0`,
      ),
  );
}

function roundsView({ lab: rounds }) {
  const { name, runs, tables, warnings, legend } = rounds;
  const [summary, ...others] = runs.length > 1 ? tables : [null, ...tables];
  return [
    h("h2", {}, "Rounds"),
    [...new Set(runs.map((run) => run.about))].map((about) =>
      h("p", { class: "quiet" }, `${name}: ${about}`),
    ),
    warnings.map((warning) =>
      h("p", { class: "warning" }, h("span", { "aria-hidden": "true" }, "⚠ "), warning),
    ),
    summary ? tableView(summary) : roundCards(runs[0]),
    h("div", { class: "over-rounds" }, roundsFigure(rounds)),
    others.map(tableView),
    h("h3", {}, "Notes"),
    legend.map((line) => h("p", { class: "quiet" }, line)),
  ];
}

const tracesState = { fate: "all", way: "all" };

/** Return the table of a round's samples. Each row shows whether the sample was kept. */
function tracesView(run) {
  const rows = run.problems.flatMap((problem) =>
    problem.steps.flatMap((step, t) =>
      step.members.map((one, i) => ({ problem, step, t, i, one })),
    ),
  );
  const kinds = (of) =>
    rows.reduce(
      (counts, row) => counts.set(of(row), (counts.get(of(row)) || 0) + 1),
      new Map([["all", rows.length]]),
    );
  const fates = kinds((row) => fateOf(row.one)),
    ways = kinds((row) => row.step.stage || stepName(row.step));
  const body = h("tbody", {}),
    shown = h("span", { role: "status" }),
    more = h("button", {
      type: "button",
      onclick: () => draw(body.childElementCount + 5 * TRACES),
    });
  const draw = (most) => {
    const found = rows.filter(
      (row) =>
        (tracesState.fate === "all" || fateOf(row.one) === tracesState.fate) &&
        (tracesState.way === "all" || (row.step.stage || stepName(row.step)) === tracesState.way),
    );
    shown.textContent = `${count(found.length)} of ${plural(rows.length, "sample")}`;
    body.replaceChildren(
      ...found
        .slice(0, most)
        .map(({ problem, step, t, i, one }) =>
          h(
            "tr",
            {},
            h(
              "th",
              { scope: "row" },
              h(
                "a",
                {
                  href: link(run, problem, t, i),
                  "aria-label": `${problem.id}, ${step.stage || stepName(step)}`,
                },
                problem.id,
              ),
            ),
            h("td", {}, step.stage || stepName(step)),
            h("td", { class: isDropped(one) ? "wrong" : "right" }, fateOf(one)),
            h("td", {}, cut(brief(one), 40)),
            h("td", {}, cut(problem.answer ?? "–", 40)),
            h("td", {}, count(one.completion_tokens)),
          ),
        ),
    );
    more.hidden = found.length <= most;
    more.textContent = `show more (${count(found.length - most)} left)`;
  };
  const choice = (name, key, counts) =>
    h(
      "label",
      {},
      name + " ",
      h(
        "select",
        {
          onchange: (event) => {
            tracesState[key] = event.target.value;
            draw(TRACES);
          },
        },
        [...counts].map(([option, n]) =>
          h("option", { value: option, selected: tracesState[key] === option }, `${option} (${n})`),
        ),
      ),
    );
  for (const [key, counts] of [
    ["fate", fates],
    ["way", ways],
  ])
    if (!counts.has(tracesState[key])) tracesState[key] = "all";
  draw(TRACES);
  return [
    h("h2", {}, `Samples of ${run.name}`),
    h(
      "p",
      { class: "quiet" },
      "All samples of the round. Each sample was kept for training, or dropped for a reason. A link opens its text, thinking and prompt.",
    ),
    run.head.warnings.map((warning) =>
      h("p", { class: "warning" }, h("span", { "aria-hidden": "true" }, "⚠ "), warning),
    ),
    h("div", { class: "bar" }, choice("show", "fate", fates), choice("try", "way", ways), shown),
    scroll(
      "Samples",
      h(
        "table",
        { class: "traces" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["problem", "try", "outcome", "answer", "reference", "tokens"].map((name) =>
              h("th", { scope: "col" }, name),
            ),
          ),
        ),
        body,
      ),
    ),
    h("p", {}, more),
    h("h3", {}, "Configuration"),
    facts(run),
  ];
}

/** Return the problems of a run, with a column for each round. If several runs are shown, a click draws the table. */
function byRounds(runs, isOpen) {
  const name = `Problems of ${runs[0].name} in each round`;
  const table = () =>
    problemTable(
      runs,
      name,
      "Results at temperature 0 in each round. Problems whose results differ come first.",
    );
  if (isOpen) return table();
  const details = h("details", {}, h("summary", {}, name));
  details.addEventListener(
    "toggle",
    () => details.childElementCount === 1 && details.append(table()),
  );
  return details;
}

Object.assign(lab, {
  view: roundsView,
  tab: (run) => isCollected(run) && "Samples",
  overview: (run) => isCollected(run) && tracesView(run),
  facts: (run, member) => isCollected(run) && [["trace", fateOf(member)]],
  notes: (run, member) =>
    isCollected(run) && member.notes?.filter((note) => !note.startsWith(DROPPED)),
  problems: ({ runs, comparison: { groups } }) =>
    groups.map((group) =>
      byRounds(
        group.map((n) => runs[n]),
        groups.length === 1,
      ),
    ),
});
