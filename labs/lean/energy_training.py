"""Train the energy of proof search: bash scripts/energy.sh --trajectories PATH… --embeddings FOLDER --out FOLDER

PATH is a file or a folder of trajectories. The folder of --out appears whole or not at all, with energy.safetensors and
energy.json. It runs in .venv-train (bash setup.sh train); a training that was broken off is gone on with.
"""

import json
import math
import time
from argparse import Namespace
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from core.base import signals
from core.base.arguments import Parser
from core.base.errors import UserError, command
from core.base.files import remove, sweep, whole
from labs.lean import embeddings, trees
from labs.lean.embeddings import Stored
from labs.lean.energy import LAYERS, RECORD, WEIGHTS


def options_of(argv: Sequence[str] | None) -> Namespace:
    """Raises UserError."""
    parser = Parser(prog="energy.sh", description="Train the energy of proof search.")
    parser.add_argument("--trajectories", type=Path, nargs="+", required=True, help="files or folders of searches")
    parser.add_argument("--embeddings", type=Path, required=True, help="the folder of their states' embeddings")
    parser.add_argument("--out", type=Path, required=True, help="the folder to make")
    parser.add_argument("--steps", type=int, default=1500, help="of training")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--probe-logprob", type=float, default=-2.0, help="log probability of tactics that no policy proposed"
    )
    parser.add_argument("--resume", choices=("auto", "none"), default="auto", help="none: begin anew")
    options = parser.parse_args(argv)
    for name, value, low, high in (("steps", options.steps, 1, 10**6), ("seed", options.seed, 0, 2**63 - 1)):
        if not low <= value <= high:
            raise UserError(f"--{name} {value} is not from {low:g} to {high:,}")
    return options


def train(options: Namespace) -> None:
    """Raises UserError; then there is no folder."""
    began = time.monotonic()
    sweep(options.out)
    with whole(options.out, "the energy", 2**22) as folder:
        stored = embeddings.load(options.embeddings)
        forest = trees.forest(options.trajectories, stored, options.probe_logprob)
        apart = embeddings.apart(forest.vectors, [tree.on_path + tree.off_path for tree in forest.trees])
        if apart.warning:
            print(f"warning: {apart.warning}", flush=True)
        folder.mkdir()
        from safetensors.numpy import save

        from labs.lean import energy_torch  # with torch: what is wrong with a file is said at once

        checkpoint = options.out.with_name(f"{options.out.name}.checkpoint")
        made = energy_torch.train(forest, options.steps, options.seed, checkpoint, options.resume == "auto")
        energies = np.array(made.energy(forest.vectors))
        held_out = [tree for tree in forest.trees if tree.is_held_out]
        figures = {
            "held_out": trees.auc(held_out, energies).to_json(),
            "held_out_own": trees.auc(held_out, energies, own=True).to_json(),
            "trained": trees.auc([tree for tree in forest.trees if not tree.is_held_out], energies).to_json(),
        }
        (folder / WEIGHTS).write_bytes(save(made.tensors))
        record = {
            "model": stored.model,
            "width": int(forest.vectors.shape[1]),
            "layers": list(LAYERS),
            "temperature": round(made.temperature, 6),
            "steps": options.steps,
            "seed": options.seed,
            "resumed": made.resumed,
            "loss": [[step, round(loss, 4)] for step, loss in _thinned(made.losses)],
            "auc": figures,
            "cosine": {"within": _number(apart.within), "between": _number(apart.between)},
            "warning": apart.warning,
            **_counts(forest, stored, len(held_out)),
            "sha256": forest.sha256,
            "seconds": round(time.monotonic() - began, 1),
            "device": f"cpu, {energy_torch.THREADS} thread",
            "versions": {"torch": version("torch"), "numpy": np.__version__},
        }
        (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    remove(checkpoint)


def _thinned(losses: Sequence[float]) -> list[tuple[int, float]]:
    """Means of a hundred stretches, by their last step."""
    size = math.ceil(len(losses) / 100)
    return [
        (begin + len(part), sum(part) / len(part))
        for begin in range(0, len(losses), size)
        if (part := losses[begin : begin + size])
    ]


def _counts(forest: trees.Forest, stored: Stored, held_out: int) -> dict[str, int]:
    return {
        "theorems": len(forest.trees),
        "theorems_held_out": held_out,
        "states": len(forest.vectors),
        "states_on_path": sum(len(tree.on_path) for tree in forest.trees),
        "states_cut": int(stored.cut.sum()),
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)


def main(argv: Sequence[str] | None = None) -> None:
    signals.Stop()
    with command():
        train(options_of(argv))


if __name__ == "__main__":
    main()
