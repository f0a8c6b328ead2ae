"""Order the states of a search's frontier by log probability and energy."""

import math
from collections.abc import Sequence


def scaled(column: Sequence[float]) -> list[float]:
    """Scale numbers to mean 0 and standard deviation 1, or to zeros if all are equal up to
    rounding."""
    count = len(column)
    largest = max(map(abs, column)) or 1.0
    parts = [value / largest for value in column]  # so that squares do not overflow
    mean = math.fsum(parts) / count
    differences = [part - mean for part in parts]
    variance = math.fsum(difference**2 for difference in differences) / count
    deviation = math.sqrt(variance)
    if deviation <= 1e-12:
        return [0.0] * count
    return [difference / deviation for difference in differences]


def priorities(
    logprobs: Sequence[float], energies: Sequence[float | None], alpha: float
) -> list[float]:
    """Return the priority of each state. The highest is expanded first. If any energy is missing,
    all are ignored."""
    known = [energy for energy in energies if energy is not None]
    if len(known) < len(logprobs):
        return scaled(logprobs)
    by_state = []
    for logprob, energy in zip(scaled(logprobs), scaled(known), strict=True):
        priority = alpha * logprob - (1 - alpha) * energy
        by_state.append(priority)
    return by_state
