"""Sequential self-refinement: solve, then check and improve the own solution, ROUNDS times.

It is RSA's control with K = 1 (arXiv 2509.26626), in chains: member i of a round refines member i of the round before.
N chains run side by side and never see each other; what they say is voted on. With N = 1 and 7 rounds: 8 completions.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from core.constants import Carrying, constant
from core.scaffolds import prompts
from core.scaffolds.common import latest_with_text, notes_on
from core.types import Ask, Member, Population, Problem, Scaffold, Stage, carried


@dataclass(frozen=True, kw_only=True)
class Constants(Carrying):
    N: int = constant(1, "chains side by side, voted on", 1, 1024)
    ROUNDS: int = constant(7, "refinements after the first solution", 0, 1000)


async def refinement(problem: Problem, ask: Ask, config: Constants) -> AsyncIterator[Population]:
    """Populations t = 0..ROUNDS of N members, one of each chain. A refinement without an answer leaves its chain where
    it was; a chain that has nothing to refine yet starts afresh."""

    async def first(i: int) -> Member:
        made = await ask(prompts.solve(problem), 0, i)
        return Member(made, notes=notes_on(made, config))

    async def refined(t: int, i: int, before: Member) -> Member:
        text = carried(before.completion, config)
        messages = prompts.aggregate(problem, [text]) if text.strip() else prompts.solve(problem)
        made = await ask(messages, t, i)
        return latest_with_text(before, Member(made, [i] if text.strip() else [], notes=notes_on(made, config)), i)

    population = list(await asyncio.gather(*(first(i) for i in range(config.N))))
    yield Stage("solutions", population)
    for t in range(1, config.ROUNDS + 1):
        population = list(await asyncio.gather(*(refined(t, i, before) for i, before in enumerate(population))))
        yield Stage(f"refinement {t}", population)


REFINEMENT = Scaffold(
    refinement,
    constants=Constants,
    prompts=(prompts.SOLVE, prompts.REFINE),
    max_completions=lambda config: config.N * (config.ROUNDS + 1),
    texts_shown=lambda config: 1,
)
