"""Fetch a file that others publish, and read JSON as models."""

import hashlib
import http.client
import urllib.request
from pathlib import Path
from typing import Any

import msgspec

from core.base import terminal
from core.base.errors import UserError, one_line
from core.base.files import opened, write_atomically

SECONDS = 60.0  # that a server may be silent


def fetched(url: str, path: Path, md5: str = "") -> Path:
    """Return `path`, which holds the content of `url`. It is fetched if it is missing. Raises UserError if it can't be
    fetched, or has another `md5`."""
    if not path.exists():
        terminal.say(f"fetching {url}")
        try:
            with urllib.request.urlopen(url, timeout=SECONDS) as reply:
                content = reply.read()
        except (OSError, http.client.HTTPException) as error:
            raise UserError(
                f"{url} can't be fetched ({one_line(str(error), 150)}). Run the same command again where there is a "
                f"network, or fetch it elsewhere and put it at {path}"
            ) from None
        write_atomically(path, content)
    if md5 and hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() != md5:
        raise UserError(f"{path} is not {url} (its md5 is not {md5}). Remove it, and run the same command again")
    return path


def decoded(path: Path, model: Any, what: str, remedy: str, is_lines: bool = False) -> Any:
    """Return the JSON in `path`, one value or one a line, as a `model`. Raises UserError."""
    decoder = msgspec.json.Decoder(model)
    with opened(path, what, remedy) as file:
        try:
            return (decoder.decode_lines if is_lines else decoder.decode)(file.read())
        except ValueError as error:
            raise UserError(f"{what} {path} can't be read ({one_line(str(error), 200)}). {remedy}") from None
