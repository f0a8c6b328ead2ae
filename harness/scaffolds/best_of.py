"""Best of N: each of N independent solutions gets a score, and the best score wins, or the answer
with the largest sum of scores."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core import prompts
from core.base import seeds
from core.base.errors import UserError
from core.constants import constant
from core.eval import groups, read_reply
from core.grading.kinds import kind_of
from core.types import (
    CONFIDENCE,
    UNSURE,
    Ask,
    Completion,
    Member,
    NamedPopulation,
    Population,
    Populations,
    Problem,
    Scaffold,
)
from harness.scaffolds.common import EMPTY, again
from harness.scaffolds.online import STOPPED, Drawn, draw
from harness.scaffolds.verification import SCORES, Verifying, score, score_requests, solving

BEST = "best"
WEIGHTED_VOTE = "weighted_vote"
NEAR = 1e-9  # scores or sums that differ by less are equal


class Constants(Verifying):
    N: int = constant(8, "number of solutions to choose from", 1, 1024)
    VERIFY_SAMPLES: int = constant(
        4, "verdicts per solution, or 1 for p_true (the score is their mean)", 1, 64
    )
    CHOOSE: str = constant(
        BEST,
        "what wins: the best score, or the answer with the largest sum of scores (weighted_vote)",
        choices=(BEST, WEIGHTED_VOTE),
    )
    DROP: float = constant(
        0.0, "share of the solutions, with the lowest scores, that has no weighted vote", 0, 0.99
    )
    WARM_UP: int = constant(
        0,
        "first solutions, whose quantile DROP of confidence stops others (SCORE=confidence), or 0 "
        "for off",
        0,
        1024,
    )

    def check(self) -> None:
        super().check()
        if self.WARM_UP and self.SCORE != CONFIDENCE:
            raise UserError(
                f"WARM_UP={self.WARM_UP} stops solutions by their confidence. Set SCORE=confidence "
                "or WARM_UP=0"
            )
        if self.WARM_UP > self.N:
            raise UserError(
                f"WARM_UP={self.WARM_UP} is larger than N={self.N}. Lower WARM_UP or raise N"
            )


async def best_of(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Choose one of N solutions by their scores (CHOOSE). A solution without an answer wins only if
    no solution has one.

    Yields:
        The N solutions, the N solutions with their scores, and the chosen solution."""
    drawn = await _draw(problem, ask, config)
    solutions = [Member(completion, notes=_notes(completion)) for completion in drawn.samples]
    yield NamedPopulation("solutions", solutions)
    scored = [again(member, i) for i, member in enumerate(solutions)]
    await score(problem, scored, 0, ask, config)
    yield NamedPopulation(SCORES[config.SCORE].stage, scored)
    written = [i for i, completion in enumerate(drawn.samples) if completion.text]
    candidates = [i for i in written if i in drawn.above] or written or list(range(config.N))
    scores = with_mean([scored[i].self_score for i in candidates])
    stage = "best score"
    if config.CHOOSE == WEIGHTED_VOTE:
        stage = "weighted vote"
        population = [scored[i] for i in candidates]
        # Use a thread, because comparing answers may take seconds.
        answers = await asyncio.to_thread(_answers, problem, population)
        drop = 0.0 if config.WARM_UP else config.DROP  # the bar has dropped them
        in_vote = weighted_vote(answers, scores, drop)
        candidates = [candidates[k] for k in in_vote]
        scores = scores[in_vote]
    rng = seeds.rng(config.SEED, problem.id, "best")
    winner = candidates[best(scores, rng)]
    yield NamedPopulation(stage, [again(scored[winner], winner)])


async def _draw(problem: Problem, ask: Ask, config: Constants) -> Drawn:
    messages = prompts.solve(problem)
    solve = solving(ask, config)
    if config.WARM_UP:
        return await draw(messages, solve, config)
    samples = await asyncio.gather(*(solve(messages, 0, i) for i in range(config.N)))
    return Drawn(samples, list(range(config.N)))


def _notes(completion: Completion) -> list[str]:
    if completion.finish_reason == UNSURE:
        return [STOPPED]
    return [] if completion.text else [EMPTY]


def best(scores: Sequence[float | None] | NDArray[np.float64], rng: np.random.Generator) -> int:
    """Return the index of the highest score. Ties are broken at random. None counts as the mean of
    the known scores."""
    filled = with_mean(scores)
    is_best = filled >= filled.max() - NEAR
    return int(rng.choice(np.flatnonzero(is_best)))


def with_mean(scores: Sequence[float | None] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scores, with the mean of the known scores instead of None. Without any, it is
    0."""
    readable = [score for score in scores if score is not None]
    mean = float(np.mean(readable)) if readable else 0.0
    return np.array([mean if score is None else score for score in scores])


def weighted_vote(
    answers: Sequence[str | None], scores: NDArray[np.float64], drop: float = 0.0
) -> list[int]:
    """Return the indices of the solutions with the winning answer. It has the largest sum of
    scores, as in search-and-learn. If sums are equal, all of these answers win.

    Args:
        answers: the name of each solution's answer, None for a missing one, which has no vote.
        scores: the solutions' scores, at least 0. If all are 0, each solution has one vote.
        drop: the share of the solutions with answers that has no vote, because their scores are the
            lowest. As in DeepConf, a solution votes if its score is at least this quantile.

    Returns:
        The indices in order. Without answers, all solutions.

    Raises:
        UserError: if a score is negative. It would count against a frequent answer."""
    voters = [i for i, answer in enumerate(answers) if answer is not None]
    if not voters:
        return list(range(len(answers)))
    if scores[voters].min() < 0:
        raise UserError(
            f"CHOOSE=weighted_vote adds scores, but one is negative ({scores.min():g}). Set "
            "CHOOSE=best, or choose a score of at least 0"
        )
    weights = scores if scores[voters].any() else np.ones_like(scores)
    threshold = np.quantile(weights[voters], drop) - NEAR
    voters = [i for i in voters if weights[i] >= threshold]
    sums = defaultdict[str | None, float](float)
    for i in voters:
        sums[answers[i]] += float(weights[i])
    largest = max(sums.values()) - NEAR
    return [i for i in voters if sums[answers[i]] >= largest]


def _answers(problem: Problem, population: Population) -> tuple[str | None, ...]:
    """Return the name of the group of each member's answer, as the vote compares answers."""
    if problem.is_proof:
        return (None,) * len(population)
    answers = [read_reply(problem, member.completion).answer for member in population]
    return groups(answers, kind_of(problem)).names


BEST_OF = Scaffold(
    best_of,
    constants=Constants,
    prompts=(prompts.SOLVE, prompts.VERIFY, prompts.VERDICT),
    max_completions=lambda config: config.N * (1 + score_requests(config)),
    texts_shown=lambda config: 1,
)
