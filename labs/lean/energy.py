"""Embed states, store the vectors, and evaluate the energy, a small network on the embedding of a
state.

An energy should be low if a proof is near. Torch trains the network in another process
(energy_training.py), and numpy evaluates it here. An energy's folder contains energy.safetensors
(in float32: the mean and scale that normalize embeddings, and four layers) and energy.json, with
facts about the training and the AUC.

A folder of embeddings contains .npz files with at most PART texts each. A file is written
completely or not at all and never changed. So the same command resumes and embeds no stored text
again. It contains the vectors (float32), the hashes of their texts, which texts were cut, and the
model. Extra spaces do not change a state's vector (`text_of`).
"""

import hashlib
import io
import json
import zipfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from core.base.errors import UserError, one_line
from core.base.files import opened, read_json, sha256, storable, write_atomically
from labs.lean.search import Scores, plain
from labs.lean.theorem import State
from labs.training.embeddings import Embedder, Vectors

if TYPE_CHECKING:
    from core.engines.protocol import Server

PART = 2000  # most texts in a file of embeddings
LAYERS = (512, 256, 128, 1)  # the number of outputs of each layer
WEIGHTS, RECORD = "energy.safetensors", "energy.json"  # files in an energy's folder
MEAN, SCALE = "mean", "scale"  # names of tensors
DIGITS = 6  # decimal digits of an energy. Further digits depend on the batch
EMBEDDINGS, EMBED_AGAIN = (
    "the embeddings",
    "Remove the folder of embeddings, and run the iteration again",
)
ENERGY, TRAIN_AGAIN = "the energy", "Remove its folder, and train the energy again"

Tensors = Mapping[str, NDArray[np.float32]]


def text_of(state: str) -> str:
    """Return the text to embed for a state, or "" if no goal is left."""
    return plain(storable(state))


def hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


async def embed(
    states: Iterable[str], folder: Path, embedder: Embedder, say: Callable[[str], None] = print
) -> int:
    """Embed the states that have no vector in `folder` yet, and return how many were embedded.
    Raises UserError."""
    stored = stored_in(folder)
    if stored.places and stored.model != embedder.model:
        raise UserError(
            f"{folder} has embeddings by {stored.model}, but the server runs {embedder.model}. "
            f"{EMBED_AGAIN}"
        )
    texts = dict.fromkeys(filter(None, map(text_of, states)))
    due = [text for text in texts if hash_of(text) not in stored.places]
    for begin in range(0, len(due), PART):
        if begin:
            say(f"embedding: {begin:,} of {len(due):,} states")
        part = due[begin : begin + PART]
        vectors = await embedder(part)
        store(folder, embedder.model, part, vectors, [text in embedder.cut for text in part])
    return len(due)


def store(
    folder: Path, model: str, texts: Sequence[str], vectors: Vectors, cut: Sequence[bool]
) -> None:
    """Write the next part, with the texts' hashes, their vectors and which texts were `cut`. Raises
    UserError."""
    content = io.BytesIO()
    hashes = np.frombuffer(b"".join(map(hash_of, texts)), np.uint8).reshape(len(texts), 32)
    np.savez(content, vectors=vectors, hashes=hashes, cut=np.array(cut), model=np.array(model))
    number = len(list(folder.glob("[!.]*.npz")))
    write_atomically(folder / f"{number:05}.npz", content.getvalue())


@dataclass(frozen=True)
class Stored:
    """The embeddings in a folder. `places` maps a text's hash to its row in `vectors`. `cut`: which
    texts were cut."""

    model: str
    vectors: Vectors
    places: Mapping[bytes, int]
    cut: NDArray[np.bool_]

    def row(self, text: str) -> int:
        """Return the row of a text in `vectors`. Raises UserError if the text has no vector."""
        if (found := self.places.get(hash_of(text))) is None:
            raise UserError(
                f"a state has no embedding ({one_line(text, 60)}). Run its iteration again"
            )
        return found


