"""RSA with self-verification: the model scores all populations but the last. RSA prefers high
scores."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from core import prompts
from core.constants import constant
from core.rsa import RSA, RsaConstants, rsa
from core.types import Scaffold
from harness.scaffolds.verification import Verifying, verdicts, verify


class Constants(RsaConstants, Verifying):
    TAU: float = constant(
        0.2, "temperature of Boltzmann selection (small: greedy, large: uniform)", 0.001, 1000
    )


def boltzmann(
    rng: np.random.Generator, scores: Sequence[float | None], config: Constants
) -> list[int]:
    """Draw all indices of `scores` without replacement, each with probability proportional to
    exp(score / TAU).

    Sorting score / TAU + Gumbel noise gives this distribution (arXiv 1903.06059). A score of None
    counts as the mean of the known scores."""
    known = [score for score in scores if score is not None]
    neutral = float(np.mean(known)) if known else 0.0
    keys = np.array([neutral if score is None else score for score in scores]) / config.TAU
    return [int(i) for i in np.argsort(-(keys + rng.gumbel(size=len(scores))))]


RSA_VERIFIED = Scaffold(
    partial(rsa, select=boltzmann, score=verify),
    constants=Constants,
    prompts=(*RSA.prompts, prompts.VERIFY, prompts.VERDICT),
    max_completions=lambda config: (
        config.N * (config.T + 1) + config.N * config.T * verdicts(config)
    ),
    texts_shown=RSA.texts_shown,
)
