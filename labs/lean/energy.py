"""The energy: a small head on the embedding of a state, low where a proof is near.

It is trained by torch in a process of its own (`train`, scripts/energy.py) and evaluated here, by numpy. Its folder
holds energy.safetensors (the mean and the scale that embeddings are brought to, and four layers, in float32) and
energy.json: what it was trained on and how well it does.
"""

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.base.errors import UserError, one_line
from core.base.files import opened, read_json
from labs.lean.embeddings import Vectors
from labs.training.process import supervised

LAYERS = (512, 256, 128, 1)  # their outputs
WEIGHTS, RECORD = "energy.safetensors", "energy.json"  # in the folder of an energy
MEAN, SCALE = "mean", "scale"
DIGITS = 6  # that an energy has: what comes behind follows from the batch that it was computed in
LONGEST_HEADER = 2**20  # bytes
WHAT, REMEDY = "the energy", "Train it anew"

Tensors = Mapping[str, NDArray[np.float32]]


def names(layer: int) -> tuple[str, str]:
    """Of a layer's weight (outputs, inputs) and its bias (outputs,)."""
    return f"layers.{layer}.weight", f"layers.{layer}.bias"


class Energy:
    """`width`: of the embeddings that it takes; `model`: what made those that it learned from."""

    def __init__(self, tensors: Tensors, model: str = "") -> None:
        """Raises ValueError for tensors that make no head."""
        wanted = {MEAN, SCALE, *(name for layer in range(len(LAYERS)) for name in names(layer))}
        if set(tensors) != wanted:
            raise ValueError(f"it holds {', '.join(sorted(set(tensors) ^ wanted))}, or lacks them")
        self.model, self.width = model, int(tensors[MEAN].size)
        shapes: dict[str, tuple[int, ...]] = {MEAN: (self.width,), SCALE: (self.width,)}
        for layer, (inputs, outputs) in enumerate(zip((self.width, *LAYERS), LAYERS, strict=False)):
            shapes |= dict(zip(names(layer), ((outputs, inputs), (outputs,)), strict=True))
        for name, shape in shapes.items():
            if tensors[name].shape != shape:
                raise ValueError(f"{name} is {list(tensors[name].shape)} and should be {list(shape)}")
            if not np.isfinite(tensors[name]).all():
                raise ValueError(f"{name} is not finite")
        self._tensors = {name: tensors[name].astype(np.float64) for name in wanted}

    @classmethod
    def load(cls, folder: Path) -> "Energy":
        """The energy in a folder. Raises UserError."""
        about = read_json(folder / RECORD, WHAT, REMEDY)
        if not isinstance(about, dict) or not isinstance(about.get("model"), str):
            raise UserError(f"{WHAT} {folder / RECORD} does not say which model embedded its states. {REMEDY}")
        with opened(folder / WEIGHTS, WHAT, REMEDY) as file:
            content = file.read()
        try:
            return cls(_tensors_in(content), about["model"])
        except (ValueError, LookupError, TypeError, RecursionError, struct.error, AttributeError) as error:
            why = one_line(str(error), 200)
            raise UserError(f"{WHAT} {folder / WEIGHTS} can't be read ({why}). {REMEDY}") from None

    def __call__(self, vectors: Vectors) -> list[float]:
        """One number for each of `vectors` (states, width); low is good. Raises UserError for another width."""
        width = vectors.shape[-1]
        if vectors.ndim != 2 or width != self.width:
            raise UserError(
                f"an energy of another width: it was trained on embeddings of {self.width:,} numbers, and these have "
                f"{width:,}. Serve the model that it was trained with, or train it anew"
            )
        through = (vectors.astype(np.float64) - self._tensors[MEAN]) / self._tensors[SCALE]
        for layer in range(len(LAYERS)):
            weight, bias = (self._tensors[name] for name in names(layer))
            through = through @ weight.T + bias
            if layer < len(LAYERS) - 1:
                through *= 1 / (1 + np.exp(-np.clip(through, -700, 700)))  # SiLU
        return [round(float(energy), DIGITS) for energy in through[:, 0]]

    def check_made_for(self, model: str) -> None:
        """Raises UserError where embeddings are of another model than those that it learned from."""
        if model != self.model:
            raise UserError(
                f"the energy was trained on embeddings of {self.model}, and these are of {model}. Serve that model, or "
                "train the energy anew"
            )


def _tensors_in(content: bytes) -> dict[str, NDArray[np.float32]]:
    """Of a safetensors file: the length of a header of JSON, the header, the values. Raises ValueError and others for
    what is none, or holds other numbers than float32."""
    (length,) = struct.unpack_from("<Q", content)
    if not 2 <= length <= min(LONGEST_HEADER, len(content) - 8):
        raise ValueError("it is cut off, or no safetensors file")
    header, values = json.loads(content[8 : 8 + length]), content[8 + length :]
    header.pop("__metadata__", None)
    found = {}
    for name, about in header.items():
        begin, end = about["data_offsets"]
        shape = tuple(map(int, about["shape"]))
        if about["dtype"] != "F32" or min(shape, default=1) < 0 or end - begin != 4 * math.prod(shape):
            raise ValueError(f"{name} is no tensor of float32")
        if not 0 <= begin <= end <= len(values):
            raise ValueError("it is cut off")
        found[name] = np.frombuffer(values[begin:end], "<f4").reshape(shape)
    return found


def train(
    trajectories: Sequence[Path],
    embeddings: Path,
    out: Path,
    *,
    steps: int = 1500,
    seed: int = 0,
    probe: float = -2.0,
    resume: str = "auto",
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Train an energy on searches and the embeddings of their states into the folder `out`, which appears whole or not
    at all; returns its energy.json. `resume`: "auto" goes on with a training that was broken off, to the same bits,
    "none" begins anew. As labs.training.process.train, also in what it raises."""
    args = ["--trajectories", *map(str, trajectories), "--embeddings", str(embeddings)]
    args += ["--steps", str(steps), "--seed", str(seed), "--resume", resume, f"--probe-logprob={probe!r}"]
    return supervised("energy.py", args, out, RECORD, say)
