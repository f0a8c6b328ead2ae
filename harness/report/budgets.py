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
from harness.results.model import MemberResult, StepResult

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
    figures = dict.fromkeys(
        ("tokens", "cut", "prompt", "cached", "calls", "path", *meter.units), 0.0
    )
    found, is_plain, paid = Bought(figures=figures), True, 0.0
    for step in steps:
        members, calls = step.members, step.new_calls
        tokens = sum(call.completion_tokens or 0 for call in calls)
        costs = {unit: [meter.cost(call.counted, unit) for call in calls] for unit in meter.units}
        spent = {
            unit: sum(math.nan if cost is None else cost for cost in of)
            for unit, of in costs.items()
        }
        paid += spent[meter.unit]
        if budget < math.inf and not paid <= budget:  # or the cost is unknown
            figures["cut"] = tokens
            break
        spent |= {"tokens": tokens, "calls": len(calls)}
        spent |= {
            name: sum(getattr(call, f"{name}_tokens") or 0 for call in calls)
            for name in ("prompt", "cached")
        }
        for name, count in spent.items():
            figures[name] += count
        # other steps only prepare the next step
        if tokens or len(members) == 1 or found.step is None:
            found.score, found.step, found.mean = (
                step.majority_correct,
                step.step,
                step.mean_accuracy,
            )
        is_plain = is_plain and not any(
            m.side_calls or (m.parents and not m.carried_over) for m in members
        )
        seconds = max(m.seconds + _waits(m) for m in members)
        figures["path"] = max(figures["path"], seconds) if is_plain else figures["path"] + seconds
    return found


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
    found = []
    for name, paths in runs.items():
        by_seed = [[problem.steps for problem in read.read(path)[1]] for path in paths]
        for budget in budgets or [math.inf]:
            each = [
                [bought(steps, budget, meter) for steps in seeds]
                for seeds in zip(*by_seed, strict=True)
            ]
            all_of = [b for of in each for b in of]
            nothing = (
                0.0
                if any(b.score is not None for b in all_of) or all(b.step is None for b in all_of)
                else None
            )
            scores, of_members = (
                [
                    _mean([nothing if b.step is None else getattr(b, what) for b in of])
                    for of in each
                ]
                for what in ("score", "mean")
            )
            vote, mean = (
                mean_by_problem([v for v in of if not math.isnan(v)]) for of in (scores, of_members)
            )
            means = {
                what: float(np.mean([b.figures[what] for b in all_of]))
                for what in all_of[0].figures
            }
            unanswered = float(np.mean([b.step is None for b in all_of]))
            found.append(Row(name, budget, vote, unanswered, means, scores, mean))
    return found


def pair(found: Sequence[Row], reference: str, tests: int = 0) -> None:
    """Pair the rows with the scaffold `reference` at the same budget. `tests` counts the tests, as
    in holm."""
    for row in found:
        base = next(
            other for other in found if (other.name, other.budget) == (reference, row.budget)
        )
        both = [
            pair for pair in zip(base.scores, row.scores, strict=True) if not math.isnan(sum(pair))
        ]
        if row is not base and row.answered and base.answered and both:
            row.against = paired([a for a, _ in both], [b for _, b in both])
    compared = [(row, row.against.p) for row in found if row.against]
    for (row, _), corrected in zip(compared, holm([p for _, p in compared], tests), strict=True):
        row.p_holm = corrected


def _mean(scores: Sequence[float | None]) -> float:
    """Average the scores that are not None. Return nan if all are None."""
    known = [score for score in scores if score is not None]
    return float(np.mean(known)) if known else math.nan


def counting(
    steps: Sequence[StepResult], budgets: Sequence[float], meter: Meter = TOKENS
) -> set[int]:
    """Return the numbers of the steps that give the answer at any of the `budgets`, or at the end
    without budgets."""
    return {
        found
        for budget in budgets or [math.inf]
        if (found := bought(steps, budget, meter).step) is not None
    }


def in_unit(budgets: Sequence[float], paths: Sequence[Path], meter: Meter = TOKENS) -> list[float]:
    """Convert `budgets` from samples (of `paths`) to the meter's unit. Raises UserError if costs
    are unknown or 0."""
    steps = (step for path in paths for problem in read.read(path)[1] for step in problem.steps)
    calls = (call for step in steps for m in step.members if not m.carried_over for call in m.calls)
    costs = [cost for call in calls if (cost := meter.cost(call.counted)) is not None]
    if not sum(costs):
        raise UserError(
            f"all samples failed or cost 0 {meter.unit}, or {UNCOUNTED}. Use another server"
        )
    found = [budget * sum(costs) / len(costs) for budget in budgets]
    return found if meter.unit == "dollars" else [round(budget) for budget in found]


def columns_of(rows: Sequence[Row], reference: str, meter: Meter, what: str) -> list[Column]:
    """Return the columns of a table of `rows`. `what` heads the column of accuracy or mean
    points."""

    def column(head: str, read: Callable[[Row], str], rank: int = 0, meaning: str = "") -> Column:
        return Column(head, [read(row) for row in rows], meaning, rank)

    def accuracy(row: Row) -> str:
        return (
            NONE
            if not row.answered
            else interval(row.accuracy.to_json())
            if row.accuracy.n
            else NOT_GRADED
        )

    def figure(
        head: str, rank: int, meaning: str = "", name: str = "", form: str = ",.0f"
    ) -> Column:
        return column(head, lambda row: f"{row.means[name or head]:{form}}", rank, meaning)

    def cost(unit: str) -> Column:
        meanings = UNITS | {"flops": "computed from the model's shape", "dollars": ""}
        return column(unit, lambda row: meter.shown(row.means[unit], unit), 4, meanings[unit])

    return [
        column("scaffold", lambda row: row.name),
        column("budget", lambda row: meter.shown(row.budget)),
        column(what, accuracy),
        column(
            f"minus {reference}",
            lambda of: shift(d.difference, d.low, d.high) if (d := of.against) else NONE,
        ),
        column("p", lambda row: chance(row.against.p) if row.against else NONE, 2),
        column(
            "p (Holm)", lambda row: chance(row.p_holm) if row.p_holm is not None else NONE, 1, HOLM
        ),
        column("unanswered", lambda row: f"{row.unanswered:.0%}", 2),
        figure("tokens", 2),
        figure("unused", 3, "tokens of the step that did not fit into the budget", "cut"),
        figure("calls", 3, form=".1f"),
        figure("path s", 3, "seconds of the longest chain of consecutive requests", "path", ".1f"),
        figure("prompt", 4),
        figure("cached", 4),
        *(cost(unit) for unit in meter.units if unit != "tokens"),
    ]


def table(
    found: Sequence[Row], reference: str, meter: Meter = TOKENS, what: str = "accuracy"
) -> Table:
    """Tabulate the rows by increasing budget."""
    return Table("", columns_of(sorted(found, key=lambda row: row.budget), reference, meter, what))


def shown(row: Row) -> dict[str, Any]:
    """Return a row as an object of table.jsonl. Unknown figures are None."""
    return {
        "scaffold": row.name,
        "budget": None if math.isinf(row.budget) else row.budget,
        "accuracy": row.accuracy.to_json(),
        "unanswered": row.unanswered,
        **{what: None if math.isnan(mean) else mean for what, mean in row.means.items()},
        "against": vars(row.against) | {"p_holm": row.p_holm} if row.against else None,
        **row.more,
    }
