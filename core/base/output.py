"""Replace standard output and error by streams that may be lost: a pipe's reader has left, or a disk is full.
A command's results matter more than its output: if output can't be written, it is dropped and the command continues."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Output:
    """A text stream in front of `stream`. `lost` is the first error of writing, from which on nothing is written."""

    def __init__(self, stream: Any) -> None:
        self.lost: OSError | None = None
        self._stream = stream

    def write(self, text: str) -> int:
        encoding = self._stream.encoding or "utf-8"  # not every locale has every character
        self._kept(self._stream.write, text.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        self._kept(self._stream.flush)

    def _kept(self, act: Any, *args: str) -> None:
        try:
            act(*args)
        except OSError as error:  # what follows, and what the stream still buffers, goes to the null device
            self.lost = self.lost or error
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def kept() -> Iterator[Output]:
    """Replace both streams while the block runs. Yields the one for standard output."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = shown, errors = Output(sys.stdout), Output(sys.stderr)
    try:
        yield shown
    finally:
        shown.flush()
        errors.flush()
        sys.stdout, sys.stderr = streams
