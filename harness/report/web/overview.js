// The overview of a run: model and problems, warnings, accuracy over steps, tokens and shares.

const rated = (e) => `${percent(e.value)}% [${percent(e.low)}, ${percent(e.high)}], n=${e.n}`;
const asPoint = (x, e, words) => ({
  x,
  y: e.value,
  low: e.low,
  high: e.high,
  words: `${words}: ${rated(e)}`,
});

/** The number of problems in each step's accuracies. Empty if no step lacks any, or without grades. */
function numbers(run) {
  if (!isGraded(run)) return [];
  const found = run.head.metrics.steps.map((step) => step.mean_accuracy.n);
  return found.some((n) => n !== run.head.problem_set.n) ? found : [];
}
/** The `name` with these numbers, if a step lacks some problems. */
function withN(name, run) {
  const counted = numbers(run).filter((n) => n > 0 || !ofProofs(run)),
    most = Math.max(...counted),
    least = Math.min(...counted);
  return counted.some((n) => n !== run.head.problem_set.n)
    ? `${name}, n=${most}${least < most ? ` to ${least}` : ""}`
    : name;
}

function accuracyFigure(run) {
  const steps = run.head.metrics.steps;
  const blue = color("right"),
    orange = color("wrong");
  if (ofProofs(run)) {
    const proofs = run.head.metrics.proofs,
      last = steps.findLast((step) => step.mean_accuracy.n > 0);
    const atEnd = (name, color, shape) => ({
      name: SHARES()[name],
      color,
      shape,
      points: last ? [asPoint(last.step, proofs[name], SHARES()[name])] : [],
    });
    return figure(
      {
        title: "Points of proofs",
        xLabel: "step t",
        yLabel: "%",
        whole: true,
        series: [
          {
            name: MEAN_POINTS(),
            color: blue,
            shape: "circle",
            points: steps.map((step) => asPoint(step.step, step.mean_accuracy, stepName(step))),
          },
          atEnd("good", orange, "square"),
          atEnd("full", color("third"), "triangle"),
        ],
      },
      run.name + "-points",
    );
  }
  if (steps.length === 1) {
    const found = Object.entries(steps[0].pass_at_k).map(([k, e]) => asPoint(+k, e, `pass@${k}`));
    const n = run.head.config.N;
    return figure(
      {
        title: withN("pass@k and majority", run),
        xLabel: "samples k",
        whole: true,
        series: [
          { name: "pass@k", color: blue, shape: "circle", points: found },
          {
            name: n ? `majority of ${n}` : "majority",
            color: orange,
            shape: "square",
            points: [asPoint(+n || found.length, steps[0].majority_accuracy, "majority")],
          },
        ],
      },
      run.name + "-accuracy",
    );
  }
  const over = (of) => steps.map((step) => asPoint(step.step, of(step), stepName(step)));
  const most = Object.keys(steps[0]?.pass_at_k || {}).at(-1);
  return figure(
    {
      title: withN("Accuracy over steps", run),
      xLabel: "step t",
      whole: true,
      series: [
        {
          name: "mean (pass@1)",
          color: blue,
          shape: "circle",
          points: over((step) => step.mean_accuracy),
        },
        {
          name: "majority",
          color: orange,
          shape: "square",
          dash: "6 4",
          points: over((step) => step.majority_accuracy),
        },
        ...(most > 1
          ? [
              {
                name: `pass@${most}`,
                color: color("third"),
                shape: "triangle",
                dash: "6 4",
                points: over(
                  (step) => step.pass_at_k[most] || { value: null, low: 0, high: 1, n: 0 },
                ),
              },
            ]
          : []),
      ],
    },
    run.name + "-accuracy",
  );
}

function spent(steps) {
  let sum = 0;
  return steps.map(
    (step) => (sum = plus(sum, plus(step.completion_tokens, step.verification_tokens))),
  );
}

function tokensFigure(run) {
  const steps = run.head.metrics.steps,
    sums = spent(steps);
  if (sums.includes(null))
    return h(
      "p",
      { class: "quiet" },
      "No figure against tokens, because the server did not report the tokens of all steps.",
    );
  const over = (of) =>
    steps.map((step, t) =>
      asPoint(sums[t], of(step), `${stepName(step)}, ${count(sums[t])} tokens`),
    );
  if (ofProofs(run)) {
    return figure(
      {
        title: "Mean points against tokens",
        xLabel: `completion tokens so far${run.head.runs ? `, ${run.head.runs.seeds.length} runs` : ""}`,
        yLabel: "%",
        series: [
          {
            name: MEAN_POINTS(),
            color: color("right"),
            shape: "circle",
            points: over((step) => step.mean_accuracy),
          },
        ],
      },
      run.name + "-tokens",
    );
  }
  return figure(
    {
      title: withN("Accuracy against tokens", run),
      xLabel: `completion tokens so far${run.head.runs ? `, ${run.head.runs.seeds.length} runs` : ""}`,
      series: [
        {
          name: "mean (pass@1)",
          color: color("right"),
          shape: "circle",
          points: over((step) => step.mean_accuracy),
        },
        {
          name: "majority",
          color: color("wrong"),
          shape: "square",
          dash: "6 4",
          points: over((step) => step.majority_accuracy),
        },
      ],
    },
    run.name + "-tokens",
  );
}

