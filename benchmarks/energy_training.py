"""Measure the training of proof search's energy model on one CPU thread: seconds, memory and
held-out AUC.

    python -m benchmarks.energy_training FOLDER [--theorems 2000] [--width 2560] [--steps 1500]

This needs the requirements of labs/lean/energy_training.py (.venv-train), but neither Lean nor a
language model. The searches are synthetic, with about ten proof states per theorem. The states'
embeddings are random vectors of --width numbers. Along one direction, states on the proof's path
and other states differ by SIGNAL standard deviations. This direction alone would give an AUC of
0.92. A first training of one step mainly measures the time to load the data. The speed follows
from the additional seconds of a second training with all steps."""

import argparse
import json
import os
import resource
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.training_script import ran
from core.base.errors import UserError, command
from core.base.seeds import rng
from core.engines.shape import QED_NANO
from labs.lean import energy, trajectories
from labs.lean.energy import RECORD, text_of
from labs.lean.trajectories import NEGATIVE, OFF_PATH, POSITIVE, Row
from labs.lean.trees import NEGATIVES

SIGNAL = 2.0
OFF = 2  # states off the path for each unfinished state on it
# Theorems in memory at once. A child process starts with its parent's memory, so a higher number
# would raise its peak.
AT_ONCE = 200
BATCH = 32  # as in labs/lean/energy_training.py, whose import would load torch into this process
MIB = 2**20


def rows(theorem: str, depth: int) -> list[Row]:
    """Return the rows of a search whose proof takes `depth` tactics. Each unfinished state on the
    proof's path has OFF children off the path. The very last of these children has one child."""
    events: list[Row] = []

    def add(parent: int | None, state: str, level: int, is_on: bool) -> int:
        number = len(events)
        events.append(
            {
                "theorem_name": theorem,
                "state_id": number,
                "state_pp": state,
                "tactic_applied": "" if parent is None else f"t{number}",
                "parent_state_id": parent,
                "label": POSITIVE if is_on else NEGATIVE,
                "depth_from_root": level,
                "remaining_depth": depth - level if is_on else OFF_PATH,
                "llm_log_prob": 0.0 if parent is None else -1.0,
                "ebm_score": None,
                "is_proof_complete": is_on and not state,
                "timestamp_ms": 1,
            }
        )
        return number

    on: int | None = None
    off = 0
    for level in range(depth):
        on = add(on, f"{theorem}\n⊢ on {level}", level, True)
        for other in range(OFF):
            off = add(on, f"{theorem}\n⊢ off {level} {other}", level + 1, False)
    add(off, f"{theorem}\n⊢ far", depth + 1, False)
    add(on, "", depth, True)
    return events


def write(folder: Path, theorems: int, width: int) -> None:
    """Write searches whose proofs take two to four tactics, and the embeddings of their states, to
    `folder`."""
    random = rng("energy benchmark")
    along = random.normal(size=width)
    along *= SIGNAL / np.linalg.norm(along)
    (folder / "trajectories").mkdir(parents=True)
    for begin in range(0, theorems, AT_ONCE):
        texts: list[str] = []
        vectors = []
        for number in range(begin, min(begin + AT_ONCE, theorems)):
            events = rows(f"made_{number}", 2 + number % 3)
            trajectories.part(folder / "trajectories", f"made_{number}").write_bytes(
                trajectories.encoded(events)
            )
            middle = random.normal(size=width)
            for row in events:
                if text := text_of(row["state_pp"]):
                    texts.append(text)
                    moved = along if row["label"] == POSITIVE else 0.0
                    vectors.append((middle + random.normal(size=width) + moved).astype(np.float32))
        energy.store(
            folder / "embeddings",
            "made@000000000000",
            texts,
            np.stack(vectors),
            [False] * len(texts),
        )


def trained(folder: Path, steps: int) -> dict[str, Any]:
    """Train for `steps` steps, and return the contents of energy.json."""
    out = folder / "energy"
    shutil.rmtree(out, ignore_errors=True)
    args = [
        "--trajectories",
        str(folder / "trajectories"),
        "--embeddings",
        str(folder / "embeddings"),
    ]
    args += ["--out", str(out), "--steps", str(steps)]
    result = ran("labs.lean.energy_training", *args)
    if result.returncode:
        raise UserError(f"the training failed: {result.stdout.strip()[-500:]}")
    record: dict[str, Any] = json.loads((out / RECORD).read_text(encoding="utf-8"))
    return record


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--theorems", type=int, default=2000)
    parser.add_argument("--width", type=int, default=QED_NANO.hidden)
    parser.add_argument("--steps", type=int, default=1500)
    args = parser.parse_args()
    if args.steps < 2:
        raise UserError(f"--steps {args.steps} is too small to measure the speed. Give 2 or more")
    searches = args.folder / f"{args.theorems}x{args.width}"
    shutil.rmtree(searches, ignore_errors=True)
    write(searches, args.theorems, args.width)
    first, whole = trained(searches, 1), trained(searches, args.steps)
    a_second = (args.steps - 1) / (whole["seconds"] - first["seconds"])
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    figures = {
        "theorems": whole["theorems"],
        "states": whole["states"],
        "width": whole["width"],
        "steps": args.steps,
        "seconds": whole["seconds"],
        "seconds_of_one_step": first["seconds"],
        "steps_a_second": round(a_second, 1),
        "states_a_second": round(a_second * BATCH * (1 + NEGATIVES)),
        "peak_mib": round(peak / MIB),
        "auc": whole["auc"],
        "load": round(os.getloadavg()[0], 1),
        "cpus": os.cpu_count(),
        "versions": whole["versions"],
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    with command():
        main()
