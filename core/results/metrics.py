"""The figures of a run while it grows: counts by step, and four numbers for each population.

Several runs of one experiment are merged here too: the runs of a problem come to one value, their mean, best or worst,
and a metric of each run gives what it varies from run to run.

A run may hold a million completions. What was graded goes to the results file by way of the disk (spool.py);
what the metrics need of it stays here, 24 bytes a population.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.base import stats
from core.base.prices import PICO, Prices
from core.grading.answers import NO_REFERENCE
from core.results.model import COUNTS, SELDOM
from core.results.wait_metrics import Waits

PASS_AT = range(1, 9)
TOKENS = ("prompt", "cached", "completion")
SILENT = ("empty", "filtered")  # replies that say nothing, or not all
# Of the runs of a problem, those that nobody has graded left out.
MERGES: dict[str, Callable[..., Any]] = {"mean": np.nanmean, "max": np.nanmax, "min": np.nanmin}


class _Step:
    """One step of all problems. `size`: members of each problem's population, 0 where it is not there (yet); `mean` and
    `majority`: nan where nobody has graded it."""

    def __init__(self, problems: int) -> None:
        self.size = np.zeros(problems, np.int32)
        self.correct = np.zeros(problems, np.int32)
        self.mean = np.zeros(problems)
        self.majority = np.zeros(problems)
        self.counts: Counter[str] = Counter()
        self.uncounted: Counter[str] = Counter()  # completions of unknown length: of solutions, of side calls
        self.seconds = 0.0
        self.stages: Counter[str] = Counter()  # what scaffolds call it
        self.cost = _Sum()
        self.waits: Waits | None = None  # once any member has waited

    def set(self, problem: int, record: dict[str, Any]) -> None:
        members = record["members"]
        self.size[problem] = len(members)
        self.correct[problem] = sum(m["correct"] is True for m in members)
        self.mean[problem] = np.nan if record["mean_accuracy"] is None else record["mean_accuracy"]
        self.majority[problem] = np.nan if record["majority_correct"] is None else record["majority_correct"]
        if self.waits is None and any("before_waits" in m for m in members):
            self.waits = Waits(self.mean, self.counts["completion_tokens"], self.uncounted["completion_tokens"])
        if self.waits is not None:
            self.waits.add(problem, members)

    def after(self, waits: int) -> NDArray[np.float64]:
        """Mean accuracy after so many waits, by problem."""
        return self.mean if self.waits is None else self.waits.mean(waits)


@dataclass
class _Sum:
    """What completions cost, in picodollars; those of unknown length are not in it."""

    known: int = 0
    unknown: int = 0  # how many these are

    def add(self, cost: int | None) -> None:
        self.known += cost or 0
        self.unknown += cost is None

    @property
    def shown(self) -> dict[str, float | None]:
        """As a field of results: dollars, None where nothing of it is known."""
        return {"cost": None if self.unknown and not self.known else self.known / PICO}


class RunMetrics:
    """The metrics of the results JSON, from every graded population that was added: of one run, or of several whole
    ones, merged `by` one of MERGES. A problem of several `runs` has as many numbers, one after the other. With
    `prices`, they tell what completions cost."""

    def __init__(self, problems: int, runs: int = 1, by: str = "mean", prices: Prices | None = None) -> None:
        self._runs, self._by, self._problems = runs, MERGES[by], problems * runs
        self._prices, self._cost = prices, _Sum()
        self._costs = [_Sum() for _ in range(self._problems)] if prices else []
        self.finished = np.zeros(self._problems, bool)
        self._steps: list[_Step] = []
        self._newest = _Step(self._problems)  # the last population of each problem, whatever its step
        self._tokens: Counter[str] = Counter()
        self._uncounted: Counter[str] = Counter()  # completions whose tokens of this kind nobody has counted
        self._errors: Counter[str] = Counter()
        self._not_forced: Counter[str] = Counter()  # by why
        self._not_waited: Counter[str] = Counter()
        # Readable scores of right and of wrong candidates, by problem and run.
        self._scores: dict[bool, defaultdict[int, array[float]]] = {
            side: defaultdict(lambda: array("d")) for side in (True, False)
        }
        self._verification: Counter[str] = Counter()
        self._notes: Counter[str] = Counter()
        self._no_reference: set[int] = set()  # problems whose reference can't be read
        self._side_calls: Counter[str] = Counter()  # verifications, reports, selections, summaries, plans

    def add(self, problem: int, record: dict[str, Any]) -> None:
        """The record of the next step of problem number `problem` (core/results/records.py)."""
        if record["step"] == len(self._steps):
            self._steps.append(_Step(self._problems))
        step = self._steps[record["step"]]
        step.set(problem, record)
        if "stage" in record:
            step.stages[record["stage"]] += 1
        self._newest.set(problem, record)
        members = record["members"]
        if any(m["doubt"] == NO_REFERENCE for m in members):
            self._no_reference.add(problem // self._runs)
        side_calls = [call for m in members for call in m.get("checks", [])]
        costs = [*members, *side_calls]
        step.seconds += sum(cost["seconds"] for cost in costs)
        for kind, of in (("completion_tokens", members), ("verification_tokens", side_calls)):
            step.counts[kind] += sum(cost["completion_tokens"] or 0 for cost in of)
            step.uncounted[kind] += sum(cost["completion_tokens"] is None for cost in of)
        step.counts.update({name: sum(map(counts, members)) for name, counts in (COUNTS | SELDOM).items()})
        step.counts.update(identical=record["identical"], undecided_pairs=record.get("undecided_pairs", 0))
        for kind in TOKENS:
            self._tokens[kind] += sum(cost[f"{kind}_tokens"] or 0 for cost in costs)
            self._uncounted[kind] += sum(cost[f"{kind}_tokens"] is None for cost in costs)
        if self._prices:
            for each in costs:
                cost = self._prices.cost((each["prompt_tokens"], each["cached_tokens"], each["completion_tokens"]))
                for total in (self._cost, step.cost, self._costs[problem]):
                    total.add(cost)
        self._notes.update(note for m in members for note in m.get("notes", []))
        self._errors.update(cost["error"] for cost in costs if "error" in cost)
        self._not_forced.update(c["not_forced"] for c in costs if "not_forced" in c and "again" not in c)
        self._not_waited.update(c["not_waited"] for c in costs if "not_waited" in c and "again" not in c)
        self._side_calls.update(
            completions=len(side_calls),
            truncated=sum(call["finish_reason"] == "length" for call in side_calls),
            failed=sum("error" in call for call in side_calls),
            **{name: n for name in SILENT if (n := sum(name in call for call in side_calls))},
        )
        self._add_scores(problem, [m for m in members if "verdicts" in m])

    def _add_scores(self, problem: int, scored: Sequence[dict[str, Any]]) -> None:
        if not scored:
            return
        verdicts = [verdict for m in scored for verdict in m["verdicts"]]
        readable = [m for m in scored if m["score"] is not None]
        for m in readable:
            if m["correct"] is not None:
                self._scores[m["correct"]][problem].append(m["score"])
        self._verification.update(
            verdicts=len(verdicts),
            unreadable=sum(verdict is None for verdict in verdicts),
            selections=1,
            # Boltzmann selection had nothing to go by: all known scores are equal.
            uniform_selections=int(len({m["score"] for m in readable}) <= 1),
        )

    @property
    def accuracy(self) -> float | None:
        """Mean accuracy of the newest population of every problem that has one, and is graded."""
        there = (self._newest.size > 0) & ~np.isnan(self._newest.mean)
        return float(self._newest.mean[there].mean()) if there.any() else None

    @property
    def reached(self) -> list[int]:
        """The first and the last of the steps that problems are at by now; nothing before any has a population."""
        sizes = np.array([step.size > 0 for step in self._steps])
        newest = sizes.sum(axis=0)[sizes.any(axis=0)] - 1 if len(sizes) else np.array([], dtype=int)
        return sorted({int(newest.min()), int(newest.max())}) if newest.size else []

    @property
    def is_all_failed(self) -> bool:
        """Whether there are completions, and no member is one."""
        members = sum(int(step.size.sum()) for step in self._steps)
        return 0 < members == sum(step.counts["failed"] for step in self._steps)

    @property
    def begun(self) -> int:
        """Problems that have a population."""
        return int((self._newest.size > 0).sum())

    def costs(self) -> list[dict[str, float | None]]:
        """The field that says what a problem has cost, for each; empty without prices."""
        return [total.shown for total in self._costs] or [{} for _ in range(self._problems)]

    @property
    def commonest_error(self) -> str | None:
        """Of several, the first by alphabet: whichever came first, the results are the same."""
        return min(self._errors, key=lambda error: (-self._errors[error], error), default=None)

    def metrics(self, seconds: float) -> dict[str, Any]:
        """The figures over all problems, step by step. Only problems that reached a step count in it; one that finished
        before (a scaffold may stop early) counts with its last population, at no cost."""
        steps = [self._step_metrics(t) for t in range(len(self._steps))]
        names = (
            "mean_accuracy",
            "majority_accuracy",
            "pass_at_k",
            *(["runs"] if steps and "runs" in steps[-1] else []),
        )
        found: dict[str, Any] = {
            "steps": steps,
            "final": {name: steps[-1][name] for name in names} if steps else {},
            "tokens": {kind: _known(self._tokens[kind], self._uncounted[kind]) for kind in TOKENS},
            "seconds": round(seconds, 1),
        }
        if self._prices:
            found |= self._cost.shown
        if self._no_reference:
            found["no_reference"] = sorted(number + 1 for number in self._no_reference)
        if self._notes:
            found["notes"] = {note: self._notes[note] for note in sorted(self._notes)}
        if self._not_forced:
            found["not_forced"] = dict(sorted(self._not_forced.items()))
        if self._not_waited:
            found["not_waited"] = dict(sorted(self._not_waited.items()))
        if self._side_calls["completions"]:
            found["checks"] = dict(self._side_calls)
        if self._verification:
            right, wrong = (array("d", chain.from_iterable(of.values())) for of in self._scores.values())
            counts: dict[str, Any] = {name: self._verification[name] for name in ("verdicts", "unreadable")}
            counts |= {"auc": stats.auc(right, wrong), "right": len(right), "wrong": len(wrong)}
            counts["auc_within"] = stats.mean_by_problem(self._aucs()).to_json()
            counts |= {name: self._verification[name] for name in ("selections", "uniform_selections")}
            found["verification"] = counts
        return found

    def _aucs(self) -> list[list[float]]:
        """Compute the AUC within each problem that has right and wrong candidates, one for each of its runs."""
        right, wrong = self._scores[True], self._scores[False]
        found = defaultdict[int, list[float]](list)
        for number in sorted(right.keys() & wrong.keys()):
            found[number // self._runs].append(stats.auc(right[number], wrong[number]) or 0.0)
        return list(found.values())

    def _step_metrics(self, t: int) -> dict[str, Any]:
        """Accuracy over the populations of step `t` and those that ended before it, costs and counts over the first.
        What nobody has graded is in no accuracy."""
        step, newest = self._steps[t], self._newest
        here = step.size > 0
        ended = ~here & self.finished & (newest.size > 0)
        size, correct, mean, majority = (
            np.concatenate([now[here], last[ended]])
            for now, last in (
                (step.size, newest.size),
                (step.correct, newest.correct),
                (step.mean, newest.mean),
                (step.majority, newest.majority),
            )
        )
        numbers = np.concatenate([np.flatnonzero(here), np.flatnonzero(ended)])

        def by_problem(values: NDArray[np.float64]) -> NDArray[np.float64]:
            if self._runs == 1:
                return values
            table = self._by_run(values, numbers)
            is_known = ~np.isnan(table).all(axis=1)  # a run whose grade is missing leaves a problem to the others
            together = np.full(len(table), np.nan)
            together[is_known] = self._by(table[is_known], axis=1)
            return together

        def rate(values: NDArray[np.float64]) -> dict[str, float | int | None]:
            known = by_problem(values)
            return stats.mean_by_problem(known[~np.isnan(known)]).to_json()

        def after(waits: int) -> NDArray[np.float64]:
            return np.concatenate([step.after(waits)[here], newest.after(waits)[ended]])

        accuracies = {"mean_accuracy": mean, "majority_accuracy": majority}
        return {
            "step": t,
            **({"stage": _commonest(step.stages)} if step.stages else {}),
            **{name: rate(values) for name, values in accuracies.items()},
            **(
                {"runs": {name: _over_runs(self._by_run(values, numbers)) for name, values in accuracies.items()}}
                if self._runs > 1 and not np.isnan(self._by_run(mean, numbers)).all(axis=0).any()
                else {}
            ),
            "pass_at_k": {
                str(k): rate(passed)
                for k, passed in _pass_at(size, correct, (k for k in PASS_AT if k <= size.min()))
                if not np.isnan(mean).any()
            },
            **{
                kind: _known(step.counts[kind], step.uncounted[kind])
                for kind in ("completion_tokens", "verification_tokens")
            },
            **(step.cost.shown if self._prices else {}),
            "generation_seconds": round(step.seconds, 1),
            "completions": int(step.size.sum()),
            "problems": int(here.sum()),
            **{name: step.counts[name] for name in (*COUNTS, "identical")},
            **{name: step.counts[name] for name in (*SELDOM, "undecided_pairs") if step.counts[name]},
            **({"uncounted": step.uncounted.total()} if step.uncounted.total() else {}),
            **(
                {
                    "waits": [
                        {
                            "waits": waits,
                            "waited": step.waits.waited[waits],
                            "mean_accuracy": rate(after(waits)),
                            **({"gain": _gain(by_problem(after(0)), by_problem(after(waits)))} if waits else {}),
                            "completion_tokens": _known(step.waits.tokens[waits], step.waits.uncounted[waits]),
                        }
                        for waits in range(len(step.waits))
                    ]
                }
                if step.waits
                else {}
            ),
        }

    def _by_run(self, values: NDArray[np.float64], numbers: NDArray[np.intp]) -> NDArray[np.float64]:
        """The values of these numbers, a row for each problem and a column for each run; whole runs have them all."""
        ordered = np.empty(self._problems)
        ordered[numbers] = values
        return ordered.reshape(-1, self._runs)


def _gain(before: NDArray[np.float64], after: NDArray[np.float64]) -> dict[str, float | int]:
    """What `after` has more than `before`, problem by problem."""
    found = stats.paired(before, after)
    return {"value": found.difference, "low": found.low, "high": found.high, "n": found.n}


def _over_runs(values: NDArray[np.float64]) -> dict[str, Any]:
    """A metric over runs: that of each, their mean, and their standard deviation (of a sample: n - 1)."""
    of_each = np.nanmean(values, axis=0)
    return {"mean": float(of_each.mean()), "std": float(of_each.std(ddof=1)), "values": of_each.tolist()}


def _commonest(stages: Counter[str]) -> str:
    """What a step is called: where problems go different ways, what most call it, and that others do not."""
    name = min(stages, key=lambda stage: (-stages[stage], stage))
    return f"{name} …" if len(stages) > 1 else name


def _pass_at(
    size: NDArray[np.int32], correct: NDArray[np.int32], ks: Iterable[int]
) -> Iterable[tuple[int, NDArray[np.float64]]]:
    """(k, pass@k of each problem), computed once for all problems that are alike."""
    kinds, which = np.unique(np.stack([size, correct]), axis=1, return_inverse=True)
    for k in ks:
        yield k, np.array([stats.pass_at_k(int(n), int(c), k) for n, c in kinds.T])[which.ravel()]


def _known(tokens: int, uncounted: int) -> int | None:
    """A sum of tokens, without those of `uncounted` completions; None where nothing else is in it."""
    return None if uncounted and not tokens else tokens
