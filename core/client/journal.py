"""Store completions in an append-only journal, which makes every experiment resumable.

Each experiment has one file, with one JSON object per line. A record contains a completion and the
messages of its request. Its key is a hash of everything that determines the completion. A run looks
up each request before sending it. So a stopped run continues, and a run with T=10 reuses the first
5 steps of a run with T=5. A run reads all journals of its folder, so RSA reuses the baseline's
samples as step 0. If several journals contain a key, the run's own journal has priority, then the
last file by name.

A line is written when its completion arrives, and then survives kill -9. Every SYNC_SECONDS the
lines are forced to the disk. If the file is moved or removed during a run, the run writes all lines
again. If a line is incomplete, has a wrong checksum or is no completion of this version, its
request is sent again. The checksum ends the line and covers all bytes before it, so checking a line
needs no parsing. Only the records' keys and offsets are kept in memory.

If prices are known, lines may have a field "paid", in dollars (core/client/budget.py). Before a
request, a line without a record reserves its highest possible cost. A later line gives back the
rest as a negative amount."""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from core.base import terminal
from core.base.errors import UserError
from core.base.files import NOTHING_LOST, open_unlinked, write_error
from core.types import Completion, Message

SYNC_SECONDS = 2.0
_MOVED = "the records are in the journal that was moved, or lost with a removed one"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND

_BEGINNING = re.compile(rb'\{"key":"([0-9a-f]{32})","completion":\{')
_END = b',"crc":"%08x"}\n'
_END_BYTES = len(_END % 0)
_PAID = re.compile(rb'"paid":(-?\d+(?:\.\d+)?(?:e-\d+)?),"crc":"[0-9a-f]{8}"\}\n$')
_SELDOM = ("context", "confidences", "scores")  # fields that records omit if they are empty
_PAID_BYTES = 80  # only so many bytes at a line's end are searched for _PAID


def content_key(content: Any) -> str:
    """Return 128 bits of the SHA-256 of `content` as canonical JSON, in 32 hexadecimal digits."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Record:
    """A completion, and the `messages` of its request."""

    completion: Completion
    messages: list[Message]


class _File:
    """A journal that is open for reading."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.offsets: dict[int, int] = {}  # key -> offset of its record
        self.end = 0  # the offset after the last complete line
        # numbers of unreadable lines, counted from the beginning of a scan
        self.damaged: list[int] = []
        self.paid = 0.0  # dollars
        try:
            self.scan()
        except OSError as error:
            raise UserError(
                f"the journal {path} can't be read ({error.strerror}). Make the file readable"
            ) from None

    def scan(self) -> None:
        """Read the lines after `end`. Store the offsets of their records, and add up their
        payments."""
        with open(self._path, "rb", buffering=1 << 20) as file:
            file.seek(self.end)
            for count, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                if not _is_whole(line):
                    self.damaged.append(count)
                if key := _key(line):
                    self.offsets[key] = self.end
                if paid := _PAID.search(line, max(0, len(line) - _PAID_BYTES)):
                    self.paid += float(paid[1])
                self.end += len(line)

    def line(self, offset: int) -> bytes:
        """Return the line at `offset`. It is empty if the file has become shorter or is missing
        since the scan."""
        with suppress(OSError), open(self._path, "rb") as file:
            file.seek(offset)
            return file.readline()
        return b""


class Archive:
    """All journals of a folder, read-only. Use it as a context manager. Runs may write to the
    journals meanwhile. If several journals contain a key, the journal named `first` has priority,
    then the last file by name."""

    def __init__(self, folder: Path, first: str = "") -> None:
        self.folder = folder
        self._first = first
        self._files: dict[Path, _File] = {}  # the file with the highest priority is last

    def __enter__(self) -> Self:
        self.refresh()
        return self

    def __exit__(self, *_: object) -> None:
        self._files.clear()

    def refresh(self) -> None:
        """Read the lines and files that are new since the last call. Raises UserError if a journal
        can't be read."""
        for path in filter(Path.is_file, self.folder.glob("*.jsonl")):
            if path in self._files:
                self._files[path].scan()
            else:
                self._files[path] = _File(path)
        by_priority = sorted(self._files, key=lambda path: (path.stem == self._first, path))
        self._files = {path: self._files[path] for path in by_priority}

    def __len__(self) -> int:
        return sum(len(file.offsets) for file in self._files.values())

    def get(self, key: str) -> Completion | None:
        """Return the completion with this `key`, or None if there is no valid record."""
        record = self.record(key)
        return None if record is None else record.completion

    def record(self, key: str) -> Record | None:
        """Return the record with this `key`, or None if it is missing, damaged or no completion."""
        number = int(key, 16)
        file = next(
            (file for file in reversed(self._files.values()) if number in file.offsets), None
        )
        line = file.line(file.offsets[number]) if file else b""
        if _key(line) != number:  # there is no record, or it has changed since the scan
            return None
        try:
            fields = json.loads(line)
            return Record(
                Completion(key=key, reused=True, **fields["completion"]), fields["messages"]
            )
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


