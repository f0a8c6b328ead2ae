// The overview of a run: model and problems, warnings, accuracy over steps, tokens and shares.

const between = (rate) => `[${percent(rate.low)}, ${percent(rate.high)}]`;
const rated = (rate) => `${percent(rate.value)}% ${between(rate)}, n=${rate.n}`;
/** A point of a chart, with the words that a pointer on it shows. */
function asPoint(x, rate, words) {
  return { x, y: rate.value, low: rate.low, high: rate.high, words: `${words}: ${rated(rate)}` };
}
/** The texts that are known, as one line. */
const joined = (...parts) => parts.filter(Boolean).join(" · ");

/**
 * The number of problems in each step's accuracies. Empty if no step lacks any, or without grades.
 */
function numbers(run) {
  if (!isGraded(run)) return [];
  const counts = run.head.metrics.steps.map((step) => step.mean_accuracy.n);
  return counts.some((n) => n !== run.head.problem_set.n) ? counts : [];
}
/** The `name` with these numbers, if a step lacks some problems. */
function withN(name, run) {
  const counts = numbers(run).filter((n) => n > 0 || !ofProofs(run));
  if (counts.every((n) => n === run.head.problem_set.n)) return name;
  const most = Math.max(...counts);
  const least = Math.min(...counts);
  return least < most ? `${name}, n=${most} to ${least}` : `${name}, n=${most}`;
}

// The lines of charts: each has its color and mark.
const BLUE_LINE = () => ({ color: color("right"), shape: "circle" });
const ORANGE_LINE = () => ({ color: color("wrong"), shape: "square" });
const GREEN_LINE = () => ({ color: color("third"), shape: "triangle" });

/** The name of the mean over members. Pass@1 counts only the full score. */
const meanName = (run) => (hasScores(run) ? "mean score" : "mean (pass@1)");
/** A figure whose axis has accuracies, or scores if the run has some. */
const ratesFigure = (run, options, name) =>
  figure({ yLabel: `${accuracyOrScore(run)}, %`, ...options }, name);

function accuracyFigure(run) {
  if (ofProofs(run)) return pointsFigure(run);
  if (run.head.metrics.steps.length === 1) return passFigure(run);
  return stepsFigure(run);
}

/** Mean points over steps, and the shares of good and full proofs at the end. */
function pointsFigure(run) {
  const { steps, proofs } = run.head.metrics;
  const last = steps.findLast((step) => step.mean_accuracy.n > 0);
  const means = steps.map((step) => asPoint(step.step, step.mean_accuracy, stepName(step)));
  const atEnd = (name) => ({
    name: SHARES()[name],
    points: last ? [asPoint(last.step, proofs[name], SHARES()[name])] : [],
  });
  const series = [
    { name: MEAN_POINTS(), ...BLUE_LINE(), points: means },
    { ...ORANGE_LINE(), ...atEnd("good") },
    { ...GREEN_LINE(), ...atEnd("full") },
  ];
  const title = "Points of proofs";
  const options = { title, xLabel: "step t", yLabel: "%", whole: true, series };
  return figure(options, run.name + "-points");
}

/** Pass@k of a single step, and its vote. */
function passFigure(run) {
  const step = run.head.metrics.steps[0];
  const rates = Object.entries(step.pass_at_k);
  const n = run.head.config.N;
  const curve = rates.map(([k, rate]) => asPoint(+k, rate, `pass@${k}`));
  const vote = asPoint(+n || rates.length, step.majority_accuracy, "majority");
  const isFull = hasScores(run);
  const series = [
    { name: isFull ? "pass@k (full score)" : "pass@k", ...BLUE_LINE(), points: curve },
    { name: n ? `majority of ${n}` : "majority", ...ORANGE_LINE(), points: [vote] },
  ];
  if (isFull) {
    const mean = asPoint(1, step.mean_accuracy, "mean score");
    series.push({ name: "mean score", ...GREEN_LINE(), points: [mean] });
  }
  const title = withN("pass@k and majority", run);
  return ratesFigure(run, { title, xLabel: "samples k", whole: true, series }, accuracyName(run));
}

