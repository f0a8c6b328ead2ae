"""Best of N by self-verification: the model scores N independent solutions, and the best score
wins."""

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core import prompts
from core.base import seeds
from core.constants import constant
from core.types import Ask, Member, NamedPopulation, Populations, Problem, Scaffold
from harness.scaffolds.common import EMPTY, again
from harness.scaffolds.verification import Verifying, verdict_count, verify


class Constants(Verifying):
    N: int = constant(8, "number of solutions to choose from", 1, 1024)
    VERIFY_SAMPLES: int = constant(
        4, "verdicts per solution, or 1 for p_true (the score is their mean)", 1, 64
    )


async def best_of(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Choose the solution that the model scores best. A solution without an answer wins only if no
    solution has one.

    Yields:
        The N solutions, the N solutions with their scores, and the best solution."""
    messages = prompts.solve(problem)
    samples = await asyncio.gather(*(ask(messages, 0, i) for i in range(config.N)))
    solutions: list[Member] = []
    for completion in samples:
        notes = [] if completion.text else [EMPTY]
        solutions.append(Member(completion, notes=notes))
    yield NamedPopulation("solutions", solutions)
    scored = [again(member, i) for i, member in enumerate(solutions)]
    await verify(problem, scored, 0, ask, config)
    yield NamedPopulation("verified", scored)
    candidates = [i for i, completion in enumerate(samples) if completion.text]
    if not candidates:
        candidates = list(range(config.N))
    scores = [scored[i].self_score for i in candidates]
    rng = seeds.rng(config.SEED, problem.id, "best")
    winner = candidates[best(scores, rng)]
    yield NamedPopulation("best score", [again(scored[winner], winner)])


def best(scores: Sequence[float | None], rng: np.random.Generator) -> int:
    """Return the index of the highest score. Ties are broken at random. None counts as the mean of
    the known scores."""
    filled = with_mean(scores)
    is_best = filled >= filled.max() - 1e-9
    return int(rng.choice(np.flatnonzero(is_best)))


def with_mean(scores: Sequence[float | None]) -> NDArray[np.float64]:
    """Return the scores, with the mean of the known scores instead of None. Without any, it is
    0."""
    readable = [score for score in scores if score is not None]
    mean = float(np.mean(readable)) if readable else 0.0
    return np.array([mean if score is None else score for score in scores])


BEST_OF = Scaffold(
    best_of,
    constants=Constants,
    prompts=(prompts.SOLVE, prompts.VERIFY, prompts.VERDICT),
    max_completions=lambda config: config.N * (1 + verdict_count(config)),
    texts_shown=lambda config: 1,
)
