"""An append-only memo of completions: what makes every experiment resumable.

One file per experiment, one JSON object a line, keyed by a hash of everything that determines a completion. A record
holds the completion and the messages of its request, as they were sent. A run looks each request up before it asks the
server; so a stopped run goes on where it was, and T raised from 5 to 10 reuses every earlier step. Journals of other
experiments beside it are read too (never written): step 0 of an RSA run is the eight samples of the baseline. Where two
journals say different things under one key, the run's own counts (else the last by name), and the number of such keys
is reported.

A line reaches the operating system as soon as its completion is there (it survives kill -9), and the disk within
SYNC_SECONDS (it survives a power cut, but for the last second). A torn last line is cut off and simply owed again;
so is a line whose checksum is wrong. The checksum is a line's last field and covers every byte before it, so that a
journal is checked as it stands, without parsing. Memory holds 16 bytes a record, where it lies, and no text.
"""

import fcntl
import hashlib
import json
import math
import os
import re
import shutil
import threading
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_origin, get_type_hints

import numpy as np

from core.base.errors import UserError
from core.base.files import trouble
from core.types import Completion, Message, are_messages

SYNC_SECONDS = 1.0
READ_BYTES = 8192  # read at a time when a record is looked up; most are shorter
SAID = ("thinking", "answer", "forced", "finish_reason", "error")  # of a completion: what a run goes on with
OFFSET_BITS = 44  # of a place: 16 TiB a file; the bits above them number the file
RECENT = 1 << 16  # records noted before they are sorted in with the others

_BEGINNING = re.compile(rb'\{"key":"([0-9a-f]{32})","completion":\{')
_END = b',"crc":"%08x"}\n'
_END_BYTES = len(_END % 0)


def content_key(content: Any) -> str:
    """The key of whatever determines a completion (JSON-able): 128 bits of the SHA-256 of its canonical form."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Record:
    """The fields of a completion, and the `messages` of its request."""

    completion: dict[str, Any]
    messages: list[Message]


class Records:
    """Records of journals, found by their keys."""

    def __init__(self) -> None:
        self._index = _Index()
        self._files: list[int] = []  # descriptors, kept open: records are looked up one by one
        self._names: list[str] = []  # of the files
        self.differing: set[bytes] = set()  # keys under which two files hold different completions,
        self._differ: set[str] = set()  # and those files
        self.doubted: dict[str, str] = {}  # by key: what is wrong with a record whose checksum is right

    def __len__(self) -> int:
        return len(self._index)

    def get(self, key: str) -> dict[str, Any] | None:
        """The fields of the completion kept under `key`, or None."""
        found = self.record(key)
        return None if found is None else found.completion

    def record(self, key: str) -> Record | None:
        """All that is kept under `key`, or None."""
        place = self._index.get(_short(key))
        if place is None:
            return None
        line = self._line(place)
        if _key(line) != key.encode():  # another key that starts alike, or changed since it was scanned
            return None
        try:
            return _record(line)
        except ValueError as error:
            self.doubt(key, str(error))
            return None

    def doubt(self, key: str, why: str) -> None:
        """Note that the record of `key` is whole and yet holds no completion."""
        self.doubted[key] = why

    def disagreement(self) -> str:
        """Where journals differ, in a line."""
        where, count = " and ".join(sorted(self._differ)), len(self.differing)
        return f"{count:,} completions differ between {where}; {self._names[-1]} is believed before the others"

    def _add(self, path: Path, fd: int) -> int:
        """Take in a file; its number comes back."""
        self._files.append(fd)
        self._names.append(path.name)
        return len(self._files) - 1

    def _compare(self) -> None:
        """Whether files that share a key say the same under it. The seconds it took, and who made it, may differ."""
        for places in self._index.shared():
            files = {self._names[place >> OFFSET_BITS] for place in places}
            one, other = lines = [self._line(place) for place in places]
            if len(files) < 2 or one == other or not (key := _key(one)) or key != _key(other):
                continue
            with suppress(ValueError):  # what can't be read says nothing
                said, also = ({name: _record(line).completion.get(name) for name in SAID} for line in lines)
                if said != also:
                    self.differing.add(key)
                    self._differ |= files

    def _scan(self, number: int, start: int = 0) -> tuple[int, list[int]]:
        """Note where each record of file `number` lies, from `start` on. The offset after its last whole line comes
        back, with the numbers of the lines that can't be read."""
        first, offset, damaged = number << OFFSET_BITS, start, []
        with open(self._files[number], "rb", buffering=1 << 20, closefd=False) as file:
            file.seek(start)
            for count, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                if key := _key(line):
                    self._index.add(_short(key), first + offset)
                else:
                    damaged.append(count)
                offset += len(line)
        return offset, damaged

    def _line(self, place: int) -> bytes:
        """The whole line there; empty where there is none any more."""
        fd, offset = self._files[place >> OFFSET_BITS], place & (1 << OFFSET_BITS) - 1
        line = os.pread(fd, READ_BYTES, offset)
        while b"\n" not in line and (more := os.pread(fd, len(line), offset + len(line))):
            line += more
        return line[: line.find(b"\n") + 1]

    def _close(self) -> None:
        for fd in self._files:
            os.close(fd)
        self._files.clear()


