"""Majority voting over independent samples (self-consistency, Wang et al. 2022, arXiv 2203.11171).

Its populations are the first 1, 2, 4, 8 … N samples, so that one run gives the curve of accuracy against samples. The
results count the votes, and ties score their mean. N completions.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from core import constants
from core.constants import constant
from core.scaffolds import prompts
from core.types import Ask, Completion, Member, Population, Problem, Scaffold, Stage


@dataclass(frozen=True, kw_only=True)
class Constants(constants.Constants):
    N: int = constant(64, "samples", 1, 1024)
    STAGE: int = constant(0, "most samples that a population adds to the one before; 0 doubles", 0, 1024)


async def majority(problem: Problem, ask: Ask, config: Constants) -> AsyncIterator[Population]:
    """Sample N solutions in doublings, so that a budget that stops it has paid for few unused samples.

    Yields:
        The first 1, 2, 4, 8 … N samples. With STAGE = 4: 1, 2, 4, 8, 12, 16 … N, though still sampled in doublings."""
    messages = prompts.solve(problem)
    samples: list[Completion] = []
    there, size = 0, 1  # members of the last population and of the next
    while there < config.N:
        size = min(size, config.N)
        if size > len(samples):
            new = range(len(samples), min(max(size, 2 * len(samples)), config.N))
            samples += await asyncio.gather(*(ask(messages, 0, i) for i in new))
        population: Population = [Member(each, [i], carried_over=True) for i, each in enumerate(samples[:there])]
        population += [Member(each) for each in samples[there:size]]
        yield Stage(f"{size} samples" if problem.is_proof else f"vote of {size}", population)
        there, size = size, size + min(size, (config.STAGE or size))


MAJORITY = Scaffold(
    majority,
    constants=Constants,
    prompts=(prompts.SOLVE,),
    max_completions=lambda config: config.N,
    texts_shown=lambda config: 0,
    for_proofs="best_of",
)
