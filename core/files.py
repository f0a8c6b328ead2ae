"""Files that are whole or not there: atomic writes, and what to say when the disk will not have them."""

import errno
import os
from pathlib import Path

from core.errors import UserError


def write_atomically(path: Path, content: bytes) -> None:
    """`path` holds all of `content`, or what it held before: also on a full disk, a crash or a power cut."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise trouble(path, error, "nothing finished is lost") from None


def trouble(path: Path, error: OSError, kept: str) -> UserError:
    """What to tell a user when `path` could not be written; `kept` says what is safe."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "the disk is full. Free some space" if is_full else f"writing failed ({error.strerror}). Mend that"
    return UserError(f"{path}: {why} and run the same command again; {kept}")
