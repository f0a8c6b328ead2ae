"""Extrapolate a run's vote to twice its tokens. benchmarks/doubling.py checks it on runs without
their last steps."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from core.base.stats import Estimate, mean_by_problem, of_sums
from harness.results.model import ProblemResult

Array = NDArray[np.float64]
FEWEST = 4  # steps with different tokens
FEWEST_PROBLEMS = 10


@dataclass(frozen=True)
class Doubling:
    """The mean `tokens` of a problem so far, the vote `now`, and the vote `then`, at twice the
    tokens."""

    tokens: float
    now: Estimate
    then: Estimate


def of_run(problems: Sequence[ProblemResult]) -> Doubling | None:
    """Return the extrapolation of a run or of merged runs, or None without a curve, enough steps or
    problems."""
    found = curve(problems)
    return extrapolate(*found) if found else None


def curve(problems: Sequence[ProblemResult]) -> tuple[Array, Array] | None:
    """Return the mean tokens so far (steps) and the votes (problems, steps) of a run. Return None
    if a grade or a count of tokens is missing. A problem that has ended keeps its vote."""
    most = max((len(problem.steps) for problem in problems), default=0)
    counts, votes = list[list[float]](), defaultdict[str, list[list[float]]](list)
    for problem in problems:
        spent = [step.completion_tokens for step in problem.steps]
        scores = [step.majority_correct for step in problem.steps]
        if not spent or None in spent or None in scores:
            return None
        counts.append(list(accumulate([each or 0 for each in spent] + [0] * (most - len(spent)))))
        known = [score or 0.0 for score in scores]
        votes[problem.id].append(known + known[-1:] * (most - len(known)))
    if not counts:
        return None
    return np.mean(counts, axis=0), np.array([np.mean(of, axis=0) for of in votes.values()])


def extrapolate(tokens: Array, scores: Array) -> Doubling | None:
    """Return the extrapolation of `scores` (problems, steps) at mean `tokens`. A line through the
    last two doublings gives the gain of the next one, if accuracy does not level off. The estimate
    is half of it. The interval contains the interval of no gain, and the whole gain with its error
    over problems (Zou and Donner 2008 for the sum)."""
    x = np.log2(np.maximum(tokens, 1))
    used = x >= x[-1] - 2
    if len(scores) < FEWEST_PROBLEMS or len(set(x)) < FEWEST or len(set(x[used])) < FEWEST - 1:
        return None
    away = x[used] - x[used].mean()
    slopes = scores[:, used] @ (away / (away**2).sum())
    gain = of_sums(
        np.stack([slopes, np.ones(len(slopes))], axis=1).tolist(),
        lambda sums: sums[..., 0] / sums[..., 1],
    )
    now = mean_by_problem(scores[:, -1])
    value = min(1.0, max(0.0, now.value + gain.value / 2))
    low = value - math.hypot(now.value - now.low, gain.value / 2 - min(0.0, gain.low))
    high = value + math.hypot(now.high - now.value, max(0.0, gain.high) - gain.value / 2)
    return Doubling(
        float(tokens[-1]),
        now,
        Estimate(value, max(0.0, min(low, now.low)), min(1.0, max(high, now.high)), now.n),
    )
