"""An append-only memo of completions: what makes every experiment resumable.

One file per experiment, one JSON object a line, keyed by a hash of everything that determines a completion. A record
holds the completion and the messages of its request, as they were sent. A run looks each request up before it asks the
server; so a stopped run goes on where it was, and T raised from 5 to 10 reuses every earlier step. Journals of other
experiments beside it are read too (never written): step 0 of an RSA run is the eight samples of the baseline. If two
journals hold the same key, the run's own counts (else the last by name).

A line reaches the operating system as soon as its completion is there (it survives kill -9), and the disk within
SYNC_SECONDS (it survives a power cut, but for the last second). A torn last line is cut off and simply owed again;
so is a line whose checksum is wrong. The checksum is a line's last field and covers every byte before it, so that a
journal is checked as it stands, without parsing. Memory holds the place of each record (some 100 bytes), and no text.

If prices are known, lines have a field "paid", in dollars (core/generate/budget.py). A line of that alone comes before
a request, with the most that it can cost. The record of its completion gives back, as a negative amount, what was not
taken. The sum over a journal is what its experiment has spent.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import threading
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from msgspec import Meta, Struct, convert, defstruct

from core.base.errors import UserError
from core.base.fields import Amount
from core.base.files import trouble
from core.types import Completion, Message, are_messages

SYNC_SECONDS = 1.0
READ_BYTES = 8192  # read at a time when a record is looked up; most are shorter

_BEGINNING = re.compile(rb'\{"key":"([0-9a-f]{32})","completion":\{')
_END = b',"crc":"%08x"}\n'
_END_BYTES = len(_END % 0)
_PAID = re.compile(rb'"paid":(-?\d+(?:\.\d+)?(?:e-\d+)?),"crc":"[0-9a-f]{8}"\}\n$')
_PAID_BYTES = 80  # at the end of a line, in which that is looked for


def content_key(content: Any) -> str:
    """The key of whatever determines a completion (JSON-able): 128 bits of the SHA-256 of its canonical form."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Record:
    """The fields of a completion, and the `messages` of its request."""

    completion: dict[str, Any]
    messages: list[Message]


class _File:
    """A journal that is open for reading. `places`: the offset of each record by its key. `end`: the offset after the
    last whole line that was scanned. `damaged`: numbers of lines that can't be read. `paid`: dollars."""

    def __init__(self, path: Path, fd: int | None = None) -> None:
        try:
            self.fd = os.open(path, os.O_RDONLY) if fd is None else fd  # kept open: records are read one by one
        except OSError as error:
            raise UserError(f"the journal {path} can't be read ({error.strerror}). Fix that, or move it away") from None
        self.places: dict[int, int] = {}
        self.end = 0
        self.damaged: list[int] = []
        self.paid = 0.0
        self.scan()

    def scan(self) -> None:
        """Note the records after `end`, and what was paid."""
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
        """Read the whole line there; it is empty if the file has become shorter."""
        line = os.pread(self.fd, READ_BYTES, offset)
        while b"\n" not in line and (more := os.pread(self.fd, len(line), offset + len(line))):
            line += more
        return line[: line.find(b"\n") + 1]


class Records:
    """Records of journals, found by their keys."""

    def __init__(self) -> None:
        self._files: list[_File] = []  # of two that hold a key, the later counts
        self.doubted: dict[str, str] = {}  # by key: what is wrong with a record whose checksum is right

    def __len__(self) -> int:
        return sum(len(file.places) for file in self._files)

    def get(self, key: str) -> dict[str, Any] | None:
        """The fields of the completion kept under `key`, or None."""
        found = self.record(key)
        return None if found is None else found.completion

    def record(self, key: str) -> Record | None:
        """All that is kept under `key`, or None."""
        number = int(key, 16)
        for file in reversed(self._files):
            if (offset := file.places.get(number)) is not None:
                line = file.line(offset)
                if _key(line) != number:  # changed since it was scanned
                    return None
                try:
                    return _record(line)
                except ValueError as error:
                    self.doubt(key, str(error))
                    return None
        return None

    def doubt(self, key: str, why: str) -> None:
        """Note that the record of `key` is whole and yet holds no completion."""
        self.doubted[key] = why

    def _close(self) -> None:
        for file in self._files:
            os.close(file.fd)


class Archive(Records):
    """All journals of a folder, read only, also while a run writes to them; use it as a context manager. Where they
    disagree, the one called `first` counts."""

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
        """Take in what was written since. Raises UserError where a journal can't be read."""
        for path in filter(Path.is_file, self.folder.glob("*.jsonl")):
            if path in self._known:
                self._known[path].scan()
            else:
                self._known[path] = _File(path)
        paths = sorted(self._known, key=lambda path: (path.stem == self._first, path))
        self._files = [self._known[path] for path in paths]


