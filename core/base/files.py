"""Write files atomically, choose the folder of results, and read text and JSON with one-line errors."""

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
HOME = ROOT if IS_CHECKOUT else Path.cwd()  # holds results and weights, unless set or VOLUME is writable
VOLUME = Path("/workspace")  # on a rented pod: outlives the pod, and all checkouts share it
NOTHING_LOST = "no finished work is lost"


def results_dir() -> Path:
    """Return $RESULTS_DIR, else /workspace/results, else ./results; create it. Raises UserError if not writable."""
    named = os.environ.get("RESULTS_DIR")
    folder = Path(os.path.expanduser(named)) if named else (VOLUME if can_write(VOLUME) else HOME) / "results"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:  # permissions do not show a full or read-only disk
            probe.write(bytes(4096))
    except OSError as error:
        raise UserError(
            f"cannot write to the results folder {folder} ({error.strerror}). Fix that, or set RESULTS_DIR to another"
        ) from None
    return folder


def set_up(part: str) -> None:
    """Install a `part` of the environment by setup.sh if it is missing. Ends the process if that fails."""
    import subprocess  # slow to import

    if subprocess.run(["bash", str(ROOT / "setup.sh"), part], check=False).returncode != 0:
        raise SystemExit(2)  # setup.sh has printed the reason


def can_write(folder: Path) -> bool:
    """Return whether permissions allow new files in `folder`."""
    return os.access(folder, os.W_OK | os.X_OK)


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write all of `content`, or its parts, to `path`, or leave the old file: also after a crash or power cut.
    Only one process at a time may write a path. Raises UserError."""
    draft = _draft(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # it may have been removed since the run began
        with open(draft, "wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except (OSError, UserError) as error:  # the iterator of the parts may raise UserError
        with suppress(OSError):  # the disk may be read-only now, or the folder gone
            draft.unlink(missing_ok=True)
        raise trouble(path, error, NOTHING_LOST) if isinstance(error, OSError) else error from None


def make_folder(path: Path) -> None:
    """Create the folder `path` and its parents if missing. Raises UserError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise trouble(path, error, NOTHING_LOST) from None


@contextmanager
def whole(out: Path, what: str, size: int = 0) -> Iterator[Path]:
    """Yield a draft path, for a file or a folder, that becomes `out` when the block ends. If it fails, nothing is left.
    Raises UserError, also if `out` exists or the disk lacks the `size` bytes that `what` needs."""
    if out.exists():
        raise UserError(f"{out} exists. Remove it, or choose another name")
    if not out.parent.is_dir():
        raise UserError(f"the folder {out.parent} does not exist. Create it, or choose another")
    _discard(draft := _draft(out))
    if (free := shutil.disk_usage(out.parent).free) < size:
        raise UserError(f"{what} needs {in_words(size)}, and {out.parent} has {in_words(free)} free. Free some space")
    try:
        yield draft
        for file in [draft, *draft.rglob("*")]:
            _flush(file)
        os.replace(draft, out)
    except OSError as error:
        raise trouble(out, error, "nothing is left of this attempt") from None
    finally:
        _discard(draft)


def in_words(size: float) -> str:
    """Format a number of bytes in GB or MB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def _discard(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Flush a file's content, or a folder's names, to the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def open_log(path: Path) -> TextIO:
    """Open a log to append to. Only its owner may read it: servers print their settings. Raises UserError."""
    try:
        return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w", encoding="utf-8")
    except OSError as error:
        raise trouble(path, error, NOTHING_LOST) from None


def remove(path: Path) -> None:
    """Remove `path`, and the draft of a killed writer, if they exist."""
    path.unlink(missing_ok=True)
    _draft(path).unlink(missing_ok=True)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def trouble(path: Path, error: OSError, kept: str) -> UserError:
    """Return the error for the user if `path` cannot be written. `kept` says what is safe."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "the disk is full. Free some space" if is_full else f"writing failed ({error.strerror}). Fix that"
    return UserError(f"{path}: {why} and run the same command again; {kept}")


def storable(text: str) -> str:
    """Return `text` without surrogates, which files and requests cannot hold: pairs are joined, others are U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read_lines(path: Path, what: str, remedy: str) -> Iterator[str]:
    """Yield the lines of a text file. Raises UserError, with the kind of file (`what`) and the `remedy`."""
    with _reading(path, what, remedy), open(path, encoding="utf-8-sig") as file:  # Windows editors write a BOM
        yield from file


@contextmanager
def opened(path: Path, what: str, remedy: str) -> Iterator[BinaryIO]:
    """Open `path` to read bytes. Raises UserError as read_lines does."""
    with _reading(path, what, remedy), open(path, "rb") as file:
        yield file


@contextmanager
def _reading(path: Path, what: str, remedy: str) -> Iterator[None]:
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(errno.EINVAL, "not a regular file")  # reading a pipe would block
        yield
    except UnicodeDecodeError as error:
        raise UserError(f"{what} {path} is not UTF-8 text (byte {error.start}). Save it as UTF-8") from None
    except OSError as error:
        raise UserError(f"{what} {path} can't be read ({error.strerror}). {remedy}") from None
    except ValueError:  # a NUL
        raise UserError(f"{what} {path} can't be read (not a path). {remedy}") from None


def read_text(path: Path, what: str, remedy: str) -> str:
    """Return the text of `path`. Raises UserError as read_lines does."""
    return "".join(read_lines(path, what, remedy))


def read_json(path: Path, what: str, remedy: str) -> Any:
    """Return the value in the JSON file `path`. Raises UserError as read_lines and parse_json do."""
    return parse_json(read_text(path, what, remedy), f"{what} {path}", remedy)


def parse_json(text: str, where: str, remedy: str) -> Any:
    """Return the value of a JSON text. Raises UserError, also for NaN and Infinity, which Python's parser accepts."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid JSON ({error}). {remedy}") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def amount(value: Any, most: float = 1e15) -> float:
    """Return `value` if it is a number from 0 to `most`. Raises ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise ValueError(f"{value!r:.40} is not a number from 0 to {most:g}")
    return value


def sha256(path: Path) -> str | None:
    """Return the hash of a file's content, or None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
