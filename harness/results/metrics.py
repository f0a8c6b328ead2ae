"""Compute the metrics of a run during the run, from counts for each step and a few numbers for each
population.

The module also merges runs of one experiment. A problem's value is the mean, best or worst of its
runs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from statistics import fmean
from typing import Any

import numpy as np

from core.base import stats
from core.base.prices import Prices
from core.eval import pass_at_k
from core.grading.doubts import NO_REFERENCE
from core.types import Member
from harness.results import points
from harness.results.model import COUNTS, SELDOM, Row
from harness.results.points import Proved, Values, merged, over_runs, rate
from harness.results.unstated import Unstated

PASS_AT = range(1, 9)
TOKENS = ("prompt", "cached", "completion")
SILENT = ("empty", "filtered", "only_thinks", "only_calls")  # kinds of replies without an answer

_pass_at_k = cache(pass_at_k)


@dataclass(frozen=True)
class _Sum:
    """A sum of tokens or dollars. `unknown` counts the completions that the sum lacks."""

    known: float = 0
    unknown: int = 0

    @classmethod
    def of(cls, amounts: Iterable[float | None]) -> "_Sum":
        known = [*amounts]
        return cls(sum(amount or 0 for amount in known), known.count(None))

    def __add__(self, other: "_Sum") -> "_Sum":
        return _Sum(self.known + other.known, self.unknown + other.unknown)

    @property
    def shown(self) -> float | None:
        """The sum of the known values, or None if it is 0 and some values are unknown."""
        return None if self.unknown and not self.known else self.known

    @property
    def dollars(self) -> float | None:
        return None if self.shown is None else round(self.known, 12)  # for any order of the sum


@dataclass(frozen=True)
class _AfterWaits:
    """A population after at most k waits: mean accuracy, members with k waits or more (k > 0), and
    tokens so far."""

    mean: float
    waited: int
    tokens: _Sum


@dataclass(frozen=True)
class _Population:
    """A population. `mean` and `majority` are nan without grades. `after` has an item for each
    number of waits."""

    size: int
    correct: int
    mean: float
    majority: float
    after: list[_AfterWaits]

    @classmethod
    def of(cls, record: dict[str, Any]) -> "_Population":
        members = record["members"]
        mean, majority = np.array(
            [record["mean_accuracy"], record["majority_correct"]], dtype=np.float64
        )
        readings = [[*m.get("before_waits", []), m] for m in members]
        most, after = max(map(len, readings)), []
        for waits in range(most):
            # a member with fewer waits counts with its last reading
            now = [each[: waits + 1][-1] for each in readings]
            # The tokens of a carried-over member were counted in its first population.
            paid = [
                reading["completion_tokens"]
                for reading, m in zip(now, members, strict=True)
                if "again" not in m
            ]
            value = (
                mean
                if most == 1
                else np.mean([reading.get("grade", reading["correct"]) for reading in now])
            )
            after.append(
                _AfterWaits(value, sum(len(each) > waits > 0 for each in readings), _Sum.of(paid))
            )
        return cls(len(members), sum(m["correct"] is True for m in members), mean, majority, after)

    def after_waits(self, waits: int) -> _AfterWaits:
        return self.after[: waits + 1][-1]


class _Step:
    """The counts of one step, over all problems."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.sums: defaultdict[str, _Sum] = defaultdict(_Sum)  # tokens and cost
        self.seconds = 0.0
        self.stages: Counter[str] = Counter()  # the scaffold's names of the step


