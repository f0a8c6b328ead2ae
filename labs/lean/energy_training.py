"""Train the energy of proof search, in .venv-train (bash setup.sh train).

Only this module of the lab imports torch, and no other module imports this module. Equal trees,
vectors, steps and seed give equal weights. The loss is InfoNCE (van den Oord et al. 2018, arXiv
1807.03748) over a state on the path and up to seven states off it. A state's score is its negative
energy divided by a learned temperature. The loss adds DEPTH_WEIGHT times a squared error, so that a
path state's energy also predicts the number of tactics left in its proof. This number is divided by
its standard deviation. Divided by the longest path's length instead, it was not learned.
"""

import hashlib
import json
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save
from torch import Tensor, nn

from core.base import signals
from core.base.errors import command
from core.base.files import draft_of, sha256
from core.base.seeds import derive, rng
from labs.lean import trees
from labs.lean.constants import EnergyConstants, LeanConstants
from labs.lean.energy import LAYERS, MEAN, RECORD, SCALE, WEIGHTS, Energy, Stored, stored_in
from labs.lean.trees import PADDING, Draws, Tree
from labs.training.embeddings import Vectors
from labs.training.network import AdamW
from labs.training.outcome import Progress, Schedule

THREADS = 1  # with more threads, sums would differ from run to run
BATCH = 32  # examples in each step, each with a state on a path and up to seven states off it
RATE = 5e-4  # AdamW's peak learning rate
WEIGHT_DECAY = 0.1
DROPOUT = 0.1
CLIP = 1.0  # largest norm of the gradient
DEPTH_WEIGHT = 0.3


class Head(nn.Module):
    """The energy's network, for embeddings of `width` numbers. Its state_dict has the tensors of an
    energy's file."""

    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = zip((width, *LAYERS), LAYERS, strict=False)
        self.layers = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in sizes)

    def forward(self, states: Tensor) -> Tensor:
        """Return the energies (…) of `states` (…, width)."""
        *hidden, last = self.layers
        for layer in hidden:
            states = F.dropout(F.silu(layer(states)), DROPOUT, self.training)
        energies: Tensor = last(states).squeeze(-1)
        return energies


def fit(
    learned: Sequence[Tree],
    vectors: Vectors,
    steps: int,
    seed: int,
    begin: Mapping[str, Tensor] | None = None,
) -> tuple[dict[str, Tensor], float, list[float]]:
    """Train an energy on the trees `learned` and their states' `vectors`, from the layers in
    `begin` or from random ones. Return its tensors, the temperature and the losses. Raises
    UserError if a loss is not finite."""
    torch.set_num_threads(THREADS)
    draws = Draws(learned)
    seen: set[int] = set()
    for tree in learned:
        seen.update(tree.on_path, tree.off_path)
    mean, scale = _standard(vectors[np.array(sorted(seen))])
    states = torch.from_numpy((vectors - mean) / scale)
    torch.manual_seed(derive("energy", seed))
    head = Head(vectors.shape[1])
    if begin:
        head.load_state_dict({name: begin[name] for name in head.state_dict()})
    # the logarithm of the loss's temperature, which begins with 1
    temperature = torch.zeros((), requires_grad=True)
    parameters = [*head.parameters(), temperature]
    matrices = [parameter for parameter in parameters if parameter.ndim == 2]
    others = [parameter for parameter in parameters if parameter.ndim != 2]
    optimizers = AdamW(matrices, decay=WEIGHT_DECAY), AdamW(others)
    schedule = Schedule.of_finetuning(steps, RATE)
    progress = Progress(steps)
    head.train()
    for step in range(1, steps + 1):
        step_seed = derive("energy", seed, step - 1)
        torch.manual_seed(step_seed)
        numbers, remaining = map(torch.from_numpy, draws.batch(BATCH, rng("energy", step_seed)))
        energies = head(states[numbers])  # (examples, 8)
        scores = (-energies / temperature.exp()).masked_fill(numbers == PADDING, -torch.inf)
        contrast = F.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long))
        depth_error = F.mse_loss(energies[:, 0], (remaining / draws.spread).float())
        loss = contrast + DEPTH_WEIGHT * depth_error
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        for optimizer in optimizers:
            optimizer.step(schedule.scale(step - 1, 1))
        for parameter in parameters:
            parameter.grad = None
        progress.step(step, step * BATCH, loss.item())
    tensors = {MEAN: torch.from_numpy(mean), SCALE: torch.from_numpy(scale), **head.state_dict()}
    return tensors, temperature.exp().item(), [loss for _, loss in progress.losses]


