"""An append-only memo of completions: what makes every experiment resumable.

One file per experiment, one JSON object a line, keyed by a hash of everything that determines a completion. A run
looks each request up before it asks the server; so a stopped run goes on where it was, and T raised from 5 to 10
reuses every earlier step. Journals of other experiments beside it are read too (never written): step 0 of an RSA run
is the eight samples of the baseline.

A line reaches the operating system as soon as its completion is there (it survives kill -9), and the disk within
SYNC_SECONDS (it survives a power cut, but for the last second). A torn last line is cut off and simply owed again;
so is a line whose checksum is wrong.
"""

import fcntl
import hashlib
import json
import os
import shutil
import threading
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import UserError
from core.files import trouble

SYNC_SECONDS = 1.0


def content_key(content: Any) -> str:
    """The key of whatever determines a completion (JSON-able): 128 bits of the SHA-256 of its canonical form."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class _Place(NamedTuple):
    path: Path
    offset: int
    length: int


class Journal:
    """The memo in `path`; use it as a context manager. One process may write a journal at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged: list[int] = []  # numbers of lines that can't be read; their completions are owed again
        self._places: dict[str, _Place] = {}
        self._dirty = threading.Event()
        self._stop = threading.Event()

    def __enter__(self) -> "Journal":
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise UserError(
                f"the journal {self.path} can't be written ({error.strerror}). Set RESULTS_DIR to a folder you own"
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise UserError(
                f"another run is writing {self.path}. Wait for it, stop it, or give this run a RESULTS_DIR of its own"
            ) from None
        for other in sorted(self.path.parent.glob("*.jsonl")):
            if other != self.path:
                self._index(other)
        end = self._index(self.path)
        os.ftruncate(self._fd, end)  # a torn last line: cut off, so that the next record starts a line
        self._end = end
        self._syncer = threading.Thread(target=self._sync, name="journal-sync", daemon=True)
        self._syncer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._dirty.set()
        self._syncer.join()
        if not os.fstat(self._fd).st_nlink:
            self._put_back()
        os.close(self._fd)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def get(self, key: str) -> dict[str, Any] | None:
        """The completion kept under `key`, or None."""
        place = self._places.get(key)
        if place is None:
            return None
        with open(place.path, "rb") as file:
            file.seek(place.offset)
            record = _parse(file.read(place.length))
        return record["completion"] if record else None

    def put(self, key: str, completion: dict[str, Any]) -> None:
        """Keep `completion` (JSON-able) under `key`. A full disk raises UserError and leaves the journal whole."""
        body = json.dumps(completion, ensure_ascii=True, separators=(",", ":"))
        line = f'{{"key":"{key}","crc":{zlib.crc32(body.encode())},"completion":{body}}}\n'.encode()
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            os.ftruncate(self._fd, self._end)
            raise trouble(self.path, error, f"the {len(self)} completions kept so far are safe") from None
        self._places[key] = _Place(self.path, self._end, len(line))
        self._end += len(line)
        self._dirty.set()

    def _index(self, path: Path) -> int:
        """Note where each record of `path` lies; the offset after its last whole line comes back."""
        offset = 0
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                record = _parse(line)
                if record is None:
                    if path == self.path:
                        self.damaged.append(number)
                else:
                    self._places[record["key"]] = _Place(path, offset, len(line))
                offset += len(line)
        return offset

    def _put_back(self) -> None:
        """Someone removed the file while it was written to: what it held can still be read, and is not lost."""
        with suppress(OSError), open(self._fd, "rb", closefd=False) as held:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "xb") as file:
                held.seek(0)
                shutil.copyfileobj(held, file)

    def _sync(self) -> None:
        while not self._stop.is_set():
            self._dirty.wait()
            self._dirty.clear()
            os.fsync(self._fd)
            self._stop.wait(SYNC_SECONDS)
        os.fsync(self._fd)


def _parse(line: bytes) -> dict[str, Any] | None:
    """The record of a line, or None where it is damaged."""
    try:
        record = json.loads(line)
        body = json.dumps(record["completion"], ensure_ascii=True, separators=(",", ":"))
        return record if zlib.crc32(body.encode()) == record["crc"] and isinstance(record["key"], str) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
