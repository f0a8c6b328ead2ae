"""RSA with self-verification: the model scores all populations but the last. RSA prefers high scores."""

from dataclasses import dataclass
from functools import partial

from core.scaffolds import prompts
from core.scaffolds.rsa import RSA, BoltzmannConstants, boltzmann, rsa
from core.scaffolds.verification import Verifying, verdicts, verify
from core.types import Scaffold


@dataclass(frozen=True, kw_only=True)
class Constants(BoltzmannConstants, Verifying):
    pass


RSA_VERIFIED = Scaffold(
    partial(rsa, select=boltzmann, score=verify),
    constants=Constants,
    prompts=(*RSA.prompts, prompts.VERIFY, prompts.VERDICT),
    max_completions=lambda config: config.N * (config.T + 1) + config.N * config.T * verdicts(config),
    texts_shown=RSA.texts_shown,
)
