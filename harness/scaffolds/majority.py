"""Majority voting over independent samples (self-consistency, arXiv 2203.11171).

The grader counts the votes of each population. If answers tie, the score is the mean of their
grades."""

import asyncio

from core import constants, prompts
from core.constants import constant
from core.types import (
    Ask,
    Completion,
    Member,
    NamedPopulation,
    Population,
    Populations,
    Problem,
    Scaffold,
)
from harness.scaffolds.common import again


class Constants(constants.Constants):
    N: int = constant(64, "number of samples", 1, 1024)
    STAGE: int = constant(
        0, "most samples that one population adds, or 0 to double the population", 0, 1024
    )


async def majority(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Sample N solutions. Each batch doubles their number, so a budget leaves at most about half of
    them unused.

    Yields:
        The first 1, 2, 4, 8 … N samples. With STAGE = 4, these numbers are 1, 2, 4, 8, 12, 16 …
        N."""
    messages = prompts.solve(problem)
    samples: list[Completion] = []
    population: Population = []
    size = 1  # of the next population
    while len(population) < config.N:
        size = min(size, config.N)
        if size > len(samples):
            wanted = min(config.N, max(size, 2 * len(samples)))
            new = range(len(samples), wanted)
            samples += await asyncio.gather(*(ask(messages, 0, i) for i in new))
        carried_over = [again(member, i) for i, member in enumerate(population)]
        added = [Member(completion) for completion in samples[len(population) : size]]
        population = [*carried_over, *added]
        name = f"{size} samples" if problem.is_proof else f"vote of {size}"
        yield NamedPopulation(name, population)
        size += min(size, config.STAGE or size)


MAJORITY = Scaffold(
    majority,
    constants=Constants,
    prompts=(prompts.SOLVE,),
    max_completions=lambda config: config.N,
    texts_shown=lambda config: 0,
    for_proofs="best_of",
)
