"""LeanDojo's traced data: theorems of Mathlib with the states and tactics of their proofs, in the archive "LeanDojo
Benchmark 4" or a folder of that shape. (Yang et al., https://arxiv.org/abs/2306.15626)

    random/{train,val,test}.json, novel_premises/{…}.json   theorems: full_name, file_path, traced_tactics, …
    corpus.jsonl                                            files: their premises, each with its source
    metadata.json                                           which commit of Mathlib was traced, by which LeanDojo

Nothing is unpacked: files are read where they lie in the archive. A split is gigabytes in memory, so that its theorems
come one at a time.
"""

import io
import json
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from core.base.errors import UserError
from core.base.files import parse_json
from labs.lean.download import Published

BENCHMARK_4 = Published(  # version 10: Mathlib of July 2024 (29dcec07), Lean 4.10
    "https://zenodo.org/records/12740403/files/leandojo_benchmark_4.tar.gz",
    licence="CC BY 2.0",
    size=68_141_936,
    md5="25e1ee60cd8925b9d2e8673ddcc34b4c",
)
SPLITS, PARTS = ("novel_premises", "random"), ("train", "val", "test")
CORPUS, METADATA = "corpus.jsonl", "metadata.json"
MOST = 8 * 2**30  # bytes of one file, unpacked
REMEDY = "Fetch it again, or give another file"
_TEXTS = ("url", "commit", "file_path", "full_name")
_CHUNK = 1 << 20

Files = Mapping[str, Callable[[], Any]]  # how each is opened, by its name


@dataclass(frozen=True)
class Traced:
    """A theorem, and of each tactic of its proof the state before it."""

    name: str
    steps: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Data:
    """An opened archive or folder. `files`: how each is opened, by its name below the root."""

    path: Path
    files: Files

    def theorems(self, split: str, part: str) -> Iterator[Traced]:
        """Those of a part of a split, one at a time. Raises UserError for what is not of the known shape."""
        name = f"{split}/{part}.json"
        with self._text(name) as text:
            for number, row in enumerate(elements(text, where := f"{self.path}: {name}"), 1):
                yield _traced(row, f"{where}, theorem {number}")

    def sources(self) -> Iterator[tuple[str, str]]:
        """The names of premises and their source, without proofs; none where there is no corpus."""
        if CORPUS not in self.files:
            return
        with self._text(CORPUS) as text:
            for number, line in enumerate(text, 1):
                where = f"{self.path}: {CORPUS}, line {number}"
                row = parse_json(line, where, REMEDY)
                premises = row.get("premises") if isinstance(row, dict) else None
                for premise in premises if isinstance(premises, list) else [None]:
                    yield _texts(premise, "full_name", "code", f"{where}: a premise")

    def metadata(self) -> dict[str, Any]:
        """Of which commit, and by which LeanDojo; {} where it is not told."""
        if METADATA not in self.files:
            return {}
        with self._text(METADATA) as text:
            found = parse_json(text.read(_CHUNK), f"{self.path}: {METADATA}", REMEDY)
        return found if isinstance(found, dict) else {}

    @contextmanager
    def _text(self, name: str) -> Iterator[IO[str]]:
        if name not in self.files:
            raise UserError(f"{self.path} holds no {name}: it is not LeanDojo's data, or not of Lean 4. {REMEDY}")
        with _reading(self.path), self.files[name]() as stream, io.TextIOWrapper(stream, encoding="utf-8") as text:
            yield text


@contextmanager
def opened(path: Path) -> Iterator[Data]:
    """The data in an archive (.tar.gz) or a folder. Raises UserError for one that is cut off, damaged, or has files
    outside of itself, before anything of it is used."""
    found: Files
    with ExitStack() as stack:
        with _reading(path):
            if path.is_dir():
                found = {file.relative_to(path).as_posix(): partial(file.open, "rb") for file in path.rglob("*.json*")}
            else:
                archive = stack.enter_context(tarfile.open(path))
                found = {name: partial(archive.extractfile, member) for name, member in _members(path, archive)}
                while archive.fileobj and archive.fileobj.read(_CHUNK):
                    pass  # to its end, where its checksum stands
        yield Data(path, _below_root(path, found))


