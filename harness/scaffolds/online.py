"""Draw samples, and stop hopeless ones while they are written (DeepConf online, arXiv 2508.15260).

The first WARM_UP samples of a problem are whole. Their lowest groups set a bar, the quantile DROP.
A later sample ends as soon as a group of its tokens is less confident than the bar. Only samples
above the bar may win. If the server does not stream, samples are whole too, so nothing is saved."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.types import UNSURE, Ask, Completion, Message
from harness.scaffolds.confidence import group_size, lowest

DIGITS = 6  # of a bar
NEAR = 1e-6  # confidences that differ by less are equal
STOPPED = "stopped sample"  # a note on a sample that fell below the bar


@dataclass(frozen=True)
class Drawn:
    """The samples of a problem. Only samples with an index in `above` may win."""

    samples: list[Completion]
    above: list[int]


async def draw(messages: list[Message], solve: Ask, config: Any) -> Drawn:
    """Request N samples with confidences, named (0, i). `config` has N, WARM_UP, DROP and the
    constants of a group."""
    group = group_size(config)
    first = [solve(messages, 0, i) for i in range(config.WARM_UP)]
    samples = list(await asyncio.gather(*first))
    least = _bar(samples, group, config.DROP)
    rest = range(config.WARM_UP, config.N)
    later = [solve(messages, 0, i, least_confidence=least, group=group) for i in rest]
    samples += _with_prompts(await asyncio.gather(*later), samples[0])
    above = []
    for i, sample in enumerate(samples):
        confidences = sample.confidences
        if confidences and lowest(confidences, group) >= least - NEAR:
            above.append(i)
    return Drawn(samples, above)


def _bar(samples: Sequence[Completion], group: int, drop: float) -> float:
    """Return the quantile `drop` of the samples' lowest groups, in nats. Without confidences, it is
    0, which stops nothing."""
    groups = [lowest(sample.confidences, group) for sample in samples if sample.confidences]
    if not groups:
        return 0.0
    return round(float(np.quantile(groups, drop)), DIGITS)


def _with_prompts(samples: Sequence[Completion], first: Completion) -> list[Completion]:
    """Return the samples. A stopped one, of which the server has counted no prompt, gets the prompt
    tokens of the `first` sample, which has the same messages."""
    counted = []
    for sample in samples:
        if sample.finish_reason == UNSURE:
            sample = replace(sample, prompt_tokens=first.prompt_tokens)
        counted.append(sample)
    return counted
