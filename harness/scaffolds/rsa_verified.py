"""RSA that prefers high scores: all populations but the last get scores."""

from collections.abc import Sequence

import numpy as np

from core import prompts
from core.constants import constant
from core.rsa import RSA, RsaConstants, rsa
from core.types import Ask, Populations, Problem, Scaffold
from harness.scaffolds.best_of import with_mean
from harness.scaffolds.verification import Verifying, score, score_requests, solving


class Constants(RsaConstants, Verifying):
    TAU: float = constant(
        0.2,
        "temperature of Boltzmann selection, in units of the score (small: greedy, large: uniform)",
        0.001,
        1000,
    )


def rsa_verified(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Return the populations of RSA, which draws candidates by their scores (see `rsa`)."""
    return rsa(problem, solving(ask, config), config, select=boltzmann, score=score)


def boltzmann(
    rng: np.random.Generator, scores: Sequence[float | None], config: Constants
) -> list[int]:
    """Draw all indices of `scores` without replacement, each with probability proportional to
    exp(score / TAU).

    Sorting score / TAU + Gumbel noise gives this distribution (arXiv 1903.06059). A score of None
    counts as the mean of the known scores."""
    keys = with_mean(scores) / config.TAU + rng.gumbel(size=len(scores))
    order: list[int] = np.argsort(-keys).tolist()
    return order


def _max_completions(config: Constants) -> int:
    solutions = config.N * (config.T + 1)
    scored = config.N * config.T
    return solutions + scored * score_requests(config)


RSA_VERIFIED = Scaffold(
    rsa_verified,
    constants=Constants,
    prompts=(*RSA.prompts, prompts.VERIFY, prompts.VERDICT),
    max_completions=_max_completions,
    texts_shown=RSA.texts_shown,
)
