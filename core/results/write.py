"""The results JSON (schema 1, core/results/schema.json) as a file: its layout, atomic writes, the old one kept.

core/results/records.py makes what it holds, and core/results/read.py reads it back.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import remove, write_atomically
from core.results import read
from core.types import Problem

GRADED_BY = ("split", "solution", "guidelines", "grading_scheme")  # of a problem; written where there are any


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def save(document: dict[str, Any], rows: Iterable[bytes], folder: Path) -> Path:
    """Write `document` with its problems, which come as `row`s, under its experiment's name: NAME.json if it is
    complete, else NAME.partial.json. Returns the path.

    An earlier NAME.json is kept beside it as NAME.<when it started>.json, and its picture NAME.png likewise. A complete
    run removes the partial file.
    """
    name = document["experiment"]
    partial = folder / f"{name}.partial.json"
    if not document["complete"]:
        write_atomically(partial, _dump(document, rows))
        return partial
    path = folder / f"{name}.json"
    if path.exists():
        kept = _unused(folder, name, _started(path))
        write_atomically(kept, path.read_bytes())
        with suppress(OSError):  # there may be none
            os.replace(path.with_suffix(".png"), kept.with_suffix(".png"))
    write_atomically(path, _dump(document, rows))
    remove(partial)
    return path


def _started(path: Path) -> str:
    try:
        stamp = datetime.fromisoformat(read.read(path)[0].started)
    except (UserError, ValueError):
        stamp = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return _stamp(stamp)


def _stamp(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y%m%d-%H%M%S")


def _unused(folder: Path, name: str, stamp: str, ending: str = ".json") -> Path:
    path, number = folder / f"{name}.{stamp}{ending}", 2
    while path.exists():
        path, number = folder / f"{name}.{stamp}-{number}{ending}", number + 1
    return path


def put_aside(folder: Path, started: Any, beside: Iterable[Path] = ()) -> Path:
    """Move the folder of another run, and the files `beside` it, to a name with the time at which its record says it
    `started`. Returns the new path. Raises UserError."""
    try:
        stamp = _stamp(datetime.fromisoformat(str(started)))
    except ValueError:
        stamp = "before"
    kept, moved = _unused(folder.parent, folder.name, stamp, ending=""), sorted(beside)
    try:
        os.rename(folder, kept)
        for each in moved:
            os.rename(each, kept / each.name)
    except OSError as error:
        raise UserError(
            f"the earlier run {folder} can't be put aside ({error.strerror}). Move it away, and run the same command "
            "again"
        ) from None
    return kept


def _dump(document: dict[str, Any], rows: Iterable[bytes]) -> Iterator[bytes]:
    """Lay a document out with one line for each step of a problem, as read.py reads it."""
    yield f"{json.dumps(document, indent=1, ensure_ascii=True)[:-2]},\n{read.START}".encode()
    between = b""
    for row in rows:
        yield between + row
        between = b",\n"
    yield f"\n{read.END}}}\n".encode()


def row(problem: Problem, finished: bool, steps: Iterable[bytes], cost: dict[str, float | None] | None = None) -> bytes:
    """Lay a problem out as the file has it; each of `steps` is a record in JSON. `cost`: that field, if any."""
    fields: dict[str, Any] = {"id": problem.id, "statement": problem.statement, "answer": problem.answer}
    fields |= {"answer_type": problem.answer_type, "finished": finished}
    fields |= {name: text for name in GRADED_BY if (text := getattr(problem, name))}
    fields |= cost or {}
    if problem.columns:
        fields["columns"] = problem.columns
    return laid_out(fields, steps)


def laid_out(fields: dict[str, Any], steps: Iterable[bytes]) -> bytes:
    """Lay any `fields` out with their steps, one in a line."""
    head = json.dumps(fields, ensure_ascii=True)
    return f'  {head[:-1]}, "steps": [\n   '.encode() + b",\n   ".join(steps) + b"]}"
