"""What graded proofs come to: mean points / 7, and the shares of good and of full ones.

One definition for any number of runs, and for proofs from anywhere. A proof is worth its points / 7. What its solver
did not deliver (cut off, empty) is worth 0; a missing grade is in no figure. A problem has the mean of its proofs in a
run, and of several runs their mean (or their best, or their worst). Means and 95% intervals are over problems.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from core.base import stats
from core.types import GOOD, MAX_POINTS

FIGURES = ("points", "good", "full")  # mean points / 7, share of proofs with GOOD points or more, share with all 7
GROUPED_BY = ("split", "level", "category")  # columns of a problem set
RIGHT, WRONG = "right", "wrong"
CUT_OFF, EMPTY = "cut off", "empty"
NOT_DELIVERED = (CUT_OFF, EMPTY)  # the solver's own doing: such a proof has no grade, and counts as 0 points in means
WRITTEN = ("thinking", "answer")  # tokens of a proof

Member = Mapping[str, Any]


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
    """The figures of last populations, from every one that was added; of several `runs`, merged by one of
    core/results/metrics.py's MERGES."""

    def __init__(self, runs: int = 1, by: Callable[..., Any] = np.mean) -> None:
        self._runs, self._by = runs, by
        self._worths: defaultdict[str, defaultdict[int, list[float | None]]] = defaultdict(lambda: defaultdict(list))
        self._groups: dict[str, dict[str, str]] = {}
        self._why: Counter[tuple[bool, str]] = Counter()  # whether it is missing, and why
        self._written: defaultdict[str, list[tuple[float | None, ...]]] = defaultdict(list)  # of right and wrong ones
        self._graded = 0

    def add(self, problem: str, groups: Mapping[str, str], members: Iterable[Member], run: int = 0) -> None:
        """Proofs of a `problem`, as results have them: `worth`, `grade`, `ungraded`, and the tokens `written`."""
        self._groups[problem] = dict(groups)
        for m in members:
            worth = m.get("worth")
            self._worths[problem][run].append(worth)
            self._graded += m.get("grade") is not None
            if why := m.get("ungraded"):
                self._why[why not in NOT_DELIVERED, why] += 1
            if worth is not None:
                told = m.get("written") or {}
                self._written[RIGHT if is_good(worth) else WRONG].append(tuple(told.get(name) for name in WRITTEN))

    def add_row(self, row: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], run: int = 0) -> None:
        """A problem as it stands in results, with its `steps`; nothing where no proof of it is graded."""
        if any("worth" in member for step in steps for member in step["members"]):
            groups = groups_of(row.get("split", ""), row.get("columns", {}))
            self.add(row["id"], groups, steps[-1]["members"], run)

    def metrics(self) -> dict[str, Any]:
        """The field of the results' metrics; none where nothing was added."""
        if not self._worths:
            return {}
        by_run = {
            problem: {run: found for run, of in runs.items() if (found := values(of)) is not None}
            for problem, runs in self._worths.items()
        }
        groups: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for problem, told in self._groups.items():
            for name, group in told.items():
                groups[name][group].append(problem)
        missing, lacking = (
            {why: count for (is_missing, why), count in sorted(self._why.items()) if is_missing is wanted}
            for wanted in (True, False)
        )
        return {
            "proofs": {
                **self._over(by_run, by_run),
                **self._over_runs(by_run),
                "proofs": sum(len(of) for runs in self._worths.values() for of in runs.values()),
                "graded": self._graded,
                "not_delivered": lacking,
                "missing": missing,
                "written": {kind: _written(self._written[kind]) for kind in (RIGHT, WRONG)},
                "groups": {
                    name: {group: self._over(by_run, of) for group, of in sorted(groups[name].items())}
                    for name in GROUPED_BY
                    if name in groups
                },
            }
        }

    def _over(self, by_run: Mapping[str, Mapping[int, tuple[float, ...]]], problems: Iterable[str]) -> dict[str, Any]:
        """The figures over `problems`, each the merged values of those of its runs that have any."""
        found = [self._by(np.array(list(runs.values())), axis=0) for each in problems if (runs := by_run[each])]
        return {
            name: stats.mean_by_problem([float(of[place]) for of in found]).to_json()
            for place, name in enumerate(FIGURES)
        }

    def _over_runs(self, by_run: Mapping[str, Mapping[int, tuple[float, ...]]]) -> dict[str, Any]:
        """How the figures vary from run to run, where there are several, and each has any grade."""
        each = [[runs[run] for runs in by_run.values() if run in runs] for run in range(self._runs)]
        if self._runs == 1 or not all(each):
            return {}
        means = np.array([np.mean(of, axis=0) for of in each])
        return {
            "runs": {
                name: {
                    "mean": float(means[:, place].mean()),
                    "std": float(means[:, place].std(ddof=1)),
                    "values": means[:, place].tolist(),
                }
                for place, name in enumerate(FIGURES)
            }
        }


def _written(tokens: Sequence[tuple[float | None, ...]]) -> dict[str, Any]:
    """How many proofs there are, and their mean tokens by WRITTEN; None where those of any are not known."""
    of_each = zip(*tokens, strict=True) if tokens else ([None] for _ in WRITTEN)
    return {"proofs": len(tokens)} | {
        name: None if None in of else float(np.mean(of)) for name, of in zip(WRITTEN, map(list, of_each), strict=True)
    }
