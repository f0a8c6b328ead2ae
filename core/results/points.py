"""Compute the figures of graded proofs: mean points as a share of 7, and the shares of good and full proofs.

A proof's worth is its points / 7, or 0 if the proof is truncated or empty. Figures skip missing grades. The value of a
problem in a run is the mean over its proofs. Several runs of a problem are merged into their mean, best or worst value.
Means and 95% intervals are over problems.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.base import stats
from core.results.model import Row
from core.types import GOOD, MAX_POINTS

FIGURES = ("points", "good", "full")  # mean points / 7, share of proofs with GOOD points or more, share with all 7
GROUPED_BY = ("split", "level", "category")  # columns of a problem set
RIGHT, WRONG = "right", "wrong"
CUT_OFF, EMPTY = "cut off", "empty"  # the name in files, for which reports show "truncated"
NOT_DELIVERED = (CUT_OFF, EMPTY)  # such proofs are not graded, and count as 0 points
WRITTEN = ("thinking", "answer")  # kinds of tokens of a proof

MERGES: dict[str, Callable[..., Any]] = {"mean": np.nanmean, "max": np.nanmax, "min": np.nanmin}  # over graded runs

Member = Mapping[str, Any]
Values = NDArray[np.float64]


def is_good(worth: float) -> bool:
    """Return whether a proof has GOOD points or more, which means that it is right except for minor errors."""
    return worth * MAX_POINTS > GOOD - 1e-9  # means of gradings have rounding errors


def values(worths: Iterable[float | None]) -> tuple[float, ...] | None:
    """Return the FIGURES of the proofs of one problem in one run, or None if all grades are missing."""
    known = [worth for worth in worths if worth is not None]
    if not known:
        return None
    return tuple(sum(of) / len(known) for of in (known, map(is_good, known), (worth > 1 - 1e-9 for worth in known)))


def groups_of(split: str, columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the groups of a problem, by GROUPED_BY. If `split` is set, it replaces the column "split"."""
    named = {str(name).strip().casefold(): cell for name, cell in columns.items()}
    cells = {name: named.get(name) for name in GROUPED_BY} | ({"split": split} if split else {})
    return {name: str(cell).strip()[:100] for name, cell in cells.items() if cell is not None and str(cell).strip()}


class Worths:
    """The figures of the last populations of all added problems. `by` selects how several `runs` are merged."""

    def __init__(self, runs: int = 1, by: str = "mean") -> None:
        self._runs, self._by = runs, by
        self._worths: defaultdict[str, dict[int, list[float | None]]] = defaultdict(dict)  # by problem and run
        self._groups: dict[str, dict[str, str]] = {}
        self._not_delivered, self._missing = Counter[str](), Counter[str]()  # by reason
        self._written: dict[str, list[list[float | None]]] = {RIGHT: [], WRONG: []}
        self._graded = 0

    def add(self, problem: str, groups: Mapping[str, str], members: Sequence[Member], run: int = 0) -> None:
        """Add a problem's proofs: members of the results JSON with the fields worth, grade, ungraded and written."""
        self._groups[problem] = dict(groups)
        self._worths[problem].setdefault(run, []).extend(m.get("worth") for m in members)
        for m in members:
            self._graded += m.get("grade") is not None
            if why := m.get("ungraded"):
                (self._not_delivered if why in NOT_DELIVERED else self._missing)[why] += 1
            if (worth := m.get("worth")) is not None:
                tokens = m.get("written") or {}
                self._written[RIGHT if is_good(worth) else WRONG].append([tokens.get(name) for name in WRITTEN])

    def add_row(self, row: Row, run: int = 0) -> None:
        """Add the proofs of a problem's last step, if its steps contain any proof after grading."""
        if any("worth" in member for step in row["steps"] for member in step["members"]):
            groups = groups_of(row.get("split", ""), row.get("columns", {}))
            self.add(row["id"], groups, row["steps"][-1]["members"], run)

    def metrics(self) -> dict[str, Any]:
        """Return the metrics' field "proofs", or {} if no proofs were added."""
        if not self._worths:
            return {}
        table = np.full((len(self._worths), self._runs, len(FIGURES)), np.nan)  # nan if all grades are missing
        for place, runs in enumerate(self._worths.values()):
            for run, worths in runs.items():
                table[place, run] = values(worths) or np.nan
        groups: dict[str, defaultdict[str, list[int]]] = {name: defaultdict(list) for name in GROUPED_BY}
        for place, problem in enumerate(self._worths):
            for name, group in self._groups[problem].items():
                groups[name][group].append(place)
        over = {name: over_runs(table[:, :, place]) for place, name in enumerate(FIGURES)}
        return {
            "proofs": {
                **self._over(table),
                **({"runs": over} if all(over.values()) else {}),
                "proofs": sum(len(of) for runs in self._worths.values() for of in runs.values()),
                "graded": self._graded,
                "not_delivered": dict(sorted(self._not_delivered.items())),
                "missing": dict(sorted(self._missing.items())),
                "written": {kind: _written(tokens) for kind, tokens in self._written.items()},
                "groups": {
                    name: {group: self._over(table[of]) for group, of in sorted(found.items())}
                    for name, found in groups.items()
                    if found
                },
            }
        }

    def _over(self, table: Values) -> dict[str, Any]:
        """Compute the figures over the problems of a `table` (problems, runs, figures)."""
        return {name: rate(table[:, :, place], self._by) for place, name in enumerate(FIGURES)}


def merged(values: Values, by: str) -> Values:
    """Merge the `values` (problems, runs) of each problem over its graded runs. Omit problems without any."""
    return np.asarray(MERGES[by](values[~np.isnan(values).all(axis=1)], axis=1))


def rate(values: Values, by: str) -> dict[str, Any]:
    """Average the `values` (problems, runs) over problems, with a 95% interval. `by` selects how runs are merged."""
    return stats.mean_by_problem(merged(values, by)).to_json()


def over_runs(values: Values) -> dict[str, Any] | None:
    """Compute a metric over runs from `values` (problems, runs). Return None for a single run or if one is ungraded."""
    if values.shape[1] == 1 or np.isnan(values).all(axis=0).any():
        return None
    of_each = np.nanmean(values, axis=0)
    return {"mean": float(of_each.mean()), "std": float(of_each.std(ddof=1)), "values": of_each.tolist()}


def _written(tokens: Sequence[list[float | None]]) -> dict[str, Any]:
    """Count proofs and average their tokens by WRITTEN. An average without proofs or with an unknown count is None."""
    columns = zip(*tokens, strict=True) if tokens else ((None,) for _ in WRITTEN)
    means = {name: None if None in of else float(np.mean(of)) for name, of in zip(WRITTEN, columns, strict=True)}
    return {"proofs": len(tokens)} | means
