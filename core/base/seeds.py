"""Derive random seeds from names (run seed, problem id, step, member), and never from order, time
or process. So a resumed run draws the same subsets and sends the same seeds, and its results depend
only on the completions."""

import hashlib

import numpy as np


def derive(*names: str | int) -> int:
    """Return the seed of `names`, in [0, 2**31). Engines accept 32-bit seeds, and some engines only
    signed ones."""
    text = "\x1f".join(map(str, names)).encode()
    digest = hashlib.sha256(text).digest()
    number = int.from_bytes(digest[:4], "big")
    return number >> 1  # 31 bits


def rng(*names: str | int) -> np.random.Generator:
    """Return a random generator that is seeded with `names`."""
    seed = derive(*names)
    return np.random.default_rng(seed)
