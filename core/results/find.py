"""Results files by name."""

import os
from collections.abc import Sequence
from pathlib import Path

from core.errors import UserError


class NoResults(UserError):
    """There is no such results file (yet)."""


def path_of(name: str, folder: Path) -> Path:
    """The file of the results `name`: the path of a .json file, or in `folder` NAME.json, else NAME.partial.json, else
    those of the only name that begins so. Raises UserError where there is no such file."""
    path = Path(name) if name.endswith(".json") else folder / f"{name}.json"
    if not os.path.exists(path) and os.path.exists(partial := path.with_suffix(".partial.json")):
        path = partial
    if not os.path.exists(path) and name and "/" not in name:
        begin_so = {other.name.partition(".")[0] for other in folder.glob("*.json") if other.name.startswith(name)}
        if len(begin_so) == 1 and name not in begin_so:
            return path_of(begin_so.pop(), folder)
    if not os.path.exists(path):
        known = ", ".join(sorted(other.stem for other in folder.glob("*.json"))) or "nothing"
        raise NoResults(f"no results at {path}; {folder} holds {known}. Check the name, or run it first")
    return path


def found(names: Sequence[str], folder: Path) -> list[Path]:
    """The results files that are meant; the name of a comparison (a folder) means all in it. Raises UserError where one
    is not there, or there is none at all."""
    if names:
        return [path for name in names for path in (_all_in(name, folder) or [path_of(name, folder)])]
    paths = _within(folder)
    if not paths:
        raise NoResults(f"no results in {folder}. Run an experiment first: bash scripts/run.sh 02_rsa_basic")
    return paths


def comparison(names: Sequence[str], folder: Path) -> Path | None:
    """The folder of the comparison that is meant, where it is one."""
    there = [path for path in folder.iterdir() if path.is_dir() and (path / "table.txt").exists()]
    if len(names) != 1:
        return None
    named = [path for path in there if path.name == names[0]] or [p for p in there if p.name.startswith(names[0])]
    return named[0] if len(named) == 1 else None


def _all_in(name: str, folder: Path) -> list[Path]:
    """The results of the comparison `name`, in the order of its table: the one that others are compared with first."""
    if not (there := comparison([name], folder)):
        return []
    told = [line.split() for line in (there / "table.txt").read_text(encoding="utf-8").splitlines()]
    rank = {words[0]: place for place, words in reversed([*enumerate(told)]) if words}
    return sorted(_within(there), key=lambda path: (rank.get(path.stem.rpartition("-seed")[0], len(told)), path.stem))


def _within(folder: Path) -> list[Path]:
    """The complete results in `folder`, and the partial ones of runs that have no complete one."""
    complete = {path.stem: path for path in folder.glob("*.json") if "." not in path.stem}
    partial = {path.name.partition(".")[0]: path for path in folder.glob("*.partial.json")}
    return [path for _, path in sorted((partial | complete).items())]
