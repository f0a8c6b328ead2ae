"""Searches that never were, with embeddings that hold as much of a signal as a test wants."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from core.base.seeds import rng
from labs.lean import embeddings, trajectories
from labs.lean.embeddings import Embedded, text_of
from labs.lean.energy import LAYERS, names
from labs.lean.trajectories import OFF_PATH, POSITIVE, Row
from tests.labs.lean import searches
from tests.labs.lean.embedding import MODEL

WIDTH = 24


def rows(theorem: str, depth: int = 3, beside: int = 3, is_proved: bool = True) -> list[Row]:
    """A search whose proof takes `depth` tactics and one more; each state on the path has `beside` children off it, and
    each of these one child."""
    told: list[Row] = []

    def add(parent: int | None, state: str, level: int, is_on: bool) -> int:
        made = searches.row(theorem, len(told), parent, f"t{len(told)}" * (parent is not None), state, is_on)
        left = depth + 1 - level if is_on else OFF_PATH
        told.append(made | {"depth_from_root": level, "remaining_depth": left})
        return len(told) - 1

    at: int | None = None
    for level in range(depth + 1):
        at = add(at, f"{theorem}\n⊢ on {level}", level, is_proved)
        for number in range(beside):
            off = add(at, f"{theorem}\n⊢ off {level} {number}", level + 1, False)
            add(off, f"{theorem}\n⊢ far {level} {number}", level + 2, False)
    if is_proved:
        add(at, "", depth + 1, True)
    return told


def written(folder: Path, theorems: int = 40, signal: float = 3.0, seed: int = 0) -> tuple[Path, Path]:
    """A folder of trajectories, and one of embeddings: noise around a vector of the theorem. Along one direction states
    on the path and off it are `signal` times its deviation apart; another tells how much is left of a proof."""
    found, vectors = folder / "trajectories", folder / "embeddings"
    found.mkdir(parents=True)
    random, drawn = rng("forest", seed), {}
    along, ahead = np.eye(WIDTH)[3], np.eye(WIDTH)[5]
    for number in range(theorems):
        name, middle = f"lemma_{number}", 2 * random.normal(size=WIDTH)
        told = rows(name, depth=2 + number % 3, is_proved=number % 8 != 7)
        (found / f"{number}.parquet").write_bytes(trajectories.encoded(told))
        for row in told:
            if text := text_of(row["state_pp"]):
                is_on = row["label"] == POSITIVE
                left = row["remaining_depth"] if is_on else random.integers(1, 5)
                drawn[text] = middle + random.normal(size=WIDTH) + signal * (is_on * along + left * ahead)
    store(vectors, drawn)
    return found, vectors


def store(folder: Path, drawn: dict[str, "np.typing.NDArray[np.float64]"], model: str = MODEL) -> None:
    made = Embedded(np.array(list(drawn.values()), np.float32), np.zeros(len(drawn), np.bool_))
    embeddings.write(folder, model, list(drawn), made)


def head(width: int = WIDTH, seed: int = 0) -> dict[str, Any]:
    """The tensors of an energy that nobody trained."""
    rng = np.random.default_rng(seed)
    made = {"mean": np.zeros(width, np.float32), "scale": np.ones(width, np.float32)}
    for layer, (inputs, outputs) in enumerate(zip((width, *LAYERS), LAYERS, strict=False)):
        weight, bias = names(layer)
        made[weight] = rng.normal(0, inputs**-0.5, (outputs, inputs)).astype(np.float32)
        made[bias] = np.zeros(outputs, np.float32)
    return made


def kept(folder: Path, tensors: dict[str, Any] | None = None, model: str = MODEL) -> Path:
    folder.mkdir()
    save_file(tensors or head(), folder / "energy.safetensors")
    (folder / "energy.json").write_text(json.dumps({"model": model}))
    return folder
