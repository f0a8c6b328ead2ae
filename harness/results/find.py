"""Find results files by name."""

import os
from collections.abc import Sequence
from pathlib import Path

from core.base.errors import UserError
from core.client.journal import Archive
from harness.results import registry
from harness.results.warnings import CONTINUES


class NoResults(UserError):
    """An error for a results file that does not exist (yet)."""


def path_of(name: str, folder: Path, also_comparisons: bool = False) -> Path:
    """Return the file `name`.json or `name`.partial.json in `folder`, or the only file whose name
    begins with `name`.

    `name` may also be the path of a .json file. With `also_comparisons`, comparisons and the
    folders of labs are also found by name. Raises NoResults if nothing, or more than one name,
    begins with `name`."""
    path = Path(name) if name.endswith(".json") else folder / f"{name}.json"
    for whole in (path, path.with_suffix(".partial.json")):
        if os.path.exists(whole):
            return whole
    folders = comparisons(folder) if also_comparisons else set()
    if name in folders:
        return folder / name
    known = folders | {other.name.partition(".")[0] for other in folder.glob("*.json")}
    begin_so = [other for other in known if other.startswith(name)] if name else []
    if len(begin_so) == 1 and name not in begin_so:
        return path_of(begin_so[0], folder, also_comparisons)
    names = ", ".join(sorted(known)) or "none"
    raise NoResults(
        f"{name!r:.60} matches no single result in {folder}: {names}. Name one, or run the "
        "experiment"
    )


def found(names: Sequence[str], folder: Path) -> list[Path]:
    """List the results files of `names` (if empty: the newest of each experiment). Raises NoResults
    if none exist."""
    if names:
        return [
            path for name in names for path in _all_in(path_of(name, folder, also_comparisons=True))
        ]
    if not (paths := within(folder)):
        raise NoResults(
            f"no results in {folder}. Run an experiment first: bash scripts/run.sh 02_rsa_basic"
        )
    return paths


def comparison(names: Sequence[str], folder: Path) -> Path | None:
    """Return the folder if `names` is a single comparison or lab's run, else None. Raises NoResults
    if unknown."""
    if len(names) != 1:
        return None
    path = path_of(names[0], folder, also_comparisons=True)
    return path if path.is_dir() else None


def comparisons(folder: Path) -> set[str]:
    """Return the names of finished comparisons and of lab folders, finished or not."""
    begun = {each.name for each in folder.glob("*/") if registry.report_of(each)}
    return {table.parent.name for table in folder.glob("*/table.txt")} | begun


def _all_in(path: Path) -> list[Path]:
    """List the results files in `path`: a file, a comparison in the order of its table, or a lab's
    folder."""
    if not path.is_dir():
        return [path]
    if lab := registry.report_of(path):
        if not (paths := lab.results(path)):
            raise NoResults(f"no results in {path} yet. Wait for the run ({CONTINUES})")
        return paths
    lines = [line.split() for line in (path / "table.txt").read_text(encoding="utf-8").splitlines()]
    rank = {words[0]: place for place, words in reversed([*enumerate(lines)]) if words}
    return sorted(
        within(path),
        key=lambda each: (rank.get(each.stem.rpartition("-seed")[0], len(lines)), each.stem),
    )


def within(folder: Path) -> list[Path]:
    """List the newest complete results in `folder`, and partial results of runs without complete
    results."""
    complete = {path.stem: path for path in folder.glob("*.json") if "." not in path.stem}
    partial = {path.name.partition(".")[0]: path for path in folder.glob("*.partial.json")}
    return [path for _, path in sorted((partial | complete).items())]


def archive(path: Path, experiment: str) -> Archive:
    """Return the journals of the results in `path`. Their folder is next to the file, or up to two
    folders above it."""
    for folder in path.resolve().parents[:3]:
        if (folder / "journal").is_dir():
            inside = path.resolve().relative_to(folder).parts
            return Archive(folder / "journal", inside[0] if len(inside) > 1 else experiment)
    return Archive(path.parent / "journal", experiment)
