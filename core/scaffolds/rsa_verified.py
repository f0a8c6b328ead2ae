"""RSA with self-verification: each population is scored by the model, and better candidates are drawn more often."""

from dataclasses import dataclass
from functools import partial

from core.scaffolds import prompts
from core.scaffolds.bound import register
from core.scaffolds.rsa import RSA, SIZES, BoltzmannConstants, boltzmann, rsa
from core.scaffolds.verification import Verifying, verify


@dataclass(frozen=True, kw_only=True)
class Constants(BoltzmannConstants, Verifying):
    pass


RSA_VERIFIED = register(
    partial(rsa, select=boltzmann, score=verify),
    Constants,
    *(*RSA.prompts, prompts.VERIFY, prompts.VERDICT),
    rounds="T",
    linear=SIZES | {"VERIFY_SAMPLES": 2},
)
