"""Recursive Self-Aggregation (RSA, arXiv 2509.26626), pure: it knows no server, file or clock.

Step 0 draws a population of N solutions. Each of the T steps after it makes N new ones: for each, K members of the
last population are drawn, and the model is asked to aggregate them into a better solution. Which K is the only
choice, made by a selection function: uniformly (the paper's), or by Boltzmann weights of verification scores.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.base import seeds
from core.constants import Carrying, Constants, check_subset, constant
from core.scaffolds import prompts
from core.scaffolds.bound import register
from core.types import Ask, Member, Message, Population, Problem, carried

AHEAD = 8  # steps that may be at work beyond the one that is waited for: what a straggler of a population holds up


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
    """All positions in `scores` in the order in which they are drawn: K of them, each subset as likely as any other,
    then the others, each order as likely."""
    drawn = rng.choice(len(scores), size=config.K, replace=False)
    others = np.delete(np.arange(len(scores)), drawn)
    order: list[int] = np.concatenate([drawn, rng.permutation(others)]).tolist()
    return order


def boltzmann(rng: np.random.Generator, scores: Sequence[float | None], config: BoltzmannConstants) -> list[int]:
    """All positions in `scores`, drawn one after the other with weights exp(score / TAU) among those left.

    Drawn by sorting score / TAU + Gumbel noise, which is the same distribution (Kool et al. 2019, arXiv 1903.06059).
    A member without a score counts as the mean of the others: unknown is not bad.
    """
    known = [score for score in scores if score is not None]
    neutral = float(np.mean(known)) if known else 0.0
    keys = np.array([neutral if score is None else score for score in scores]) / config.TAU
    return [int(i) for i in np.argsort(-(keys + rng.gumbel(size=len(scores))))]


async def sample(problem: Problem, ask: Ask, config: SampleConstants) -> AsyncIterator[Population]:
    """N independent solutions: the baseline, and step 0 of RSA."""
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
    """Populations t = 0..T of RSA, each with `config.N` members; fewer where `stop` says of one that it is the last.

    `ask(messages, t, i)` gives member i of step t. `score` fills in the scores of a population that `select` then
    draws from; the last population is never drawn from, so it is not scored. A candidate with nothing to carry
    (failed, or cut off before it said anything) is passed over; with none left, a member starts afresh. `aggregate`
    gives the messages that show the others, in the order that ORDER says.

    Draws that need no scores are known beforehand: a member is asked for as soon as its own K parents are there, up to
    AHEAD steps beyond the first that is not whole. A step is made when the first of its parents is there, for T may be
    in the thousands. Where something looks at whole populations (`score`, `stop`), the next one waits for all of it.
    """

    def step(earlier: Members, t: int, scores: Sequence[float | None]) -> Members:
        """The members of step t, at work."""
        draws = [seeds.rng(config.SEED, problem.id, "select", t, i) for i in range(config.N)]
        orders = [select(rng, scores, config) if t else [] for rng in draws]
        uses = Counter(j for order in orders for j in order[: config.K])
        ranks = [_rank(problem, config, (t, i), uses) for i in range(config.N)]
        made = {  # prompts that begin alike are sent one after the other
            i: asyncio.create_task(_member(problem, ask, config, (t, i), orders[i], ranks[i], earlier, aggregate))
            for i in sorted(range(config.N), key=lambda i: arranged(orders[i][: config.K], ranks[i]))
        }
        for task in made.values():
            task.add_done_callback(go_on)
        return [made[i] for i in range(config.N)]

    def go_on(_: object = None) -> None:
        """Begin the next step, where it may begin and the last one has a member to draw."""
        if len(steps) <= newest and any(member.done() for member in steps[-1]):
            steps.append(step(steps[-1], len(steps), unscored))

    is_eager = not (score or stop)
    newest = 0  # the last step that may be at work by now
    unscored = [None] * config.N
    steps = [step([], 0, unscored)]
    try:
        for t in range(config.T + 1):
            if is_eager:
                newest = min(config.T, t + AHEAD)
                go_on()
            population = list(await asyncio.gather(*steps[t]))
            if score and t < config.T:
                await score(problem, population, t, ask, config)
            yield population
            # In a thread, as grading is: telling whether answers say the same may take seconds.
            if t == config.T or (stop and await asyncio.to_thread(stop, problem, population, config)):
                return
            if not is_eager:
                steps.append(step(steps[t], t + 1, [member.self_score for member in population]))
            steps[t] = []  # its texts live on only where they are carried
    finally:
        newest = -1
        left = [member for members in steps for member in members]
        for member in left:
            member.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def _member(
    problem: Problem,
    ask: Ask,
    config: RsaConstants,
    names: tuple[int, int],
    order: Sequence[int],
    rank: Rank,
    earlier: Members,
    aggregate: Aggregate,
) -> Member:
    """A solution made from the first K members of `earlier`, in this `order`, that have something to carry, shown by
    their `rank`; from the problem alone where there are none."""
    texts: dict[int, str] = {}
    for j in order:
        if len(texts) == config.K:
            break
        if text := carried((await earlier[j]).completion, config):
            texts[j] = text
    if not texts:
        return Member(await ask(prompts.solve(problem), *names))
    parents = arranged(texts, rank)
    messages = aggregate(problem, [texts[j] for j in parents])
    return Member(await ask(messages, *names), parents)


def _rank(problem: Problem, config: RsaConstants, names: tuple[int, int], uses: Mapping[int, int]) -> Rank:
    """Where the prompt of the member called `names` shows each of the last population.

    ORDER = "random": drawn for every prompt. Models prefer a place, and whoever stands in it in all prompts takes the
    population over (benchmarks/fixation.py). "shared": those come first that most prompts of the step show, so that the
    server finds as much as possible of a prompt in its prefix cache; the price is that, and that better-scored members
    tend to stand first.
    """
    if config.ORDER == "shared":
        return lambda j: (-uses[j], j)
    return lambda j: (seeds.derive(config.SEED, problem.id, "order", *names, j), j)


def arranged(parents: Iterable[int], rank: Rank) -> list[int]:
    """`parents` in the order in which a prompt shows them, which is recorded: the report puts prompts together anew."""
    return sorted(parents, key=rank)


SIZES = {"K": 3, "N": 4}
RSA = register(rsa, RsaConstants, prompts.SOLVE, prompts.AGGREGATE, prompts.REFINE, rounds="T", linear=SIZES)
BASELINE = register(sample, SampleConstants, prompts.SOLVE, linear={"N": 3})
