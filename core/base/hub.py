"""Announce downloads, and report the errors of the Hugging Face hub's client."""

import logging
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.base.errors import UserError, one_line
from core.base.files import in_words
from core.base.terminal import columns, heartbeat, say


@contextmanager
def fetching(name: str, size: int, here: Path, has_bars: bool = True) -> Iterator[None]:
    """Print the size of the download in the block, with a heartbeat unless a terminal shows the
    hub client's bars. Raises UserError if the disk lacks room for it."""
    free = shutil.disk_usage(here).free
    if size > free:
        raise UserError(
            f"{name} takes {in_words(size)}, but {here} has only {in_words(free)} free. Free some "
            "space, or set WEIGHTS_DIR to a folder on a larger disk"
        )
    step = f"fetching {name} ({in_words(size)}) to {here}"
    if has_bars and columns(sys.stderr):
        say(f"{step} …", sys.stderr)
        yield
        return
    with heartbeat(step, is_long=True):
        yield


@contextmanager
def hub_errors(name: str, way_out: str) -> Iterator[None]:
    """Turn any error of the hub client into a UserError about the model or data set `name`, with
    advice (`way_out`)."""
    try:
        # Its import sets the level of the client's logger, which shows every attempt.
        import huggingface_hub.file_download  # noqa: F401

        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        yield
    except UserError:
        raise
    # the client raises many kinds (offline, gated, no such revision, disk)
    except Exception as error:
        raise UserError(
            f"{name} can't be fetched from the Hugging Face hub ({_reason(error)}). {way_out}"
        ) from None


def _reason(error: BaseException) -> str:
    """Return a short reason for an error, because the hub client's messages are long."""
    from huggingface_hub import errors

    reasons: dict[type[Exception], str] = {
        errors.GatedRepoError: "you must accept the terms on its page and set HF_TOKEN",
        errors.RepositoryNotFoundError: "it does not exist, or HF_TOKEN gives no access to it",
        errors.RevisionNotFoundError: "it does not have this revision",
        errors.RemoteEntryNotFoundError: "it no longer has this file",
    }
    for kind, reason in reasons.items():
        if isinstance(error, kind):
            return reason
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    first_line, _, _ = str(error).strip().partition("\n")
    return one_line(first_line, 120).rstrip(".…") or type(error).__name__
