"""Randomness that depends on names alone: (run seed, problem id, step, member), never on order, time or process.

This is what makes an experiment a pure function of its completions: a resumed run draws the same subsets and asks
with the same seeds as an undisturbed one.
"""

import hashlib

import numpy as np


def derive(*names: str | int) -> int:
    """A seed in [0, 2**31) from `names`; engines take 32-bit seeds, some of them signed."""
    text = "\x1f".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def rng(*names: str | int) -> np.random.Generator:
    """A random generator of its own for `names`."""
    return np.random.default_rng(derive(*names))
