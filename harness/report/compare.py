"""Compare results, each against the first: `python -m harness.report.compare 01_baseline
02_rsa_basic`.

Differences are paired by problem, because most variation comes from the difficulty of problems,
which both runs share.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.base.errors import Parser, UserError, command, one_line
from core.base.prices import format_dollars as dollars
from core.base.stats import Paired, holm, mean_by_problem, paired, relative_change
from core.base.terminal import columns, heartbeat, wrapped
from harness.report import tables
from harness.report.data import Results, load
from harness.report.table import Column, Table
from harness.report.tables import chance, interval, shift
from harness.results import proof_points
from harness.results.model import Head, ProblemResult, StepResult, has_scores, total
from harness.results.over_runs import MERGES

METRICS = ("mean accuracy", "majority accuracy")
OF_PROOFS = tuple(tables.SHARES.values())
ProblemKey = tuple[str, str]  # id and published reference answer


@dataclass(frozen=True)
class Result:
    """The figures of a results file, by problem id and reference answer. For merged runs, a problem
    has one value."""

    name: str
    head: Head
    step: int  # the last step
    # `metrics` of problems that reached the last step or ended earlier
    final: dict[ProblemKey, tuple[float, ...]]
    # of all calls (mean of runs), or None if a count is unknown
    tokens: dict[ProblemKey, float | None]

    @property
    def metrics(self) -> tuple[str, ...]:
        return OF_PROOFS if self.head.metrics.proofs else METRICS

    @property
    def has_scores(self) -> bool:
        return has_scores(self.head.document)

    @property
    def runs(self) -> int:
        return len(self.head.runs.seeds) if self.head.runs else 1

    @property
    def spent_tokens(self) -> str:
        """Completion tokens of a run (mean of merged runs) as text."""
        count = self.head.metrics.tokens["completion"]
        return tables.spent(None if count is None else round(count / self.runs))

    @property
    def spent_dollars(self) -> str:
        """Cost of a run (mean of merged runs) as text, or "" if prices are unknown."""
        if not self.head.prices:
            return ""
        metrics = self.head.metrics
        cost = metrics.cost / self.runs if metrics.cost else metrics.cost
        is_partly_counted = any(step.uncounted for step in metrics.steps)
        return tables.spent(cost, dollars, is_partly_counted)

    def described(self, part: str, key: str) -> str | None:
        """Return a field of the head's model, engine or problem set as text, or None if it is not
        known."""
        word = getattr(self.head, part).get(key)
        return None if word in (None, "{}") else one_line(str(word), 300)


def result(run: Results) -> Result:
    """Compute the figures of results. Raises UserError if they are proofs without grades."""
    begun = [problem for problem in run.problems if problem.steps]
    last_step = max((problem.steps[-1].step for problem in begun), default=0)
    graded = defaultdict[ProblemKey, list[_Graded]](list)
    for problem in begun:
        values = _values(problem.steps[-1])
        if values is not None:
            graded[problem.id, str(problem.published_answer)].append(_Graded(problem, values))
    if begun and not graded:
        raise UserError(
            f"{run.name} is not graded, so it can't be compared. Grade it with scripts/grade.sh"
        )
    merge = MERGES[run.head.runs.by if run.head.runs else "mean"]
    final: dict[ProblemKey, tuple[float, ...]] = {}
    tokens: dict[ProblemKey, float | None] = {}
    for key, in_runs in graded.items():
        if all(item.has_reached(last_step) for item in in_runs):
            by_metric = zip(*(item.values for item in in_runs), strict=True)
            final[key] = tuple(float(merge(values)) for values in by_metric)
            count = total(item.tokens for item in in_runs)
            tokens[key] = None if count is None else count / len(in_runs)
    return Result(run.name, run.head, last_step, final, tokens)


@dataclass(frozen=True)
class _Graded:
    """A problem in one run, with its figures."""

    problem: ProblemResult
    values: tuple[float, ...]

    @property
    def tokens(self) -> float | None:
        return total(step.completion_tokens for step in self.problem.steps)

    def has_reached(self, step: int) -> bool:
        """Return whether the problem has reached `step`, or has ended earlier."""
        return self.problem.finished or self.problem.steps[-1].step == step


def _values(step: StepResult) -> tuple[float, ...] | None:
    """Return METRICS or OF_PROOFS of a problem's last population, or None if it has no grades."""
    proofs = [member for member in step.members if member.is_proof]
    if proofs:
        return proof_points.values(proof.known_worth for proof in proofs)
    if step.mean_accuracy is None or step.majority_correct is None:
        return None
    return step.mean_accuracy, step.majority_correct


@dataclass(frozen=True)
class Pair:
    """A comparison of a result with the first one. `problems` counts the finished problems in
    both."""

    name: str
    problems: int
    metrics: dict[str, Paired]  # the differences by metric
    change: str  # the change in completion tokens of a problem, as a share of the first result's
    notes: list[str]
    has_scores: bool = False  # True if one of the results has grades between 0 and 1


def _shown(metric: str, are_scores: bool) -> str:
    """Return a metric's name for tables. With grades between 0 and 1, an accuracy is a score."""
    return metric.replace("accuracy", "score") if are_scores else metric


