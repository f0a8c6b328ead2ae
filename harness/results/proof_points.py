"""Compute the figures of graded proofs: mean points as a share of 7, and the shares of good and
full proofs.

A proof's `points_share` is its points / 7, or 0 if the proof is truncated or empty. Figures skip
missing grades. The value of a problem in a run is the mean over its proofs. Several runs of a
problem are merged into their mean, best or worst value. Means and 95% intervals are over problems.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.types import GOOD, MAX_POINTS, Completion
from harness.results.model import Row
from harness.results.over_runs import Values, over_runs, rate

# mean points / 7, share of proofs with GOOD points or more, share with all 7
FIGURES = ("points", "good", "full")
GROUPED_BY = ("split", "level", "category")  # columns of a problem set
RIGHT = "right"
WRONG = "wrong"
CUT_OFF = "cut off"  # the name in files, for which reports show "truncated"
EMPTY = "empty"
NOT_DELIVERED = (CUT_OFF, EMPTY)  # such proofs are not graded, and count as 0 points
WRITTEN = ("thinking", "answer")  # kinds of tokens of a proof
ROUNDING = 1e-9  # means of gradings have rounding errors

Member = Mapping[str, Any]


def undelivered(completion: Completion) -> str | None:
    """Return why a completion has no usable text (failed, filtered, cut off or empty), or None if
    it has one."""
    if completion.error:
        return "failed"
    if completion.filtered:
        return "filtered"
    if completion.truncated and completion.forced is None:
        return CUT_OFF
    if not completion.text.strip():
        return EMPTY
    return None


def is_good(points_share: float) -> bool:
    """Return whether a proof has GOOD points or more, which means that it is right except for minor
    errors."""
    return points_share * MAX_POINTS > GOOD - ROUNDING


def values(shares: Iterable[float | None]) -> tuple[float, float, float] | None:
    """Return the FIGURES of the proofs of one problem in one run, or None if all grades are
    missing."""
    graded = [points_share for points_share in shares if points_share is not None]
    if not graded:
        return None
    count = len(graded)
    good = sum(is_good(points_share) for points_share in graded)
    full = sum(points_share > 1 - ROUNDING for points_share in graded)
    return sum(graded) / count, good / count, full / count


def groups_of(split: str, columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the groups of a problem, by GROUPED_BY. If `split` is set, it replaces the column
    "split"."""
    cells = {str(name).strip().casefold(): cell for name, cell in columns.items()}
    if split:
        cells["split"] = split
    groups = {}
    for name in GROUPED_BY:
        text = "" if cells.get(name) is None else str(cells[name]).strip()
        if text:
            groups[name] = text[:100]
    return groups


@dataclass(frozen=True)
class Proved:
    """The proofs of a problem in a run: members of the results JSON with fields such as
    `points_share`, ungraded and written."""

    problem: str
    groups: Mapping[str, str]
    members: Sequence[Member]
    run: int = 0


def proved(row: Row, run: int = 0) -> list[Proved]:
    """Return the proofs of a problem's last step as one item, if its steps contain any proof after
    grading."""
    steps = row["steps"]
    if not any("points_share" in member for step in steps for member in step["members"]):
        return []
    groups = groups_of(row.get("split", ""), row.get("columns", {}))
    return [Proved(row["id"], groups, steps[-1]["members"], run)]


def metrics(proofs: Sequence[Proved], runs: int = 1, by: str = "mean") -> dict[str, Any]:
    """Return the metrics' field "proofs", or {} without proofs. `by` selects how several `runs` are
    merged."""
    if not proofs:
        return {}
    groups = {entry.problem: entry.groups for entry in proofs}
    table = _table(proofs, list(groups), runs)
    figures = _figures(table, by)
    by_run = {}
    for index, name in enumerate(FIGURES):
        by_run[name] = over_runs(table[:, :, index])
    if all(by_run.values()):
        figures["runs"] = by_run
    members: list[Member] = []
    for entry in proofs:
        members += entry.members
    figures |= _counts(members)
    figures["groups"] = _by_group(table, list(groups.values()), by)
    return {"proofs": figures}


def _table(proofs: Sequence[Proved], problems: Sequence[str], runs: int) -> Values:
    """Return the FIGURES of each problem in each run (problems, runs, figures)."""
    shares = defaultdict[tuple[str, int], list[Any]](list)
    for entry in proofs:
        cell = shares[entry.problem, entry.run]
        cell += [member.get("points_share") for member in entry.members]
    table = np.full((len(problems), runs, len(FIGURES)), np.nan)
    for index, problem in enumerate(problems):
        for run in range(runs):
            figures = values(shares[problem, run])
            if figures is not None:
                table[index, run] = figures
    return table


def _figures(table: Values, by: str) -> dict[str, Any]:
    """Compute the FIGURES over the problems of a table (problems, runs, figures)."""
    figures = {}
    for index, name in enumerate(FIGURES):
        figures[name] = rate(table[:, :, index], by)
    return figures


def _by_group(table: Values, groups: Sequence[Mapping[str, str]], by: str) -> dict[str, Any]:
    """Compute the FIGURES of each group of problems. `groups` has the groups of each row."""
    figures: dict[str, Any] = {}
    for name in GROUPED_BY:
        labels = [problem_groups.get(name) for problem_groups in groups]
        by_label = {}
        for label in sorted({label for label in labels if label is not None}):
            is_in_group = [problem_label == label for problem_label in labels]
            by_label[label] = _figures(table[is_in_group], by)
        if by_label:
            figures[name] = by_label
    return figures


def _counts(members: Sequence[Member]) -> dict[str, Any]:
    """Count proofs, those without points by reason, and the tokens of right and wrong proofs."""
    reasons = Counter(member["ungraded"] for member in members if member.get("ungraded"))
    not_delivered: dict[str, int] = {}
    missing: dict[str, int] = {}
    for reason, count in sorted(reasons.items()):
        counts = not_delivered if reason in NOT_DELIVERED else missing
        counts[reason] = count
    right: list[Member] = []
    wrong: list[Member] = []
    for member in members:
        points_share = member.get("points_share")
        if points_share is not None:
            proofs = right if is_good(points_share) else wrong
            proofs.append(member)
    return {
        "proofs": len(members),
        "graded": sum(member.get("grade") is not None for member in members),
        "not_delivered": not_delivered,
        "missing": missing,
        "written": {RIGHT: _written(right), WRONG: _written(wrong)},
    }


def _written(members: Sequence[Member]) -> dict[str, Any]:
    """Count proofs and average their tokens by WRITTEN. An average without proofs or with an
    unknown count is None."""
    figures: dict[str, Any] = {"proofs": len(members)}
    for name in WRITTEN:
        tokens: list[Any] = []
        for member in members:
            written = member.get("written") or {}
            tokens.append(written.get(name))
        is_known = bool(tokens) and None not in tokens
        figures[name] = float(np.mean(tokens)) if is_known else None
    return figures
