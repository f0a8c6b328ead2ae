"""Store completions in an append-only journal, which makes every experiment resumable.

Each experiment has one file, with one JSON object per line. A record contains a completion and the messages of its
request. Its key is a hash of everything that determines the completion. A run looks up each request before sending it.
So a stopped run continues, and a run with T=10 reuses the first 5 steps of a run with T=5. A run reads all journals of
its folder, so RSA reuses the baseline's samples as step 0. If several journals contain a key, the run's own journal
has priority, then the last file by name.

A line is written when its completion arrives, and then survives kill -9. It is on the disk about SYNC_SECONDS later. If
a line is incomplete or has a wrong checksum, its request is sent again. The checksum ends the line and covers all bytes
before it, so checking a line needs no parsing. Only the records' keys and offsets are kept in memory.

If prices are known, lines may have a field "paid", in dollars (core/generate/budget.py). Before a request, a line
without a record reserves its highest possible cost. A later line gives back the rest as a negative amount."""

import fcntl
import hashlib
import json
import os
import re
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from msgspec import Meta, Struct, convert, defstruct

from core.base.errors import UserError
from core.base.fields import Amount
from core.base.files import trouble
from core.types import Completion, Message, are_messages

SYNC_SECONDS = 1.0
READ_BYTES = 8192  # size of one read when a record is looked up. Most records are shorter

_BEGINNING = re.compile(rb'\{"key":"([0-9a-f]{32})","completion":\{')
_END = b',"crc":"%08x"}\n'
_END_BYTES = len(_END % 0)
_PAID = re.compile(rb'"paid":(-?\d+(?:\.\d+)?(?:e-\d+)?),"crc":"[0-9a-f]{8}"\}\n$')
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

    def __init__(self, path: Path, fd: int | None = None) -> None:
        try:
            self.fd = os.open(path, os.O_RDONLY) if fd is None else fd  # stays open, to read single records later
        except OSError as error:
            raise UserError(f"the journal {path} can't be read ({error.strerror}). Make the file readable") from None
        self.places: dict[int, int] = {}  # key -> offset of its record
        self.end = 0  # the offset after the last complete line
        self.damaged: list[int] = []  # numbers of unreadable lines, counted from the beginning of a scan
        self.paid = 0.0  # dollars
        self.scan()

    def scan(self) -> None:
        """Read the lines after `end`. Store the offsets of their records, and add up their payments."""
        with open(self.fd, "rb", buffering=1 << 20, closefd=False) as file:
            file.seek(self.end)
            for count, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                if not _is_whole(line):
                    self.damaged.append(count)
                if key := _key(line):
                    self.places[key] = self.end
                if paid := _PAID.search(line, max(0, len(line) - _PAID_BYTES)):
                    self.paid += float(paid[1])
                self.end += len(line)

    def line(self, offset: int) -> bytes:
        """Return the line at `offset`. The line is empty if the file has become shorter since the scan."""
        line = os.pread(self.fd, READ_BYTES, offset)
        while b"\n" not in line and (more := os.pread(self.fd, len(line), offset + len(line))):
            line += more
        return line[: line.find(b"\n") + 1]


class Records:
    """The records of one or more journals, by key."""

    def __init__(self) -> None:
        self._files: list[_File] = []  # if several contain a key, the last file has priority
        self.doubted: dict[str, str] = {}  # key -> error, for records that have a valid checksum but are no completions

    def __len__(self) -> int:
        return sum(len(file.places) for file in self._files)

    def get(self, key: str) -> Completion | None:
        """Return the completion with this `key`, or None if there is no valid record."""
        found = self.record(key)
        return None if found is None else found.completion

    def record(self, key: str) -> Record | None:
        """Return the record with this `key`, or None if it is missing, damaged or no completion (see `doubted`)."""
        number = int(key, 16)
        for file in reversed(self._files):
            if (offset := file.places.get(number)) is not None:
                line = file.line(offset)
                if _key(line) != number:  # the line has changed since the scan
                    return None
                try:
                    return _record(key, line)
                except ValueError as error:
                    self.doubted[key] = str(error)
                    return None
        return None

    def _close(self) -> None:
        for file in self._files:
            os.close(file.fd)


class Archive(Records):
    """All journals of a folder, read-only. Use it as a context manager. Runs may write to the journals meanwhile.
    If several journals contain a key, the journal named `first` has priority."""

    def __init__(self, folder: Path, first: str = "") -> None:
        super().__init__()
        self.folder, self._first = folder, first
        self._known: dict[Path, _File] = {}

    def __enter__(self) -> "Archive":
        self.refresh()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def refresh(self) -> None:
        """Read the lines and files that are new since the last call. Raises UserError if a journal can't be read."""
        for path in filter(Path.is_file, self.folder.glob("*.jsonl")):
            if path in self._known:
                self._known[path].scan()
            else:
                self._known[path] = _File(path)
        paths = sorted(self._known, key=lambda path: (path.stem == self._first, path))
        self._files = [self._known[path] for path in paths]