/** Mean, vote and pass@k of the largest k over steps. */
function stepsFigure(run) {
  const steps = run.head.metrics.steps;
  const unknown = { value: null, low: 0, high: 1, n: 0 };
  const over = (read) => steps.map((step) => asPoint(step.step, read(step), stepName(step)));
  const largest = Object.keys(steps[0]?.pass_at_k || {}).at(-1);
  const means = over((step) => step.mean_accuracy);
  const series = meanAndVote(run, means, over((step) => step.majority_accuracy));
  if (largest > 1) {
    const points = over((step) => step.pass_at_k[largest] || unknown);
    const name = `pass@${largest}` + (hasScores(run) ? " (full score)" : "");
    series.push({ name, ...GREEN_LINE(), dash: "6 4", points });
  }
  const title = withN(`${titleOfRates(run)} over steps`, run);
  return ratesFigure(run, { title, xLabel: "step t", whole: true, series }, accuracyName(run));
}

const titleOfRates = (run) => (hasScores(run) ? "Score" : "Accuracy");
const accuracyName = (run) => `${run.name}-${accuracyOrScore(run)}`;

function meanAndVote(run, means, votes) {
  return [
    { name: meanName(run), ...BLUE_LINE(), points: means },
    { name: "majority", ...ORANGE_LINE(), dash: "6 4", points: votes },
  ];
}

/** The tokens so far after each step, unknown (null) from the first unknown count on. */
function spent(steps) {
  let sum = 0;
  return steps.map((step) => {
    sum = plus(sum, plus(step.completion_tokens, step.verification_tokens));
    return sum;
  });
}

/**
 * The rates `metric` of a run by its tokens so far, after each step. A single step has the votes of
 * its first samples. Empty if tokens are unknown.
 */
function againstTokens(run, metric) {
  const { steps } = run.head.metrics;
  const sums = spent(steps);
  if (sums.includes(null)) return [];
  const hasVotes = run.votes.length && metric === "majority_accuracy";
  if (!hasVotes) {
    return steps.map((step, t) => ({
      tokens: sums[t],
      rate: step[metric],
      words: stepName(step),
    }));
  }
  return run.votes.map((vote) => ({
    tokens: vote.tokens,
    rate: vote[metric],
    words: `vote of ${vote.samples}`,
  }));
}

function tokensFigure(run) {
  const over = (metric) =>
    againstTokens(run, metric).map(({ tokens, rate, words }) =>
      asPoint(tokens, rate, `${words}, ${count(tokens)} tokens`),
    );
  const means = over("mean_accuracy");
  if (!means.length) {
    const reason = "because the server did not report the tokens of all steps";
    return quiet(`No figure against tokens, ${reason}.`);
  }
  const runs = run.head.runs ? `, ${run.head.runs.seeds.length} runs` : "";
  const xLabel = `completion tokens so far${runs}`;
  const name = run.name + "-tokens";
  if (ofProofs(run)) {
    const series = [{ name: MEAN_POINTS(), ...BLUE_LINE(), points: means }];
    return figure({ title: "Mean points against tokens", xLabel, yLabel: "%", series }, name);
  }
  const title = withN(`${titleOfRates(run)} against tokens`, run);
  const series = meanAndVote(run, means, over("majority_accuracy"));
  return ratesFigure(run, { title, xLabel, series }, name);
}

