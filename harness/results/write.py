"""Write results JSON (schema 1, harness/results/schema.json) atomically, and rename the file of an
earlier run."""

import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import make_folder, remove, write_atomically
from core.types import Problem
from harness.results import read
from harness.results.find import within

GRADED_BY = ("split", "solution", "guidelines", "grading_scheme")  # a problem's optional fields


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def save(document: dict[str, Any], rows: Iterable[bytes], folder: Path) -> Path:
    """Write `document` and its problems to NAME.json, or to NAME.partial.json if it is partial.
    Return the path.

    If it is complete, the names of an earlier NAME.json and NAME.png get the time at which that run
    was saved.
    """
    name = document["experiment"]
    partial = folder / f"{name}.partial.json"
    if not document["complete"]:
        write_atomically(partial, _dump(document, rows))
        return partial
    path = folder / f"{name}.json"
    if path.exists():
        kept = _unused(path, ".json")
        write_atomically(kept, path.read_bytes())
        with suppress(OSError):  # the figure may be missing
            os.replace(path.with_suffix(".png"), kept.with_suffix(".png"))
    write_atomically(path, _dump(document, rows))
    remove(partial)
    return path


def _unused(path: Path, ending: str = "") -> Path:
    """Return an unused path for an earlier file or folder `path`: its name, the time of its last
    change, `ending`."""
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y%m%d-%H%M%S")
    stem = f"{path.name.removesuffix(ending)}.{changed}"
    unused, number = path.with_name(stem + ending), 2
    while unused.exists():
        unused, number = path.with_name(f"{stem}-{number}{ending}"), number + 1
    return unused


def put_aside(folder: Path, files: Iterable[Path] = ()) -> Path:
    """Add the time of the last change to another run's folder name, move `files` into it, and
    return its path. Raises UserError."""
    try:
        kept, moved = _unused(folder), sorted(files)
        os.rename(folder, kept)
        for each in moved:
            os.rename(each, kept / each.name)
    except OSError as error:
        why = f"the folder {folder} of an earlier run can't be renamed ({error.strerror})"
        raise UserError(f"{why}. Move it away and run the same command again") from None
    return kept


def own_folder(folder: Path, names: Collection[str], model: str, problems: str) -> None:
    """Make the folder of a comparison whose runs have `names`. Rename it first if it has other
    runs, or runs of another model or problem set. Raises UserError."""
    others = False
    for path in within(folder):
        with suppress(UserError):  # a damaged file belongs to no run
            head = read.read(path)[0]
            found = (
                path.name.partition(".")[0] in names,
                head.model["name"],
                head.problem_set["name"],
            )
            others |= found != (True, model, problems)
    if others:
        kept = put_aside(folder)
        print(
            f"note: {folder} had other runs, another model or other problems. The folder is now "
            f"{kept}"
        )
    make_folder(folder)


def _dump(document: dict[str, Any], rows: Iterable[bytes]) -> Iterator[bytes]:
    """Format a document, with one line for each step of a problem."""
    yield json.dumps(document, indent=1, ensure_ascii=True)[:-2].encode() + b',\n "problems": ['
    between = b"\n"
    for row in rows:
        yield between + row
        between = b",\n"
    yield b"\n ]\n}\n"


def row(problem: Problem, finished: bool, steps: Iterable[bytes]) -> bytes:
    """Format a problem for the file. Each of `steps` is a record in JSON."""
    fields: dict[str, Any] = {
        "id": problem.id,
        "statement": problem.statement,
        "answer": problem.answer,
    }
    fields |= {"answer_type": problem.answer_type, "finished": finished}
    fields |= {name: text for name in GRADED_BY if (text := getattr(problem, name))}
    if problem.columns:
        fields["columns"] = problem.columns
    return _laid_out(fields, steps)


def stored(row: dict[str, Any]) -> bytes:
    """Format a problem, given as in the file."""
    fields = {name: value for name, value in row.items() if name != "steps"}
    return _laid_out(
        fields, (json.dumps(step, ensure_ascii=True).encode() for step in row["steps"])
    )


def _laid_out(fields: dict[str, Any], steps: Iterable[bytes]) -> bytes:
    """Format `fields` and `steps`, with one step on each line."""
    head = json.dumps(fields, ensure_ascii=True)
    return f'  {head[:-1]}, "steps": [\n   '.encode() + b",\n   ".join(steps) + b"]}"
