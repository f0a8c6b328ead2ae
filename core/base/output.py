"""Standard output and error that may be lost: a pipe's reader has left, a disk is full, a stream was closed at first.

What a command saves is worth more than what it shows, so that showing never ends it: what can't be shown is dropped.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Output:
    """A text stream in front of `stream` (None: closed from the start). `lost`: why it shows nothing any more."""

    def __init__(self, stream: Any) -> None:
        self.lost: OSError | None = None
        self._is_closed = stream is None
        self._stream = open(os.devnull, "w") if stream is None else stream  # noqa: SIM115 - lives as long as we do

    def write(self, text: str) -> int:
        if self._is_closed and text:
            self.lost = self.lost or OSError("it was closed")
        try:
            self._stream.write(text)
        except UnicodeEncodeError as error:  # LC_ALL or PYTHONIOENCODING say so
            self._stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        except OSError as error:
            self._give_up(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """The rest, and what the stream still holds for its end, goes nowhere."""
        self.lost = self.lost or error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def kept() -> Iterator[Output]:
    """Stand in front of both streams while the block runs; standard output comes back."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: a file of ours would take its number, and what libraries print would go into it
            os.open(os.devnull, os.O_RDWR)
    streams = sys.stdout, sys.stderr
    shown, told = Output(sys.stdout), Output(sys.stderr)
    sys.stdout, sys.stderr = shown, told
    try:
        yield shown
    finally:
        shown.flush()
        told.flush()
        sys.stdout, sys.stderr = streams