function facts(run) {
  const { model, problem_set, provenance, config, metrics } = run.head;
  const { experiment, complete, runs, grading, started, ended } = run.head;
  const rows = {
    experiment: complete ? experiment : `${experiment} (partial)`,
    model: model.revision ? `${model.name} at ${model.revision}` : model.name,
    engine: [run.head.engine.kind, run.head.engine.version].filter(Boolean).join(" "),
    problems: `${problem_set.name}, n=${problem_set.n}`,
  };
  if (runs) {
    rows.runs = `${runs.by} of each problem in the runs with SEED=${runs.seeds.join(", ")}`;
  }
  if (grading) rows.grader = graderText(grading);
  rows.time = `${started} to ${ended} (${seconds(metrics.seconds)})`;
  rows.code = provenance.git_commit?.slice(0, HASH) || "unknown";
  if (provenance.git_commit && provenance.git_dirty) rows.code += ", with uncommitted changes";
  const cores = provenance.cpus && plural(provenance.cpus, "core");
  rows.machine = [provenance.gpu, provenance.platform, cores].filter(Boolean).join(", ");
  const constants = Object.entries(config).map(([name, value]) => `${name}=${value}`);
  rows.configuration = constants.join("  ");
  const elements = Object.entries(rows).map(([name, value]) => [
    h("dt", {}, name),
    h("dd", {}, String(value)),
  ]);
  elements.push(h("dt", {}, "hashes"), h("dd", {}, hashes(run)));
  return h("dl", { class: "facts" }, elements);
}

const HASH = 12; // digits of the beginning of a hash

/** The beginnings of the hashes of files, which open to all whole hashes. */
function hashes(run) {
  const { model, problem_set, provenance } = run.head;
  const files = Object.entries({
    weights: model.sha256,
    "problem set": problem_set.sha256,
    prompts: provenance.prompts_sha256,
  });
  const short = files.map(([name, hash]) => `${name} ${hash?.slice(0, HASH) ?? "unknown"}`);
  const whole = [...files, ["code", provenance.git_commit]];
  return h(
    "details",
    {},
    h("summary", {}, short.join(", ")),
    whole.map(([name, hash]) => h("div", {}, `${name} ${hash ?? "unknown"}`)),
  );
}

function graderText(grading) {
  const prompt = grading.prompt ?? "chosen by problem";
  const gradings = `${plural(grading.gradings, "grading")} (${grading.grades} of each proof)`;
  const cost = grading.cost == null ? "" : `, ${dollars(grading.cost)}`;
  const read = `${count(grading.input_tokens)} tokens read`;
  const written = `${count(grading.output_tokens)} written${cost}`;
  return `${grading.model}, prompt ${prompt}, ${gradings}; ${read}, ${written}`;
}

const card = (name, value, more) =>
  h("div", { class: "card" }, h("span", {}, name), h("strong", {}, value), h("span", {}, more));

function headline(run) {
  if (!run.head.metrics.steps.length) return quiet("No step is finished yet.");
  let rates;
  if (ofProofs(run)) rates = pointCards(run);
  else if (isGraded(run)) rates = accuracyCards(run);
  else rates = card("grades", NOT_GRADED, "scripts/grade.sh grades these proofs");
  return h(
    "div",
    { class: "cards" },
    rates,
    tokensCard(run),
    run.head.prices && costCard(run),
    lossesCard(run),
    verificationCard(run),
  );
}

function pointCards(run) {
  const proofs = run.head.metrics.proofs;
  return Object.entries(SHARES()).map(([name, words]) => {
    const rate = proofs[name];
    const runs = proofs.runs?.[name];
    const overAll = runs && `${runs.values.length} runs ${overRuns(runs)}`;
    const title = name === "points" ? words : `${words}, %`;
    return card(title, percent(rate.value), joined(`n=${rate.n}`, overAll, between(rate)));
  });
}

function accuracyCards(run) {
  const last = run.head.metrics.steps.at(-1);
  const { mean_accuracy, majority_accuracy } = last;
  const mean = aboutRate(run, "mean_accuracy");
  const majority = aboutRate(run, "majority_accuracy");
  const name = accuracyOrScore(run);
  return [
    card(`mean ${name}, %`, percent(mean_accuracy.value), mean),
    card(`majority ${name}, %`, percent(majority_accuracy.value), majority),
    hasScores(run) && fullScoreCard(last),
  ];
}

/** The share of members with a score of 1, which is pass@1. */
function fullScoreCard(step) {
  const rate = step.pass_at_k[1];
  if (!rate) return null;
  return card(
    "full score, % of members",
    percent(rate.value),
    joined(`n=${rate.n}`, between(rate)),
  );
}

