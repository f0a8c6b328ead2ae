"""Find the files of a model that is split into parts: NAME-00001-of-00003.gguf and so on. llama.cpp
loads all parts if it is given the first."""

import re
from pathlib import Path, PurePosixPath

from core.base.errors import UserError

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def names(file: str) -> list[str]:
    """Return the names of all parts of the model that `file` belongs to, in order. The name of a
    whole model is returned alone. A folder in the name is kept."""
    match = _PART.fullmatch(file)
    if match is None:
        return [file]
    count = int(match["count"])
    numbers = range(1, count + 1)
    return [f"{match['stem']}-{number:05d}-of-{count:05d}.gguf" for number in numbers]


def stem(file: str) -> str:
    """Return the name of a model's file without its folder, its ending and the number of a
    part."""
    match = _PART.fullmatch(file)
    return PurePosixPath(match["stem"]).name if match else PurePosixPath(file).stem


def paths(path: Path) -> list[Path]:
    """Return the paths of all parts of the model that `path` belongs to, in order, or `path` alone.
    They may not exist."""
    return [path.with_name(name) for name in names(path.name)]


def first(path: Path) -> Path:
    """Return the absolute path of the model's first part, or of its only file. Raises UserError,
    which names all missing parts."""
    parts = paths(path.absolute())
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise UserError(
            f"{path} is one of {len(parts)} parts, but {parts[0].parent} lacks "
            f"{', '.join(missing)}. Fetch all parts into one folder"
        )
    if len(parts) == 1:
        return path.resolve()
    return parts[0]


def size(path: Path) -> int:
    """Return the bytes of all parts of a model. Raises OSError."""
    return sum(part.stat().st_size for part in paths(path))