function facts(run) {
  const { model, engine, problem_set, provenance, config, grading } = run.head;
  const rows = {
    experiment: run.head.experiment + (run.head.complete ? "" : " (partial)"),
    model: model.name + (model.revision ? ` at ${model.revision}` : ""),
    engine: [engine.kind, engine.version].filter(Boolean).join(" "),
    problems: `${problem_set.name}, n=${problem_set.n}`,
    ...(run.head.runs
      ? {
          runs: `${run.head.runs.by} of each problem in the runs with SEED=${run.head.runs.seeds.join(", ")}`,
        }
      : {}),
    ...(grading
      ? {
          grader: `${grading.model}, prompt ${grading.prompt ?? "chosen by problem"}, ${plural(grading.gradings, "grading")} (${grading.grades} of each proof); ${count(
            grading.input_tokens,
          )} tokens read, ${count(grading.output_tokens)} written${grading.cost == null ? "" : `, ${dollars(grading.cost)}`}`,
        }
      : {}),
    time: `${run.head.started} to ${run.head.ended} (${seconds(run.head.metrics.seconds)})`,
    code: provenance.git_commit
      ? `${provenance.git_commit}${provenance.git_dirty ? ", with uncommitted changes" : ""}`
      : "unknown",
    machine: [
      provenance.gpu,
      provenance.platform,
      provenance.cpus && plural(provenance.cpus, "core"),
    ]
      .filter(Boolean)
      .join(", "),
    configuration: Object.entries(config)
      .map(([name, value]) => `${name}=${value}`)
      .join("  "),
    files: `weights ${model.sha256 || "unknown"}, problem set ${problem_set.sha256}, prompts ${provenance.prompts_sha256}`,
  };
  return h(
    "dl",
    { class: "facts" },
    Object.entries(rows).map(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]),
  );
}

function headline(run) {
  const steps = run.head.metrics.steps;
  if (!steps.length) return h("p", { class: "quiet" }, "No step is finished yet.");
  const first = steps[0],
    last = steps.at(-1);
  const card = (name, value, more) =>
    h("div", { class: "card" }, h("span", {}, name), h("strong", {}, value), h("span", {}, more));
  const counted = numbers(run).length > 0;
  const from = (metric) =>
    steps.length > 1
      ? `from ${percent(first[metric].value)} at t=0${counted ? ` (n=${first[metric].n})` : ""}`
      : null;
  const n = (metric) =>
    counted
      ? `n=${last[metric].n} of ${run.head.problem_set.n}`
      : steps.length > 1
        ? null
        : `n=${last[metric].n}`;
  const runs = (metric) =>
    last.runs &&
    run.head.runs &&
    `${run.head.runs.seeds.length} runs ${overRuns(last.runs[metric])}`;
  const range = (metric) =>
    [
      from(metric),
      n(metric),
      runs(metric),
      `[${percent(last[metric].low)}, ${percent(last[metric].high)}]`,
    ]
      .filter(Boolean)
      .join(" · ");
  const checks = run.head.metrics.verification,
    tokens = run.head.metrics.tokens;
  const proofs = run.head.metrics.proofs;
  const worth = (name) =>
    [
      `n=${proofs[name].n}`,
      proofs.runs && `${proofs.runs[name].values.length} runs ${overRuns(proofs.runs[name])}`,
      `[${percent(proofs[name].low)}, ${percent(proofs[name].high)}]`,
    ]
      .filter(Boolean)
      .join(" · ");
  return h(
    "div",
    { class: "cards" },
    proofs
      ? Object.entries(SHARES()).map(([name, words]) =>
          card(name === "points" ? words : `${words}, %`, percent(proofs[name].value), worth(name)),
        )
      : isGraded(run)
        ? [
            card("mean accuracy, %", percent(last.mean_accuracy.value), range("mean_accuracy")),
            card(
              "majority accuracy, %",
              percent(last.majority_accuracy.value),
              range("majority_accuracy"),
            ),
          ]
        : card("grades", NOT_GRADED, "scripts/grade.sh grades these proofs"),
    card(
      "completion tokens",
      short(tokens.completion),
      `${run.head.runs ? `in ${run.head.runs.seeds.length} runs · ` : ""}${short(tokens.prompt)} prompt, ${
        tokens.cached == null
          ? "cached unknown"
          : percent(tokens.cached / Math.max(1, tokens.prompt)) + "% of it cached"
      }`,
    ),
    run.head.prices &&
      card(
        "cost",
        dollars(run.head.metrics.cost),
        [
          `${run.head.prices.read} read, ${run.head.prices.cached} cached, ${
            run.head.prices.written
          } written: dollars for a million tokens`,
          run.head.metrics.spent != null &&
            `${dollars(run.head.metrics.spent)} spent by the experiment so far, also for failed requests`,
        ]
          .filter(Boolean)
          .join(" · "),
      ),
    isGraded(run) &&
      !proofs &&
      steps.length > 1 &&
      card(
        "problems lost / won",
        `${lost(run)} / ${won(run)}`,
        "majority right at t=0 and wrong at the end / the reverse",
      ),
    isGraded(run) &&
      checks &&
      checks.right + checks.wrong > 0 &&
      card(
        "verification AUC",
        checks.auc == null ? "–" : checks.auc.toFixed(3),
        `${count(checks.right)} right, ${count(checks.wrong)} wrong candidates${
          checks.auc_within?.n ? ` · within a problem, %: ${rated(checks.auc_within)}` : ""
        }`,
      ),
  );
}

function overview(run) {
  return [
    h("h2", {}, run.title),
    run.head.warnings.map((warning) =>
      h("p", { class: "warning" }, h("span", { "aria-hidden": "true" }, "⚠ "), warning),
    ),
    run.missing > 0 &&
      h(
        "p",
        { class: "warning" },
        `The journal lacks ${plural(run.missing, "completion")} of these results. Their texts can't be shown.`,
      ),
    headline(run),
    isGraded(run) && h("div", { class: "figures" }, accuracyFigure(run), tokensFigure(run)),
    run.points && tableView(run.points),
    tableView(run.steps),
    h("h3", {}, "Configuration"),
    facts(run),
  ];
}