/** The rate at t=0, the number of problems, the rate over runs, and the interval. */
function aboutRate(run, metric) {
  const steps = run.head.metrics.steps;
  const first = steps[0][metric];
  const last = steps.at(-1)[metric];
  const lacksProblems = numbers(run).length > 0;
  let from = null;
  let n = `n=${last.n}`;
  if (steps.length > 1) {
    from = `from ${percent(first.value)} at t=0`;
    n = null;
  }
  if (lacksProblems) {
    if (from) from += ` (n=${first.n})`;
    n = `n=${last.n} of ${run.head.problem_set.n}`;
  }
  const overAll = steps.at(-1).runs?.[metric];
  const seeds = run.head.runs?.seeds.length;
  const runs = overAll && seeds && `${seeds} runs ${overRuns(overAll)}`;
  return joined(from, n, runs, between(last));
}

function tokensCard(run) {
  const { completion, prompt, cached } = run.head.metrics.tokens;
  const share = cached == null ? null : percent(cached / Math.max(1, prompt));
  const cachedText = share == null ? "cached unknown" : `${share}% of it cached`;
  const runs = run.head.runs ? `in ${run.head.runs.seeds.length} runs · ` : "";
  const more = `${runs}${short(prompt)} prompt, ${cachedText}`;
  return card("completion tokens", short(completion), more);
}

function costCard(run) {
  const { read, cached, written } = run.head.prices;
  const { cost, spent } = run.head.metrics;
  const unit = "dollars for a million tokens";
  const prices = `${read} read, ${cached} cached, ${written} written: ${unit}`;
  const all = `${dollars(spent)} spent by the experiment so far, also for failed requests`;
  return card("cost", dollars(cost), joined(prices, spent != null && all));
}

function lossesCard(run) {
  if (!isGraded(run) || ofProofs(run) || run.head.metrics.steps.length === 1) return null;
  const change = hasScores(run)
    ? "majority without the full score at t=0 and with it at the end"
    : "majority wrong at t=0 and right at the end";
  const meaning = `${change} / the reverse`;
  return card("problems won / lost", `${won(run)} / ${lost(run)}`, meaning);
}

function verificationCard(run) {
  const checks = run.head.metrics.verification;
  if (!isGraded(run) || !checks || checks.right + checks.wrong === 0) return null;
  const auc = checks.auc == null ? "–" : checks.auc.toFixed(3);
  const [right, wrong] = hasScores(run) ? ["full score", "other"] : ["right", "wrong"];
  const candidates = `${count(checks.right)} ${right}, ${count(checks.wrong)} ${wrong} candidates`;
  const within = checks.auc_within?.n && `within a problem, %: ${rated(checks.auc_within)}`;
  return card("verification AUC", auc, joined(candidates, within));
}

/** How often aggregations of right and of wrong candidates are right, with a verdict in words. */
function transitions(run) {
  if (!run.transitions) return null;
  const { tables, line } = run.transitions;
  if (!tables.length) return quiet(`Transitions: ${line}.`);
  const [main, ...others] = tables.map(tableView);
  return [main, h("p", {}, line), others];
}

/** How well scores tell right from wrong candidates, and what they choose. */
function scores(run) {
  if (!run.scores) return null;
  const [main, parts] = run.scores.tables.map(tableView);
  return [main, h("p", {}, run.scores.line), parts];
}

function overview(run) {
  const missing = plural(run.missing, "completion");
  return [
    h("h2", {}, run.title),
    run.head.warnings.map((text) => warning(text)),
    run.missing > 0 &&
      h(
        "p",
        { class: "warning" },
        `The journal lacks ${missing} of these results. Their texts can't be shown.`,
      ),
    headline(run),
    isGraded(run) && h("div", { class: "figures" }, accuracyFigure(run), tokensFigure(run)),
    run.points && tableView(run.points),
    tableView(run.steps),
    transitions(run),
    scores(run),
    h("h3", {}, "Configuration"),
    facts(run),
  ];
}
