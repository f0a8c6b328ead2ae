"""Results files by name."""

import os
from collections.abc import Sequence
from pathlib import Path

from core.errors import UserError


class NoResults(UserError):
    """There is no such results file (yet)."""


def path_of(name: str, folder: Path) -> Path:
    """The file of the results `name`: the path of a .json file, or in `folder` NAME.json, else NAME.partial.json.
    Raises UserError where there is no such file."""
    path = Path(name) if name.endswith(".json") else folder / f"{name}.json"
    if not os.path.exists(path) and os.path.exists(partial := path.with_suffix(".partial.json")):
        path = partial
    if not os.path.exists(path):
        known = ", ".join(sorted(other.stem for other in folder.glob("*.json"))) or "nothing"
        raise NoResults(f"no results at {path}; {folder} holds {known}. Check the name, or run it first")
    return path


def found(names: Sequence[str], folder: Path) -> list[Path]:
    """The results files that are meant. Raises UserError where one is not there, or there is none at all."""
    if names:
        return [path_of(name, folder) for name in names]
    complete = {path.stem: path for path in folder.glob("*.json") if "." not in path.stem}
    partial = {path.name.partition(".")[0]: path for path in folder.glob("*.partial.json")}
    paths = [path for _, path in sorted((partial | complete).items())]
    if not paths:
        raise NoResults(f"no results in {folder}. Run an experiment first: bash scripts/run.sh 02_rsa_basic")
    return paths
