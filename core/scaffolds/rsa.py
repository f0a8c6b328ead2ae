"""Recursive Self-Aggregation (RSA, arXiv 2509.26626), pure: it knows no server, file or clock.

Step 0 draws a population of N solutions. Each of the T steps after it makes N new ones: for each, K members of the
last population are drawn, and the model is asked to aggregate them into a better solution. Which K is the only
choice, made by a selection function: uniformly (the paper's), or by Boltzmann weights of verification scores.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from core.base import seeds
from core.constants import Carrying, Constants, check_subset, constant
from core.scaffolds import prompts
from core.types import Ask, Member, Message, Population, Problem, Scaffold, carried

AHEAD = 8  # steps that are at work beyond the one that is waited for: the most that one slow member holds up

Members = Sequence[asyncio.Task[Member]]  # a population at work
Select = Callable[[np.random.Generator, Sequence[float | None], Any], list[int]]
Score = Callable[[Problem, Population, int, Ask, Any], Awaitable[None]]
Stop = Callable[[Problem, Population, Any], bool]
Aggregate = Callable[[Problem, Sequence[str]], list[Message]]  # of the texts that are shown
Rank = Callable[[int], tuple[int, int]]  # of a member of the last population: who has a lower one is shown before


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
    """Draw all positions in `scores`: first K of them, each subset as likely as any other, then the others in any
    order."""
    drawn = rng.choice(len(scores), size=config.K, replace=False)
    others = np.delete(np.arange(len(scores)), drawn)
    order: list[int] = np.concatenate([drawn, rng.permutation(others)]).tolist()
    return order


def boltzmann(rng: np.random.Generator, scores: Sequence[float | None], config: BoltzmannConstants) -> list[int]:
    """Draw all positions in `scores` one after the other, with weights exp(score / TAU) among those left.
    Sorting score / TAU + Gumbel noise gives the same distribution (Kool et al. 2019, arXiv 1903.06059). A member
    without a score counts as the mean of the others: unknown is not bad."""
    known = [score for score in scores if score is not None]
    neutral = float(np.mean(known)) if known else 0.0
    keys = np.array([neutral if score is None else score for score in scores]) / config.TAU
    return [int(i) for i in np.argsort(-(keys + rng.gumbel(size=len(scores))))]


async def sample(problem: Problem, ask: Ask, config: SampleConstants) -> AsyncIterator[Population]:
    """Yield N independent solutions: the baseline, and step 0 of RSA."""
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
    """Yield populations t = 0..T of RSA, each with `config.N` members; fewer if `stop` ends a problem early.

    `ask(messages, t, i)` gives member i of step t. `score` fills in the scores of a population that `select` then draws
    from; the last population is not scored. `aggregate` makes the messages that show the candidates, in the order that
    ORDER says.

    A member is asked for as soon as its own K parents have arrived, up to AHEAD steps early. If `score` or `stop` needs
    whole populations, each step waits for all of the one before."""
    begin = partial(_begin, problem, ask, config, select, aggregate)
    ahead = 0 if score or stop else AHEAD
    steps: deque[Members] = deque()  # at work, the oldest first
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
                scores = [member.self_score for member in population]
            yield population
            # In a thread, as comparing answers may take seconds.
            if stop and t < config.T and await asyncio.to_thread(stop, problem, population, config):
                return
            steps.popleft()
    finally:
        left = [member for members in steps for member in members]
        for member in left:
            member.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _begin(
    problem: Problem,
    ask: Ask,
    config: RsaConstants,
    select: Select,
    aggregate: Aggregate,
    t: int,
    earlier: Members,
    scores: Sequence[float | None],
) -> Members:
    """Start the members of step t, each of which waits for its parents among `earlier`, the step before."""
    draws = [seeds.rng(config.SEED, problem.id, "select", t, i) for i in range(config.N)]
    orders = [select(rng, scores, config) if t else [] for rng in draws]
    uses = Counter(j for order in orders for j in order[: config.K])
    ranks = [_rank(problem, config, (t, i), uses) for i in range(config.N)]
    made = {  # prompts that begin alike are sent one after the other
        i: asyncio.create_task(_member(problem, ask, config, aggregate, (t, i), orders[i], ranks[i], earlier))
        for i in sorted(range(config.N), key=lambda i: sorted(orders[i][: config.K], key=ranks[i]))
    }
    return [made[i] for i in range(config.N)]


async def _member(
    problem: Problem,
    ask: Ask,
    config: RsaConstants,
    aggregate: Aggregate,
    names: tuple[int, int],
    order: Sequence[int],
    rank: Rank,
    earlier: Members,
) -> Member:
    """Make a solution from the first K members of `earlier`, in this `order`, that have something to carry (some fail,
    or are cut off too early), shown by their `rank`. Without any, it starts afresh."""
    texts: dict[int, str] = {}
    for j in order:
        if len(texts) == config.K:
            break
        if text := carried((await earlier[j]).completion, config):
            texts[j] = text
    if not texts:
        return Member(await ask(prompts.solve(problem), *names))
    parents = sorted(texts, key=rank)  # recorded, as the report puts prompts together anew
    messages = aggregate(problem, [texts[j] for j in parents])
    return Member(await ask(messages, *names), parents)


def _rank(problem: Problem, config: RsaConstants, names: tuple[int, int], uses: Mapping[int, int]) -> Rank:
    """Return the order in which the prompt of the member called `names` shows candidates.

    ORDER = "random": drawn for every prompt. Models prefer a place, and a candidate that holds it in all prompts takes
    the population over (benchmarks/fixation.py). "shared": candidates that most prompts of the step show come first, so
    that the server finds more of a prompt in its prefix cache; better-scored members then tend to come first too."""
    if config.ORDER == "shared":
        return lambda j: (-uses[j], j)
    return lambda j: (seeds.derive(config.SEED, problem.id, "order", *names, j), j)


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
