"""Find results files by name."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from core.base.errors import UserError
from core.base.settings import similar
from core.client.journal import Archive
from harness.results import registry
from harness.results.warnings import CONTINUES

SEED = "-seed"  # before the number in the names of several runs
NO_RESULTS = "no results in {}. Run an experiment first: bash scripts/run.sh 02_rsa_basic"


class NoResults(UserError):
    """An error for a results file that does not exist (yet)."""


def path_of(name: str, folder: Path, also_comparisons: bool = False) -> Path:
    """Return the file `name`.json or `name`.partial.json in `folder`, or the only file whose name
    begins with `name`.

    `name` may also be the path of a .json file. With `also_comparisons`, comparisons and the
    folders of labs are also found by name. Raises NoResults if nothing, or more than one name,
    begins with `name`."""
    path = Path(name) if name.endswith(".json") else folder / f"{name}.json"
    for candidate in (path, path.with_suffix(".partial.json")):
        if os.path.exists(candidate):
            return candidate
    folders = comparisons(folder) | unfinished(folder) if also_comparisons else set()
    if name in folders:
        return folder / name
    names = folders | {file.name.partition(".")[0] for file in folder.glob("*.json")}
    matches = [longer for longer in names if name and longer.startswith(name)]
    if len(matches) == 1 and name not in matches:
        return path_of(matches[0], folder, also_comparisons)
    raise NoResults(_unnamed(name, folder, matches, names))


def _unnamed(name: str, folder: Path, matches: Sequence[str], names: Collection[str]) -> str:
    """Explain why a name opens no results. List the names that begin with it, or else all names."""
    if not names:
        return f"{name!r:.60} names no results. There are {NO_RESULTS.format(folder)}"
    if len(matches) > 1:
        listed = ", ".join(sorted(matches))
        return f"several results in {folder} begin with {name!r:.60}: {listed}. Name one"
    meant = similar(name, names)
    advice = f"Did you mean {meant}? " if meant else ""
    listed = ", ".join(sorted(names))
    return (
        f"no results are named {name!r:.60} in {folder}. {advice}It has {listed}. Name one of "
        "them, or run the experiment"
    )


def results_files(names: Sequence[str], folder: Path) -> list[Path]:
    """List the results files of `names` (if empty: the newest of each experiment). Raises NoResults
    if none exist."""
    paths = []
    for name in names:
        paths += _all_in(path_of(name, folder, also_comparisons=True))
    if names:
        return paths
    paths = within(folder)
    if not paths:
        raise NoResults(NO_RESULTS.format(folder))
    return paths


def comparison(names: Sequence[str], folder: Path) -> Path | None:
    """Return the folder if `names` is a single finished comparison or lab's run, else None. Raises
    NoResults if unknown."""
    if len(names) != 1:
        return None
    path = path_of(names[0], folder, also_comparisons=True)
    return path if path.name in comparisons(folder) and path.is_dir() else None


def comparisons(folder: Path) -> set[str]:
    """Return the names of finished comparisons and of lab folders, finished or not."""
    finished = {table.parent.name for table in folder.glob("*/table.txt")}
    of_labs = {path.name for path in folder.glob("*/") if registry.report_of(path)}
    return finished | of_labs


def unfinished(folder: Path) -> set[str]:
    """Return the names of folders with runs of several seeds or of a comparison without a table."""
    names = {path.parent.name for path in folder.glob(f"*/*{SEED}*.json")}
    return names - comparisons(folder)


def _all_in(path: Path) -> list[Path]:
    """List the results files in `path`: a file, runs of several seeds, a comparison in the order of
    its table, or a lab's folder."""
    if not path.is_dir():
        return [path]
    if lab := registry.report_of(path):
        paths = lab.results(path)
        if not paths:
            raise NoResults(f"no results in {path} yet. Wait for the run ({CONTINUES})")
        return paths
    table = path / "table.txt"
    return _by_table(within(path), table) if table.exists() else within(path)


def _by_table(paths: Sequence[Path], table: Path) -> list[Path]:
    """List the files of a comparison in the order of the lines that begin with their name."""
    ranks: dict[str, int] = {}
    lines = table.read_text(encoding="utf-8").splitlines()
    for rank, line in enumerate(lines):
        words = line.split()
        if words:
            ranks.setdefault(words[0], rank)

    def order(path: Path) -> tuple[int, str]:
        name = path.stem.rpartition(SEED)[0]
        return ranks.get(name, len(lines)), path.stem

    return sorted(paths, key=order)


def within(folder: Path) -> list[Path]:
    """List the newest complete results in `folder`, and partial results of runs without complete
    results."""
    newest = {path.name.partition(".")[0]: path for path in folder.glob("*.partial.json")}
    for path in folder.glob("*.json"):
        if "." not in path.stem:  # not the results of an earlier run
            newest[path.stem] = path
    return [newest[name] for name in sorted(newest)]


def archive(path: Path, experiment: str) -> Archive:
    """Return the journals of the results in `path`. Their folder is next to the file, or up to two
    folders above it."""
    for folder in path.resolve().parents[:3]:
        if (folder / "journal").is_dir():
            parts = path.resolve().relative_to(folder).parts
            name = parts[0] if len(parts) > 1 else experiment
            return Archive(folder / "journal", name)
    return Archive(path.parent / "journal", experiment)
