"""Compute the rows and tables of a comparison at equal compute: the results that each budget
buys."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from core.base.errors import UserError
from core.base.stats import Estimate, Paired, holm, mean_by_problem, paired
from harness.report.table import NONE, Column, Table
from harness.report.tables import NOT_GRADED, chance, interval, shift
from harness.results import read
from harness.results.cost_meter import TOKENS, UNITS, Meter
from harness.results.model import MemberResult, StepResult, has_scores

UNCOUNTED = "the server counts no tokens, so scaffolds can't be compared at equal compute"
HOLM = (
    "corrected for all p-values of the table. The figures after it are means over problems and "
    "seeds"
)


@dataclass
class Bought:
    """The part of a problem's results that a budget buys. Its figures are tokens, `calls`, and
    costs in each unit of the meter, nan if unknown. `path` is the seconds of the longest chain of
    consecutive requests."""

    # the vote's score, or the mean points / 7 of proofs, None without a grade
    score: float | None = None
    mean: float | None = None  # the mean accuracy of the step's members
    step: int | None = None  # the step that gives the answer, or None
    # "cut" has the step that did not fit into the budget
    figures: dict[str, float] = field(default_factory=dict)


def bought(steps: Sequence[StepResult], budget: float, meter: Meter = TOKENS) -> Bought:
    """Return the part of a problem's `steps` that fits into `budget`, in the unit of `meter`.

    A step starts after all calls of the previous step, but steps of plain samples run in parallel.
    A member's side calls start after the member's completion. The first step with an unknown cost
    ends the part.
    """
    names = ("tokens", "cut", "prompt", "cached", "calls", "path", *meter.units)
    figures = dict.fromkeys(names, 0.0)
    part = Bought(figures=figures)
    is_plain = True
    paid = 0.0
    for step in steps:
        costs = _costs_by_unit(step, meter)
        counts = _counts(step)
        paid += costs[meter.unit]
        if budget < math.inf and not paid <= budget:  # or the cost is unknown
            figures["cut"] = counts["tokens"]
            break
        for name, count in (costs | counts).items():
            figures[name] += count
        # other steps only prepare the next step
        if counts["tokens"] or len(step.members) == 1 or part.step is None:
            part.score = step.majority_correct
            part.mean = step.mean_accuracy
            part.step = step.step
        is_plain = is_plain and _is_plain(step)
        seconds = max(member.seconds + _waits(member) for member in step.members)
        if is_plain:
            figures["path"] = max(figures["path"], seconds)
        else:
            figures["path"] += seconds
    return part


def _costs_by_unit(step: StepResult, meter: Meter) -> dict[str, float]:
    """Return the cost of a step in each unit (nan: unknown)."""
    costs = {}
    for unit in meter.units:
        amounts = [meter.cost(call.counted, unit) for call in step.new_calls]
        costs[unit] = sum(math.nan if amount is None else amount for amount in amounts)
    return costs


def _counts(step: StepResult) -> dict[str, float]:
    """Count the tokens and calls of a step. Tokens that the server did not count are 0."""
    calls = step.new_calls
    return {
        "tokens": sum(call.completion_tokens or 0 for call in calls),
        "prompt": sum(call.prompt_tokens or 0 for call in calls),
        "cached": sum(call.cached_tokens or 0 for call in calls),
        "calls": len(calls),
    }


def _is_plain(step: StepResult) -> bool:
    """Return whether the step has plain samples only, which need no earlier step."""
    for member in step.members:
        if member.side_calls or (member.parents and not member.carried_over):
            return False
    return True


def _waits(member: MemberResult) -> float:
    """Return the seconds of a member's side calls. Verdicts are requested in parallel, other calls
    in sequence."""
    seconds = [0.0, *(call.seconds for call in member.side_calls)]
    return max(seconds) if member.verdicts is not None else sum(seconds)


@dataclass
class Row:
    """The figures of a scaffold at one budget, over all problems."""

    name: str
    budget: float
    accuracy: Estimate  # accuracy of the vote, or mean points / 7 of proofs
    unanswered: float
    means: dict[str, float]  # means of tokens, calls, seconds and other costs, nan if unknown
    scores: list[float] = field(repr=False)  # each problem's mean over seeds, nan without a grade
    mean: Estimate  # the mean accuracy of the last population's members
    has_scores: bool = False  # True if some grades of its runs are between 0 and 1
    more: dict[str, Any] = field(default_factory=dict)  # further fields of table.jsonl
    against: Paired | None = None  # paired with the reference, if both have answers
    p_holm: float | None = None  # the p-value of `against`, corrected for all p-values of the table

    @property
    def answered(self) -> bool:
        return self.unanswered < 1


def rows(
    runs: Mapping[str, Sequence[Path]], budgets: Sequence[float], meter: Meter = TOKENS
) -> list[Row]:
    """Return a row for each scaffold and budget. Without budgets, a row has the whole run.

    `runs` maps each scaffold to its results files, one for each seed. All files contain the same
    problems in the same order. A problem without an answer scores 0, unless nothing is graded.
    Means skip missing grades of proofs.
    """
    table = []
    for name, paths in runs.items():
        results = [read.read(path) for path in paths]
        are_scores = any(has_scores(head.document) for head, _ in results)
        # for each problem, the steps of its runs
        by_seed = [[problem.steps for problem in problems] for _, problems in results]
        problems = list(zip(*by_seed, strict=True))
        for budget in budgets or [math.inf]:
            parts = [_parts(runs_of_problem, budget, meter) for runs_of_problem in problems]
            row = _row(name, budget, parts)
            row.has_scores = are_scores
            table.append(row)
    return table


def _parts(runs: Sequence[Sequence[StepResult]], budget: float, meter: Meter) -> list[Bought]:
    return [bought(steps, budget, meter) for steps in runs]


def _row(name: str, budget: float, problems: Sequence[Sequence[Bought]]) -> Row:
    """Compute the figures of a scaffold. `problems` has the parts of each problem, one for each
    seed."""
    parts = [part for problem in problems for part in problem]
    has_grades = any(part.score is not None for part in parts)
    is_silent = all(part.step is None for part in parts)
    missing = 0.0 if has_grades or is_silent else None  # the score without an answer
    scores = []
    means_of_members = []
    for problem in problems:
        scores.append(_mean([missing if part.step is None else part.score for part in problem]))
        means = [missing if part.step is None else part.mean for part in problem]
        means_of_members.append(_mean(means))
    figures = {}
    for figure in parts[0].figures:
        figures[figure] = float(np.mean([part.figures[figure] for part in parts]))
    return Row(
        name,
        budget,
        accuracy=_over_problems(scores),
        unanswered=float(np.mean([part.step is None for part in parts])),
        means=figures,
        scores=scores,
        mean=_over_problems(means_of_members),
    )


def _over_problems(values: Sequence[float]) -> Estimate:
    return mean_by_problem([value for value in values if not math.isnan(value)])


def pair(figures: Sequence[Row], reference: str, tests: int = 0) -> None:
    """Pair the rows with the scaffold `reference` at the same budget. `tests` counts the tests, as
    in holm."""
    bases = {row.budget: row for row in figures if row.name == reference}
    compared = []
    for row in figures:
        base = bases[row.budget]
        if row is base or not row.answered or not base.answered:
            continue
        before = []
        after = []
        for score, other in zip(base.scores, row.scores, strict=True):
            if not math.isnan(score) and not math.isnan(other):
                before.append(score)
                after.append(other)
        if before:
            row.against = paired(before, after)
            compared.append((row, row.against.p))
    corrected = holm([p for _, p in compared], tests)
    for (row, _), p in zip(compared, corrected, strict=True):
        row.p_holm = p


def _mean(scores: Sequence[float | None]) -> float:
    """Average the scores that are not None. Return nan if all are None."""
    known_scores = [score for score in scores if score is not None]
    return float(np.mean(known_scores)) if known_scores else math.nan


def counting(
    steps: Sequence[StepResult], budgets: Sequence[float], meter: Meter = TOKENS
) -> set[int]:
    """Return the numbers of the steps that give the answer at any of the `budgets`, or at the end
    without budgets."""
    numbers = {bought(steps, budget, meter).step for budget in budgets or [math.inf]}
    return {number for number in numbers if number is not None}


def in_unit(budgets: Sequence[float], paths: Sequence[Path], meter: Meter = TOKENS) -> list[float]:
    """Convert `budgets` from samples (of `paths`) to the meter's unit. Raises UserError if costs
    are unknown or 0."""
    costs = []
    for path in paths:
        for problem in read.read(path)[1]:
            for step in problem.steps:
                costs += _costs(step, meter)
    if not sum(costs):
        raise UserError(
            f"all samples failed or cost 0 {meter.unit}, or {UNCOUNTED}. Use another server"
        )
    amounts = [budget * sum(costs) / len(costs) for budget in budgets]
    return amounts if meter.unit == "dollars" else [round(amount) for amount in amounts]


def _costs(step: StepResult, meter: Meter) -> list[float]:
    """Return the known costs of a step's calls, without members that are carried over."""
    costs = []
    for member in step.members:
        if not member.carried_over:
            costs += [meter.cost(call.counted) for call in member.calls]
    return [cost for cost in costs if cost is not None]


