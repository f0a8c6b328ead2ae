// Draw STaR runs: the curve over the rounds, the tables, and the samples of a round.

const DROPPED = "dropped: ";
const TRACES = 200; // rows to show at once
/**
 * Return whether a result has the samples of a round. Each sample was kept for training, or
 * dropped.
 */
const isCollected = (result) =>
  data.lab.runs.some((run) => Object.values(run.collected).includes(result.number));
/** Return the reason why a sample was dropped, or null if it was kept. */
function droppedFor(member) {
  const note = member.notes?.find((text) => text.startsWith(DROPPED));
  return note?.slice(DROPPED.length) ?? null;
}
const isDropped = (member) => droppedFor(member) != null;
const fateOf = (member) => (isDropped(member) ? `✗ dropped: ${droppedFor(member)}` : "✓ kept");

function roundsFigure({ name, runs, words }) {
  const areMany = runs.length > SERIES_COLORS.length;
  const series = runs.length > 1 ? runs.map((run) => runLine(run, runs)) : oneRun(runs[0], words);
  const intervals = areMany
    ? ` at ${words.accuracy} (the tables have the intervals)`
    : ", with 95% bands";
  const title = `Accuracy over rounds${intervals}`;
  const yLabel = runs.length > 1 ? words.axis : "right, %";
  const options = { title, xLabel: "round", yLabel, whole: true, series };
  return figure(options, `${name}-rounds`);
}

/** The points of a run's rounds that have the rate `metric`. */
function roundPoints(run, metric, words) {
  const rounds = run.rounds.filter((round) => round[metric]);
  return rounds.map((round) =>
    asPoint(round.round, round[metric], `${words}, round ${round.round}`),
  );
}

/** The line of one of several runs: an arm determines colour and shape, a seed the dashes. */
function runLine(run, runs) {
  const arms = [...new Set(runs.map((other) => other.arm))];
  const seeds = runs.filter((other) => other.arm === run.arm);
  const arm = arms.length > 1 ? arms.indexOf(run.arm) : runs.indexOf(run);
  const seed = arms.length > 1 ? seeds.indexOf(run) : 0;
  const block = Math.floor(arm / SERIES_COLORS.length);
  return {
    name: run.label,
    color: color(SERIES_COLORS[arm % SERIES_COLORS.length]),
    shape: SHAPE_NAMES[(arm + block) % SHAPE_NAMES.length],
    dash: SERIES_DASHES[seed % SERIES_DASHES.length],
    plain: runs.length > SERIES_COLORS.length,
    points: roundPoints(run, "accuracy", run.label),
  };
}

/** The lines of a single run, without lines that have no points. */
function oneRun(run, words) {
  const name = `at ${words.accuracy}`;
  const accuracy = roundPoints(run, "accuracy", name);
  const sampled = roundPoints(run, "sampled", words.sampled);
  const lines = [
    { name, ...BLUE_LINE(), points: accuracy },
    { name: words.sampled, ...ORANGE_LINE(), dash: "6 4", points: sampled },
  ];
  return lines.filter((line) => line.points.length);
}

/**
 * Return cards with the results of a run: round 0, the best round and the last round. Links open
 * the evaluations.
 */
function roundCards(run) {
  const first = run.rounds[0];
  const best = run.rounds.find((round) => round.round === run.best);
  const last = run.rounds.at(-1);
  const cards = [roundCard("round 0: before training", first)];
  if (best !== first) cards.push(roundCard(`best: round ${best.round}`, best, sinceStart(best)));
  if (last !== first) {
    const name = run.complete ? "last" : "last so far";
    cards.push(roundCard(`${name}: round ${last.round}`, last, sinceStart(last)));
  }
  return h("div", { class: "cards" }, cards);
}

const sinceStart = (round) => `${round.gain} since round 0`;

function roundCard(name, round, more) {
  const evaluation = `evaluation of round ${round.round}`;
  return h(
    "div",
    { class: "card" },
    h("span", {}, name),
    h("strong", {}, percent(round.accuracy.value) + " %"),
    h("span", {}, between(round.accuracy), more && ` · ${more}`),
    round.results != null && h("a", { href: opened(round.results) }, evaluation),
  );
}

function roundsView({ lab: rounds }) {
  const { name, runs, tables, warnings, legend } = rounds;
  const [summary, ...others] = runs.length > 1 ? tables : [null, ...tables];
  const about = [...new Set(runs.map((run) => run.about))];
  return [
    h("h2", {}, "Rounds"),
    about.map((text) => quiet(`${name}: ${text}`)),
    warnings.map((text) => warning(text)),
    summary ? tableView(summary) : roundCards(runs[0]),
    h("div", { class: "over-rounds" }, roundsFigure(rounds)),
    others.map(tableView),
    h("h3", {}, "Notes"),
    legend.map((line) => quiet(line)),
  ];
}