class Archive(Records):
    """All journals of a folder, read only, also while a run writes to them; use it as a context manager. Where they
    disagree, the one called `first` counts."""

    def __init__(self, folder: Path, first: str = "") -> None:
        super().__init__()
        self.folder, self._first = folder, first
        self._known: dict[Path, tuple[int, int]] = {}  # of each file its number, and how far it was scanned

    def __enter__(self) -> "Archive":
        self.refresh()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def refresh(self) -> None:
        """Take in what was written since. Raises UserError where a journal can't be read."""
        for path in sorted(self.folder.glob("*.jsonl"), key=lambda path: (path.stem == self._first, path)):
            if not path.is_file():
                continue
            if path not in self._known:
                self._known[path] = self._add(path, _opened(path)), 0
            number, scanned = self._known[path]
            if os.fstat(self._files[number]).st_size > scanned:
                self._known[path] = number, self._scan(number, scanned)[0]
        self._compare()


class Journal(Records):
    """The memo in `path`; use it as a context manager. One process may write a journal at a time. `is_private`: only
    its owner may read it."""

    def __init__(self, path: Path, is_private: bool = False) -> None:
        super().__init__()
        self.path, self._mode = path, 0o600 if is_private else 0o644
        self.damaged: list[int] = []  # numbers of lines that can't be read; their completions are owed again
        self.cautions: set[str] = set()  # of servers (Server.rests_on) whose reuse has been reported
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
        for other in sorted(self.path.parent.glob("*.jsonl")):
            if other != self.path and other.is_file():
                self._scan(self._add(other, _opened(other)))
        self._end, self.damaged = self._scan(self._add(self.path, self._fd))
        self._first = (len(self._files) - 1 << OFFSET_BITS) + self._end  # the place of the first record of this process
        self._compare()
        os.ftruncate(self._fd, self._end)  # a torn last line: cut off, so that the next record starts a line
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

    def put(self, key: str, completion: dict[str, Any], messages: Sequence[Message]) -> None:
        """Keep `completion` (JSON-able) under `key`, with the `messages` that it answers. A full disk raises UserError
        and leaves the journal whole."""
        record = {"key": key, "completion": completion, "messages": list(messages)}
        head = json.dumps(record, ensure_ascii=True, separators=(",", ":"))[:-1].encode()
        line = head + _END % zlib.crc32(head)
        try:
            if self._refused:
                raise self._refused
            view = memoryview(line)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            os.ftruncate(self._fd, self._end)
            raise trouble(self.path, error, f"the {len(self)} completions kept so far are safe") from None
        self._index.add(_short(key), (len(self._files) - 1 << OFFSET_BITS) + self._end)
        self._end += len(line)
        self._dirty.set()

    def is_earlier(self, key: str) -> bool:
        """Whether the record of `key` was kept before this journal was opened."""
        place = self._index.get(_short(key))
        return place is not None and place < self._first

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


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise UserError(f"the journal {path} can't be read ({error.strerror}). Fix that, or move it away") from None


