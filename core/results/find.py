"""Results files by name."""

import os
from collections.abc import Sequence
from pathlib import Path

from core.base.errors import UserError
from core.results import labs
from core.results.warnings import CONTINUES


class NoResults(UserError):
    """There is no such results file (yet)."""


def path_of(name: str, folder: Path) -> Path:
    """The file of the results `name`: the path of a .json file, or in `folder` NAME.json, else NAME.partial.json, else
    those of the only name that begins so. Raises UserError where there is no such file."""
    return _meant(name, folder)


def found(names: Sequence[str], folder: Path) -> list[Path]:
    """The results files that are meant; the name of a comparison (a folder) means all in it. Raises UserError where one
    is not there, or there is none at all."""
    if names:
        return [path for name in names for path in _all_in(_meant(name, folder, also_comparisons=True))]
    paths = _within(folder)
    if not paths:
        raise NoResults(f"no results in {folder}. Run an experiment first: bash scripts/run.sh 02_rsa_basic")
    return paths


def comparison(names: Sequence[str], folder: Path) -> Path | None:
    """The folder of the comparison that is meant, where it is one. Raises UserError as `found` does."""
    if len(names) != 1:
        return None
    meant = _meant(names[0], folder, also_comparisons=True)
    return meant if meant.is_dir() else None


def _meant(name: str, folder: Path, also_comparisons: bool = False) -> Path:
    """The file, or the folder of a comparison, called `name`, else the only one whose name begins so."""
    path = Path(name) if name.endswith(".json") else folder / f"{name}.json"
    for whole in (path, path.with_suffix(".partial.json")):
        if os.path.exists(whole):
            return whole
    comparisons = _comparisons(folder) if also_comparisons else set()
    if name in comparisons:
        return folder / name
    known = comparisons | {other.name.partition(".")[0] for other in folder.glob("*.json")}
    begin_so = [other for other in known if other.startswith(name)] if name else []
    if len(begin_so) == 1 and name not in begin_so:
        return _meant(begin_so[0], folder, also_comparisons)
    raise NoResults(
        f"no results at {path}; {folder} holds {', '.join(sorted(known)) or 'nothing'}. Check the name, or run it first"
    )


def _comparisons(folder: Path) -> set[str]:
    """The names of the comparisons that have ended, and of experiments in rounds from their first round on."""
    begun = {each.name for each in folder.glob("*/") if labs.report_of(each)}
    return {table.parent.name for table in folder.glob("*/table.txt")} | begun


def _all_in(meant: Path) -> list[Path]:
    """A file; or the results of a comparison, in the order of its table: the one that others are compared with first;
    or those of runs in rounds."""
    if not meant.is_dir():
        return [meant]
    if lab := labs.report_of(meant):
        if not (paths := lab.results(meant)):
            raise NoResults(f"nothing of {meant.name} has results in {meant} yet. Wait for it; {CONTINUES}")
        return paths
    told = [line.split() for line in (meant / "table.txt").read_text(encoding="utf-8").splitlines()]
    rank = {words[0]: place for place, words in reversed([*enumerate(told)]) if words}
    return sorted(_within(meant), key=lambda path: (rank.get(path.stem.rpartition("-seed")[0], len(told)), path.stem))


def _within(folder: Path) -> list[Path]:
    """The complete results in `folder`, and the partial ones of runs that have no complete one."""
    complete = {path.stem: path for path in folder.glob("*.json") if "." not in path.stem}
    partial = {path.name.partition(".")[0]: path for path in folder.glob("*.partial.json")}
    return [path for _, path in sorted((partial | complete).items())]
