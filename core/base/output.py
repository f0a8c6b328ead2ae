"""Standard output and error that may be lost: a pipe's reader has left, or a disk is full.

What a command saves is worth more than what it shows, so that showing never ends it: what can't be shown is dropped.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Output:
    """A text stream in front of `stream`. `lost`: why it shows nothing any more."""

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
        except OSError as error:  # the rest, and what the stream still holds for its end, goes nowhere
            self.lost = self.lost or error
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def kept() -> Iterator[Output]:
    """Stand in front of both streams while the block runs; standard output comes back."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = shown, told = Output(sys.stdout), Output(sys.stderr)
    try:
        yield shown
    finally:
        shown.flush()
        told.flush()
        sys.stdout, sys.stderr = streams
