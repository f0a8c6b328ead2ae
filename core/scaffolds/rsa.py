"""Recursive Self-Aggregation (RSA, arXiv 2509.26626).

Step 0 samples N solutions. Each of the T further steps makes N new ones: it draws K members of the last population, and
the model aggregates them into a better solution. The draw is uniform, as in the paper, or by Boltzmann weights of
verification scores.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from core.base import seeds
from core.constants import Carrying, Constants, check_subset, constant
from core.scaffolds import prompts
from core.types import Ask, Member, Message, Population, Problem, Scaffold, carried

AHEAD = 8  # steps that may begin before the oldest one is finished

Members = Sequence[asyncio.Task[Member]]  # an unfinished population
Select = Callable[[np.random.Generator, Sequence[float | None], Any], list[int]]
Score = Callable[[Problem, Population, int, Ask, Any], Awaitable[None]]
Stop = Callable[[Problem, Population, Any], bool]
Aggregate = Callable[[Problem, Sequence[str]], list[Message]]
Rank = Callable[[int], tuple[int, int]]  # of a parent: a lower rank is shown first


@dataclass(frozen=True, kw_only=True)
class SampleConstants(Constants):
    N: int = constant(8, "samples per problem", 1, 1024)


@dataclass(frozen=True, kw_only=True)
class RsaConstants(Carrying):
    N: int = constant(8, "population: solutions kept at every step", 1, 1024)
    K: int = constant(3, "subset: solutions that one aggregation sees; 1 is self-refinement", 1, 1024)
    T: int = constant(5, "aggregation steps after step 0", 0, 1000)
    ORDER: str = constant("random", "order in which aggregation shows candidates", choices=("random", "shared"))

    def check(self) -> None:
        check_subset(self.K, self.N)


@dataclass(frozen=True, kw_only=True)
class BoltzmannConstants(RsaConstants):
    TAU: float = constant(0.2, "temperature of Boltzmann selection: small is greedy, large uniform", 0.001, 1000)


def uniform(rng: np.random.Generator, scores: Sequence[float | None], config: RsaConstants) -> list[int]:
    """Return all positions in `scores`: K drawn uniformly, then the others in random order."""
    drawn = rng.choice(len(scores), size=config.K, replace=False)
    others = np.delete(np.arange(len(scores)), drawn)
    order: list[int] = np.concatenate([drawn, rng.permutation(others)]).tolist()
    return order


def boltzmann(rng: np.random.Generator, scores: Sequence[float | None], config: BoltzmannConstants) -> list[int]:
    """Draw all positions in `scores` in turn, with weights exp(score / TAU) among the remaining ones.

    Sorting score / TAU + Gumbel noise gives the same distribution (Kool et al. 2019, arXiv 1903.06059). An unknown
    score counts as the mean of the others."""
    known = [score for score in scores if score is not None]
    neutral = float(np.mean(known)) if known else 0.0
    keys = np.array([neutral if score is None else score for score in scores]) / config.TAU
    return [int(i) for i in np.argsort(-(keys + rng.gumbel(size=len(scores))))]


async def sample(problem: Problem, ask: Ask, config: SampleConstants) -> AsyncIterator[Population]:
    """Yield one population of N independent solutions: the baseline, and step 0 of RSA."""
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

    A member is requested as soon as its K parents have arrived, up to AHEAD steps early. With `score` or `stop`, each
    step waits for the whole one before.

    Args:
        problem: the problem to solve.
        ask: asks the model; called as `ask(messages, t, i)` for member i of step t.
        config: the constants.
        select: draws the order in which parents are tried, by their scores.
        score: fills in the scores of a population before `select` draws from it. The last one is not scored.
        stop: returns whether to end after a population.
        aggregate: builds the messages that show the candidates.

    Yields:
        The populations of steps 0 to T, each of N members.

    Example:
        >>> from core.types import Completion
        >>> async def ask(messages, *names):
        ...     return Completion(f"{names}", 0, answer=f"solution {names}")
        >>> async def sizes(steps):
        ...     return [len(population) async for population in steps]
        >>> asyncio.run(sizes(rsa(Problem("p", "How much is 6*7?", "42"), ask, RsaConstants(N=3, K=2, T=1))))
        [3, 3]"""

    async def member(t: int, i: int, order: Sequence[int], rank: Rank, earlier: Members) -> Member:
        texts: dict[int, str] = {}
        for j in order:  # some parents have no text to carry: they failed, or were cut off too early
            if len(texts) == config.K:
                break
            if text := carried((await earlier[j]).completion, config):
                texts[j] = text
        if not texts:
            return Member(await ask(prompts.solve(problem), t, i))
        parents = sorted(texts, key=rank)  # in the order of the prompt, which the report shows again
        return Member(await ask(aggregate(problem, [texts[j] for j in parents]), t, i), parents)

    def begin(t: int, earlier: Members, scores: Sequence[float | None]) -> Members:
        draws = [seeds.rng(config.SEED, problem.id, "select", t, i) for i in range(config.N)]
        orders = [select(rng, scores, config) if t else [] for rng in draws]
        uses = Counter(j for order in orders for j in order[: config.K])

        def rank(i: int, j: int) -> tuple[int, int]:
            # "random", as models prefer a place: a candidate that holds it in all prompts takes over the population
            # (benchmarks/fixation.py). "shared" puts often used (mostly better) parents first, for the prefix cache.
            if config.ORDER == "shared":
                return -uses[j], j
            return seeds.derive(config.SEED, problem.id, "order", t, i, j), j

        ranks = [partial(rank, i) for i in range(config.N)]
        started = {  # prompts that begin alike are sent one after the other
            i: asyncio.create_task(member(t, i, orders[i], ranks[i], earlier))
            for i in sorted(range(config.N), key=lambda i: sorted(orders[i][: config.K], key=ranks[i]))
        }
        return [started[i] for i in range(config.N)]

    ahead = 0 if score or stop else AHEAD
    steps: deque[Members] = deque()  # unfinished, the oldest first
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
            # In a thread, as comparing answers may take seconds.
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