class _Index:
    """Where records lie, by the first 64 bits of their keys: whoever follows a place compares the whole key."""

    def __init__(self) -> None:
        self._keys = np.empty(0, np.uint64)  # sorted
        self._places = np.empty(0, np.uint64)
        self._recent: dict[int, int] = {}
        self._shared: list[tuple[int, int]] = []  # places that have a key in common, the later one last

    def __len__(self) -> int:
        self._sort_in()
        return len(self._keys)

    def get(self, key: int) -> int | None:
        if (place := self._recent.get(key)) is not None:
            return place
        at = self._keys.searchsorted(np.uint64(key))
        return int(self._places[at]) if at < len(self._keys) and self._keys[at] == key else None

    def add(self, key: int, place: int) -> None:
        """Of two places for one key, the later counts."""
        if (before := self._recent.get(key)) is not None:
            self._shared.append((before, place))
        self._recent[key] = place
        if len(self._recent) >= RECENT:
            self._sort_in()

    def shared(self) -> list[tuple[int, int]]:
        """Pairs of places for one key that were not given before."""
        self._sort_in()
        shared, self._shared = self._shared, []
        return shared

    def _sort_in(self) -> None:
        count = len(self._recent)
        keys = np.fromiter(self._recent.keys(), np.uint64, count)
        places = np.fromiter(self._recent.values(), np.uint64, count)[keys.argsort()]
        keys.sort()
        at = self._keys.searchsorted(keys)
        is_new = at == self._keys.searchsorted(keys, "right")
        known = at[~is_new]
        self._shared += zip(self._places[known].tolist(), places[~is_new].tolist(), strict=True)
        self._places[known] = places[~is_new]
        self._keys = np.insert(self._keys, at[is_new], keys[is_new])
        self._places = np.insert(self._places, at[is_new], places[is_new])
        self._recent.clear()


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


def _short(key: str | bytes) -> int:
    return int(key[:16], 16)


def _key(line: bytes) -> bytes | None:
    """The key of a whole record; None where it is damaged, or no record at all."""
    is_whole = line[-_END_BYTES:] == _END % zlib.crc32(memoryview(line)[:-_END_BYTES])
    found = _BEGINNING.match(line) if is_whole else None
    return found[1] if found else None


# Completions as records


def from_record(key: str, record: Mapping[str, Any]) -> Completion:
    """The completion that is kept under `key`. Raises ValueError where its fields are none of a completion's."""
    for name, value in record.items():
        if name not in _FIELDS or not _fits(value, _FIELDS[name], is_signed=name == "logprob"):
            raise ValueError(f"{name}: {value!r:.40}")
    if "seed" not in record:
        raise ValueError("no seed")
    return Completion(key=key, reused=True, **record)


def to_record(completion: Completion) -> dict[str, Any]:
    """What is kept of it."""
    return {name: value for name, value in vars(completion).items() if name in _FIELDS}


def _fits(value: Any, hint: Any, is_signed: bool = False) -> bool:
    """Whether a value read from JSON may stand in a field of this type; numbers that have no sign are counts or
    amounts."""
    if isinstance(hint, UnionType):
        return any(_fits(value, each, is_signed) for each in hint.__args__)
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(each, hint.__args__[0]) for each in value)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(type(each) in (int, float) for each in value.values())
    if hint in (int, float):
        return type(value) in (int, hint) and (is_signed or value >= 0) and -math.inf < value < math.inf
    return isinstance(value, hint or NoneType)


_FIELDS = {name: hint for name, hint in get_type_hints(Completion).items() if name not in ("key", "reused")}