def _check(first: Result, second: Result, anyway: bool) -> list[str]:
    """Return notes on the differences between two results. Raises UserError if they can't be
    compared."""
    names = f"{first.name} and {second.name}"
    notes = [f"{names} have different {words}" for words in _differences(first, second)]
    if first.metrics != second.metrics:
        raise UserError(
            f"{names} can't be compared, because only one of them contains graded proofs. Leave "
            "one out"
        )
    if notes and not anyway:
        raise UserError(f"{notes[0]}. To compare the problems that they share, add --anyway")
    if not first.final.keys() & second.final.keys():
        raise UserError(
            f"{names} have no finished problem in common. Complete the runs, or use one problem set"
        )
    return notes + _notes_on_servers(first, second)


def _differences(first: Result, second: Result) -> list[str]:
    """Describe different problem sets and models, which only `anyway` allows."""
    words = []
    sets = [run.described("problem_set", "sha256") for run in (first, second)]
    if sets[0] != sets[1]:
        sets = [run.described("problem_set", "name") for run in (first, second)]
        words.append(f"problem sets ({sets[0]} and {sets[1]})")
    model = first.described("model", "name")
    other_model = second.described("model", "name")
    if model != other_model:
        words.append(f"models ({model} and {other_model})")
        return words
    for key in ("revision", "sha256"):
        version = first.described("model", key)
        other_version = second.described("model", key)
        if version and other_version and version != other_version:
            words.append(f"models ({model} at {key} {version} and {other_version})")
    return words


def _notes_on_servers(first: Result, second: Result) -> list[str]:
    names = f"{first.name} and {second.name}"
    model = first.described("model", "name")
    is_same_model = model == second.described("model", "name")
    server = first.described("model", "reported")  # a server's description of its model
    other_server = second.described("model", "reported")
    if is_same_model and server and other_server and server != other_server:
        return [f"{names} had different servers of {model} ({server} and {other_server})"]
    engine = first.described("engine", "kind")
    other_engine = second.described("engine", "kind")
    if engine != other_engine:
        return [f"{names} ran on different engines ({engine} and {other_engine})"]
    return []


def table(results: Sequence[Result], anyway: bool = False) -> str:
    """Compare results with the first, or raise UserError. `anyway` allows other problem sets and
    models."""
    first, *others = results
    names = tables.labels(results, 200)
    pairs = [pair(first, other, anyway) for other in others]
    notes = _notes(results, pairs)
    if len(pairs) > 1:
        notes.append("Holm: p corrected for all p-values of this table")
    lines = [_figures(results, names).text(columns())]
    corrected = _corrected(pairs) if len(pairs) > 1 else [{}]
    for number, compared in enumerate(pairs):
        heading = f"{names[number + 1]} minus {names[0]}, paired over {compared.problems} problems"
        lines += ["", wrapped(heading), *_lines(compared, corrected[number])]
    if notes:
        lines.append("")
        lines += [wrapped(f"note: {note}", "  ") for note in notes]
    return "\n".join(lines)


def markdown(results: Sequence[Result], anyway: bool = False) -> str:
    """Compare results as `table` does, and format the tables in Markdown."""
    names = tables.labels(results, 200)
    pairs = [pair(results[0], other, anyway) for other in results[1:]]
    named = [replace(compared, name=name) for compared, name in zip(pairs, names[1:], strict=True)]
    paired_by_problem = differences(named, names[0])
    parts = [_figures(results, names).markdown(), paired_by_problem.markdown(), ABOUT]
    return "\n\n".join([*parts, *(f"- {note}" for note in _notes(results, pairs))])


def _notes(results: Sequence[Result], pairs: Sequence[Pair]) -> list[str]:
    """Describe runs that lack problems, merged runs, and differences between runs."""
    notes = []
    for run in results:
        expected = run.head.problem_set["n"]
        if not run.head.complete or len(run.final) < expected:
            reached = f"reached step {run.step} or ended"
            notes.append(
                f"{run.name}: {len(run.final)} of {expected} problems are graded, and {reached}"
            )
    for run in results:
        if run.head.runs:
            merge = tables.merged(run.head.document)
            notes.append(f"{run.name} is the {merge}. Its tokens are means over the runs")
    for compared in pairs:
        notes += compared.notes
    return notes


def _figures(results: Sequence[Result], names: Sequence[str]) -> Table:
    """Tabulate the last step of each result."""
    first = results[0]
    are_scores = any(run.has_scores for run in results)
    columns = [
        Column("result", names),
        Column("n", [str(len(run.final)) for run in results]),
        Column("step", [str(run.step) for run in results], rank=3),
    ]
    for number, metric in enumerate(first.metrics):
        cells = []
        for run in results:
            values = [figures[number] for figures in run.final.values()]
            cells.append(interval(mean_by_problem(values).to_json()))
        columns.append(Column(_shown(metric, are_scores), cells))
    columns.append(Column("tokens", [run.spent_tokens for run in results], rank=1))
    costs = [run.spent_dollars for run in results]
    if any(costs):
        columns.append(Column("cost", [cost or "unknown" for cost in costs], rank=2))
    setting = f"{first.described('problem_set', 'name')}, {first.described('model', 'name')}"
    unit = "Scores" if are_scores else "Accuracies"
    if first.metrics != METRICS:
        unit = "Figures"
    title = (
        f"{setting}. {unit} are in %, with 95% intervals over n problems. Tokens are "
        "completion tokens."
    )
    if any(costs):
        title += " The cost includes prompts."
    return Table(title, columns)