def _standard(vectors: Vectors) -> tuple[Vectors, Vectors]:
    """Return each dimension's mean and standard deviation, which is at least 1% of the median
    standard deviation."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    scale = vectors.std(axis=0, dtype=np.float64)
    usual = float(np.median(scale)) or 1.0
    return mean.astype(np.float32), np.maximum(scale, 0.01 * usual).astype(np.float32)


def main(argv: Sequence[str] | None = None) -> None:
    """Train an energy by the options of the command line, in the process that iterate.py starts."""
    signals.catch()
    parser = ArgumentParser(prog="energy_training", description="Train the energy of proof search.")
    parser.add_argument(
        "--trajectories",
        type=Path,
        nargs="+",
        required=True,
        help="trajectory files or their folders",
    )
    parser.add_argument(
        "--embeddings", type=Path, required=True, help="the folder with the states' embeddings"
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--steps", type=int, default=EnergyConstants.STEPS, help="training steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--begin",
        type=Path,
        help="folder of an earlier energy, whose layers the training begins with",
    )
    about = "log probability that marks a tactic as a probe"
    parser.add_argument(
        "--probe-logprob", type=float, default=LeanConstants.PROBE_LOGPROB, help=about
    )
    with command():
        train(parser.parse_args(argv))


def train(options: Namespace) -> None:
    """Train an energy and write its folder. If this raises UserError, no folder remains."""
    began = time.monotonic()
    with draft_of(options.out, "the energy", 2**22) as folder:
        stored = stored_in(options.embeddings)
        forest = trees.forest(options.trajectories, stored, options.probe_logprob)
        learned = [tree for tree in forest if not tree.is_held_out]
        folder.mkdir()
        begin = load_file(options.begin / WEIGHTS) if options.begin else None
        tensors, temperature, losses = fit(
            learned, stored.vectors, options.steps, options.seed, begin
        )
        (folder / WEIGHTS).write_bytes(save(tensors))
        record: dict[str, Any] = {
            "model": stored.model,
            "width": int(stored.vectors.shape[1]),
            "layers": list(LAYERS),
            "temperature": round(temperature, 6),
            "steps": options.steps,
            "seed": options.seed,
        }
        if options.begin:
            record["begin"] = sha256(options.begin / WEIGHTS)
        parts = np.array_split(losses, min(100, options.steps))
        record["loss"] = [round(float(part.mean()), 4) for part in parts]
        record["auc"] = _aucs(forest, stored, tensors)
        record |= _facts(forest, stored)
        record |= {
            "seconds": round(time.monotonic() - began, 1),
            "device": f"cpu, {THREADS} thread",
            "versions": {"torch": torch.__version__, "numpy": np.__version__},
        }
        (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _aucs(
    forest: Sequence[Tree], stored: Stored, tensors: Mapping[str, Tensor]
) -> dict[str, dict[str, Any]]:
    """Return the AUC of a trained energy on held-out trees and on the trees it learned."""
    energy = Energy({name: tensor.numpy() for name, tensor in tensors.items()})
    energies = np.array(energy(stored.vectors))
    held_out = [tree for tree in forest if tree.is_held_out]
    learned = [tree for tree in forest if not tree.is_held_out]
    return {
        "held_out": trees.auc(held_out, energies).to_json(),
        "held_out_own": trees.auc(held_out, energies, own=True).to_json(),
        "trained": trees.auc(learned, energies).to_json(),
    }


def _facts(forest: Sequence[Tree], stored: Stored) -> dict[str, Any]:
    """Return the sizes and hashes of the training data, for the record."""
    vectors = stored.vectors.tobytes() + stored.model.encode()
    return {
        "theorems": len(forest),
        "theorems_held_out": len([tree for tree in forest if tree.is_held_out]),
        "states": len(stored.vectors),
        "states_on_path": sum(len(tree.on_path) for tree in forest),
        "states_cut": int(stored.cut.sum()),
        "sha256": {
            "trees": hashlib.sha256(repr(forest).encode()).hexdigest(),
            "vectors": hashlib.sha256(vectors).hexdigest(),
        },
    }


if __name__ == "__main__":
    main()