def columns_of(rows: Sequence[Row], reference: str, meter: Meter, metric: str) -> list[Column]:
    """Return the columns of a table of `rows`. `metric` heads the column of accuracy or mean
    points."""

    def column(head: str, read: Callable[[Row], str], rank: int = 0, meaning: str = "") -> Column:
        return Column(head, [read(row) for row in rows], meaning, rank)

    def figure(
        head: str, rank: int, meaning: str = "", name: str = "", form: str = ",.0f"
    ) -> Column:
        return column(head, lambda row: f"{row.means[name or head]:{form}}", rank, meaning)

    def cost(unit: str) -> Column:
        meanings = UNITS | {"flops": "computed from the model's shape", "dollars": ""}
        return column(unit, lambda row: meter.format(row.means[unit], unit), 4, meanings[unit])

    return [
        column("scaffold", lambda row: row.name),
        column("budget", lambda row: meter.format(row.budget)),
        column(metric, _accuracy),
        column(f"minus {reference}", _difference),
        column("p", lambda row: chance(row.against.p) if row.against else NONE, 2),
        column("p (Holm)", _corrected_p, 1, HOLM),
        column("unanswered", lambda row: f"{row.unanswered:.0%}", 2),
        figure("tokens", 2),
        figure("unused", 3, "tokens of the step that did not fit into the budget", "cut"),
        figure("calls", 3, form=".1f"),
        figure("path s", 3, "seconds of the longest chain of consecutive requests", "path", ".1f"),
        figure("prompt", 4),
        figure("cached", 4),
        *(cost(unit) for unit in meter.units if unit != "tokens"),
    ]


def _accuracy(row: Row) -> str:
    if not row.answered:
        return NONE
    return interval(row.accuracy.to_json()) if row.accuracy.n else NOT_GRADED


def _difference(row: Row) -> str:
    paired = row.against
    return shift(paired.difference, paired.low, paired.high) if paired else NONE


def _corrected_p(row: Row) -> str:
    return NONE if row.p_holm is None else chance(row.p_holm)


def table(
    figures: Sequence[Row], reference: str, meter: Meter = TOKENS, metric: str = "accuracy"
) -> Table:
    """Tabulate the rows by increasing budget."""
    ordered = sorted(figures, key=lambda row: row.budget)
    return Table("", columns_of(ordered, reference, meter, metric))


def to_json(row: Row) -> dict[str, Any]:
    """Return a row as an object of table.jsonl. Unknown figures are None."""
    against = vars(row.against) | {"p_holm": row.p_holm} if row.against else None
    means = {name: None if math.isnan(mean) else mean for name, mean in row.means.items()}
    return {
        "scaffold": row.name,
        "budget": None if math.isinf(row.budget) else row.budget,
        "accuracy": row.accuracy.to_json(),
        "unanswered": row.unanswered,
        **means,
        "against": against,
        **row.more,
    }
