"""Compute the AUC over the candidates of several problems, with an interval over problems."""

from collections.abc import Sequence

import numpy as np

from core.base.stats import Array, Estimate, Values, auc, interval_of_effective_number


def pooled_auc(right: Sequence[Values], wrong: Sequence[Values]) -> Estimate | None:
    """Return the AUC over all candidates of all problems, with its 95% interval.

    An AUC is the chance that a right candidate scores above a wrong one. The two may belong to
    different problems, so a score that only tells easy problems from hard ones has a high AUC.

    The effect of each problem on the AUC (Obuchowski 1997, Biometrics 53) takes the place of a
    problem's mean in `interval_of_effective_number`. In simulations with 10 to 100 problems, the
    interval contained the true value in 93% to 100% of the draws.

    Args:
        right: for each problem, the scores of its right candidates.
        wrong: for each problem, the scores of its wrong candidates.

    Returns:
        The estimate over all problems, or None without right or without wrong candidates."""
    all_right = _joined(right)
    all_wrong = _joined(wrong)
    value = auc(all_right, all_wrong)
    if value is None:
        return None
    n = len(right)
    if n < 2:
        return Estimate(value, 0.0, 1.0, n)
    effects = _effects(right, all_wrong, value)
    effects -= _effects(wrong, all_right, 1 - value)
    low, high = interval_of_effective_number(value + n * effects)
    low = max(0.0, low)
    high = min(1.0, high)
    return Estimate(value, low, high, n)


def _joined(scores: Sequence[Values]) -> Array:
    joined: list[float] = []
    for of_problem in scores:
        joined.extend(of_problem)
    return np.array(joined, dtype=np.float64)


def _effects(scores: Sequence[Values], others: Array, value: float) -> Array:
    """Return the effect of each problem's candidates on `value`, the chance that any candidate of
    this kind scores above one of the `others`."""
    count = sum(map(len, scores))
    effects = np.zeros(len(scores))
    for i, of_problem in enumerate(scores):
        area = auc(of_problem, others)
        if area is not None:
            effects[i] = len(of_problem) / count * (area - value)
    return effects