class RunMetrics:
    """The metrics of the results JSON. `by` selects how several complete `runs` are merged. Costs
    need `prices`."""

    def __init__(
        self, problems: int, runs: int = 1, by: str = "mean", prices: Prices | None = None
    ) -> None:
        self._runs, self._by, self._prices = runs, by, prices
        # by number, with one item for each run of a problem
        self.finished = [False] * problems * runs
        self._populations: list[list[_Population]] = [[] for _ in self.finished]
        self._steps: list[_Step] = []
        self._errors: Counter[str] = Counter()
        reasons = ("notes", "not_forced", "not_waited", "context")
        self._why: dict[str, Counter[str]] = {name: Counter() for name in reasons}
        # The readable scores of right candidates and of wrong candidates, by problem number.
        self._scores: dict[bool, defaultdict[int, list[float]]] = {
            side: defaultdict(list) for side in (True, False)
        }
        self._verification: Counter[str] = Counter()
        self.unstated, self.proofs = Unstated(), list[Proved]()
        self._no_reference: set[int] = set()  # problems whose reference answer can't be read
        # verifications, reports, selections, summaries, plans
        self._side_calls: Counter[str] = Counter()

    def add(self, problem: int, record: dict[str, Any], population: Sequence[Member] = ()) -> bool:
        """Add a problem's next record (harness/results/records.py). `problem` is the problem's number
        * runs + the run. Return whether the run has to warn now that replies state no answer
        (harness/results/unstated.py, which may quote a reply of the `population`)."""
        if record["step"] == len(self._steps):
            self._steps.append(_Step())
        step = self._steps[record["step"]]
        self._populations[problem].append(_Population.of(record))
        if "stage" in record:
            step.stages[record["stage"]] += 1
        members = record["members"]
        if any(m["doubt"] == NO_REFERENCE for m in members):
            self._no_reference.add(problem // self._runs)
        side_calls = [call for m in members for call in m.get("checks", [])]
        costs = [*members, *side_calls]
        step.seconds += sum(cost["seconds"] for cost in costs)
        counted = [
            (cost["prompt_tokens"], cost["cached_tokens"], cost["completion_tokens"])
            for cost in costs
        ]
        sums: dict[str, Iterable[float | None]] = {
            "completion_tokens": (m["completion_tokens"] for m in members),
            "verification_tokens": (call["completion_tokens"] for call in side_calls),
            **dict(zip(TOKENS, zip(*counted, strict=True), strict=True)),
            "cost": map(self._prices.dollars, counted) if self._prices else (),
        }
        for name, amounts in sums.items():
            step.sums[name] += _Sum.of(amounts)
        step.counts.update(
            {name: sum(map(counts, members)) for name, counts in (COUNTS | SELDOM).items()}
        )
        step.counts.update(completions=len(members), problems=1)
        step.counts.update({name: record.get(name, 0) for name in ("identical", "undecided_pairs")})
        self._errors.update(cost["error"] for cost in costs if "error" in cost)
        self._why["notes"].update(note for m in members for note in m.get("notes", []))
        for name in ("not_forced", "not_waited"):
            self._why[name].update(
                cost[name] for cost in costs if name in cost and "again" not in cost
            )
        self._why["context"].update(str(m["context"]) for m in members if "context" in m)
        self._side_calls.update(
            completions=len(side_calls),
            truncated=sum(call["finish_reason"] == "length" for call in side_calls),
            failed=sum("error" in call for call in side_calls),
            **{name: n for name in SILENT if (n := sum(name in call for call in side_calls))},
        )
        self._add_scores(problem, [m for m in members if "score" in m], "partial" in record)
        return self.unstated.add(record, population)

    def _add_scores(self, problem: int, scored: Sequence[dict[str, Any]], is_partial: bool) -> None:
        if not scored:
            return
        verdicts = [verdict for m in scored for verdict in m.get("verdicts", [])]
        readable = [m for m in scored if m["score"] is not None]
        for m in readable:
            if m["correct"] is not None and not is_partial:
                self._scores[m["correct"]][problem].append(m["score"])
        self._verification.update(
            verdicts=len(verdicts), unreadable=verdicts.count(None), selections=1
        )
        # all scores are equal
        self._verification["uniform_selections"] += len({m["score"] for m in readable}) <= 1

    @property
    def progress(self) -> str:
        """The mean accuracy of the newest populations, like "61.5% at t=1-2, n=30", or "" if none
        is graded."""
        newest = [(len(of) - 1, of[-1].mean) for of in self._populations if of]
        means = [mean for _, mean in newest if not np.isnan(mean)]
        if not means:
            return ""
        reached = [step for step, _ in newest]
        steps = "-".join(map(str, sorted({min(reached), max(reached)})))
        return f"{np.mean(means):.1%} at t={steps}, n={len(newest)}"

    @property
    def is_all_failed(self) -> bool:
        """True if there are completions, and all members have failed."""
        completions, failed = (
            sum(step.counts[name] for step in self._steps) for name in ("completions", "failed")
        )
        return 0 < completions == failed

    @property
    def commonest_error(self) -> str | None:
        """The commonest error. Ties are broken alphabetically, so that the order of arrival has no
        effect."""
        return min(self._errors, key=lambda error: (-self._errors[error], error), default=None)

    def metrics(self, seconds: float) -> dict[str, Any]:
        """Return the figures of each step and of the whole run, over all problems."""
        steps = [self._step_metrics(t) for t in range(len(self._steps))]
        names = ("mean_accuracy", "majority_accuracy", "pass_at_k", "runs")
        found: dict[str, Any] = {
            "steps": steps,
            "final": {name: steps[-1][name] for name in names if name in steps[-1]}
            if steps
            else {},
            "tokens": {kind: self._sum(kind).shown for kind in TOKENS},
            "seconds": round(seconds, 1),
        }
        if self._prices:
            found["cost"] = self._sum("cost").dollars
        if self._no_reference:
            found["no_reference"] = sorted(number + 1 for number in self._no_reference)
        found |= self.unstated.metrics() | points.metrics(self.proofs, self._runs, self._by)
        found |= {
            name: dict(sorted(counts.items())) for name, counts in self._why.items() if counts
        }
        if self._side_calls["completions"]:
            found["checks"] = dict(self._side_calls)
        if self._verification:
            right, wrong = (list(chain.from_iterable(of.values())) for of in self._scores.values())
            counts = {"auc": stats.auc(right, wrong), "right": len(right), "wrong": len(wrong)}
            within = stats.mean_by_problem(self._aucs()).to_json()
            found["verification"] = dict(self._verification) | counts | {"auc_within": within}
        return found

    def _sum(self, name: str) -> _Sum:
        return sum((step.sums[name] for step in self._steps), _Sum())

    def _aucs(self) -> list[float]:
        """Compute each problem's mean AUC over the runs with both right and wrong candidates. Omit
        other problems."""
        right, wrong = self._scores[True], self._scores[False]
        found = defaultdict[int, list[float]](list)
        for number in sorted(right.keys() & wrong.keys()):
            found[number // self._runs].append(stats.auc(right[number], wrong[number]) or 0.0)
        return [fmean(of) for of in found.values()]

    def _step_metrics(self, t: int) -> dict[str, Any]:
        """Compute the figures of step `t`. Accuracies include problems that ended earlier, by their
        last population."""
        step, here = self._steps[t], [of[t] for of in self._populations if len(of) > t]
        both = zip(self._populations, self.finished, strict=True)
        populations = [of[: t + 1][-1] for of, ended in both if len(of) > t or (of and ended)]

        def table(value: Callable[[_Population], float]) -> Values:
            """Return a row for each problem and a column for each run. Several runs contain the
            same problems."""
            return np.array([value(each) for each in populations]).reshape(-1, self._runs)

        def mean_after(waits: int) -> Values:
            return table(lambda population: population.after_waits(waits).mean)

        def passing(k: int) -> Values:
            return table(lambda population: _pass_at_k(population.size, population.correct, k))

        def after(waits: int) -> dict[str, Any]:
            gain = stats.paired(*(merged(mean_after(each), self._by) for each in (0, waits)))
            change = {"value": gain.difference, "low": gain.low, "high": gain.high, "n": gain.n}
            return {
                "waits": waits,
                "waited": sum(each.after[waits].waited for each in here if len(each.after) > waits),
                "mean_accuracy": rate(mean_after(waits), self._by),
                **({"gain": change} if waits else {}),
                "completion_tokens": sum(
                    (each.after_waits(waits).tokens for each in here), _Sum()
                ).shown,
            }

        accuracies = {
            "mean_accuracy": table(lambda p: p.mean),
            "majority_accuracy": table(lambda p: p.majority),
        }
        is_graded = not np.isnan(accuracies["mean_accuracy"]).any()
        ranks = [k for k in PASS_AT if k <= min(each.size for each in populations) and is_graded]
        runs = {name: over_runs(values) for name, values in accuracies.items()}
        most = max(len(each.after) for each in here)
        return {
            "step": t,
            **({"stage": _commonest(step.stages)} if step.stages else {}),
            **{name: rate(values, self._by) for name, values in accuracies.items()},
            **({"runs": runs} if all(runs.values()) else {}),
            "pass_at_k": {str(k): rate(passing(k), self._by) for k in ranks},
            **{
                name: step.sums[name].shown for name in ("completion_tokens", "verification_tokens")
            },
            **({"cost": step.sums["cost"].dollars} if self._prices else {}),
            "generation_seconds": round(step.seconds, 1),
            **{
                name: step.counts[name]
                for name in ("completions", "problems", *COUNTS, "identical")
            },
            **{
                name: step.counts[name]
                for name in (*SELDOM, "undecided_pairs")
                if step.counts[name]
            },
            **({"uncounted": uncounted} if (uncounted := step.sums["completion"].unknown) else {}),
            **({"waits": [after(waits) for waits in range(most)]} if most > 1 else {}),
        }


def of_rows(
    runs: Sequence[Sequence[Row]], by: str = "mean", prices: Prices | None = None
) -> RunMetrics:
    """Compute the figures of stored problems. `runs` has the rows of each run."""
    figures = RunMetrics(len(runs[0]), len(runs), by, prices)
    for run, rows in enumerate(runs):
        for place, row in enumerate(rows):
            number = place * len(runs) + run
            figures.finished[number] = row["finished"]
            for step in row["steps"]:
                figures.add(number, step)
            figures.proofs += points.proved(row, run)
    return figures


def _commonest(stages: Counter[str]) -> str:
    """Name a step by its commonest stage, and add "…" if there are other stages."""
    name = min(stages, key=lambda stage: (-stages[stage], stage))
    return f"{name} …" if len(stages) > 1 else name