def _corrected(pairs: Sequence[Pair]) -> list[dict[str, float]]:
    """Correct the p-values of all metrics of all `pairs`. Return them by metric for each pair."""
    tests = [
        (number, metric) for number, compared in enumerate(pairs) for metric in compared.metrics
    ]
    p_values = [pairs[number].metrics[metric].p for number, metric in tests]
    corrected: list[dict[str, float]] = [{} for _ in pairs]
    for (number, metric), p in zip(tests, holm(p_values), strict=True):
        corrected[number][metric] = p
    return corrected


def _lines(compared: Pair, corrected: dict[str, float]) -> list[str]:
    """Format a comparison with the first result, a line for each metric. `corrected` are p-values
    by metric, or empty for a single comparison."""
    width = max(len(metric) for metric in (*METRICS, *compared.metrics))
    lines = []
    for metric, test in compared.metrics.items():
        change = shift(test.difference, test.low, test.high)
        name = _shown(metric, compared.has_scores)
        row = f"{name:<{width}}  {change:<22}  p {chance(test.p):<7}"
        if corrected:
            row += f"  Holm {chance(corrected[metric]):<7}"
        row += f"  won {test.wins}, lost {test.losses}, tied {test.ties}"
        lines.append(wrapped(row, " " * (width + 2)))
    lines.append(f"{'completion tokens':<{width}}  {compared.change}")
    return lines


def pair(first: Result, second: Result, anyway: bool = False) -> Pair:
    """Pair two results by problem. Raises UserError if they share no finished problem, or differ in
    set or model.

    With `anyway`, the models and the problem sets may differ.
    """
    notes = _check(first, second, anyway)
    shared = sorted(first.final.keys() & second.final.keys())
    metrics = {}
    for number, metric in enumerate(first.metrics):
        before = [first.final[key][number] for key in shared]
        after = [second.final[key][number] for key in shared]
        metrics[metric] = paired(before, after)
    change = _change_in_tokens(first, second, shared)
    are_scores = first.has_scores or second.has_scores
    return Pair(second.name, len(shared), metrics, change, notes, are_scores)


def _change_in_tokens(first: Result, second: Result, shared: Sequence[ProblemKey]) -> str:
    before = []
    after = []
    for key in shared:
        tokens = first.tokens[key]
        other_tokens = second.tokens[key]
        if tokens is None or other_tokens is None:
            return "unknown"
        before.append(tokens)
        after.append(other_tokens)
    change = relative_change(before, after)
    return f"{shift(change.value, change.low, change.high)} %" if change else "unknown"


ABOUT = (
    "paired by problem, differences in percentage points, 95% intervals. p: two-sided sign-flip "
    "permutation test, which agrees with the intervals"
)


def differences(pairs: Sequence[Pair], first: str) -> Table:
    """Tabulate the comparisons with `first`. For several comparisons, a column has corrected
    p-values."""
    corrected = _corrected(pairs)
    rows = []
    for number, compared in enumerate(pairs):
        for metric, test in compared.metrics.items():
            rows.append(
                {
                    "result": compared.name,
                    "metric": _shown(metric, compared.has_scores),
                    "difference": shift(test.difference, test.low, test.high),
                    "p": chance(test.p),
                    "p (Holm)": chance(corrected[number][metric]),
                    "problems": str(test.n),
                    "wins": str(test.wins),
                    "losses": str(test.losses),
                    "ties": str(test.ties),
                }
            )
        tokens = {"result": compared.name, "metric": "completion tokens"}
        tokens |= {"difference": compared.change, "problems": str(compared.problems)}
        rows.append(tokens)
    columns = []
    for head in rows[0]:
        if head == "p (Holm)" and len(pairs) == 1:
            continue
        meaning = "corrected for all p-values of this table" if head == "p (Holm)" else ""
        columns.append(Column(head, [row.get(head, "") for row in rows], meaning))
    return Table(f"Each against {first}", columns, legend_end=ABOUT)


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="compare.sh", description="Compare results, each against the first.")
    parser.add_argument("first", help="name of results, or path of a .json file")
    parser.add_argument(
        "others", nargs="+", help="names or paths of the results to compare with the first"
    )
    parser.add_argument(
        "--anyway", action="store_true", help="compare even if problem sets or models differ"
    )
    parser.add_argument("--markdown", action="store_true", help="print the tables in Markdown")
    with command():
        args = parser.parse_args(argv)
        with heartbeat("reading results"):
            results = [result(load(name)) for name in (args.first, *args.others)]
        formatted = markdown if args.markdown else table
        print(formatted(results, args.anyway))


if __name__ == "__main__":
    main()
