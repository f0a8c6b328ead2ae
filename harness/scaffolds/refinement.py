"""Sequential self-refinement: solve, then check and improve the solution ROUNDS times.

The RSA paper (arXiv 2509.26626) uses RSA with K = 1 as a control. Here, member i of a round refines
member i of the previous round, not a random one. The majority of the N chains' answers wins. N = 1
takes 8 completions by default."""

import asyncio

from core import prompts
from core.constants import Carrying, constant
from core.types import Ask, Member, NamedPopulation, Populations, Problem, Scaffold
from harness.scaffolds.common import candidate, latest_with_text, text_of


class Constants(Carrying):
    N: int = constant(
        1, "number of independent chains (the majority of their answers wins)", 1, 1024
    )
    ROUNDS: int = constant(7, "number of refinements of the first solution", 0, 1000)


async def refinement(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Refine N solutions ROUNDS times each.

    If a refinement has no answer, its chain keeps the previous answer. A chain without text solves
    the problem again.

    Yields:
        The populations t = 0..ROUNDS, with one member for each of the N chains."""

    async def refined(t: int, i: int, before: Member) -> Member:
        text = text_of(before.completion, config)
        messages = prompts.aggregate(problem, [text] if text else [])
        new = await candidate(ask, config, messages, t, i, parents=[i] if text else [])
        return latest_with_text(before, new, i)

    first = (candidate(ask, config, prompts.solve(problem), 0, i) for i in range(config.N))
    population = list(await asyncio.gather(*first))
    yield NamedPopulation("solutions", population)
    for t in range(1, config.ROUNDS + 1):
        refining = (refined(t, i, before) for i, before in enumerate(population))
        population = list(await asyncio.gather(*refining))
        yield NamedPopulation(f"refinement {t}", population)


REFINEMENT = Scaffold(
    refinement,
    constants=Constants,
    prompts=(prompts.SOLVE, prompts.REFINE),
    max_completions=lambda config: config.N * (config.ROUNDS + 1),
    texts_shown=lambda config: 1,
)
