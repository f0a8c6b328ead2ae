"""A file that others publish: fetched once, its checksum looked at, taken up again where it was broken off."""

import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from core.base import terminal
from core.base.errors import UserError, one_line
from core.base.files import in_words, make_folder, trouble

SECONDS = 60.0  # that a server may be silent
BLOCK = 1 << 20


@dataclass(frozen=True)
class Published:
    """`url`: of one version for good. `size` in bytes and `md5`, where they are known ("" and 0: not)."""

    url: str
    licence: str
    size: int = 0
    md5: str = ""


def fetched(file: Published, path: Path) -> Path:
    """`path`, which holds the file; it is fetched where it is missing. Raises UserError without a network, for another
    content, and for a full disk; what has come is kept beside `path` and taken up by the next call."""
    if path.exists():
        if file.md5 and md5(path) != file.md5:
            raise UserError(f"{path} is not {file.url} (its md5 is not {file.md5}). Remove it")
        return path
    make_folder(path.parent)
    part = path.with_name(f".{path.name}.part")
    _check_room(file, path, part)
    terminal.say(f"fetching {file.url}" + (f" ({in_words(file.size)})" if file.size else ""))
    try:
        _receive(file.url, part)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        why = error.reason if type(error) is urllib.error.URLError else error
        raise _unreachable(file, path, one_line(str(why), 150)) from None
    except OSError as error:
        raise trouble(path, error, "what has come is kept") from None
    if file.size and part.stat().st_size < file.size:
        raise _unreachable(file, path, f"only {in_words(part.stat().st_size)} came")
    if file.md5 and md5(part) != file.md5:
        part.unlink()
        raise UserError(
            f"{file.url} has another content than was known (not md5 {file.md5}). Run the same command again"
        )
    os.replace(part, path)
    return path


def md5(path: Path) -> str:
    """Of a file's content, as Zenodo tells it. Raises OSError."""
    with open(path, "rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _receive(url: str, part: Path) -> None:
    """Put behind `part` what it lacks of the answer to `url`. Raises OSError and HTTPException."""
    held = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={held}-"} if held else {})
    try:
        reply = urllib.request.urlopen(request, timeout=SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        return  # there is no more of it
    with reply, open(part, "ab" if reply.status == http.HTTPStatus.PARTIAL_CONTENT else "wb") as file:
        while block := reply.read(BLOCK):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        if reply.length:  # it says how much is to come yet
            raise http.client.IncompleteRead(b"", reply.length)


def _check_room(file: Published, path: Path, part: Path) -> None:
    """Raises UserError."""
    owed = file.size - (part.stat().st_size if part.exists() else 0)
    if (free := shutil.disk_usage(path.parent).free) < owed:
        raise UserError(f"{path.parent} has {in_words(free)} free and {path.name} needs {in_words(owed)}. Make room")


def _unreachable(file: Published, path: Path, why: str) -> UserError:
    return UserError(
        f"{file.url} can't be fetched ({why.rstrip('.')}). Run the same command again where there is a network, or "
        f"fetch it elsewhere and put it at {path}"
    )
