"""Derive random seeds from names (run seed, problem id, step, member), and never from order, time
or process. So a resumed run draws the same subsets and sends the same seeds, and its results depend
only on the completions."""

import hashlib

import numpy as np


def derive(*names: str | int) -> int:
    """Return the seed of `names`, in [0, 2**31). Engines accept 32-bit seeds, and some engines only
    signed ones."""
    text = "\x1f".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def rng(*names: str | int) -> np.random.Generator:
    """Return a random generator that is seeded with `names`."""
    return np.random.default_rng(derive(*names))