def stored_in(folder: Path) -> Stored:
    """Read the embeddings in a folder, if any. Raises UserError, also if two uncut texts have the
    same vector."""
    parts = [_part(path) for path in sorted(folder.glob("[!.]*.npz"))]
    if not parts:
        return Stored("", np.zeros((0, 0), np.float32), {}, np.zeros(0, np.bool_))
    vectors, hashes, cut = (
        np.concatenate([part[name] for part in parts]) for name in ("vectors", "hashes", "cut")
    )
    whole = vectors[~cut]
    if same := len(whole) - len(np.unique(whole, axis=0)):
        raise UserError(
            f"{same:,} of {len(whole):,} embeddings in {folder} equal the vector of another text, "
            f"so the model or its server does not distinguish these states. {EMBED_AGAIN}. If the "
            "error returns, set ENERGY=0 (24 and 25)"
        )
    return Stored(
        parts[0]["model"].item(),
        vectors,
        {each.tobytes(): row for row, each in enumerate(hashes)},
        cut,
    )


def _part(path: Path) -> dict[str, NDArray[Any]]:
    with opened(path, EMBEDDINGS, EMBED_AGAIN) as file:
        try:
            with np.load(file, allow_pickle=False) as stored:
                return {name: stored[name] for name in ("vectors", "hashes", "cut", "model")}
        except (ValueError, LookupError, EOFError, zipfile.BadZipFile) as error:
            why = one_line(str(error), 200)
            raise UserError(f"{EMBEDDINGS} {path} can't be read ({why}). {EMBED_AGAIN}") from None


class Energy:
    """An energy for embeddings that `model` computes."""

    def __init__(self, tensors: Tensors, model: str = "") -> None:
        self.model = model
        self._tensors = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}

    @classmethod
    def load(cls, folder: Path) -> "Energy":
        """Read the energy in a folder. Raises UserError."""
        about = read_json(folder / RECORD, ENERGY, TRAIN_AGAIN)
        with opened(folder / WEIGHTS, ENERGY, TRAIN_AGAIN) as file:
            content = file.read()
        try:
            return cls(_tensors_in(content), str(about["model"]))
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            why = one_line(str(error), 300)
            raise UserError(f"{ENERGY} in {folder} can't be read ({why}). {TRAIN_AGAIN}") from None

    def __call__(self, vectors: Vectors) -> list[float]:
        """Return the energies of `vectors` (states, width). A low energy means that a proof should
        be near."""
        through = (vectors.astype(np.float64) - self._tensors[MEAN]) / self._tensors[SCALE]
        for layer in range(len(LAYERS)):
            through = (
                through @ self._tensors[f"layers.{layer}.weight"].T
                + self._tensors[f"layers.{layer}.bias"]
            )
            if layer < len(LAYERS) - 1:
                through *= 1 / (1 + np.exp(-np.clip(through, -700, 700)))  # SiLU
        return [round(float(energy), DIGITS) for energy in through[:, 0]]


def _tensors_in(content: bytes) -> Tensors:
    """Decode a safetensors file: the length of its header, the header in JSON, and the float32
    values."""
    begin = 8 + int.from_bytes(content[:8], "little")
    places = {
        name: about
        for name, about in json.loads(content[8:begin]).items()
        if name != "__metadata__"
    }
    values = {
        name: content[begin:][slice(*about["data_offsets"])] for name, about in places.items()
    }
    return {
        name: np.frombuffer(values[name], "<f4").reshape(about["shape"])
        for name, about in places.items()
    }


class Guide:
    """A function for World.energy that embeds each state once. Raises UserError if the embedder has
    another model."""

    def __init__(self, energy: Energy, embedder: Embedder) -> None:
        if embedder.model != energy.model:
            raise UserError(
                f"the energy was trained on embeddings by {energy.model}, but the server runs "
                f"{embedder.model}. Serve {energy.model}, or train the energy again"
            )
        self._energy, self._embedder = energy, embedder
        self._known: dict[str, float] = {}

    async def __call__(self, states: Sequence[State]) -> list[float]:
        texts = [text_of(state.pp) for state in states]
        if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
            self._known |= zip(new, self._energy(await self._embedder(new)), strict=True)
        return [self._known[text] for text in texts]


@dataclass(frozen=True)
class Guidance:
    """The guidance of searches. `opened` gives a function that scores states, or None. `by`
    identifies the function."""

    opened: Callable[[], AbstractAsyncContextManager[Scores | None]] = nullcontext
    by: str = ""


ALONE = Guidance()


def guided(folder: Path, embeds: "Server") -> Guidance:
    """Return the guidance by the energy in `folder`, with the embedding server `embeds`. Raises
    UserError."""
    head = Energy.load(folder)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Scores]:
        async with Embedder(embeds) as embedder:
            yield Guide(head, embedder)

    return Guidance(opened, str(sha256(folder / WEIGHTS)))
