"""What graded proofs come to: mean points / 7, and the shares of good and of full ones.

One definition for any number of runs, and for proofs from anywhere. A proof is worth its points / 7. What its solver
did not deliver (cut off, empty) is worth 0; a missing grade is in no figure. A problem has the mean of its proofs in a
run, and of several runs their mean (or their best, or their worst). Means and 95% intervals are over problems.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.base import stats
from core.types import GOOD, MAX_POINTS

FIGURES = ("points", "good", "full")  # mean points / 7, share of proofs with GOOD points or more, share with all 7
GROUPED_BY = ("split", "level", "category")  # columns of a problem set
RIGHT, WRONG = "right", "wrong"
CUT_OFF, EMPTY = "cut off", "empty"
NOT_DELIVERED = (CUT_OFF, EMPTY)  # the solver's own doing: such a proof has no grade, and counts as 0 points in means
WRITTEN = ("thinking", "answer")  # tokens of a proof

# Of the runs of a problem, those that nobody has graded left out.
MERGES: dict[str, Callable[..., Any]] = {"mean": np.nanmean, "max": np.nanmax, "min": np.nanmin}

Member = Mapping[str, Any]
Values = NDArray[np.float64]


def is_good(worth: float) -> bool:
    """Whether a proof is right but for slips: GOOD points or more. A mean of gradings may miss a whole number by a
    rounding."""
    return worth * MAX_POINTS > GOOD - 1e-9


def values(worths: Iterable[float | None]) -> tuple[float, ...] | None:
    """The FIGURES of the proofs of one problem in one run; None where every grade is missing."""
    known = [worth for worth in worths if worth is not None]
    if not known:
        return None
    return tuple(sum(of) / len(known) for of in (known, map(is_good, known), (worth > 1 - 1e-9 for worth in known)))


def groups_of(split: str, columns: Mapping[str, Any]) -> dict[str, str]:
    """The groups that a problem is in, by GROUPED_BY; a part of the set that was told stands above its column."""
    named = {str(name).strip().casefold(): cell for name, cell in columns.items()}
    told = {name: named.get(name) for name in GROUPED_BY} | ({"split": split} if split else {})
    return {name: str(cell).strip()[:100] for name, cell in told.items() if cell is not None and str(cell).strip()}


class Worths:
    """The figures of last populations, from every one that was added; of several `runs`, merged `by` one of MERGES."""

    def __init__(self, runs: int = 1, by: str = "mean") -> None:
        self._runs, self._by = runs, MERGES[by]
        self._worths: defaultdict[str, dict[int, list[float | None]]] = defaultdict(dict)  # by problem and run
        self._groups: dict[str, dict[str, str]] = {}
        self._why: Counter[tuple[bool, str]] = Counter()  # whether it is missing, and why
        self._written: dict[str, list[list[float | None]]] = {RIGHT: [], WRONG: []}
        self._graded = 0

    def add(self, problem: str, groups: Mapping[str, str], members: Sequence[Member], run: int = 0) -> None:
        """Add proofs of a `problem`, as results have them: `worth`, `grade`, `ungraded`, and the tokens `written`."""
        self._groups[problem] = dict(groups)
        self._worths[problem].setdefault(run, []).extend(m.get("worth") for m in members)
        for m in members:
            self._graded += m.get("grade") is not None
            if why := m.get("ungraded"):
                self._why[why not in NOT_DELIVERED, why] += 1
            if (worth := m.get("worth")) is not None:
                told = m.get("written") or {}
                self._written[RIGHT if is_good(worth) else WRONG].append([told.get(name) for name in WRITTEN])

    def add_row(self, row: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], run: int = 0) -> None:
        """Add a problem of the results with its `steps`; nothing if no proof of it is graded."""
        if any("worth" in member for step in steps for member in step["members"]):
            groups = groups_of(row.get("split", ""), row.get("columns", {}))
            self.add(row["id"], groups, steps[-1]["members"], run)

    def metrics(self) -> dict[str, Any]:
        """Return the field of the results' metrics; none if nothing was added."""
        if not self._worths:
            return {}
        table = np.full((len(self._worths), self._runs, len(FIGURES)), np.nan)  # nan: every grade is missing
        for place, runs in enumerate(self._worths.values()):
            for run, worths in runs.items():
                table[place, run] = values(worths) or np.nan
        groups: dict[str, defaultdict[str, list[int]]] = {name: defaultdict(list) for name in GROUPED_BY}
        for place, problem in enumerate(self._worths):
            for name, group in self._groups[problem].items():
                groups[name][group].append(place)
        missing, lacking = (
            {why: count for (is_missing, why), count in sorted(self._why.items()) if is_missing is wanted}
            for wanted in (True, False)
        )
        over = {name: over_runs(table[:, :, place]) for place, name in enumerate(FIGURES)}
        return {
            "proofs": {
                **self._over(table),
                **({"runs": over} if all(over.values()) else {}),
                "proofs": sum(len(of) for runs in self._worths.values() for of in runs.values()),
                "graded": self._graded,
                "not_delivered": lacking,
                "missing": missing,
                "written": {kind: _written(tokens) for kind, tokens in self._written.items()},
                "groups": {
                    name: {group: self._over(table[of]) for group, of in sorted(found.items())}
                    for name, found in groups.items()
                    if found
                },
            }
        }

    def _over(self, table: Values) -> dict[str, Any]:
        """Compute the figures over the problems of a `table`, each the merged value of its runs that have any grade."""
        known = table[~np.isnan(table).all(axis=(1, 2))]
        merged = self._by(known, axis=1)
        return {name: stats.mean_by_problem(merged[:, place]).to_json() for place, name in enumerate(FIGURES)}


def over_runs(values: Values) -> dict[str, Any] | None:
    """Compute a metric over runs from its `values`, a row for each problem: of each run, their mean, and their standard
    deviation (of a sample: n - 1). None of a single run, or if nobody has graded one of them."""
    if values.shape[1] == 1 or np.isnan(values).all(axis=0).any():
        return None
    of_each = np.nanmean(values, axis=0)
    return {"mean": float(of_each.mean()), "std": float(of_each.std(ddof=1)), "values": of_each.tolist()}


def _written(tokens: Sequence[list[float | None]]) -> dict[str, Any]:
    """Count proofs, and average their tokens by WRITTEN; None if those of any are not known."""
    columns = zip(*tokens, strict=True) if tokens else ((None,) for _ in WRITTEN)
    means = {name: None if None in of else float(np.mean(of)) for name, of in zip(WRITTEN, columns, strict=True)}
    return {"proofs": len(tokens)} | means
