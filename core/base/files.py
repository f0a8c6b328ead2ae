"""Write files atomically, choose the results folder, and read text and JSON. File errors become
UserErrors."""

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
IS_CHECKOUT = (ROOT / "setup.sh").is_file()
BUNDLED = ROOT / "core" / "bundled"  # the data of an installed wheel
DATA = BUNDLED if BUNDLED.is_dir() else ROOT / "data"
# default folder for results and weights, if VOLUME is not writable
HOME = ROOT if IS_CHECKOUT else Path.cwd()
# the volume of a rented pod, which outlives the pod. All checkouts share it
VOLUME = Path("/workspace")
NOTHING_LOST = "no finished work is lost"


def results_dir() -> Path:
    """Return the results folder, and create it if it is missing. Raises UserError if the folder is
    not writable. The folder is $RESULTS_DIR if set, else /workspace/results if /workspace is
    writable, else HOME/results."""
    setting = os.environ.get("RESULTS_DIR")
    if setting:
        folder = Path(os.path.expanduser(setting))
    elif can_write(VOLUME):
        folder = VOLUME / "results"
    else:
        folder = HOME / "results"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # a test write, because the disk may be full or read-only
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(4096))
    except OSError as error:
        raise UserError(
            f"cannot write to the results folder {folder} ({error.strerror}). Set RESULTS_DIR to a "
            "writable folder"
        ) from None
    return folder


def set_up(part: str) -> None:
    """Run setup.sh, which installs a `part` of the environment if it is missing. If setup.sh fails,
    end the process."""
    import subprocess  # slow to import

    if subprocess.run(["bash", str(ROOT / "setup.sh"), part], check=False).returncode != 0:
        raise SystemExit(2)  # setup.sh has printed the reason


def can_write(folder: Path) -> bool:
    """Return whether this user's permissions allow new files in `folder`."""
    return os.access(folder, os.W_OK | os.X_OK)


def write_atomically(path: Path, content: bytes | Iterable[bytes], is_synced: bool = True) -> None:
    """Replace the file `path` by `content` (bytes, or parts to be joined). A failure keeps the old
    file. After a crash, the file is the old or the new one. If `is_synced`, this is also true after
    a power cut, because the file is forced to the disk. Only one process at a time may write a
    path. Raises UserError. If `path` is a link, the file replaces the link. The linked file stays
    the same."""
    draft = _draft(path)
    parts = [content] if isinstance(content, bytes) else content
    try:
        # the folder may have been removed since the run began
        path.parent.mkdir(parents=True, exist_ok=True)
        if draft.is_symlink():
            draft.unlink()
        with open(draft, "wb", opener=open_unlinked) as file:
            file.writelines(parts)
            if is_synced:
                file.flush()
                os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise write_error(path, error, NOTHING_LOST) from None
    finally:
        _discard(draft)


def make_folder(path: Path) -> None:
    """Create the folder `path` and its parents if they are missing. Raises UserError if that
    fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(path, error, NOTHING_LOST) from None


@contextmanager
def draft_of(out: Path, noun: str, size: int = 0) -> Iterator[Path]:
    """Yield the path of a draft (file or folder). The draft is renamed to `out` after the block, or
    removed if the block fails. Raises UserError if `out` exists or can't be written, or if `noun`,
    of `size` bytes, does not fit."""
    if out.exists():
        raise UserError(f"{out} exists. Remove it, or choose another name")
    if not out.parent.is_dir():
        raise UserError(
            f"the folder {out.parent} does not exist. Create it, or choose another folder"
        )
    draft = _draft(out)
    _discard(draft)
    free = shutil.disk_usage(out.parent).free
    if free < size:
        raise UserError(
            f"{noun} needs {in_words(size)}, but {out.parent} has {in_words(free)} free. Free some "
            "space"
        )
    try:
        yield draft
        for file in [draft, *draft.rglob("*")]:
            _flush(file)
        os.replace(draft, out)
    except OSError as error:
        raise write_error(out, error, "all files of this attempt are removed") from None
    finally:
        _discard(draft)


def in_words(size: float) -> str:
    """Format a number of bytes in GB or MB."""
    if size >= 1e9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.1f} MB"


def _discard(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):  # the disk may be read-only now, or the folder removed
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Flush the content of a file, or the file names of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_unlinked(path: Path | str, flags: int, mode: int = 0o666) -> int:
    """Open one of our own files, and return its file descriptor. It is an `opener` for open().
    Raises OSError (ELOOP) if `path` is a link, because a link in a shared folder could lead to any
    file of the user."""
    return os.open(path, flags | os.O_NOFOLLOW, mode)


def open_log(path: Path) -> TextIO:
    """Open a log for appending. Only the owner can read a new log, because servers may print keys.
    Raises UserError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        descriptor = open_unlinked(path, flags, 0o600)
        return open(descriptor, "w", encoding="utf-8")
    except OSError as error:
        raise write_error(path, error, NOTHING_LOST) from None


