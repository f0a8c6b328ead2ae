"""Where results go, and files that are whole or not there: atomic writes, and what to say when the disk refuses."""

import errno
import os
import tempfile
from pathlib import Path

from core.errors import UserError

ROOT = Path(__file__).resolve().parent.parent


def results_dir() -> Path:
    """$RESULTS_DIR, else /workspace/results, or ./results where /workspace can't be written. Made if it is missing."""
    named = os.environ.get("RESULTS_DIR")
    folder = Path(os.path.expanduser(named)) if named else Path("/workspace/results")
    if not named and not os.access("/workspace", os.W_OK):
        folder = ROOT / "results"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the results folder {folder} can't be made ({error.strerror}). Set RESULTS_DIR") from None
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:  # permissions do not tell of full or read-only disks
            probe.write(bytes(4096))
    except OSError as error:
        raise UserError(
            f"the results folder {folder} can't be written ({error.strerror}). Mend that, or set RESULTS_DIR to another"
        ) from None
    return folder


def write_atomically(path: Path, content: bytes) -> None:
    """`path` holds all of `content`, or what it held before: also on a full disk, a crash or a power cut. One process
    at a time may write a path; what a killed one leaves beside it, the next one overwrites."""
    beside = _beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # someone may have removed it since the run began
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise trouble(path, error, "nothing finished is lost") from None


def remove(path: Path) -> None:
    """Remove `path` if it is there, and what a killed writer of it left beside it."""
    path.unlink(missing_ok=True)
    _beside(path).unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def trouble(path: Path, error: OSError, kept: str) -> UserError:
    """What to tell a user when `path` could not be written; `kept` says what is safe."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "the disk is full. Free some space" if is_full else f"writing failed ({error.strerror}). Mend that"
    return UserError(f"{path}: {why} and run the same command again; {kept}")
