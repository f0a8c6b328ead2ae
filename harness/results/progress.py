"""Store how far a run is in a small file next to its results, which a live page reads.

The file exists only while the run sends requests. A killed run leaves it, so a reader looks at its
age, too.
"""

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from core.base.errors import UserError
from core.base.files import write_atomically
from harness.results.warnings import CONTINUES

ENDING = ".progress"
SECONDS = 3.0  # between two writes
SILENCE = 30.0  # seconds without a write, after which the run may have been killed


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a command, or of one of its stages. `total` counts its `unit`, for example
    completions. `seconds_left` and `speed` (tokens per second) are None if they are unknown.
    `notes` are further texts, such as the accuracy so far."""

    name: str
    done: int
    total: int
    unit: str
    seconds_left: float | None
    speed: float | None
    notes: list[str]

    @property
    def text(self) -> str:
        """The state in words: "11% of 960 completions, about 04:00 left, 634 tok/s"."""
        share = self.done / max(1, self.total)
        parts = [f"{share:.0%} of {self.total:,} {self.unit}"]
        if self.seconds_left is not None:
            parts.append(f"about {in_words(self.seconds_left)} left")
        if self.speed is not None:
            parts.append(f"{self.speed:,.0f} tok/s")
        return ", ".join([*parts, *self.notes])


def in_words(seconds: float) -> str:
    """Format a duration: "04:00", "1:02:03" or "2 days, 1:02:03"."""
    return str(timedelta(seconds=round(seconds))).removeprefix("0:")


def path_of(folder: Path, name: str) -> Path:
    """Return the path of the progress of the run `name`, whose results are in `folder`."""
    return folder / f"{name}{ENDING}"


def write(progress: Progress, path: Path) -> None:
    """Replace the file `path`. A failure has no effect on the run, which does not need the file."""
    with suppress(UserError):
        write_atomically(path, msgspec.json.encode(progress), is_synced=False)


def remove(path: Path) -> None:
    """Remove the file `path`, because the run sends no more requests."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


def read(path: Path) -> dict[str, Any] | None:
    """Return the name of a run and its state in words, or None if the file is missing or damaged.
    If the run has not written for SILENCE seconds, the words say so instead."""
    try:
        written = path.stat().st_mtime
        progress = msgspec.json.decode(path.read_bytes(), type=Progress)
    except (OSError, msgspec.MsgspecError):
        return None
    text = progress.text
    if time.time() - written > SILENCE:
        last = datetime.fromtimestamp(written, UTC).isoformat(timespec="seconds")
        text = f"no news since {last} ({CONTINUES})"
    return {"name": progress.name, "text": text}
