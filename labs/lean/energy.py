"""Evaluate the energy, a small network on the embedding of a state. An energy should be low if a proof is near.

Torch trains the network in another process (energy_training.py), and numpy evaluates it here. An energy's
folder contains energy.safetensors (in float32: the mean and scale that normalize embeddings, and four layers). It also
contains energy.json, with facts about the training and the AUC.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from core.base.errors import UserError, one_line
from core.base.files import opened, read_json, sha256
from labs.lean.embeddings import text_of
from labs.lean.search import Scores
from labs.lean.theorem import State
from labs.training.embeddings import Embedder, Vectors

if TYPE_CHECKING:
    from core.engines.server import Server

LAYERS = (512, 256, 128, 1)  # the number of outputs of each layer
WEIGHTS, RECORD = "energy.safetensors", "energy.json"  # files in an energy's folder
MEAN, SCALE = "mean", "scale"  # names of tensors
DIGITS = 6  # decimal digits of an energy. Further digits depend on the batch
WHAT, REMEDY = "the energy", "Remove its folder, and train the energy again"

Tensors = Mapping[str, NDArray[np.float32]]


def names(layer: int) -> tuple[str, str]:
    """Return the tensor names of a layer's weight (outputs, inputs) and bias (outputs,)."""
    return f"layers.{layer}.weight", f"layers.{layer}.bias"


class Energy:
    """An energy for embeddings that `model` computes."""

    def __init__(self, tensors: Tensors, model: str = "") -> None:
        self.model = model
        self._tensors = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}

    @classmethod
    def load(cls, folder: Path) -> "Energy":
        """Read the energy in a folder. Raises UserError."""
        about = read_json(folder / RECORD, WHAT, REMEDY)
        with opened(folder / WEIGHTS, WHAT, REMEDY) as file:
            content = file.read()
        try:
            return cls(_tensors_in(content), str(about["model"]))
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            why = one_line(str(error), 300)
            raise UserError(f"{WHAT} in {folder} can't be read ({why}). {REMEDY}") from None

    def __call__(self, vectors: Vectors) -> list[float]:
        """Return the energies of `vectors` (states, width). A low energy means that a proof should be near."""
        through = (vectors.astype(np.float64) - self._tensors[MEAN]) / self._tensors[SCALE]
        for layer in range(len(LAYERS)):
            weight, bias = (self._tensors[name] for name in names(layer))
            through = through @ weight.T + bias
            if layer < len(LAYERS) - 1:
                through *= 1 / (1 + np.exp(-np.clip(through, -700, 700)))  # SiLU
        return [round(float(energy), DIGITS) for energy in through[:, 0]]


def _tensors_in(content: bytes) -> Tensors:
    """Decode a safetensors file: the length of its header, the header in JSON, and the float32 values."""
    begin = 8 + int.from_bytes(content[:8], "little")
    places = {name: about for name, about in json.loads(content[8:begin]).items() if name != "__metadata__"}
    values = {name: content[begin:][slice(*about["data_offsets"])] for name, about in places.items()}
    return {name: np.frombuffer(values[name], "<f4").reshape(about["shape"]) for name, about in places.items()}


class Guide:
    """A function for World.energy that embeds each state once. Raises UserError if the embedder has another model."""

    def __init__(self, energy: Energy, embedder: Embedder) -> None:
        if embedder.model != energy.model:
            raise UserError(
                f"the energy was trained on embeddings by {energy.model}, but the server runs {embedder.model}. Serve "
                f"{energy.model}, or train the energy again"
            )
        self._energy, self._embedder = energy, embedder
        self._known: dict[str, float] = {}

    async def __call__(self, states: Sequence[State]) -> list[float]:
        texts = [text_of(state.pp) for state in states]
        if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
            embedded = await self._embedder(new)
            self._known |= zip(new, self._energy(embedded.vectors), strict=True)
        return [self._known[text] for text in texts]


@dataclass(frozen=True)
class Guidance:
    """The guidance of searches. `opened` gives a function that scores states, or None. `by` identifies the function."""

    opened: Callable[[], AbstractAsyncContextManager[Scores | None]] = nullcontext
    by: str = ""


ALONE = Guidance()


def guided(folder: Path, embeds: "Server") -> Guidance:
    """Return the guidance by the energy in `folder`, with the embedding server `embeds`. Raises UserError."""
    head = Energy.load(folder)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Scores]:
        async with Embedder(embeds) as embedder:
            yield Guide(head, embedder)

    return Guidance(opened, str(sha256(folder / WEIGHTS)))
