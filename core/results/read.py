"""Read results files problem by problem. Files are not trusted, so core/results/model.py checks the fields in use."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import convert

from core.base.errors import UserError
from core.base.fields import fitted
from core.base.files import parse_json, read_lines
from core.results.model import SCHEMA, Head, Origins, ProblemResult, StepResult

START, END = ' "problems": [\n', " ]\n"  # the lines around the problems, as core/results/write.py lays a file out
FIX = "Move the file away and run the experiment again"
WRONG = "is not a results file of this project"
PLAIN = ("model", "engine", "problem_set", "config", "provenance")  # parts of the head with plain values

Row = dict[str, Any]  # a problem as stored in the file


def read(path: Path) -> tuple[Head, Iterator[ProblemResult]]:
    """Return the head, and an iterator over the problems, which reads them one by one.

    Raises UserError if the file can't be read or is not a results file of schema 1. Problems are checked when reached.
    """
    head, _, problems = read_raw(path)
    return head, (problem for _, problem in problems)


def read_raw(path: Path) -> tuple[Head, dict[str, Any], Iterator[tuple[Row, ProblemResult]]]:
    """Read the head and the problems, both checked and as stored. Raises UserError if the file is invalid."""
    with refusing(path):
        head, rows = parsed(path)
        wrong, numbered = f"{path} {WRONG}", enumerate(rows, 1)
        both = ((row, fitted(row, ProblemResult, wrong, FIX, f"problem {number}: ")) for number, row in numbered)
        return _head(path, head), head, both


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn errors of code that reads the unchecked JSON in `path` into a UserError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(f"{path} {WRONG} ({type(error).__name__}: {error})") from None


def step_result(step: dict[str, Any]) -> StepResult:
    """Convert a step from a results file. Raises ValueError if a field is invalid."""
    return convert(step, StepResult)


def parsed(path: Path) -> tuple[dict[str, Any], Iterator[Any]]:
    """Return the head and an iterator over the problems. In the layout of write.py, problems are parsed one by one.
    Raises UserError if the file can't be read. In another layout, raises TypeError or ValueError for wrong types."""
    lines = read_lines(path, "results", FIX)
    before: list[str] = []
    for line in lines:
        if line == START:
            return dict(_json(path, [*before, '"problems": []}'])), _rows(path, lines)
        before.append(line)
    whole = dict(_json(path, before))
    return whole, iter(whole.pop("problems", []))


def _rows(path: Path, rest: Iterator[str]) -> Iterator[Any]:
    lines: list[str] = []
    for line in rest:
        if lines and (line == END or line.startswith("  {")):
            yield _json(path, ["".join(lines).rstrip(",\n")])
            lines.clear()
        if line == END:
            return
        lines.append(line)
    raise UserError(f"the results {path} are incomplete, because the file ends too early. {FIX}")


def _json(path: Path, lines: list[str]) -> Any:
    return parse_json("".join(lines), f"results {path}", FIX)


def _head(path: Path, head: dict[str, Any]) -> Head:
    schema = head["schema"]
    if schema is True or schema != SCHEMA:
        raise UserError(f"the results {path} have schema {schema!r:.40}, but this version reads schema {SCHEMA}. {FIX}")
    fitted(head, Origins, f"{path} {WRONG}", FIX)
    plain = {part: {name: _plain(value) for name, value in dict(head[part]).items()} for part in PLAIN}
    if of := head.get("grading"):
        plain["grading"] = of | {"model": of["model"]["name"], "grades": of["config"]["GRADES"]}
    return fitted(head | plain, Head, f"{path} {WRONG}", FIX)


def _plain(value: Any) -> Any:
    """Return None, a number, a boolean or a text unchanged. Return other values as JSON."""
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value, sort_keys=True)
