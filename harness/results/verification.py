"""Summarize the self-scores of candidates: AUC, unreadable verdicts, uniform selections."""

from collections import Counter, defaultdict
from itertools import chain
from statistics import fmean
from typing import Any

from core.base import stats
from harness.results.model import Row


class SelfScores:
    """The self-scores of a run, or of several `runs` of the same problems. A problem's number is
    its index * runs + the run: with 2 runs, the first problem has the numbers 0 and 1."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._counts: Counter[str] = Counter()
        # by problem number
        self._right: defaultdict[int, list[float]] = defaultdict(list)
        self._wrong: defaultdict[int, list[float]] = defaultdict(list)

    def add(self, problem: int, step: Row) -> None:
        """Add the scored members of a problem's `step`. Only a grade of 1 is right. Scores of
        unfinished or ungraded solutions enter no AUC."""
        scored = [member for member in step["members"] if "self_score" in member]
        if not scored:
            return
        readable = [member for member in scored if member["self_score"] is not None]
        for member in readable:
            if member["correct"] is None or "partial" in step:
                continue
            scores = self._right if member["correct"] else self._wrong
            scores[problem].append(member["self_score"])
        verdicts = []
        for member in scored:
            verdicts += member.get("verdicts", [])
        scores_seen = {member["self_score"] for member in readable}
        self._counts["verdicts"] += len(verdicts)
        self._counts["unreadable"] += verdicts.count(None)
        self._counts["selections"] += 1
        self._counts["uniform_selections"] += int(len(scores_seen) <= 1)

    def figures(self) -> dict[str, Any]:
        """Return the metrics' field "verification", or {} without scores."""
        if not self._counts:
            return {}
        right = list(chain.from_iterable(self._right.values()))
        wrong = list(chain.from_iterable(self._wrong.values()))
        aucs = {
            "auc": stats.auc(right, wrong),
            "right": len(right),
            "wrong": len(wrong),
            "auc_within": stats.mean_by_problem(self._aucs()).to_json(),
        }
        return {"verification": dict(self._counts) | aucs}

    def _aucs(self) -> list[float]:
        """Compute each problem's mean AUC over the runs with both right and wrong candidates. Omit
        other problems."""
        by_problem = defaultdict[int, list[float]](list)
        for number in sorted(self._right.keys() & self._wrong.keys()):
            auc = stats.auc(self._right[number], self._wrong[number])
            by_problem[number // self._runs].append(auc or 0.0)
        return [fmean(aucs) for aucs in by_problem.values()]
