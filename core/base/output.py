"""Keep a command running if its output can't be written, for example to a closed pipe or a full disk.
The results matter more than the output, so the output is dropped and the command continues."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Output:
    """A text stream that writes to `stream`, and drops all text after its first error. `lost` is this error or None."""

    def __init__(self, stream: Any) -> None:
        self.lost: OSError | None = None
        self._stream = stream

    def write(self, text: str) -> int:
        encoding = self._stream.encoding or "utf-8"  # characters that the locale's encoding lacks are escaped
        self._kept(self._stream.write, text.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        self._kept(self._stream.flush)

    def _kept(self, act: Any, *args: str) -> None:
        try:
            act(*args)
        except OSError as error:  # from now on, buffered and new text goes to the null device
            self.lost = self.lost or error
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def kept() -> Iterator[Output]:
    """Replace standard output and error by Output streams during the block. Yields the stream of standard output."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = shown, errors = Output(sys.stdout), Output(sys.stderr)
    try:
        yield shown
    finally:
        shown.flush()
        errors.flush()
        sys.stdout, sys.stderr = streams
