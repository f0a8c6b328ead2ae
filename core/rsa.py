"""Recursive Self-Aggregation (RSA, arXiv 2509.26626), pure: it knows no server, file or clock.

Step 0 draws a population of N solutions. Each of the T steps after it makes N new ones: for each, K members of the
last population are drawn, and the model is asked to aggregate them into a better solution. Which K is the only
choice, made by a selection function: uniformly (the paper's), or by Boltzmann weights of verification scores.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from core import prompts, seeds
from core.config import Config
from core.generate import Ask, Completion
from core.problems import Problem


@dataclass
class Member:
    """One solution of a population: its completion, the members of the last step it was made from, and, where
    verification was asked for, its score in [0, 1] (None: no readable verdict), the single verdicts and what they
    were read from."""

    completion: Completion
    parents: list[int] = field(default_factory=list)
    score: float | None = None
    verdicts: list[float | None] | None = None
    checks: list[Completion] = field(default_factory=list)


Population = list[Member]
Select = Callable[[np.random.Generator, Sequence[Member], int, Config], list[int]]
Score = Callable[[Problem, Population, int, Ask, Config], Awaitable[None]]
Stop = Callable[[Problem, Population, Config], bool]


def uniform(rng: np.random.Generator, members: Sequence[Member], k: int, config: Config) -> list[int]:
    """`k` different positions in `members`, each subset as likely as any other."""
    return [int(i) for i in rng.choice(len(members), size=k, replace=False)]


def boltzmann(rng: np.random.Generator, members: Sequence[Member], k: int, config: Config) -> list[int]:
    """`k` different positions, drawn one after the other with weights exp(score / TAU) among those left.

    Drawn as the top k of score / TAU + Gumbel noise, which is the same distribution (Kool et al. 2019,
    arXiv 1903.06059). A member without a score counts as the mean of the others: unknown is not bad.
    """
    known = [m.score for m in members if m.score is not None]
    neutral = float(np.mean(known)) if known else 0.0
    scores = np.array([neutral if m.score is None else m.score for m in members])
    keys = scores / config.TAU + rng.gumbel(size=len(members))
    return [int(i) for i in np.argsort(-keys)[:k]]


def carried(completion: Completion, config: Config) -> str:
    """What aggregation sees of a candidate: CARRY = "answer" (after thinking), "tail" (the last CARRY_TOKENS tokens
    of thinking and answer) or "full". Tokens are cut by the completion's own characters per token."""
    if config.CARRY == "answer":
        return completion.text
    whole = f"{completion.thinking}\n\n{completion.text}".strip()
    if config.CARRY == "full" or completion.completion_tokens <= config.CARRY_TOKENS:
        return whole
    return whole[-max(1, len(whole) * config.CARRY_TOKENS // completion.completion_tokens) :]


async def sample(problem: Problem, ask: Ask, config: Config) -> AsyncIterator[Population]:
    """N independent solutions: the baseline, and step 0 of RSA."""
    messages = prompts.solve(problem.statement)
    completions = await asyncio.gather(*(ask(messages, 0, i) for i in range(config.N)))
    yield [Member(completion) for completion in completions]


async def rsa(
    problem: Problem,
    ask: Ask,
    config: Config,
    select: Select = uniform,
    score: Score | None = None,
    stop: Stop | None = None,
) -> AsyncIterator[Population]:
    """Populations t = 0..T of RSA, each with `config.N` members; fewer where `stop` says of one that it is the last.

    `ask(messages, t, i)` gives member i of step t. `score` fills in the scores of a population that `select` then
    draws from; the last population is never drawn from, so it is not scored. A candidate with nothing to carry
    (failed, or cut off before it said anything) is not drawn; with none left, a member starts afresh.
    """

    async def make(t: int, i: int, population: Population) -> Member:
        texts = [carried(member.completion, config) for member in population]
        usable = [j for j, text in enumerate(texts) if text]
        if not usable:
            return Member(await ask(prompts.solve(problem.statement), t, i))
        rng = seeds.rng(config.SEED, problem.id, "select", t, i)
        drawn = select(rng, [population[j] for j in usable], min(config.K, len(usable)), config)
        parents = [usable[j] for j in drawn]
        messages = prompts.aggregate(problem.statement, [texts[j] for j in parents])
        return Member(await ask(messages, t, i), parents)

    async for population in sample(problem, ask, config):
        if score and config.T > 0:
            await score(problem, population, 0, ask, config)
        yield population
    for t in range(1, config.T + 1):
        if stop and stop(problem, population, config):
            return
        population = list(await asyncio.gather(*(make(t, i, population) for i in range(config.N))))
        if score and t < config.T:
            await score(problem, population, t, ask, config)
        yield population


def generations(config: Config) -> int:
    """Completions that one problem takes: what the progress bar counts to."""
    n: int = config.N
    steps: int = config.get("T", 0)
    checks: int = 1 if config.get("VERIFY_MODE") == "p_true" else config.get("VERIFY_SAMPLES", 0)
    return n * (steps + 1) + n * steps * checks
