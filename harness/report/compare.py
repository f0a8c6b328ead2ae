"""Compare results, each against the first: `python -m harness.report.compare 01_baseline
02_rsa_basic`.

Differences are paired by problem, because most variation comes from the difficulty of problems,
which both runs share.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from core.base.errors import Parser, UserError, command, one_line
from core.base.prices import shown as dollars
from core.base.stats import Paired, holm, mean_by_problem, paired, relative_change
from core.base.terminal import columns, wrapped
from harness.report import tables
from harness.report.data import Results, load
from harness.report.table import Column, Table
from harness.report.tables import chance, interval, shift
from harness.results import proof_points
from harness.results.model import Head, ProblemResult, StepResult, total
from harness.results.over_runs import MERGES

METRICS = ("mean accuracy", "majority accuracy")
OF_PROOFS = tuple(tables.SHARES.values())


@dataclass(frozen=True)
class Result:
    """The figures of a results file, by problem id and reference answer. For merged runs, a problem
    has one value."""

    name: str
    head: Head
    step: int  # the last step
    # `metrics` of problems that reached the last step or ended earlier
    final: dict[tuple[str, str], tuple[float, ...]]
    # of all calls (mean of runs), or None if a count is unknown
    tokens: dict[tuple[str, str], float | None]

    @property
    def metrics(self) -> tuple[str, ...]:
        return OF_PROOFS if self.head.metrics.proofs else METRICS

    @property
    def spent(self) -> tuple[str, str]:
        """Completion tokens and cost of a run (mean of merged runs) as text. The cost is "" if
        prices are unknown."""
        metrics, runs = self.head.metrics, len(self.head.runs.seeds) if self.head.runs else 1
        count, is_partly = (
            metrics.tokens["completion"],
            any(step.uncounted for step in metrics.steps),
        )
        cost = (
            tables.spent(metrics.cost and metrics.cost / runs, dollars, is_partly)
            if self.head.prices
            else ""
        )
        return tables.spent(None if count is None else round(count / runs)), cost

    def shown(self, part: str, key: str) -> str | None:
        """Return a field of the head's model, engine or problem set as text, or None if it is not
        known."""
        word = getattr(self.head, part).get(key)
        return None if word in (None, "{}") else one_line(str(word), 300)


def result(run: Results) -> Result:
    """Compute the figures of results. Raises UserError if they are proofs without grades."""
    begun = [problem for problem in run.problems if problem.steps]
    step = max((problem.steps[-1].step for problem in begun), default=0)
    # one item for each run
    graded = defaultdict[tuple[str, str], list[tuple[ProblemResult, tuple[float, ...]]]](list)
    for problem in begun:
        if (found := _values(problem.steps[-1])) is not None:
            graded[problem.id, str(problem.answer)].append((problem, found))
    if begun and not graded:
        raise UserError(
            f"{run.name} is not graded, so it can't be compared. Grade it with scripts/grade.sh"
        )
    by = MERGES[run.head.runs.by if run.head.runs else "mean"]
    final, tokens = {}, {}
    for id, of in graded.items():
        if all(problem.finished or problem.steps[-1].step == step for problem, _ in of):
            final[id] = tuple(
                float(by(each)) for each in zip(*(found for _, found in of), strict=True)
            )
            count = total(each.completion_tokens for problem, _ in of for each in problem.steps)
            tokens[id] = None if count is None else count / len(of)
    return Result(run.name, run.head, step, final, tokens)


def _values(step: StepResult) -> tuple[float, ...] | None:
    """Return METRICS or OF_PROOFS of a problem's last population, or None if it has no grades."""
    if any(m.is_proof for m in step.members):
        return proof_points.values(m.known_worth for m in step.members if m.is_proof)
    if step.mean_accuracy is None or step.majority_correct is None:
        return None
    return step.mean_accuracy, step.majority_correct


def _check(first: Result, other: Result, anyway: bool) -> list[str]:
    """Return notes on the differences between two results. Raises UserError if they can't be
    compared."""

    def of(part: str, key: str) -> tuple[str | None, str | None]:
        return first.shown(part, key), other.shown(part, key)

    both, differences = f"{first.name} and {other.name}", []
    (model, other_model), (kind, other_kind) = of("model", "name"), of("engine", "kind")
    server, other_server = of("model", "reported")  # a server's description of its model
    if len({*of("problem_set", "sha256")}) > 1:
        sets = " and ".join(map(str, of("problem_set", "name")))
        differences.append(f"{both} have different problem sets ({sets})")
    if model != other_model:
        differences.append(f"{both} have different models ({model} and {other_model})")
    for key in ("revision", "sha256") if model == other_model else ():
        one, two = of("model", key)
        if one and two and one != two:
            differences.append(f"{both} have different models ({model} at {key} {one} and {two})")
    if first.metrics != other.metrics:
        raise UserError(
            f"{both} can't be compared, because only one of them contains graded proofs. Leave one "
            "out"
        )
    if differences and not anyway:
        raise UserError(f"{differences[0]}. To compare the problems that they share, add --anyway")
    if not first.final.keys() & other.final.keys():
        raise UserError(
            f"{both} have no finished problem in common. Complete the runs, or use one problem set"
        )
    if server and other_server and server != other_server and model == other_model:
        differences.append(f"{both} had different servers of {model} ({server} and {other_server})")
    elif kind != other_kind:
        differences.append(f"{both} ran on different engines ({kind} and {other_kind})")
    return differences


