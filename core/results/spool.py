"""Texts set aside in an unnamed file: only where they lie stays in memory."""

import os
import tempfile
from array import array
from pathlib import Path

from core.base.errors import UserError
from core.base.files import trouble


class Spool:
    """Texts by number, in the order they came. The file, in `folder`, has no name: it goes with the process, however
    that ends. Raises UserError where it can't be made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise UserError(f"no files can be made in {folder} ({error.strerror}). Choose another folder") from None
        self._ends = array("q", [0])

    def add(self, text: bytes) -> int:
        """Keep `text`; its number comes back. A full disk raises UserError, and what was kept stays whole."""
        view, end = memoryview(text), self._ends[-1]
        try:
            while view:
                written = os.pwrite(self._file.fileno(), view, end)
                view, end = view[written:], end + written
        except OSError as error:
            raise trouble(self._folder, error, "nothing finished is lost") from None
        self._ends.append(end)
        return len(self._ends) - 2

    def __getitem__(self, number: int) -> bytes:
        start, end = self._ends[number : number + 2]
        return os.pread(self._file.fileno(), end - start, start)
