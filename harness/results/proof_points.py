"""Compute the figures of graded proofs: mean points as a share of 7, and the shares of good and
full proofs.

A proof's worth is its points / 7, or 0 if the proof is truncated or empty. Figures skip missing
grades. The value of a problem in a run is the mean over its proofs. Several runs of a problem are
merged into their mean, best or worst value. Means and 95% intervals are over problems.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.base import stats
from core.types import GOOD, MAX_POINTS, Completion
from harness.results.model import Row

# mean points / 7, share of proofs with GOOD points or more, share with all 7
FIGURES = ("points", "good", "full")
GROUPED_BY = ("split", "level", "category")  # columns of a problem set
RIGHT, WRONG = "right", "wrong"
CUT_OFF, EMPTY = "cut off", "empty"  # the name in files, for which reports show "truncated"
NOT_DELIVERED = (CUT_OFF, EMPTY)  # such proofs are not graded, and count as 0 points
WRITTEN = ("thinking", "answer")  # kinds of tokens of a proof

# over graded runs
MERGES: dict[str, Callable[..., Any]] = {"mean": np.nanmean, "max": np.nanmax, "min": np.nanmin}

Member = Mapping[str, Any]
Values = NDArray[np.float64]


def undelivered(completion: Completion) -> str | None:
    """Return why a completion has no usable text (failed, filtered, cut off or empty), or None if
    it has one."""
    is_cut_off = completion.truncated and completion.forced is None
    flaws = {"failed": completion.error, "filtered": completion.filtered, CUT_OFF: is_cut_off}
    flaws[EMPTY] = not completion.text.strip()
    return next((name for name, is_so in flaws.items() if is_so), None)


def is_good(worth: float) -> bool:
    """Return whether a proof has GOOD points or more, which means that it is right except for minor
    errors."""
    return worth * MAX_POINTS > GOOD - 1e-9  # means of gradings have rounding errors


def values(worths: Iterable[float | None]) -> tuple[float, ...] | None:
    """Return the FIGURES of the proofs of one problem in one run, or None if all grades are
    missing."""
    known = [worth for worth in worths if worth is not None]
    if not known:
        return None
    return tuple(
        sum(of) / len(known)
        for of in (known, map(is_good, known), (worth > 1 - 1e-9 for worth in known))
    )


def groups_of(split: str, columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the groups of a problem, by GROUPED_BY. If `split` is set, it replaces the column
    "split"."""
    named = {str(name).strip().casefold(): cell for name, cell in columns.items()}
    cells = {name: named.get(name) for name in GROUPED_BY} | ({"split": split} if split else {})
    return {
        name: str(cell).strip()[:100]
        for name, cell in cells.items()
        if cell is not None and str(cell).strip()
    }


@dataclass(frozen=True)
class Proved:
    """The proofs of a problem in a run: members of the results JSON with fields such as worth,
    ungraded and written."""

    problem: str
    groups: Mapping[str, str]
    members: Sequence[Member]
    run: int = 0


def proved(row: Row, run: int = 0) -> list[Proved]:
    """Return the proofs of a problem's last step as one item, if its steps contain any proof after
    grading."""
    is_graded = any("worth" in member for step in row["steps"] for member in step["members"])
    groups = groups_of(row.get("split", ""), row.get("columns", {}))
    return [Proved(row["id"], groups, row["steps"][-1]["members"], run)] if is_graded else []


def metrics(proofs: Sequence[Proved], runs: int = 1, by: str = "mean") -> dict[str, Any]:
    """Return the metrics' field "proofs", or {} without proofs. `by` selects how several `runs` are
    merged."""
    if not proofs:
        return {}
    groups, worths = (
        {each.problem: each.groups for each in proofs},
        defaultdict[tuple[str, int], list[Any]](list),
    )
    for each in proofs:
        worths[each.problem, each.run] += [m.get("worth") for m in each.members]
    nothing = (np.nan,) * len(FIGURES)  # if all grades are missing
    table = np.array(
        [[values(worths[problem, run]) or nothing for run in range(runs)] for problem in groups]
    )

    def figures(table: Values) -> dict[str, Any]:
        """Compute the figures over the problems of a table (problems, runs, figures)."""
        return {name: rate(table[:, :, place], by) for place, name in enumerate(FIGURES)}

    over = {name: over_runs(table[:, :, place]) for place, name in enumerate(FIGURES)}
    members = [m for each in proofs for m in each.members]
    why = sorted(Counter(m["ungraded"] for m in members if m.get("ungraded")).items())
    delivered = [m for m in members if m.get("worth") is not None]
    right, wrong = ([m for m in delivered if is_good(m["worth"]) is side] for side in (True, False))
    known = {
        name: sorted({of[name] for of in groups.values() if name in of}) for name in GROUPED_BY
    }
    return {
        "proofs": {
            **figures(table),
            **({"runs": over} if all(over.values()) else {}),
            "proofs": len(members),
            "graded": sum(m.get("grade") is not None for m in members),
            "not_delivered": {reason: count for reason, count in why if reason in NOT_DELIVERED},
            "missing": {reason: count for reason, count in why if reason not in NOT_DELIVERED},
            "written": {RIGHT: _written(right), WRONG: _written(wrong)},
            "groups": {
                name: {
                    one: figures(table[[of.get(name) == one for of in groups.values()]])
                    for one in named
                }
                for name, named in known.items()
                if named
            },
        }
    }


def merged(values: Values, by: str) -> Values:
    """Merge the `values` (problems, runs) of each problem over its graded runs. Omit problems
    without any."""
    return np.asarray(MERGES[by](values[~np.isnan(values).all(axis=1)], axis=1))


def rate(values: Values, by: str) -> dict[str, Any]:
    """Average the `values` (problems, runs) over problems, with a 95% interval. `by` selects how
    runs are merged."""
    return stats.mean_by_problem(merged(values, by)).to_json()


def over_runs(values: Values) -> dict[str, Any] | None:
    """Compute a metric over runs from `values` (problems, runs). Return None for a single run or if
    one is ungraded."""
    if values.shape[1] == 1 or np.isnan(values).all(axis=0).any():
        return None
    of_each = np.nanmean(values, axis=0)
    return {
        "mean": float(of_each.mean()),
        "std": float(of_each.std(ddof=1)),
        "values": of_each.tolist(),
    }


def _written(members: Sequence[Member]) -> dict[str, Any]:
    """Count proofs and average their tokens by WRITTEN. An average without proofs or with an
    unknown count is None."""
    found: dict[str, Any] = {"proofs": len(members)}
    for name in WRITTEN:
        tokens: list[Any] = [(m.get("written") or {}).get(name) for m in members]
        found[name] = float(np.mean(tokens)) if tokens and None not in tokens else None
    return found
