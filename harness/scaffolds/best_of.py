"""Best of N by self-verification: the model scores N independent solutions, and the best score
wins."""

import asyncio
from collections.abc import Sequence

import numpy as np

from core import prompts
from core.base import seeds
from core.constants import constant
from core.types import Ask, Member, Populations, Problem, Scaffold, Stage
from harness.scaffolds.common import EMPTY, again
from harness.scaffolds.verification import Verifying, verdicts, verify


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
    solutions = [
        Member(completion, notes=[] if completion.text else [EMPTY]) for completion in samples
    ]
    yield Stage("solutions", solutions)
    scored = [again(member, i) for i, member in enumerate(solutions)]
    await verify(problem, scored, 0, ask, config)
    yield Stage("verified", scored)
    spoken = [i for i, completion in enumerate(samples) if completion.text] or list(range(config.N))
    winner = spoken[
        best([scored[i].self_score for i in spoken], seeds.rng(config.SEED, problem.id, "best"))
    ]
    yield Stage("best score", [again(scored[winner], winner)])


def best(scores: Sequence[float | None], rng: np.random.Generator) -> int:
    """Return the index of the highest score. Ties are broken at random. None counts as the mean of
    the known scores."""
    known = [score for score in scores if score is not None]
    neutral = float(np.mean(known)) if known else 0.0
    keys = np.array([neutral if score is None else score for score in scores])
    return int(rng.choice(np.flatnonzero(keys >= keys.max() - 1e-9)))


BEST_OF = Scaffold(
    best_of,
    constants=Constants,
    prompts=(prompts.SOLVE, prompts.VERIFY, prompts.VERDICT),
    max_completions=lambda config: config.N * (1 + verdicts(config)),
    texts_shown=lambda config: 1,
)