const tracesState = { fate: "all", way: "all" };
/** The name of a sample's try. */
const wayOf = (step) => step.stage || stepName(step);

/** Return the table of a round's samples. Each row shows whether the sample was kept. */
function tracesView(run) {
  const samples = samplesOf(run);
  const fates = kindsOf(samples.map(({ member }) => fateOf(member)));
  const ways = kindsOf(samples.map(({ step }) => wayOf(step)));
  if (!fates.has(tracesState.fate)) tracesState.fate = "all";
  if (!ways.has(tracesState.way)) tracesState.way = "all";
  const body = h("tbody", {});
  const shown = h("span", { role: "status" });
  const more = h("button", { type: "button" });
  const draw = (most) => {
    const chosen = samples.filter(isChosen);
    const rows = chosen.slice(0, most).map((sample) => traceRow(run, sample));
    shown.textContent = `${count(chosen.length)} of ${plural(samples.length, "sample")}`;
    body.replaceChildren(...rows);
    more.hidden = chosen.length <= most;
    more.textContent = `show more (${count(chosen.length - most)} left)`;
  };
  more.addEventListener("click", () => draw(body.childElementCount + 5 * TRACES));
  draw(TRACES);
  const head = tableHead(["problem", "try", "outcome", "answer", "reference", "tokens"]);
  return [
    h("h2", {}, `Samples of ${run.name}`),
    quiet(
      "All samples of the round. Each sample was kept for training, or dropped for a reason. ",
      "A link opens its text, thinking and prompt.",
    ),
    run.head.warnings.map((text) => warning(text)),
    h(
      "div",
      { class: "bar" },
      traceChoice("show", "fate", fates, draw),
      traceChoice("try", "way", ways, draw),
      shown,
    ),
    scroll("Samples", h("table", { class: "traces" }, head, body)),
    h("p", {}, more),
    h("h3", {}, "Configuration"),
    facts(run),
  ];
}

/** List the samples of a round with their places. */
function samplesOf(run) {
  const samples = [];
  for (const problem of run.problems) {
    for (const [t, step] of problem.steps.entries()) {
      for (const [i, member] of step.members.entries()) {
        samples.push({ problem, step, t, i, member });
      }
    }
  }
  return samples;
}

/** Count the samples of each kind, and all of them. */
function kindsOf(kinds) {
  const counts = new Map([["all", kinds.length]]);
  for (const kind of kinds) counts.set(kind, (counts.get(kind) || 0) + 1);
  return counts;
}

function isChosen({ step, member }) {
  const { fate, way } = tracesState;
  if (fate !== "all" && fateOf(member) !== fate) return false;
  return way === "all" || wayOf(step) === way;
}

function traceRow(run, { problem, step, t, i, member }) {
  const label = `${problem.id}, ${wayOf(step)}`;
  const anchor = h("a", { href: link(run, problem, t, i), "aria-label": label }, problem.id);
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, anchor),
    h("td", {}, wayOf(step)),
    h("td", { class: isDropped(member) ? "wrong" : "right" }, fateOf(member)),
    h("td", {}, cut(brief(member), 40)),
    h("td", {}, cut(problem.answer ?? "–", 40)),
    h("td", {}, count(member.completion_tokens)),
  );
}

function traceChoice(name, key, counts, draw) {
  const choose = (event) => {
    tracesState[key] = event.target.value;
    draw(TRACES);
  };
  const options = [...counts].map(([option, n]) => {
    const attributes = { value: option, selected: tracesState[key] === option };
    return h("option", attributes, `${option} (${n})`);
  });
  return h("label", {}, name + " ", h("select", { onchange: choose }, options));
}

/**
 * Return the problems of a run, with a column for each round. If several runs are shown, a click
 * draws the table.
 */
function byRounds(runs, isOpen) {
  const name = `Problems of ${runs[0].name} in each round`;
  const results = `Results at ${data.lab.words.accuracy} in each round.`;
  const caption = `${results} Problems whose results differ come first.`;
  const table = () => problemTable(runs, name, caption);
  if (isOpen) return table();
  const details = h("details", {}, h("summary", {}, name));
  details.addEventListener("toggle", () => {
    if (details.childElementCount === 1) details.append(table());
  });
  return details;
}

function problemsByRounds({ runs, comparison: { groups } }) {
  return groups.map((group) => {
    const rounds = group.map((number) => runs[number]);
    return byRounds(rounds, groups.length === 1);
  });
}

Object.assign(lab, {
  view: roundsView,
  tab: (run) => isCollected(run) && "Samples",
  overview: (run) => isCollected(run) && tracesView(run),
  facts: (run, member) => isCollected(run) && [["trace", fateOf(member)]],
  notes: (run, member) =>
    isCollected(run) && member.notes?.filter((note) => !note.startsWith(DROPPED)),
  problems: problemsByRounds,
});
