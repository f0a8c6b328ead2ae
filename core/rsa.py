"""Recursive Self-Aggregation (RSA, arXiv 2509.26626).

Step 0 samples N solutions. Each of T further steps writes N new solutions. For each new solution,
RSA draws K members of the last population, and asks the model for a better solution made from them.
The draw is uniform, as in the paper, or weighted by verification scores."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from core import prompts
from core.base import seeds
from core.constants import Carrying, Constants, constant
from core.types import Ask, Member, Message, Population, Populations, Problem, Scaffold, carried

AHEAD = 8  # number of later steps that may begin before a step is finished

Members = Sequence[asyncio.Task[Member]]  # an unfinished population
Select = Callable[[np.random.Generator, Sequence[float | None], Any], list[int]]
Score = Callable[[Problem, Population, int, Ask, Any], Awaitable[None]]
Stop = Callable[[Problem, Population, Any], bool]
Aggregate = Callable[[Problem, Sequence[str]], list[Message]]


class SampleConstants(Constants):
    N: int = constant(8, "number of samples per problem", 1, 1024)


class RsaConstants(Carrying):
    N: int = constant(8, "population: number of solutions at every step", 1, 1024)
    K: int = constant(
        3, "subset: number of solutions that one aggregation sees (1: self-refinement)", 1, 1024
    )
    T: int = constant(5, "number of aggregation steps after step 0", 0, 1000)
    ORDER: str = constant(
        "random", "order of candidates (shared: most drawn first)", choices=("random", "shared")
    )


def uniform(
    rng: np.random.Generator, scores: Sequence[float | None], config: RsaConstants
) -> list[int]:
    """Return all indices of `scores` in random order. The first K are a uniform draw without
    replacement."""
    drawn = rng.choice(len(scores), size=config.K, replace=False)
    others = np.delete(np.arange(len(scores)), drawn)
    order: list[int] = np.concatenate([drawn, rng.permutation(others)]).tolist()
    return order


async def sample(problem: Problem, ask: Ask, config: SampleConstants) -> Populations:
    """Yield one population of N independent solutions, which is also step 0 of RSA."""
    messages = prompts.solve(problem)
    completions = await asyncio.gather(*(ask(messages, 0, i) for i in range(config.N)))
    yield [Member(completion) for completion in completions]


async def rsa(
    problem: Problem,
    ask: Ask,
    config: RsaConstants,
    select: Select = uniform,
    score: Score | None = None,
    stop: Stop | None = None,
    aggregate: Aggregate = prompts.aggregate,
) -> AsyncGenerator[Population, None]:
    """Improve a population of solutions by aggregating random subsets of it.

    A member is requested as soon as its parents have arrived. Up to AHEAD later steps may begin
    before a step is finished. With `score` or `stop`, a step begins only after the previous step is
    finished.

    Args:
        problem: The problem to solve.
        ask: The function that asks the model. `ask(messages, t, i)` requests member i of step t.
        config: The scaffold's constants.
        select: Returns all indices of a population in random order. The first K members with text
            become parents.
        score: Sets the scores of each population except the last, before `select` draws from it.
        stop: Returns whether to end after a population. The last population needs no call.
        aggregate: Builds the messages that show the candidates.

    Yields:
        The populations of steps 0 to T, or up to the step at which `stop` ends the run. Each has N
        members."""

    async def member(
        t: int, i: int, order: Sequence[int], rank: Callable[[int], Any], earlier: Members
    ) -> Member:
        texts: dict[int, str] = {}
        for j in order:  # skip members without text (empty, failed, or truncated too early)
            if len(texts) == config.K:
                break
            if text := carried((await earlier[j]).completion, config):
                texts[j] = text
        if not texts:
            return Member(await ask(prompts.solve(problem), t, i))
        parents = sorted(texts, key=rank)  # the order of the prompt, which the report repeats
        return Member(await ask(aggregate(problem, [texts[j] for j in parents]), t, i), parents)

    def begin(t: int, earlier: Members, scores: Sequence[float | None]) -> Members:
        draws = [seeds.rng(config.SEED, problem.id, "select", t, i) for i in range(config.N)]
        orders = [select(rng, scores, config) if t else [] for rng in draws]
        uses = Counter(j for order in orders for j in order[: config.K])

        # the prompt of member i shows parents of low rank first
        def rank(i: int, j: int) -> tuple[int, int]:
            # Models prefer certain positions. "random" keeps a candidate from having such a
            # position in all prompts and taking over the population (benchmarks/fixation.py).
            # "shared" puts often drawn parents first, for caches.
            if config.ORDER == "shared":
                return -uses[j], j
            return seeds.derive(config.SEED, problem.id, "order", t, i, j), j

        first = [sorted(order[: config.K], key=partial(rank, i)) for i, order in enumerate(orders)]
        started = {  # send prompts with the same beginning one after the other
            i: asyncio.create_task(member(t, i, orders[i], partial(rank, i), earlier))
            for i in sorted(range(config.N), key=first.__getitem__)
        }
        return [started[i] for i in range(config.N)]

    ahead = 0 if score or stop else AHEAD
    steps: deque[Members] = deque()  # unfinished steps, the oldest first
    newest: Members = []
    scores: list[float | None] = [None] * config.N
    try:
        for t in range(config.T + 1):
            while len(steps) <= min(ahead, config.T - t):
                newest = begin(t + len(steps), newest, scores)
                steps.append(newest)
            population = list(await asyncio.gather(*steps[0]))
            if score and t < config.T:
                await score(problem, population, t, ask, config)
                scores = [each.self_score for each in population]
            yield population
            # Use a thread, because comparing answers may take seconds.
            if stop and t < config.T and await asyncio.to_thread(stop, problem, population, config):
                return
            steps.popleft()
    finally:
        left = [task for members in steps for task in members]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


RSA = Scaffold(
    rsa,
    constants=RsaConstants,
    prompts=(prompts.SOLVE, prompts.AGGREGATE, prompts.REFINE),
    max_completions=lambda config: config.N * (config.T + 1),
    texts_shown=lambda config: config.K,
)
BASELINE = Scaffold(
    sample,
    constants=SampleConstants,
    prompts=(prompts.SOLVE,),
    max_completions=lambda config: config.N,
    texts_shown=lambda config: 0,
)