def remove(path: Path) -> None:
    """Remove the file `path`, and the draft that a killed process may have left."""
    path.unlink(missing_ok=True)
    _draft(path).unlink(missing_ok=True)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def write_error(path: Path, error: OSError, work: str) -> UserError:
    """Return the error for the user if `path` cannot be written. `work` says which work is lost."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "the disk is full. Free some space"
    elif error.errno == errno.ELOOP:  # from open_unlinked
        advice = (
            "this file is a link, which a run does not follow. Put the file itself there, or "
            "remove the link"
        )
    else:
        advice = f"writing failed ({error.strerror}). Remove the cause"
    return UserError(f"{path}: {advice}, and run the same command again ({work})")


def storable(text: str) -> str:
    """Return `text` without surrogates, which files and requests cannot contain. Surrogate pairs
    become one character, and lone surrogates become U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read_lines(path: Path, noun: str, remedy: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 file. Raises UserError, with the `noun` and the `remedy`, if
    it can't be read."""
    # Windows editors write a BOM
    with _reading(path, noun, remedy), open(path, encoding="utf-8-sig") as file:
        yield from file


@contextmanager
def opened(path: Path, noun: str, remedy: str) -> Iterator[BinaryIO]:
    """Open the file `path` for reading bytes. Raises UserError if it can't be read."""
    with _reading(path, noun, remedy), open(path, "rb") as file:
        yield file


@contextmanager
def _reading(path: Path, noun: str, remedy: str) -> Iterator[None]:
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(errno.EINVAL, "not a regular file")  # reading a pipe would block
        yield
    except UnicodeDecodeError as error:
        raise UserError(
            f"{noun} {path} is not UTF-8 text (byte {error.start}). Save it as UTF-8"
        ) from None
    except OSError as error:
        raise UserError(f"{noun} {path} can't be read ({error.strerror}). {remedy}") from None


def read_text(path: Path, noun: str, remedy: str) -> str:
    """Return the text of the file `path`. Raises UserError if it can't be read or is not UTF-8."""
    return "".join(read_lines(path, noun, remedy))


def read_json(path: Path, noun: str, remedy: str) -> Any:
    """Return the value in the JSON file `path`. Raises UserError if it can't be read or is not
    JSON."""
    return parse_json(read_text(path, noun, remedy), f"{noun} {path}", remedy)


def parse_json(text: str, where: str, remedy: str) -> Any:
    """Return the value of a JSON text. Raises UserError if the text is not JSON, which excludes NaN
    and Infinity."""
    try:
        return json.loads(text, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid JSON ({error}). {remedy}") from None


def no_number(name: str) -> NoReturn:
    """Raise ValueError for NaN and Infinity, which Python's parser of JSON would accept."""
    raise ValueError(f"{name} is not a number")


def checked_amount(value: Any, limit: float = 1e15) -> float:
    """Return `value` if it is a number from 0 to `limit`. Raises ValueError otherwise."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= limit:
        raise ValueError(f"{value!r:.40} is not a number from 0 to {limit:g}")
    number: float = value
    return number


def sha256(path: Path) -> str | None:
    """Return the SHA-256 of a file's content in hexadecimal, or None if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
