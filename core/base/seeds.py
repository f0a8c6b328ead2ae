"""Derive randomness from names alone: (run seed, problem id, step, member), never from order, time or process. So an
experiment is a pure function of its completions: a resumed run draws the same subsets and sends the same seeds."""

import hashlib

import numpy as np


def derive(*names: str | int) -> int:
    """Return a seed in [0, 2**31) for `names`. Engines take 32-bit seeds, some of them signed."""
    text = "\x1f".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def rng(*names: str | int) -> np.random.Generator:
    """Return the random generator of `names`."""
    return np.random.default_rng(derive(*names))
