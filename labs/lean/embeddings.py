"""Embeddings of states: a vector for each text, from a server's /v1/embeddings, kept in a folder of parts.

A part is one .npz file: vectors (float32), the hashes of their texts, which texts were cut to fit, and the model. Parts
are written as they come, whole or not at all, and never again: what a kill leaves is taken up, and no text in them is
embedded twice. Texts are those of `text_of`, so that a state has one vector however its lines are spaced.
"""

import hashlib
import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.base.errors import UserError, one_line
from core.base.files import opened, storable, write_atomically
from labs.lean.search import plain

# Below these, a warning: mean 1 - cosine of two states of a theorem, and its share of that of two theorems' states.
SPREAD, SHARE = 0.01, 0.05
WHAT, REMEDY = "the embeddings", "Remove their folder and embed anew"

Vectors = NDArray[np.float32]  # (texts, width)


def text_of(state: str) -> str:
    """What of a state is embedded; "" where nothing is left to prove."""
    return plain(storable(state))


def hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class Embedded(NamedTuple):
    """Vectors of texts, in their order, and of each whether it was cut."""

    vectors: Vectors
    cut: NDArray[np.bool_]


def is_sound(vectors: Vectors) -> NDArray[np.bool_]:
    """Of each vector, whether it is finite and not zero."""
    return np.asarray(np.isfinite(vectors).all(axis=1) & vectors.any(axis=1))


@dataclass(frozen=True)
class Stored:
    """The embeddings in a folder. `places`: by the hash of a text, its row in `vectors`; `cut`: texts that were."""

    model: str
    vectors: Vectors
    places: Mapping[bytes, int]
    cut: NDArray[np.bool_]

    def rows(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """The rows of texts. Raises UserError where some have none."""
        found = [self.places.get(hash_of(text), -1) for text in texts]
        if missing := found.count(-1):
            raise UserError(f"{missing:,} of {len(found):,} states have no embedding. Embed them: the same command")
        return np.array(found, np.int64)


def write(folder: Path, model: str, done: Iterable[tuple[Sequence[str], Embedded]]) -> None:
    """The next part. Raises UserError."""
    made = dict(pair for texts, made in done for pair in zip(texts, zip(*made, strict=True), strict=True))
    texts = sorted(made, key=hash_of)  # whatever came first
    content = io.BytesIO()
    np.savez(
        content,
        vectors=np.stack([made[text][0] for text in texts]),
        hashes=np.frombuffer(b"".join(map(hash_of, texts)), np.uint8).reshape(len(texts), 32),
        cut=np.array([made[text][1] for text in texts], np.bool_),
        model=np.array(model),
    )
    numbers = [int(path.stem) for path in _files(folder)]
    write_atomically(folder / f"{max(numbers, default=-1) + 1:05}.npz", content.getvalue())


@dataclass(frozen=True)
class _Part:
    model: str
    vectors: Vectors
    hashes: list[bytes]
    cut: NDArray[np.bool_]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.npz") if path.stem.isdecimal())


def _parts(folder: Path) -> Iterator[_Part]:
    return map(_read, _files(folder))


def known(folder: Path) -> dict[bytes, str]:
    """By the hash of each text that is embedded in `folder`: the model. Raises UserError."""
    return {each: part.model for part in _parts(folder) for each in part.hashes}


def _read(path: Path) -> _Part:
    """Raises UserError."""
    with opened(path, WHAT, REMEDY) as file:
        try:
            with np.load(file, allow_pickle=False) as stored:
                vectors, hashes, cut, model = (stored[name] for name in ("vectors", "hashes", "cut", "model"))
        except (ValueError, LookupError, EOFError, zipfile.BadZipFile, NotImplementedError, MemoryError) as error:
            raise UserError(f"{WHAT} {path} can't be read ({one_line(str(error), 200)}). {REMEDY}") from None
    count = len(vectors) if vectors.ndim == 2 else -1
    kinds = (
        vectors.dtype == np.float32 and hashes.dtype == np.uint8 and cut.dtype == np.bool_ and model.dtype.kind == "U"
    )
    if not kinds or hashes.shape != (count, 32) or cut.shape != (count,) or model.shape != ():
        raise UserError(f"{WHAT} {path} are of another shape. {REMEDY}")
    return _Part(str(model), vectors, [row.tobytes() for row in hashes], cut)


def load(folder: Path) -> Stored:
    """The embeddings in a folder, checked: of one model and width, none zero, not finite, or the same for different
    texts (but for those that were cut, which may differ in the middle alone). Raises UserError."""
    parts = list(_parts(folder))
    if not parts:
        raise UserError(f"{folder} holds no embeddings. Embed the states first")
    if len(models := sorted({part.model for part in parts})) > 1:
        raise UserError(f"{WHAT} in {folder} are of several models: {', '.join(models)}. {REMEDY}")
    if len(widths := sorted({part.vectors.shape[1] for part in parts})) > 1:
        raise UserError(f"{WHAT} in {folder} are of several widths: {', '.join(map(str, widths))}. {REMEDY}")
    vectors, cut = np.concatenate([part.vectors for part in parts]), np.concatenate([part.cut for part in parts])
    hashes = [each for part in parts for each in part.hashes]
    if bad := int((~is_sound(vectors)).sum()):
        raise UserError(f"{bad:,} of {len(vectors):,} embeddings in {folder} are zero, or not finite. {REMEDY}")
    places = {each: row for row, each in enumerate(hashes)}
    once = np.array(sorted(places.values()), np.int64)
    whole = once[~cut[once]]
    if same := len(whole) - len(np.unique(vectors[whole], axis=0)):
        raise UserError(
            f"{same:,} of {len(whole):,} embeddings in {folder} are those of other texts, too: the model, or its "
            f"server, does not tell these states apart. {REMEDY}"
        )
    return Stored(models[0], vectors, places, cut)


@dataclass(frozen=True)
class Apart:
    """Mean cosine of two different states of one theorem (`within`), and of two theorems (`between`)."""

    within: float
    between: float

    @property
    def warning(self) -> str:
        """What is wrong; "" where nothing is."""
        within, between = 1 - self.within, 1 - self.between
        told = f"states of one theorem have a mean cosine of {self.within:.3f}, of different ones {self.between:.3f}"
        if within < SPREAD or within < SHARE * between:
            return f"{told}: the model hardly tells a theorem's states apart. Fine-tuning may have done that"
        return ""


def apart(vectors: Vectors, theorems: Sequence[Sequence[int]]) -> Apart:
    """How far the states stand apart, given the rows of each theorem's; nan where there are no such pairs."""
    sums, ns, within = [], [], []
    for rows in theorems:
        units = np.asarray(vectors[np.array(rows, np.int64)], np.float64)
        units /= np.linalg.norm(units, axis=1, keepdims=True)
        total, n = units.sum(axis=0), len(units)
        sums.append(total)
        ns.append(n)
        if n > 1:
            within.append((total @ total - n) / (n * (n - 1)))
    whole, n = np.sum(sums, axis=0), sum(ns)
    pairs = n * n - sum(each * each for each in ns)
    across = whole @ whole - sum(each @ each for each in sums)
    return Apart(float(np.mean(within)) if within else np.nan, float(across / pairs) if pairs else np.nan)
