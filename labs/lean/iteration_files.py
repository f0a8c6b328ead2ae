"""Name the folders of iterations, and find the searches in them."""

import re
from collections.abc import Sequence
from pathlib import Path

from core.base.errors import UserError
from core.base.files import make_folder
from labs.lean.constants import IterationConstants
from labs.lean.outcome import Outcome
from labs.lean.theorem import Theorem

LOG = "log.txt"  # in an iteration's folder: its lines on the screen
KEPT = "kept"  # in iteration 0 after RESET: the iterations before
SEARCHED = ("trajectories", "noisy")  # in an iteration's folder: searches of training theorems
TRACED = "traced"  # in iteration 0: states along traced proofs


def numbers(config: IterationConstants) -> Sequence[int]:
    """Return the numbers of the iterations to run."""
    return range(config.MAX_ITERATION + 1) if config.ITERATION < 0 else [config.ITERATION]


def check_apart(learned: Sequence[Theorem | Outcome], held_out: Sequence[Theorem]) -> None:
    """Raise UserError if a held-out theorem has the same statement as a training theorem."""
    names = {" ".join(theorem.statement.split()): theorem.name for theorem in learned}
    for theorem in held_out:
        same = names.get(" ".join(theorem.statement.split()))
        if same:
            raise UserError(
                f"the held-out theorem {theorem.name} has the same statement as the training "
                f"theorem {same}. Use TRAIN_THEOREMS and THEOREMS without common statements"
            )


def folder_of(folder: Path, number: int) -> Path:
    return folder / f"iteration_{number}"


def policy_in(folder: Path) -> Path:
    """Return the path of the weights (a file or folder) that the iteration in `folder` trains."""
    file = folder / "model" / "model.gguf"
    return file if file.exists() else folder / "model" / "model"


def searches_in(folder: Path, parts: Sequence[str]) -> list[Path]:
    """Return the folders with an iteration's `parts`, and with the same parts of iterations that it
    keeps."""
    searches = [folder / part for part in parts if (folder / part).is_dir()]
    for part in parts:
        earlier = sorted(folder.glob(f"{KEPT}/**/{part}"))
        searches += [path for path in earlier if any(path.glob("*.parquet"))]
    return searches


def put_aside(folder: Path, reset: int) -> None:
    """Move all iterations in `folder` into a new iteration 0, for RESET=`reset`. Raises UserError
    if there is none. A stopped move is completed."""
    earlier = [
        path for path in folder.glob("iteration_*") if re.fullmatch(r"iteration_\d+", path.name)
    ]
    moving = folder / KEPT
    if not moving.exists() and not earlier:
        raise UserError(f"{folder} contains no iteration to train on. Remove RESET={reset}")
    make_folder(moving)
    for path in earlier:
        path.rename(moving / path.name)
    first = folder_of(folder, 0)
    make_folder(first)
    moving.rename(first / KEPT)
