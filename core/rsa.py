"""Recursive Self-Aggregation (RSA, arXiv 2509.26626).

Step 0 samples N solutions. Each of T further steps writes N new solutions. For each new solution,
RSA draws K members of the last population, and asks the model for a better solution made from them.
The draw is uniform, as in the paper, or weighted by verification scores.

`rsa` needs no server and no file, only a function `ask` that returns a completion:

    >>> import asyncio
    >>> from core.rsa import RsaConstants, rsa
    >>> from core.types import Completion, Problem
    >>> async def ask(messages, *names, **changes):
    ...     reply = f"I saw {messages[0]['content'].count('Candidate ')} candidates."
    ...     return Completion(key=str(names), seed=0, answer=reply)
    >>> async def main():
    ...     config = RsaConstants(N=4, K=2, T=1)
    ...     async for population in rsa(Problem("p1", "How much is 6*7?", None), ask, config):
    ...         print([member.completion.text for member in population[:2]])
    >>> asyncio.run(main())
    ['I saw 0 candidates.', 'I saw 0 candidates.']
    ['I saw 2 candidates.', 'I saw 2 candidates.']

A `generator` of core/generate.py also takes a seed and sampling parameters. Its `ask` returns
`await generator(messages, seeds.derive(0, problem.id, *names), Sampling(max_tokens=4096))`."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from core import prompts
from core.base import seeds
from core.constants import Carrying, Constants, constant
from core.types import Ask, Member, Message, Population, Populations, Problem, Scaffold

AHEAD = 8  # number of later steps that may begin before a step is finished

Select = Callable[[np.random.Generator, Sequence[float | None], Any], list[int]]
Score = Callable[[Problem, Population, int, Ask, Any], Awaitable[None]]
Stop = Callable[[Problem, Population, Any], bool]
Aggregate = Callable[[Problem, Sequence[str]], list[Message]]
Summarise = Callable[[Problem, Member, int, int, Ask, Any], Awaitable[str]]
Rank = Callable[[int], tuple[int, int]]  # a sort key of parents


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
    summarise: Summarise | None = None,
) -> AsyncGenerator[Population, None]:
    """Improve a population of solutions by aggregating random subsets of it.

    Args:
        problem: The problem to solve.
        ask: The function that asks the model. `ask(messages, t, i)` requests member i of step t.
        config: The scaffold's constants.
        select: Returns all indices of a population in random order. The first K members with text
            become parents.
        score: Sets the scores of each population except the last, before `select` draws from it.
        stop: Returns whether to end after a population. The last population needs no call.
        aggregate: Builds the messages that show the candidates, or the problem alone without
            candidates.
        summarise: Returns a text that aggregations show instead of member i of step t, or "" to
            show the member itself. The last step needs no call.

    Yields:
        The populations of steps 0 to T, or up to the step at which `stop` ends the run. Each has N
        members."""
    steps = _Steps(problem, ask, config, select, aggregate, summarise)
    ahead = 0 if score or stop else AHEAD
    scores: list[float | None] = [None] * config.N
    try:
        for t in range(config.T + 1):
            while len(steps.requested) <= min(t + ahead, config.T):
                steps.request_next(scores)
            population = await steps.finish(t)
            is_last = t == config.T
            if score and not is_last:
                await score(problem, population, t, ask, config)
                scores = [member.self_score for member in population]
            yield population
            # Use a thread, because comparing answers may take seconds.
            if stop and not is_last and await asyncio.to_thread(stop, problem, population, config):
                return
    finally:
        await steps.cancel()


class _Solution(NamedTuple):
    """A member of a population, and the summary that aggregations show instead ("": none)."""

    member: Member
    summary: str


Solutions = Sequence[asyncio.Task[_Solution]]  # an unfinished population


class _Steps:
    """The steps of RSA on one problem, of which several may be unfinished.

    A member is requested as soon as its parents have arrived, so a slow member delays only its
    descendants. Up to AHEAD later steps may begin before a step is finished. With `score` or
    `stop`, a step begins only after the previous step is finished."""

    def __init__(
        self,
        problem: Problem,
        ask: Ask,
        config: RsaConstants,
        select: Select,
        aggregate: Aggregate,
        summarise: Summarise | None,
    ) -> None:
        self.problem = problem
        self.ask = ask
        self.config = config
        self.select = select
        self.aggregate = aggregate
        self.summarise = summarise
        self.requested: list[Solutions] = []  # by step

    def request_next(self, scores: Sequence[float | None]) -> None:
        """Draw the parents of the next step's members, and start a task for each member."""
        t = len(self.requested)
        earlier = self.requested[-1] if self.requested else []
        orders = [self._order(t, i, scores) for i in range(self.config.N)]
        subsets = [order[: self.config.K] for order in orders]
        uses = Counter(j for subset in subsets for j in subset)
        ranks = [self._rank(t, i, uses) for i in range(self.config.N)]
        prompts_show = [sorted(subsets[i], key=ranks[i]) for i in range(self.config.N)]
        tasks: dict[int, asyncio.Task[_Solution]] = {}
        # Send prompts with the same beginning one after the other, for the server's prefix cache.
        for i in sorted(range(self.config.N), key=prompts_show.__getitem__):
            solution = self._solution(t, i, orders[i], ranks[i], earlier)
            tasks[i] = asyncio.create_task(solution)
        self.requested.append([tasks[i] for i in range(self.config.N)])

    async def finish(self, t: int) -> Population:
        """Wait for all members of step t."""
        solutions = await asyncio.gather(*self.requested[t])
        return [solution.member for solution in solutions]

    async def cancel(self) -> None:
        """Cancel all unfinished members, and wait until they have ended."""
        tasks = [task for solutions in self.requested for task in solutions]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _order(self, t: int, i: int, scores: Sequence[float | None]) -> list[int]:
        """Return all indices of the previous population in the order in which member i takes
        parents."""
        if t == 0:
            return []
        rng = seeds.rng(self.config.SEED, self.problem.id, "select", t, i)
        return self.select(rng, scores, self.config)

    def _rank(self, t: int, i: int, uses: Counter[int]) -> Rank:
        """Return the key that sorts the parents of member i in its prompt. `uses` counts how often
        each parent was drawn."""
        # Models prefer certain positions. "random" keeps a candidate from having such a position
        # in all prompts and taking over the population (benchmarks/fixation.py). "shared" puts
        # often drawn parents first, for caches.
        if self.config.ORDER == "shared":
            return lambda j: (-uses[j], j)
        return lambda j: (seeds.derive(self.config.SEED, self.problem.id, "order", t, i, j), j)

    async def _solution(
        self, t: int, i: int, order: Sequence[int], rank: Rank, earlier: Solutions
    ) -> _Solution:
        """Request member i of step t, made from the first K members in `order` with text, and its
        summary."""
        texts = await self._texts(order, earlier)
        parents = sorted(texts, key=rank)  # the order of the prompt, which the report repeats
        messages = self.aggregate(self.problem, [texts[j] for j in parents])
        member = Member(await self.ask(messages, t, i), parents)
        is_last = t == self.config.T
        if is_last or not self.summarise:
            return _Solution(member, "")
        summary = await self.summarise(self.problem, member, t, i, self.ask, self.config)
        return _Solution(member, summary)

    async def _texts(self, order: Sequence[int], earlier: Solutions) -> dict[int, str]:
        """Return the texts of K members by their indices: their summaries, or else their own texts.
        Members without text (empty, failed, or truncated too early) are skipped."""
        texts: dict[int, str] = {}
        for j in order:
            if len(texts) == self.config.K:
                break
            member, summary = await earlier[j]
            text = summary or prompts.carried(member.completion, self.config)
            if text:
                texts[j] = text
        return texts


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
