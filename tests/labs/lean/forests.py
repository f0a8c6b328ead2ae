"""Generate searches, with embeddings that contain a given signal."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from core.base.seeds import rng
from labs.lean import energy, trajectories
from labs.lean.energy import LAYERS, text_of
from labs.lean.trajectories import OFF_PATH, POSITIVE, Row
from tests.labs.lean import searches
from tests.labs.lean.embedding import MODEL

WIDTH = 24


def rows(theorem: str, depth: int = 3, beside: int = 3, is_proved: bool = True) -> list[Row]:
    """Return a search with a proof of `depth` + 1 tactics; path states have `beside` children off
    it, and these one."""
    rows_of: list[Row] = []

    def add(parent: int | None, state: str, level: int, is_on: bool) -> int:
        built = searches.row(
            theorem, len(rows_of), parent, f"t{len(rows_of)}" * (parent is not None), state, is_on
        )
        left = depth + 1 - level if is_on else OFF_PATH
        rows_of.append(built | {"depth_from_root": level, "remaining_depth": left})
        return len(rows_of) - 1

    at: int | None = None
    for level in range(depth + 1):
        at = add(at, f"{theorem}\n⊢ on {level}", level, is_proved)
        for number in range(beside):
            off = add(at, f"{theorem}\n⊢ off {level} {number}", level + 1, False)
            add(off, f"{theorem}\n⊢ far {level} {number}", level + 2, False)
    if is_proved:
        add(at, "", depth + 1, True)
    return rows_of


def written(folder: Path, signal: float = 3.0) -> None:
    """Write a folder of trajectories, and one of embeddings: a vector of the theorem and noise.
    Along one direction states on and off the path differ by `signal` deviations; another is the
    distance to the end."""
    found, vectors = folder / "trajectories", folder / "embeddings"
    found.mkdir(parents=True)
    random, drawn = rng("forest", 0), {}
    along, ahead = np.eye(WIDTH)[3], np.eye(WIDTH)[5]
    for number in range(40):
        name, middle = f"lemma_{number}", 2 * random.normal(size=WIDTH)
        rows_of = rows(name, depth=2 + number % 3, is_proved=number % 8 != 7)
        (found / f"{number}.parquet").write_bytes(trajectories.encoded(rows_of))
        for row in rows_of:
            if text := text_of(row["state_pp"]):
                is_on = row["label"] == POSITIVE
                left = row["remaining_depth"] if is_on else random.integers(1, 5)
                drawn[text] = (
                    middle + random.normal(size=WIDTH) + signal * (is_on * along + left * ahead)
                )
    store(vectors, drawn)


def store(folder: Path, drawn: dict[str, "np.typing.NDArray[np.float64]"]) -> None:
    energy.store(
        folder, MODEL, list(drawn), np.array(list(drawn.values()), np.float32), [False] * len(drawn)
    )


def head(width: int = WIDTH) -> dict[str, Any]:
    """Return the tensors of an untrained energy."""
    rng = np.random.default_rng(0)
    built = {"mean": np.zeros(width, np.float32), "scale": np.ones(width, np.float32)}
    for layer, (inputs, outputs) in enumerate(zip((width, *LAYERS), LAYERS, strict=False)):
        built[f"layers.{layer}.weight"] = rng.normal(0, inputs**-0.5, (outputs, inputs)).astype(
            np.float32
        )
        built[f"layers.{layer}.bias"] = np.zeros(outputs, np.float32)
    return built


def kept(folder: Path, tensors: dict[str, Any] | None = None, model: str = MODEL) -> Path:
    folder.mkdir()
    save_file(tensors or head(), folder / "energy.safetensors")
    (folder / "energy.json").write_text(json.dumps({"model": model}))
    return folder
