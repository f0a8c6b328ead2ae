"""Compute the metrics of a run during the run, from counts for each step and a few numbers for each
population.

The module also merges runs of one experiment. A problem's value is the mean, best or worst of its
runs.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from core.base.prices import Prices
from core.grading.doubts import NO_REFERENCE
from core.types import SCORER, Member
from harness.results import proof_points
from harness.results.missing_answers import MissingAnswers
from harness.results.model import Row
from harness.results.populations import MemberRecord, Population, Sum
from harness.results.proof_points import Proved
from harness.results.scorer import ScorerCosts
from harness.results.step_figures import TOKENS, Accuracies, StepCounts, commonest
from harness.results.verification import SelfScores

SILENT = ("empty", "filtered", "only_thinks", "only_calls")  # kinds of replies without an answer
REASONS = ("notes", "not_forced", "not_waited", "context")  # fields that count by reason
FINAL = ("mean_accuracy", "majority_accuracy", "pass_at_k", "runs")  # fields of the last step


class RunMetrics:
    """The metrics of the results JSON. `by` selects how several complete `runs` are merged. Costs
    need `prices`."""

    def __init__(
        self,
        problems: int,
        runs: int = 1,
        by: str = "mean",
        prices: Prices | None = None,
        scorer_prices: Prices | None = None,
    ) -> None:
        self._runs = runs
        self._by = by
        # by the field "by" of a completion's record
        self._prices = {"": prices, SCORER: scorer_prices}
        self._has_prices = prices is not None or scorer_prices is not None
        self._scorer = ScorerCosts(scorer_prices)
        # by number, with one item for each run of a problem
        self.finished = [False] * problems * runs
        self._populations: list[list[Population]] = [[] for _ in self.finished]
        self._steps: list[StepCounts] = []
        self._errors: Counter[str] = Counter()
        self._reasons: dict[str, Counter[str]] = {name: Counter() for name in REASONS}
        self._self_scores = SelfScores(runs)
        self.missing_answers = MissingAnswers()
        self.proofs: list[Proved] = []
        self._no_reference: set[int] = set()  # problems whose reference answer can't be read
        # verifications, reports, selections, summaries, plans
        self._side_calls: Counter[str] = Counter()

    def add(self, problem: int, record: Row, population: Sequence[Member] = ()) -> bool:
        """Add a problem's next record (harness/results/records.py). `problem` is the problem's
        number * runs + the run. Return whether the run has to warn now that replies state no answer
        (harness/results/missing_answers.py, which may quote a reply of the `population`)."""
        members = record["members"]
        side_calls = []
        for member in members:
            side_calls += member.get("side_calls", [])
        t = record["step"]
        if t == len(self._steps):
            self._steps.append(StepCounts())
        self._steps[t].add(record, side_calls, self._prices)
        self._scorer.add([*members, *side_calls])
        self._populations[problem].append(Population.from_record(record))
        if any(member["doubt"] == NO_REFERENCE for member in members):
            self._no_reference.add(problem // self._runs)
        self._add_reasons(members, side_calls)
        self._add_side_calls(side_calls)
        self._self_scores.add(problem, record)
        return self.missing_answers.add(record, population)

    def _add_reasons(
        self, members: Sequence[MemberRecord], side_calls: Sequence[MemberRecord]
    ) -> None:
        for member in members:
            self._reasons["notes"].update(member.get("notes", []))
            if "context" in member:
                self._reasons["context"][str(member["context"])] += 1
        for call in [*members, *side_calls]:
            if "error" in call:
                self._errors[call["error"]] += 1
            if "carried_over" in call:  # counted in its first population
                continue
            for name in ("not_forced", "not_waited"):
                if name in call:
                    self._reasons[name][call[name]] += 1

    def _add_side_calls(self, side_calls: Sequence[MemberRecord]) -> None:
        counts = self._side_calls
        counts["completions"] += len(side_calls)
        counts["truncated"] += sum(call["finish_reason"] == "length" for call in side_calls)
        counts["failed"] += sum("error" in call for call in side_calls)
        for name in SILENT:
            if silent := sum(name in call for call in side_calls):
                counts[name] += silent

    @property
    def progress(self) -> str:
        """The mean accuracy (or score) of finished problems after their first and last step: "t=0
        22%, t=5 97%, 10 of 20 problems". It is "" if none is graded."""
        ended = []
        for populations, has_ended in zip(self._populations, self.finished, strict=True):
            if has_ended and populations and not math.isnan(populations[-1].mean):
                ended.append(populations)
        if not ended:
            return ""
        last = max(len(populations) for populations in ended) - 1
        texts = [f"t=0 {_percent([populations[0].mean for populations in ended])}"]
        if last:
            texts.append(f"t={last} {_percent([populations[-1].mean for populations in ended])}")
        return f"{', '.join(texts)}, {len(ended)} of {len(self.finished)} problems"

    @property
    def has_scores(self) -> bool:
        """True if some grades of answers are between 0 and 1."""
        return any(step.counts["partly_right"] for step in self._steps)

    @property
    def is_all_failed(self) -> bool:
        """True if there are completions, and all members have failed."""
        completions = sum(step.counts["completions"] for step in self._steps)
        failed = sum(step.counts["failed"] for step in self._steps)
        return 0 < completions == failed

    @property
    def commonest_error(self) -> str | None:
        """The commonest error, or None without errors."""
        return commonest(self._errors)

    def metrics(self, seconds: float) -> dict[str, Any]:
        """Return the figures of each step and of the whole run, over all problems."""
        steps = [self._step_metrics(t) for t in range(len(self._steps))]
        last = steps[-1] if steps else {}
        figures: dict[str, Any] = {
            "steps": steps,
            "final": {name: last[name] for name in FINAL if name in last},
            "tokens": {kind: self._sum(kind).value for kind in TOKENS},
            "seconds": round(seconds, 1),
        }
        if self._has_prices:
            figures["cost"] = self._sum("cost").dollars
        if self._no_reference:
            figures["no_reference"] = sorted(number + 1 for number in self._no_reference)
        figures |= self._scorer.metrics()
        figures |= self.missing_answers.metrics()
        figures |= proof_points.metrics(self.proofs, self._runs, self._by)
        for name, counts in self._reasons.items():
            if counts:
                figures[name] = dict(sorted(counts.items()))
        if self._side_calls["completions"]:
            figures["side_calls"] = dict(self._side_calls)
        return figures | self._self_scores.figures()

    def _sum(self, name: str) -> Sum:
        total = Sum()
        for step in self._steps:
            total += step.sums[name]
        return total

    def _step_metrics(self, t: int) -> dict[str, Any]:
        """Compute the figures of step `t`. Accuracies include problems that ended earlier, by their
        last population."""
        step = self._steps[t]
        accuracies = Accuracies(self._latest(t), self._runs, self._by)
        figures: dict[str, Any] = {"step": t}
        if step.stages:
            figures["stage"] = step.stage
        figures |= accuracies.fields()
        figures |= step.fields(self._has_prices)
        reached = [populations[t] for populations in self._populations if len(populations) > t]
        most_waits = max(len(population.after) for population in reached) - 1
        if most_waits:
            waits = range(most_waits + 1)
            figures["waits"] = [accuracies.after_waits(number, reached) for number in waits]
        return figures

    def _latest(self, t: int) -> list[Population]:
        """Return the populations of step `t`, and the last one of each problem that ended
        earlier."""
        latest = []
        for populations, has_ended in zip(self._populations, self.finished, strict=True):
            if len(populations) > t:
                latest.append(populations[t])
            elif populations and has_ended:
                latest.append(populations[-1])
        return latest


def _percent(shares: Sequence[float]) -> str:
    return f"{np.mean(shares):.0%}"


def of_rows(
    runs: Sequence[Sequence[Row]],
    by: str = "mean",
    prices: Prices | None = None,
    scorer_prices: Prices | None = None,
) -> RunMetrics:
    """Compute the figures of stored problems. `runs` has the rows of each run."""
    count = len(runs)
    figures = RunMetrics(len(runs[0]), count, by, prices, scorer_prices)
    for run, rows in enumerate(runs):
        for index, row in enumerate(rows):
            number = index * count + run
            figures.finished[number] = row["finished"]
            for step in row["steps"]:
                figures.add(number, step)
            figures.proofs += proof_points.proved(row, run)
    return figures