def _members(path: Path, archive: tarfile.TarFile) -> Iterator[tuple[str, tarfile.TarInfo]]:
    """The files of an archive by their names. Raises UserError."""
    for member in archive.getmembers():
        name = PurePosixPath(member.name)
        if name.is_absolute() or ".." in name.parts:
            raise UserError(f"{path} holds {member.name!r:.80}, which is outside of it. {REMEDY}")
        if member.size > MOST:
            raise UserError(f"{path} holds {member.name!r:.80} of {member.size / 1e9:.0f} GB. {REMEDY}")
        if member.isfile():
            yield str(name), member


def _below_root(path: Path, files: Files) -> Files:
    """The files by their names below the folder that holds the splits. Raises UserError where there is none."""
    for name in sorted(files, key=len):
        for split in SPLITS:
            if f"/{name}".endswith(ending := f"/{split}/train.json"):
                root = f"/{name}".removesuffix(ending)
                return {f"/{each}".removeprefix(f"{root}/"): file for each, file in files.items()
                        if f"/{each}".startswith(f"{root}/")}  # fmt: skip
    raise UserError(f"{path} holds no {SPLITS[0]}/train.json: it is not LeanDojo's data. {REMEDY}")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What reading raises, as one UserError."""
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise UserError(f"{path} is cut off or damaged, or no .tar.gz ({error}). {REMEDY}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} holds what is not UTF-8 text ({error.reason}). {REMEDY}") from None
    except OSError as error:  # gzip's too
        raise UserError(f"{path} can't be read ({error.strerror or error}). {REMEDY}") from None


def elements(text: IO[str], where: str, chunk: int = _CHUNK) -> Iterator[Any]:
    """The elements of the JSON array that `text` holds, of which only some are in memory. Raises UserError."""
    decoder, held, place = json.JSONDecoder(), "", 0

    def sign() -> str:
        """The next sign that is no blank; "" at the end."""
        nonlocal held, place
        while True:
            while place < len(held) and held[place] in " \t\r\n":
                place += 1
            if place < len(held):
                return held[place]
            held, place = text.read(chunk), 0
            if not held:
                return ""

    def expect(wanted: str) -> str:
        nonlocal place
        if (found := sign()) not in wanted or not found:
            raise UserError(f"{where} is not valid JSON ({wanted[0]} is missing). {REMEDY}")
        place += 1
        return found

    expect("[")
    if sign() == "]":
        expect("]")
    else:
        while True:
            sign()
            while True:
                try:
                    value, end = decoder.raw_decode(held, place)
                    if end < len(held):  # else a number, say, may go on
                        break
                except (ValueError, RecursionError):
                    pass
                more = text.read(max(chunk, len(held) - place))
                if not more:
                    raise UserError(f"{where} is not valid JSON (it is cut off, or damaged). {REMEDY}")
                held, place = held[place:] + more, 0
            place = end
            yield value
            if expect(",]") == "]":
                break
    if sign():
        raise UserError(f"{where} is not valid JSON (something stands behind its end). {REMEDY}")


def _traced(row: Any, where: str) -> Traced:
    """Raises UserError where a field is missing or of another type."""
    if not isinstance(row, dict):
        raise UserError(f"{where} is no object. {REMEDY}")
    for name in _TEXTS:
        if not isinstance(row.get(name), str):
            raise UserError(f"{where} has no text {name}. {REMEDY}")
    tactics = row.get("traced_tactics")
    if not isinstance(tactics, list):
        raise UserError(f"{where} has no list traced_tactics. {REMEDY}")
    steps = tuple(_texts(tactic, "state_before", "tactic", f"{where}: a tactic") for tactic in tactics)
    return Traced(row["full_name"], steps)


def _texts(row: Any, first: str, second: str, where: str) -> tuple[str, str]:
    """Two fields of a row. Raises UserError."""
    one, other = (row.get(first), row.get(second)) if isinstance(row, dict) else (None, None)
    if not isinstance(one, str) or not isinstance(other, str):
        raise UserError(f"{where} has no texts {first} and {second}. {REMEDY}")
    return one, other