class Journal(Records):
    """The journal in the file `path`, which also looks up records in the folder's other journals. Use it as a context
    manager. Only one process at a time may write to it. If `is_private`, only its owner may read a new file."""

    def __init__(self, path: Path, is_private: bool = False) -> None:
        super().__init__()
        self.path, self._mode = path, 0o600 if is_private else 0o644
        self.damaged: list[int] = []  # numbers of unreadable lines, whose requests are sent again
        self._refused: OSError | None = None  # the last error of fsync
        self._dirty = threading.Event()
        self._stop = threading.Event()

    def __enter__(self) -> "Journal":
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, self._mode)
        except OSError as error:
            raise UserError(
                f"cannot write {self.path} ({error.strerror}). Make its folder writable, or set another RESULTS_DIR"
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise UserError(
                f"another run is writing {self.path}. Wait for that run, stop it, or set another RESULTS_DIR for this "
                "run (in Python: another name)"
            ) from None
        others = sorted(self.path.parent.glob("*.jsonl"))
        self._files = [_File(other) for other in others if other != self.path and other.is_file()]
        self._own = _File(self.path, self._fd)
        self._files.append(self._own)
        self.damaged, self._first = self._own.damaged, self._own.end
        os.ftruncate(self._fd, self._own.end)  # drop an incomplete last line, because a record must start a new line
        self._syncer = threading.Thread(target=self._sync, name="journal-sync", daemon=True)
        self._syncer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._dirty.set()
        self._syncer.join()
        self._close()

    def put(self, completion: Completion, messages: Sequence[Message], paid: float = 0.0) -> None:
        """Append a completion's record. `paid` is a payment in dollars for its request. A negative payment gives money
        back. Raises UserError if writing fails. Then the journal contains only the earlier records."""
        place = self._own.end
        fields = {name: value for name, value in vars(completion).items() if name in _FIELDS}
        self._append({"key": completion.key, "completion": fields, "messages": list(messages)}, paid)
        self._own.places[int(completion.key, 16)] = place

    def pay(self, amount: float) -> None:
        """Append a payment in dollars. A negative payment gives money back. Raises UserError if writing fails."""
        self._append({}, amount)

    @property
    def paid(self) -> float:
        """The sum of all payments in this journal's own file, in dollars."""
        return self._own.paid

    def _append(self, record: dict[str, Any], paid: float) -> None:
        paid = round(paid, 12)
        head = json.dumps(record | ({"paid": paid} if paid else {}), ensure_ascii=True, separators=(",", ":"))[:-1]
        line = head.encode() + _END % zlib.crc32(head.encode())
        try:
            if self._refused:
                raise self._refused
            view = memoryview(line)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            os.ftruncate(self._fd, self._own.end)
            raise trouble(self.path, error, f"the {len(self)} records in the journals are saved") from None
        self._own.end += len(line)
        self._own.paid += paid
        self._dirty.set()

    def is_earlier(self, key: str) -> bool:
        """Return whether the record of `key` is older than this session, or in another journal."""
        return self._own.places.get(int(key, 16), -1) < self._first

    def _sync(self) -> None:
        is_last = False
        while not is_last:
            self._dirty.wait()
            self._dirty.clear()
            is_last = self._stop.is_set()
            try:
                os.fsync(self._fd)
            except OSError as error:
                self._refused = error
            self._stop.wait(SYNC_SECONDS)


def _record(key: str, line: bytes) -> Record:
    """Parse the line of a `key`. Raises ValueError if it contains no completion, or no messages of its request."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from None
    completion, messages = fields["completion"], fields.get("messages")
    if not are_messages(messages):
        raise ValueError(f"messages: {messages!r:.40}")
    convert(completion, _KEPT)
    return Record(Completion(key=key, reused=True, **completion), messages)


def _key(line: bytes) -> int | None:
    """Return the key of the record in a line, or None if the line is damaged or contains no record."""
    found = _BEGINNING.match(line) if _is_whole(line) else None
    return int(found[1], 16) if found else None


def _is_whole(line: bytes) -> bool:
    return line[-_END_BYTES:] == _END % zlib.crc32(memoryview(line)[:-_END_BYTES])


def _model() -> type[Struct]:
    """Build the msgspec model of a completion's fields, with the valid range of each number."""
    count = Annotated[int, Meta(ge=0)]
    finite = Annotated[float, Meta(ge=-1e15, le=1e15)] | None
    ranged: Any = {int: count, list[int]: list[count], float: Amount, float | None: finite}
    fields: Any = [(name, ranged.get(hint, hint), None) for name, hint in _FIELDS.items() if name != "seed"]
    return defstruct("Kept", [("seed", count), *fields], forbid_unknown_fields=True)


_FIELDS = {name: hint for name, hint in get_type_hints(Completion).items() if name not in ("key", "reused")}
_KEPT = _model()
