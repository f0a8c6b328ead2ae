"""RSA as in QED-Nano's evaluation: merge solutions in blocks of a circle, then select one by a
pairwise knock-out.

Each of ROUNDS rounds puts the previous population in a circle in random order, and draws K distinct
offsets. Member i merges the members at the positions i + offset (modulo N). If all have text, each
is merged exactly K times."""

import asyncio

from core import prompts
from core.base import seeds
from core.constants import constant
from core.types import Ask, Member, NamedPopulation, Population, Populations, Problem, Scaffold
from harness.scaffolds.common import (
    BETTER,
    SELECT,
    Selecting,
    candidate,
    single_elimination,
    text_of,
)


class Constants(Selecting):
    N: int = constant(8, "population: number of solutions in every round", 1, 1024)
    K: int = constant(3, "block: number of solutions that one merge sees", 1, 1024)
    ROUNDS: int = constant(3, "number of rounds that merge solutions", 0, 1000)


async def qed_rsa(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Merge solutions in circles, then select one by a knock-out.

    The next candidate replaces a candidate without text. If all candidates lack text, the problem
    is solved again.

    Yields:
        The populations t = 0..ROUNDS of N members, then the winners of each knock-out round."""

    async def member(t: int, i: int, earlier: Population) -> Member:
        rng = seeds.rng(config.SEED, problem.id, "blocks", t)  # the same for all members
        circle = rng.permutation(len(earlier))
        offsets = rng.permutation(len(earlier))
        order = [int(circle[(i + offset) % config.N]) for offset in offsets]
        texts = [text_of(solution.completion, config) for solution in earlier]
        parents = [j for j in order if texts[j]][: config.K]
        messages = prompts.aggregate(problem, [texts[j] for j in parents])
        return await candidate(ask, config, messages, t, i, parents=parents)

    population: Population = []
    for t in range(config.ROUNDS + 1):
        members = await asyncio.gather(*(member(t, i, population) for i in range(config.N)))
        population = list(members)
        yield NamedPopulation(f"merges {t}" if t else "solutions", population)
    async for remaining in single_elimination(problem, ask, config, population, "select"):
        yield remaining


QED_RSA = Scaffold(
    qed_rsa,
    constants=Constants,
    prompts=(prompts.SOLVE, prompts.AGGREGATE, prompts.REFINE, SELECT, BETTER),
    max_completions=lambda config: config.N * (config.ROUNDS + 1) + config.N - 1,
    texts_shown=lambda config: max(config.K, min(config.N, 2)),
)
