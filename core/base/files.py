"""Where results go, and files that are whole or not there: atomic writes, and what to say when the disk refuses.

Files of JSON are read here too, whoever wrote them: what can't be read is said in one line."""

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TextIO

from core.base.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
IS_CHECKOUT = (ROOT / "setup.sh").is_file()  # else this is an installed wheel, which holds the data in core/bundled
DATA = ROOT / "data" if IS_CHECKOUT else ROOT / "core" / "bundled"
HOME = ROOT if IS_CHECKOUT else Path.cwd()  # where results and weights go, if nothing is said and there is no
VOLUME = Path("/workspace")  # which, on a rented pod, outlives it, and which clones share


def results_dir() -> Path:
    """$RESULTS_DIR, else /workspace/results, or ./results where /workspace can't be written. Made if it is missing."""
    named = os.environ.get("RESULTS_DIR")
    folder = Path(os.path.expanduser(named)) if named else (VOLUME if can_write(VOLUME) else HOME) / "results"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:  # permissions do not tell of full or read-only disks
            probe.write(bytes(4096))
    except OSError as error:
        raise UserError(
            f"the results folder {folder} can't be written ({error.strerror}). Set RESULTS_DIR to another, or fix that"
        ) from None
    return folder


def set_up(part: str) -> None:
    """Install a `part` of the environment by setup.sh if it is missing. Ends the process if that fails."""
    import subprocess  # takes a while to load

    if subprocess.run(["bash", str(ROOT / "setup.sh"), part], check=False).returncode != 0:
        raise SystemExit(2)  # setup.sh has said why


def can_write(folder: Path) -> bool:
    """Whether files can be made in `folder`, as far as permissions tell."""
    return os.access(folder, os.W_OK | os.X_OK)


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write all of `content`, which may come in parts, to `path`, or leave there what it held: also on a full disk, in
    a crash or a power cut. One process at a time may write a path; the next one overwrites what a killed one left."""
    beside = _beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # someone may have removed it since the run began
        with open(beside, "wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except (OSError, UserError) as error:  # the latter is of whoever makes the content
        with suppress(OSError):  # what refused the file may refuse this: a disk that is read-only now, no folder at all
            beside.unlink(missing_ok=True)
        raise trouble(path, error, "nothing finished is lost") if isinstance(error, OSError) else error from None


def make_folder(path: Path) -> None:
    """`path`, with the folders above it, where it is missing. Raises UserError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise trouble(path, error, "nothing finished is lost") from None


@contextmanager
def whole(out: Path, what: str, size: int = 0) -> Iterator[Path]:
    """Yield a path beside `out`, for a file or a folder, that becomes `out` at the end, on the disk. Stopped or broken
    off before, nothing is left; what a killed process left, the next one removes. `what` needs `size` bytes free on the
    disk. Raises UserError, also if `out` exists."""
    if out.exists():
        raise UserError(f"{out} exists. Remove it, or choose another name")
    if not out.parent.is_dir():
        raise UserError(f"the folder {out.parent} does not exist. Make it, or name another")
    _discard(beside := _beside(out))
    if (free := shutil.disk_usage(out.parent).free) < size:
        raise UserError(f"{out.parent} has {in_words(free)} free and {what} needs {in_words(size)}. Make room")
    try:
        yield beside
        for file in [beside, *beside.rglob("*")]:
            _flush(file)
        os.replace(beside, out)
    except OSError as error:
        raise UserError(
            f"{out}: writing failed ({error.strerror or error}). See that the folder can be written and the disk has "
            "room, and run the same command again; nothing is left of this attempt"
        ) from None
    finally:
        _discard(beside)


def in_words(size: float) -> str:
    """Bytes, as people say them."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def _discard(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """What was written to a file, or the names in a folder, to the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def open_log(path: Path) -> TextIO:
    """A log to write to, at its end. Only its owner may read it: servers print their settings. Raises UserError."""
    try:
        return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w", encoding="utf-8")
    except OSError as error:
        raise trouble(path, error, "nothing finished is lost") from None


def remove(path: Path) -> None:
    """Remove `path` if it is there, and what a killed writer of it left beside it."""
    path.unlink(missing_ok=True)
    _beside(path).unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def trouble(path: Path, error: OSError, kept: str) -> UserError:
    """What to tell a user when `path` could not be written; `kept` says what is safe."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "the disk is full. Free some space" if is_full else f"writing failed ({error.strerror}). Fix that"
    return UserError(f"{path}: {why} and run the same command again; {kept}")


def storable(text: str) -> str:
    """`text` as files and requests can hold it: the two halves of a surrogate pair are joined, and one alone, which is
    no character, becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read_lines(path: Path, what: str, remedy: str) -> Iterator[str]:
    """The lines of the text in `path`. Raises UserError where it can't be read: `what` the file is, and the `remedy`
    that."""
    with _reading(path, what, remedy), open(path, encoding="utf-8-sig") as file:  # Windows' editors begin with a mark
        yield from file


@contextmanager
def opened(path: Path, what: str, remedy: str) -> Iterator[BinaryIO]:
    """The bytes of `path`, to be read. Raises UserError, as read_lines does."""
    with _reading(path, what, remedy), open(path, "rb") as file:
        yield file


@contextmanager
def _reading(path: Path, what: str, remedy: str) -> Iterator[None]:
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(errno.EINVAL, "not a regular file")  # a pipe would be waited for
        yield
    except UnicodeDecodeError as error:
        raise UserError(f"{what} {path} is not UTF-8 text (byte {error.start}). Save it as UTF-8") from None
    except OSError as error:
        raise UserError(f"{what} {path} can't be read ({error.strerror}). {remedy}") from None
    except ValueError:  # a NUL
        raise UserError(f"{what} {path} can't be read (no path). {remedy}") from None


def read_text(path: Path, what: str, remedy: str) -> str:
    """The text of `path`. Raises UserError, as read_lines does."""
    return "".join(read_lines(path, what, remedy))


def read_json(path: Path, what: str, remedy: str) -> Any:
    """The value in the JSON file `path`. Raises UserError, as read_text and parse_json do."""
    return parse_json(read_text(path, what, remedy), f"{what} {path}", remedy)


def parse_json(text: str, where: str, remedy: str) -> Any:
    """The value of a JSON text. Raises UserError, also for what Python's parser lets pass: NaN and Infinity."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid JSON ({error}). {remedy}") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def amount(value: Any, most: float = 1e15) -> float:
    """`value`, read from a file, where it is a number from 0 to `most`. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise ValueError(f"{value!r:.40} is not a number from 0 to {most:g}")
    return value


def sha256(path: Path) -> str | None:
    """Of a file's content; None where it can't be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
