"""Write results JSON (schema 1, core/results/schema.json) atomically, and rename the file of an earlier run."""

import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import remove, write_atomically
from core.results import read
from core.results.find import within
from core.types import Problem

GRADED_BY = ("split", "solution", "guidelines", "grading_scheme")  # a problem's optional fields


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def save(document: dict[str, Any], rows: Iterable[bytes], folder: Path) -> Path:
    """Write `document` and its problems to NAME.json, or to NAME.partial.json if it is partial. Return the path.

    If it is complete, the names of an earlier NAME.json and NAME.png get the start time of their run.
    """
    name = document["experiment"]
    partial = folder / f"{name}.partial.json"
    if not document["complete"]:
        write_atomically(partial, _dump(document, rows))
        return partial
    path = folder / f"{name}.json"
    if path.exists():
        started = ""
        with suppress(UserError):
            started = read.read(path)[0].started
        kept = _unused(folder, name, _stamp(started, path))
        write_atomically(kept, path.read_bytes())
        with suppress(OSError):  # the figure may be missing
            os.replace(path.with_suffix(".png"), kept.with_suffix(".png"))
    write_atomically(path, _dump(document, rows))
    remove(partial)
    return path


def _stamp(started: Any, path: Path) -> str:
    """Format the time at which a run `started`, or its file's modification time if `started` is invalid."""
    try:
        time = datetime.fromisoformat(str(started))
    except ValueError:
        time = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return time.astimezone(UTC).strftime("%Y%m%d-%H%M%S")


def _unused(folder: Path, name: str, stamp: str, ending: str = ".json") -> Path:
    path, number = folder / f"{name}.{stamp}{ending}", 2
    while path.exists():
        path, number = folder / f"{name}.{stamp}-{number}{ending}", number + 1
    return path


def put_aside(folder: Path, started: Any, files: Iterable[Path] = ()) -> Path:
    """Add the start time to another run's folder name, move `files` into it, and return its path. Raises UserError."""
    try:
        kept, moved = _unused(folder.parent, folder.name, _stamp(started, folder), ending=""), sorted(files)
        os.rename(folder, kept)
        for each in moved:
            os.rename(each, kept / each.name)
    except OSError as error:
        why = f"the folder {folder} of an earlier run can't be renamed ({error.strerror})"
        raise UserError(f"{why}. Move it away and run the same command again") from None
    return kept


def own_folder(folder: Path, names: Collection[str], model: str, problems: str) -> None:
    """Make the folder of a comparison whose runs have `names`. Rename it first if it has other runs, or runs of another
    model or problem set. Raises UserError."""
    others = []
    for path in within(folder):
        with suppress(UserError):  # a damaged file belongs to no run
            head = read.read(path)[0]
            found = (path.name.partition(".")[0] in names, head.model["name"], head.problem_set["name"])
            others += [head.started] if found != (True, model, problems) else []
    if others:
        kept = put_aside(folder, others[0])
        print(f"note: {folder} had other runs, another model or other problems. The folder is now {kept}")
    folder.mkdir(exist_ok=True)


def _dump(document: dict[str, Any], rows: Iterable[bytes]) -> Iterator[bytes]:
    """Format a document, with one line for each step of a problem."""
    yield json.dumps(document, indent=1, ensure_ascii=True)[:-2].encode() + b',\n "problems": ['
    between = b"\n"
    for row in rows:
        yield between + row
        between = b",\n"
    yield b"\n ]\n}\n"


def row(problem: Problem, finished: bool, steps: Iterable[bytes], cost: dict[str, float | None] | None = None) -> bytes:
    """Format a problem for the file, with the fields of `cost`, if any. Each of `steps` is a record in JSON."""
    fields: dict[str, Any] = {"id": problem.id, "statement": problem.statement, "answer": problem.answer}
    fields |= {"answer_type": problem.answer_type, "finished": finished}
    fields |= {name: text for name in GRADED_BY if (text := getattr(problem, name))}
    fields |= cost or {}
    if problem.columns:
        fields["columns"] = problem.columns
    return laid_out(fields, steps)


def laid_out(fields: dict[str, Any], steps: Iterable[bytes]) -> bytes:
    """Format `fields` and `steps`, with one step on each line."""
    head = json.dumps(fields, ensure_ascii=True)
    return f'  {head[:-1]}, "steps": [\n   '.encode() + b",\n   ".join(steps) + b"]}"
