"""Write results JSON (schema 1, harness/results/schema.json) atomically, and rename the file of an
earlier run."""

import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import IO, Any

from core.base.errors import UserError
from core.base.files import make_folder, remove, write_atomically
from core.types import Problem
from harness.results import read
from harness.results.find import within

PROBLEMS = b' "problems": [\n'  # the line between a document and its problems
OF_RUN = ("started", "ended", "provenance")  # fields that differ in a repeated run
OF_REQUESTS = ("seconds", "reused", "reused_by")  # such fields of metrics
GRADED_BY = ("split", "solution", "guidelines", "grading_scheme")  # a problem's optional fields


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def save(document: dict[str, Any], rows: Iterable[bytes], folder: Path) -> Path:
    """Write `document` and its problems to NAME.json, or to NAME.partial.json if it is partial.
    Return the path.

    If it is complete, the names of an earlier NAME.json and NAME.png get the time at which that run
    was saved. A run that only repeats an earlier one leaves its file, with the time that its
    requests took.
    """
    name = document["experiment"]
    partial = folder / f"{name}.partial.json"
    write_atomically(partial, _dump(document, rows))
    if not document["complete"]:
        return partial
    path = folder / f"{name}.json"
    if path.exists():
        if _is_repeat(partial, path):
            remove(partial)
            return path
        earlier = _unused(path, ".json")
        write_atomically(earlier, path.read_bytes())
        with suppress(OSError):  # the figure may be missing
            os.replace(path.with_suffix(".png"), earlier.with_suffix(".png"))
    os.replace(partial, path)
    return path


def _is_repeat(newer: Path, earlier: Path) -> bool:
    """Return whether two results files differ only in their times, their provenance, and the
    completions that came from the journal."""
    with open(newer, "rb") as mine, open(earlier, "rb") as other:
        try:
            if _results_of(mine) != _results_of(other):
                return False
        except (ValueError, LookupError, TypeError):  # the earlier file is damaged
            return False
        return all(row == other_row for row, other_row in zip_longest(mine, other))


def _results_of(file: IO[bytes]) -> dict[str, Any]:
    """Read a file up to its problems. Return the fields that a repeated run does not change."""
    lines = list(takewhile(PROBLEMS.__ne__, file))
    document: dict[str, Any] = json.loads(b"".join(lines).rstrip(b",\n") + b"}")
    metrics = document["metrics"]
    for fields in (metrics, metrics.get("scorer", {})):
        for name in OF_REQUESTS:
            fields.pop(name, None)
    return {name: value for name, value in document.items() if name not in OF_RUN}


def _unused(path: Path, ending: str = "") -> Path:
    """Return an unused path for an earlier file or folder `path`: its name, the time of its last
    change, `ending`."""
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    stem = f"{path.name.removesuffix(ending)}.{changed:%Y%m%d-%H%M%S}"
    unused = path.with_name(stem + ending)
    number = 2
    while unused.exists():
        unused = path.with_name(f"{stem}-{number}{ending}")
        number += 1
    return unused


def put_aside(folder: Path, files: Iterable[Path] = ()) -> Path:
    """Add the time of the last change to another run's folder name, move `files` into it, and
    return its path. Raises UserError."""
    try:
        renamed = _unused(folder)
        listed = sorted(files)  # before the folder moves
        os.rename(folder, renamed)
        for file in listed:
            os.rename(file, renamed / file.name)
    except OSError as error:
        raise UserError(
            f"the folder {folder} of an earlier run can't be renamed ({error.strerror}). Move it "
            "away and run the same command again"
        ) from None
    return renamed


def own_folder(folder: Path, names: Collection[str], model: str, problems: str) -> None:
    """Make the folder of a comparison whose runs have `names`. Rename it first if it has other
    runs, or runs of another model or problem set. Raises UserError."""
    if any(_is_foreign(path, names, model, problems) for path in within(folder)):
        renamed = put_aside(folder)
        print(
            f"note: {folder} had other runs, another model or other problems. The folder is now "
            f"{renamed}"
        )
    make_folder(folder)


def _is_foreign(path: Path, names: Collection[str], model: str, problems: str) -> bool:
    """Return whether results belong to another run, model or problem set. A damaged file belongs
    to no run."""
    try:
        head, _ = read.read(path)
    except UserError:
        return False
    if path.name.partition(".")[0] not in names:
        return True
    identity = (head.model["name"], head.problem_set["name"])
    return identity != (model, problems)


def _dump(document: dict[str, Any], rows: Iterable[bytes]) -> Iterator[bytes]:
    """Format a document, with one line for each step of a problem."""
    head = json.dumps(document, indent=1, ensure_ascii=True)
    yield head.removesuffix("\n}").encode() + b",\n" + PROBLEMS
    between = b""
    for row in rows:
        yield between + row
        between = b",\n"
    yield b"\n ]\n}\n" if between else b" ]\n}\n"


def row(problem: Problem, finished: bool, steps: Iterable[bytes]) -> bytes:
    """Format a problem for the file. Each of `steps` is a record in JSON."""
    fields: dict[str, Any] = {
        "id": problem.id,
        "statement": problem.statement,
        "answer": problem.answer,
        "answer_type": problem.answer_type,
        "finished": finished,
    }
    for name in GRADED_BY:
        text = getattr(problem, name)
        if text:
            fields[name] = text
    if problem.details:
        fields["details"] = problem.details
    if problem.columns:
        fields["columns"] = problem.columns
    return _laid_out(fields, steps)


def stored(row: dict[str, Any]) -> bytes:
    """Format a problem, given as in the file."""
    fields = {name: value for name, value in row.items() if name != "steps"}
    steps = (json.dumps(step, ensure_ascii=True).encode() for step in row["steps"])
    return _laid_out(fields, steps)


def _laid_out(fields: dict[str, Any], steps: Iterable[bytes]) -> bytes:
    """Format `fields` and `steps`, with one step on each line."""
    head = json.dumps(fields, ensure_ascii=True).removesuffix("}")
    begin = f'  {head}, "steps": [\n   '.encode()
    return begin + b",\n   ".join(steps) + b"]}"
