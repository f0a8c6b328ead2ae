"""Read results files problem by problem. Files are not trusted, so harness/results/model.py checks
the fields in use."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import DecodeError, Raw, convert
from msgspec.json import decode

from core.base.errors import UserError, one_line
from core.base.files import checked_amount, no_number, opened, storable
from harness.results.model import SCHEMA, Head, ProblemResult, Row

FIX = "Move the file away and run the experiment again"
NAMES = {"model": "name", "engine": "kind", "problem_set": "name"}  # texts that every head contains
PLAIN = (*NAMES, "config", "provenance")  # parts of the head with plain values

Problems = Iterator[tuple[Row, ProblemResult]]  # each as stored, and checked


def read(path: Path) -> tuple[Head, Iterator[ProblemResult]]:
    """Return the head, and an iterator over the problems, which parses them one by one.

    Raises UserError if the file can't be read or is not a results file of schema 1. Problems are
    checked when reached.
    """
    head, _, problems = read_raw(path)
    return head, (problem for _, problem in problems)


def read_raw(path: Path) -> tuple[Head, dict[str, Any], Problems]:
    """Read the head and the problems, both checked and as stored. Raises UserError if the file is
    invalid."""
    with opened(path, "results", FIX) as file, refusing(path):
        parts = _parts(file.read())
        rows = decode(parts.pop("problems", b"[]"), type=list[Raw])
        head = {name: decode(part) for name, part in parts.items()}
        return _head(path, head), head, _problems(path, rows)


@contextmanager
def refusing(path: Path, part: str = "") -> Iterator[None]:
    """Turn errors of code that reads the unchecked JSON in `path` into a UserError. `part` names a
    part of the file."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        fault = str(error)
        if not isinstance(error, ValueError):
            fault = f"{type(error).__name__}: {fault}"
        fault = one_line(fault, 300)
        raise UserError(
            f"{path} is not a results file of this project ({part}{fault}). {FIX}"
        ) from None


def _problems(path: Path, rows: list[Raw]) -> Problems:
    for number, row in enumerate(rows, 1):
        with refusing(path, f"problem {number}: "):
            checked = decode(row, type=ProblemResult)
            stored = decode(row, type=Row)
        yield stored, checked


def _parts(content: bytes) -> dict[str, Raw]:
    """Split a JSON object into its fields. Lone surrogates of a user's problem file, which msgspec
    refuses, become U+FFFD."""
    try:
        return decode(content, type=dict[str, Raw])
    except DecodeError:
        document = json.loads(content, parse_constant=no_number)
        text = storable(json.dumps(document, ensure_ascii=False))
        return decode(text.encode(), type=dict[str, Raw])


def _head(path: Path, head: dict[str, Any]) -> Head:
    schema = head["schema"]
    if schema is True or schema != SCHEMA:
        raise UserError(
            f"the results {path} have schema {schema!r:.40}, but this version reads schema "
            f"{SCHEMA}. {FIX}"
        )
    names = {part: head[part][name] for part, name in NAMES.items()}
    convert(names, dict[str, str])
    checked_amount(head["problem_set"]["n"])
    plain: dict[str, Any] = {}
    for part in PLAIN:
        values = dict(head[part])
        plain[part] = {name: _plain(value) for name, value in values.items()}
    if grading := head.get("grading"):
        plain["grading"] = grading | {
            "model": grading["model"]["name"],
            "grades": grading["config"]["GRADES"],
        }
    return convert(head | plain, Head)


def _plain(value: Any) -> Any:
    """Return None, a number, a boolean or a text unchanged. Return other values as JSON."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return json.dumps(value, sort_keys=True)