def table(results: Sequence[Result], anyway: bool = False) -> str:
    """Compare results with the first, or raise UserError. `anyway` allows other problem sets and
    models."""
    first, *others = results
    notes = [
        f"{r.name}: {len(r.final)} of {r.head.problem_set['n']} problems are graded, and reached step {r.step} or ended"
        for r in results
        if not r.head.complete or len(r.final) < r.head.problem_set["n"]
    ]
    merged = [(r.name, tables.merged(r.head.document)) for r in results if r.head.runs]
    notes += [f"{name} is the {runs}. Its tokens are means over the runs" for name, runs in merged]
    pairs = [pair(first, other, anyway) for other in others]
    corrected = iter(holm([d.p for p in pairs for d in p.metrics.values()]))
    notes += [note for p in pairs for note in p.notes]
    names, (tokens, costs) = (
        tables.labels(results, 200),
        zip(*(r.spent for r in results), strict=True),
    )
    estimates = [
        [interval(mean_by_problem(v).to_json()) for v in zip(*r.final.values(), strict=True)]
        for r in results
    ]
    shown = [
        Column("result", names),
        Column("n", [str(len(r.final)) for r in results]),
        Column("step", [str(r.step) for r in results], rank=3),
        *(
            Column(metric, cells)
            for metric, cells in zip(first.metrics, zip(*estimates, strict=True), strict=True)
        ),
        Column("tokens", tokens, rank=1),
        *([Column("cost", [cost or "unknown" for cost in costs], rank=2)] if any(costs) else []),
    ]
    what = (
        f"{first.shown('problem_set', 'name')}, {first.shown('model', 'name')}. "
        f"{'Accuracies' if first.metrics == METRICS else 'Figures'} are in %, with 95% intervals "
        "over n problems. Tokens are completion "
        f"tokens.{' The cost includes prompts.' if any(costs) else ''}"
    )
    lines, wide = [Table(what, shown).text(columns())], max(map(len, METRICS + first.metrics))
    for p, name in zip(pairs, names[1:], strict=True):
        lines += ["", wrapped(f"{name} minus {names[0]}, paired over {p.problems} problems")]
        for metric, d in p.metrics.items():
            holms = f"  Holm {chance(next(corrected)):<7}" if len(pairs) > 1 else ""
            row = (
                f"{metric:<{wide}}  {shift(d.difference, d.low, d.high):<22}  p "
                f"{chance(d.p):<7}{holms}"
            )
            lines.append(
                wrapped(f"{row}  won {d.wins}, lost {d.losses}, tied {d.ties}", " " * (wide + 2))
            )
        lines.append(f"{'completion tokens':<{wide}}  {p.change}")
    if len(pairs) > 1:
        notes.append("Holm: p corrected for all p-values of this table")
    return "\n".join(
        [*lines, *([""] if notes else []), *(wrapped(f"note: {note}", "  ") for note in notes)]
    )


@dataclass(frozen=True)
class Pair:
    """A comparison of a result with the first one. `problems` counts the finished problems in
    both."""

    name: str
    problems: int
    metrics: dict[str, Paired]  # the differences by metric
    change: str  # the change in completion tokens of a problem, as a share of the first result's
    notes: list[str]


def pair(first: Result, other: Result, anyway: bool = False) -> Pair:
    """Pair two results by problem. Raises UserError if they share no finished problem, or differ in
    set or model.

    With `anyway`, the models and the problem sets may differ.
    """
    notes = _check(first, other, anyway)
    shared = sorted(first.final.keys() & other.final.keys())
    metrics = {
        metric: paired([first.final[p][i] for p in shared], [other.final[p][i] for p in shared])
        for i, metric in enumerate(first.metrics)
    }
    counts = [(a, b) for p in shared if None not in (a := first.tokens[p], b := other.tokens[p])]
    change = relative_change(*zip(*counts, strict=True)) if len(counts) == len(shared) else None
    tokens = f"{shift(change.value, change.low, change.high)} %" if change else "unknown"
    return Pair(other.name, len(shared), metrics, tokens, notes)


ABOUT = (
    "paired by problem, differences in percentage points, 95% intervals. p: two-sided sign-flip "
    "permutation test, which agrees with the intervals"
)


def differences(pairs: Sequence[Pair], first: str) -> Table:
    """Tabulate the comparisons with `first`. For several comparisons, a column has corrected
    p-values."""
    corrected = iter(holm([d.p for pair in pairs for d in pair.metrics.values()]))
    rows = []
    for pair in pairs:
        for metric, d in pair.metrics.items():
            counts = [str(count) for count in (d.n, d.wins, d.losses, d.ties)]
            change = shift(d.difference, d.low, d.high)
            rows.append([pair.name, metric, change, chance(d.p), chance(next(corrected)), *counts])
        rows.append(
            [pair.name, "completion tokens", pair.change, "", "", str(pair.problems), "", "", ""]
        )
    heads = (
        "result",
        "metric",
        "difference",
        "p",
        "p (Holm)",
        "problems",
        "wins",
        "losses",
        "ties",
    )
    shown = [
        Column(
            head, cells, "corrected for all p-values of this table" if head == "p (Holm)" else ""
        )
        for head, cells in zip(heads, zip(*rows, strict=True), strict=True)
        if len(pairs) > 1 or head != "p (Holm)"
    ]
    return Table(f"Each against {first}", shown, about=ABOUT)


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="compare.sh", description="Compare results, each against the first.")
    parser.add_argument("first", help="name of results, or path of a .json file")
    parser.add_argument(
        "others", nargs="+", help="names or paths of the results to compare with the first"
    )
    parser.add_argument(
        "--anyway", action="store_true", help="compare even if problem sets or models differ"
    )
    with command():
        args = parser.parse_args(argv)
        print(table([result(load(name)) for name in (args.first, *args.others)], args.anyway))


if __name__ == "__main__":
    main()
