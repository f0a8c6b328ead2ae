"""RSA in the variant of QED-Nano's evaluation: merges over circulant blocks, then a pairwise knock-out to one.

N solutions; ROUNDS rounds, in each of which the members of the round before stand in a circle in random order, and K
distinct offsets are drawn: member i merges those that stand at i + offset (modulo N), so that every parent is used
exactly K times; then N - 1 selections of two, neighbours in the first round, and shuffled before each other. With
N = 8, K = 3 and 3 rounds: 8 + 24 + 7 = 39 completions.
"""

import asyncio
from collections.abc import AsyncIterator

from core import prompts, seeds
from core.constants import Config
from core.scaffolds.common import doubts, knock_out
from core.types import Ask, Member, Population, Problem, carried


async def qed_rsa(problem: Problem, ask: Ask, config: Config) -> AsyncIterator[Population]:
    """Populations t = 0..ROUNDS of N members, then those that are left after each round of the knock-out.

    A candidate with nothing to carry is passed over, and one at a further offset takes its place; with none left, a
    member starts afresh. What is unreadable in the knock-out is decided by lot, and noted.
    """

    async def member(t: int, i: int, earlier: Population) -> Member:
        rng = seeds.rng(config.SEED, problem.id, "blocks", t)
        circle, offsets = rng.permutation(len(earlier)), rng.permutation(len(earlier))
        order = [int(circle[(i + offset) % config.N]) for offset in offsets]
        spoken = [j for j in order if carried(earlier[j].completion, config).strip()][: config.K]
        if not spoken:
            made = await ask(prompts.solve(problem.statement), t, i)
            return Member(made, notes=doubts(made, config))
        texts = [carried(earlier[j].completion, config) for j in spoken]
        made = await ask(prompts.aggregate(problem.statement, texts), t, i)
        return Member(made, spoken, notes=doubts(made, config))

    population: Population = []
    for t in range(config.ROUNDS + 1):
        population = list(await asyncio.gather(*(member(t, i, population) for i in range(config.N))))
        yield population
    async for left in knock_out(problem, ask, config, population, "select"):
        yield left


def generations(config: Config) -> int:
    """The most completions that a problem takes."""
    n: int = config.N
    rounds: int = config.ROUNDS
    return n * (rounds + 1) + n - 1


def shown(config: Config) -> int:
    """The most texts that one prompt shows: K to merge, two to select from."""
    return max(2, int(config.K))