class Journal(Archive):
    """The journal in the file `path`, which also looks up records in the folder's other journals.
    Use it as a context manager. Only one process at a time may write to it. A lock ensures this, if
    the file system has locks. If `is_private`, only its owner may read a new file."""

    def __init__(self, path: Path, is_private: bool = False) -> None:
        super().__init__(path.parent, path.stem)
        self.path = path
        self.is_open = False
        self._mode = 0o600 if is_private else 0o644
        # fsync may take seconds, for example on a network volume
        self._disk = ThreadPoolExecutor(1, "journal")

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = open_unlinked(self.path, _FLAGS, self._mode)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise write_error(self.path, error, NOTHING_LOST) from None
            raise UserError(
                f"cannot write {self.path} ({error.strerror}). Make its folder writable, or set "
                "another RESULTS_DIR"
            ) from None
        try:
            unlocked = _lock(self._fd, self.path)
        except UserError:
            os.close(self._fd)
            raise
        if unlocked:
            warning = f"warning: {self.path} can't be locked, because the file system has no locks "
            advice = f"({unlocked.strerror}). Do not start a run a second time while it runs"
            terminal.say(warning + advice, sys.stderr)
        with terminal.heartbeat(f"reading the journals in {self.folder}"):
            super().__enter__()
        self._own_file = self._files[self.path]
        # numbers of unreadable lines, whose requests are sent again
        self.damaged = self._own_file.damaged
        self._first_new = self._own_file.end
        # drop an incomplete last line, because a record must start a new line
        os.ftruncate(self._fd, self._own_file.end)
        self._begin_sync()
        self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False
        self._disk.shutdown()
        try:
            self._stay()
        finally:
            with suppress(OSError):
                os.fsync(self._fd)
            os.close(self._fd)

    def put(self, completion: Completion, messages: Sequence[Message], paid: float = 0.0) -> None:
        """Append a completion's record. `paid` is a payment in dollars for its request. A negative
        payment gives money back. Raises UserError if writing fails. Then the journal contains only
        the earlier records."""
        offset = self._own_file.end
        omitted = {"key", "reused"}
        omitted |= {name for name in _SELDOM if not getattr(completion, name)}
        fields = {name: value for name, value in vars(completion).items() if name not in omitted}
        record = {"key": completion.key, "completion": fields, "messages": list(messages)}
        self._append(record, paid)
        self._own_file.offsets[int(completion.key, 16)] = offset

    def pay(self, amount: float) -> None:
        """Append a payment in dollars. A negative payment gives money back. Raises UserError if
        writing fails."""
        self._append({}, amount)

    @property
    def paid(self) -> float:
        """The sum of all payments in this journal's own file, in dollars."""
        return self._own_file.paid

    def _append(self, record: dict[str, Any], paid: float) -> None:
        paid = round(paid, 12)
        head = json.dumps(
            record | ({"paid": paid} if paid else {}), ensure_ascii=True, separators=(",", ":")
        )[:-1]
        line = head.encode() + _END % zlib.crc32(head.encode())
        self._stay()
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(self._fd, view) :]
            if self._sync.done() and time.monotonic() - self._synced > SYNC_SECONDS:
                self._sync.result()  # raises the disk's error
                self._begin_sync()
        except OSError as error:
            os.ftruncate(self._fd, self._own_file.end)
            raise write_error(
                self.path, error, f"the {len(self)} records in the journals are saved"
            ) from None
        self._own_file.end += len(line)
        self._own_file.paid += paid

    def _begin_sync(self) -> None:
        """Begin to write all lines to the disk, in a thread."""
        self._sync = self._disk.submit(os.fsync, self._fd)
        self._synced = time.monotonic()

    def _stay(self) -> None:
        """Write the file again if it was moved or removed since the last line. Raises UserError if
        that fails, or if another file has its name. In this case all lines are saved under a new
        name."""
        try:
            opened = os.fstat(self._fd)
            there = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            self._write_again(self.path)
            note = (
                f"note: {self.path} was moved or removed during the run. The run has written it "
                "again"
            )
            terminal.say(note, sys.stderr)
            return
        except OSError as error:
            raise write_error(self.path, error, _MOVED) from None
        if os.path.samestat(opened, there):
            return
        taken = self.path
        self._write_again(taken.with_name(f"{taken.stem}.{time.time_ns()}.jsonl"))
        raise UserError(
            f"another file has replaced {taken} during the run. This run's records are saved in "
            f"{self.path}, and runs in this folder read both files. Run the same command again"
        )

    def _write_again(self, path: Path) -> None:
        """Copy all lines from the open file to a new file `path`, and write to this file from now
        on."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            new = open_unlinked(path, _FLAGS | os.O_EXCL, self._mode)
            try:
                _lock(new, path)
                with (
                    open(self._fd, "rb", closefd=False) as old,
                    open(new, "wb", closefd=False) as copy,
                ):
                    old.seek(0)
                    shutil.copyfileobj(old, copy)
                os.fsync(new)
                os.dup2(new, self._fd, inheritable=False)
            finally:
                os.close(new)
        except OSError as error:
            raise write_error(path, error, _MOVED) from None
        self.path = path

    def is_earlier(self, key: str) -> bool:
        """Return whether the record of `key` is older than this session, or in another journal."""
        return self._own_file.offsets.get(int(key, 16), -1) < self._first_new


def _lock(file: int, path: Path) -> OSError | None:
    """Take the lock of an open journal until it is closed. Return the error if the file system has
    no locks, as on some network volumes. Raises UserError if another process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(
            f"another run is writing {path}. Wait for that run, stop it, or set another "
            "RESULTS_DIR for this run (in Python: another name)"
        ) from None
    except OSError as error:
        return error
    return None


def _key(line: bytes) -> int | None:
    """Return the key of the record in a line, or None if the line is damaged or contains no
    record."""
    beginning = _BEGINNING.match(line) if _is_whole(line) else None
    return int(beginning[1], 16) if beginning else None


def _is_whole(line: bytes) -> bool:
    return line[-_END_BYTES:] == _END % zlib.crc32(memoryview(line)[:-_END_BYTES])