class Journal(Records):
    """The memo in `path`; use it as a context manager. One process may write a journal at a time. `is_private`: only
    its owner may read it."""

    def __init__(self, path: Path, is_private: bool = False) -> None:
        super().__init__()
        self.path, self._mode = path, 0o600 if is_private else 0o644
        self.damaged: list[int] = []  # numbers of lines that can't be read; their completions are owed again
        self._refused: OSError | None = None  # what the disk said when it was to make sure of what it has
        self._dirty = threading.Event()
        self._stop = threading.Event()

    def __enter__(self) -> "Journal":
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, self._mode)
        except OSError as error:
            raise UserError(
                f"the journal {self.path} can't be written ({error.strerror}). Set RESULTS_DIR to a folder you own"
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise UserError(
                f"another run is writing {self.path}. Wait for it, stop it, or give this one a RESULTS_DIR of its "
                "own (in Python, a name)"
            ) from None
        others = sorted(self.path.parent.glob("*.jsonl"))
        self._files = [_File(other) for other in others if other != self.path and other.is_file()]
        self._own = _File(self.path, self._fd)
        self._files.append(self._own)
        self.damaged, self._first = self._own.damaged, self._own.end
        os.ftruncate(self._fd, self._own.end)  # a torn last line: cut off, so that the next record starts a line
        self._syncer = threading.Thread(target=self._sync, name="journal-sync", daemon=True)
        self._syncer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._dirty.set()
        self._syncer.join()
        if not os.fstat(self._fd).st_nlink:
            self._put_back()
        self._close()

    def put(self, key: str, completion: dict[str, Any], messages: Sequence[Message], paid: float = 0.0) -> None:
        """Keep `completion` (JSON-able) under `key`, with the `messages` that it answers, and the dollars `paid` for
        it since the last line about it. A full disk raises UserError and leaves the journal whole."""
        place = self._own.end
        self._append({"key": key, "completion": completion, "messages": list(messages)}, paid)
        self._own.places[int(key, 16)] = place

    def pay(self, amount: float) -> None:
        """Note that so many dollars are paid; a negative amount is given back. Raises UserError as `put` does."""
        self._append({}, amount)

    @property
    def paid(self) -> float:
        """Return the dollars that this journal has as paid."""
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
            raise trouble(self.path, error, f"the {len(self)} completions kept so far are safe") from None
        self._own.end += len(line)
        self._own.paid += paid
        self._dirty.set()

    def is_earlier(self, key: str) -> bool:
        """Whether the record of `key` was kept before this journal was opened."""
        return self._own.places.get(int(key, 16), -1) < self._first

    def _put_back(self) -> None:
        """Someone removed the file while it was written to: what it held can still be read, and is not lost."""
        with suppress(OSError), open(self._fd, "rb", closefd=False) as held:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "xb") as file:
                held.seek(0)
                shutil.copyfileobj(held, file)

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


def _record(line: bytes) -> Record:
    """Read a whole line. Raises ValueError if it holds no completion with its messages."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from None
    completion, messages = fields["completion"], fields.get("messages")
    if not isinstance(completion, dict) or not are_messages(messages):
        raise ValueError(f"completion: {completion!r:.40}, messages: {messages!r:.40}")
    return Record(completion, messages)


def _key(line: bytes) -> int | None:
    """The key of a whole record; None where it is damaged, or no record at all."""
    found = _BEGINNING.match(line) if _is_whole(line) else None
    return int(found[1], 16) if found else None


def _is_whole(line: bytes) -> bool:
    return line[-_END_BYTES:] == _END % zlib.crc32(memoryview(line)[:-_END_BYTES])


# Completions as records


def from_record(key: str, record: Mapping[str, Any]) -> Completion:
    """The completion that is kept under `key`. Raises ValueError where its fields are none of a completion's."""
    convert(record, _KEPT)
    return Completion(key=key, reused=True, **record)


def to_record(completion: Completion) -> dict[str, Any]:
    """What is kept of it."""
    return {name: value for name, value in vars(completion).items() if name in _FIELDS}


def _model() -> type[Struct]:
    """Return the model of a record: the fields of a completion, with the ranges of their numbers."""
    count = Annotated[int, Meta(ge=0)]
    finite = Annotated[float, Meta(ge=-1e15, le=1e15)] | None
    ranged: Any = {int: count, list[int]: list[count], float: Amount, float | None: finite}
    fields: Any = [(name, ranged.get(hint, hint), None) for name, hint in _FIELDS.items() if name != "seed"]
    return defstruct("Kept", [("seed", count), *fields], forbid_unknown_fields=True)


_FIELDS = {name: hint for name, hint in get_type_hints(Completion).items() if name not in ("key", "reused")}
_KEPT = _model()
