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
from core.results import model, read
from core.types import Problem

SCHEMA = model.SCHEMA  # what is written is what is read
GRADED_BY = ("split", "solution", "guidelines", "grading_scheme")  # of a problem; written where there are any


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def save(document: dict[str, Any], rows: Iterable[bytes], folder: Path) -> Path:
    """Write `document` with its problems, which come as `row`s, under its experiment's name: NAME.json when complete,
    NAME.partial.json until then.

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
        _keep(path, kept := _unused(folder, name, _started(path)))
        with suppress(OSError):  # there may be none
            os.replace(path.with_suffix(".png"), kept.with_suffix(".png"))
    write_atomically(path, _dump(document, rows))
    remove(partial)
    return path


def _keep(path: Path, kept: Path) -> None:
    try:
        os.link(path, kept)
    except OSError:  # a file system without hard links
        with open(path, "rb") as file:
            write_atomically(kept, iter(lambda: file.read(1 << 20), b""))


def _started(path: Path) -> str:
    try:
        stamp = datetime.fromisoformat(read.read(path)[0].started)
    except (UserError, ValueError):
        stamp = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return stamp.strftime("%Y%m%d-%H%M%S")


def _unused(folder: Path, name: str, stamp: str, ending: str = ".json") -> Path:
    path, number = folder / f"{name}.{stamp}{ending}", 2
    while path.exists():
        path, number = folder / f"{name}.{stamp}-{number}{ending}", number + 1
    return path


def put_aside(folder: Path, started: Any, beside: Iterable[Path] = ()) -> Path:
    """The folder of another run, which began when its record says it `started`, under a name with that time, where it
    is kept with what lies `beside` it. Raises UserError."""
    try:
        stamp = datetime.fromisoformat(str(started)).astimezone(UTC).strftime("%Y%m%d-%H%M%S")
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
    """One line per step of a problem: readable in an editor, diffable, compact; read.py reads it by line."""
    yield f"{json.dumps(document, indent=1, ensure_ascii=True)[:-2]},\n{read.START}".encode()
    between = b""
    for row in rows:
        yield between + row
        between = b",\n"
    yield f"\n{read.END}}}\n".encode()


def row(problem: Problem, finished: bool, steps: Iterable[bytes], cost: dict[str, float | None] | None = None) -> bytes:
    """A problem as it stands in the file; each of `steps` is a record in JSON. `cost`: that field, if any."""
    fields: dict[str, Any] = {"id": problem.id, "statement": problem.statement, "answer": problem.answer}
    fields |= {"answer_type": problem.answer_type, "finished": finished}
    fields |= {name: text for name in GRADED_BY if (text := getattr(problem, name))}
    fields |= cost or {}
    if problem.columns:
        fields["columns"] = problem.columns
    return laid_out(fields, steps)


def laid_out(fields: dict[str, Any], steps: Iterable[bytes]) -> bytes:
    """The same of any `fields`, a step a line."""
    head = json.dumps(fields, ensure_ascii=True)
    return f'  {head[:-1]}, "steps": [\n   '.encode() + b",\n   ".join(steps) + b"]}"
