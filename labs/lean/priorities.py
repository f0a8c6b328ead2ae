"""Order the states of a search's frontier by log probability and energy."""

import math
from collections.abc import Sequence


def scaled(column: Sequence[float]) -> list[float]:
    """Scale numbers to mean 0 and standard deviation 1, or to zeros if all are equal up to
    rounding."""
    largest = max(map(abs, column)) or 1.0
    parts = [value / largest for value in column]  # so that squares do not overflow
    mean = math.fsum(parts) / len(parts)
    deviation = math.sqrt(math.fsum((part - mean) ** 2 for part in parts) / len(parts))
    return [(part - mean) / deviation if deviation > 1e-12 else 0.0 for part in parts]


def priorities(
    logprobs: Sequence[float], energies: Sequence[float | None], alpha: float
) -> list[float]:
    """Return the priority of each state. The highest is expanded first. If any energy is missing,
    all are ignored."""
    known = [energy for energy in energies if energy is not None]
    if len(known) < len(logprobs):
        return scaled(logprobs)
    pairs = zip(scaled(logprobs), scaled(known), strict=True)
    return [alpha * logprob + (1 - alpha) * -energy for logprob, energy in pairs]
