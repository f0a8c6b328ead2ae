"""Score a solution by the model's confidence in its own tokens (DeepConf, arXiv 2508.15260).

A token's confidence is minus the mean natural log probability of its likeliest alternatives
(core/client/logprobs.py). All tokens of the solution count, thinking included. The score is a mean
in nats, from 0 for no certainty upwards, and high if the model is sure. It needs no further
request.

A group is a window of consecutive tokens, and a group begins at every token. DeepConf takes groups
of 2,048 tokens for reasoning models, whose solutions are long. If MAX_TOKENS is below 16,384, the
default group is smaller, so that short solutions have several groups too."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from core.constants import ConstantGroup, constant
from core.types import Ask, Population, Problem

LARGEST_GROUP = 2048  # tokens, DeepConf's groups and tail
DIGITS = 6  # of a score
PARTS = 8  # by default, a group is this part of MAX_TOKENS
# Notes on a solution. llama.cpp lists no log probabilities for up to a few tokens, which are FEW.
UNLISTED = "missing log probabilities"
PARTLY = "incomplete log probabilities"
LEAST_LISTED = 0.9  # share of a solution's tokens
FEW = 8  # tokens


def mean(confidences: Sequence[float], group: int) -> float:
    """Return the mean confidence of all tokens, in nats (DeepConf's average trace confidence)."""
    return float(np.mean(confidences))


def tail(confidences: Sequence[float], group: int) -> float:
    """Return the mean confidence of the last `group` tokens, in nats (DeepConf's tail
    confidence)."""
    return float(np.mean(confidences[-group:]))


def lowest(confidences: Sequence[float], group: int) -> float:
    """Return the lowest mean confidence of any group of `group` tokens, in nats (DeepConf's lowest
    group confidence). A solution with fewer tokens is one group."""
    size = min(group, len(confidences))
    sums = np.cumsum([0.0, *confidences])
    group_sums = sums[size:] - sums[:-size]
    return float(group_sums.min() / size)


CONFIDENCES: dict[str, Callable[[Sequence[float], int], float]] = {
    "mean": mean,
    "tail": tail,
    "lowest": lowest,
}


class Confident(ConstantGroup):
    """The constants of SCORE=confidence."""

    CONFIDENCE: str = constant(
        "mean",
        "tokens whose confidence is the score: all, the last group, or the lowest group",
        choices=tuple(CONFIDENCES),
    )
    GROUP: int = constant(
        0, "tokens of a group (0: an eighth of MAX_TOKENS, at most 2,048)", 0, 1_000_000
    )


def group_size(config: Any) -> int:
    """Return the number of tokens of a group."""
    if config.GROUP:
        return int(config.GROUP)
    part = int(config.MAX_TOKENS) // PARTS
    return min(LARGEST_GROUP, max(1, part))


async def score(problem: Problem, population: Population, t: int, ask: Ask, config: Any) -> None:
    """Set `self_score` of each member with an answer. If the server listed no log probabilities of
    a member, its score stays None. There is a note on this, and on listing only a part."""
    measure = CONFIDENCES[config.CONFIDENCE]
    group = group_size(config)
    for member in population:
        if not member.completion.text:
            continue
        confidences = member.completion.confidences
        if not confidences:
            member.notes.append(UNLISTED)
            continue
        member.self_score = round(measure(confidences, group), DIGITS)
        if len(confidences) + FEW < LEAST_LISTED * member.completion.completion_tokens:
            member.notes.append(PARTLY)
