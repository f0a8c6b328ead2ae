"""Theorems from a file: {"theorems": [{"name", "statement"}]}, all of it checked before anything is searched."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.base import files, terminal
from core.base.errors import UserError, one_line
from labs.lean import guard
from labs.lean.session import Step
from labs.lean.theorem import Theorem
from labs.lean.workers import Workers

REMEDY = 'It should hold {"theorems": [{"name": "…", "statement": "(p : Prop) : p → p"}, …]}'
LONGEST_NAME = 200  # characters


TEST, TRAIN = (files.DATA / "lean" / f"lemmas_{part}.json" for part in ("test", "train"))  # the lemmas of "auto"


def read(path: Path) -> list[Theorem]:
    """The theorems in the file, in order. Raises UserError where it is no such file, names one twice, or holds a
    statement that is more than binders and a type."""
    value = files.read_json(path, "the theorems", REMEDY)
    rows = value.get("theorems") if isinstance(value, dict) else None
    if not isinstance(rows, list) or not rows:
        raise UserError(f"the file {path} holds no theorems. {REMEDY}")
    theorems = [_theorem(path, number, row) for number, row in enumerate(rows, 1)]
    seen: set[str] = set()
    for theorem in theorems:
        if theorem.name in seen:
            raise UserError(f"{path}: the name {theorem.name} stands there twice. Rename one, or remove it")
        seen.add(theorem.name)
    return theorems


def _theorem(path: Path, number: int, row: Any) -> Theorem:
    name, statement = (row.get("name"), row.get("statement")) if isinstance(row, dict) else (None, None)
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or not name.strip():
        raise UserError(f"{path}: theorem {number} has no name. {REMEDY}")
    if not isinstance(statement, str):
        raise UserError(f"{path}: {name} has no statement. {REMEDY}")
    if why := guard.refused_statement(statement):
        raise UserError(f"{path}: the statement of {name} is refused: {why}. Write binders, a colon and a type")
    return Theorem(name, statement)


async def check(theorems: Sequence[Theorem], workers: Workers, where: str) -> list[Step]:
    """The first state of each. Raises UserError for the first statement that does not elaborate; `where` says whence
    they are."""
    steps = await starts(theorems, workers)
    for theorem, step in zip(theorems, steps, strict=True):
        if step.state is None:
            raise UserError(
                f"{where}: the statement of {theorem.name} does not elaborate: {one_line(step.error, 300)}. Correct it"
            )
    return steps


async def elaborating(theorems: Sequence[Theorem], workers: Workers, where: str) -> list[Theorem]:
    """Those that elaborate, of a published set that nobody here can correct; the others are told. Raises UserError
    where none does."""
    steps = await starts(theorems, workers)
    left = [(theorem, step) for theorem, step in zip(theorems, steps, strict=True) if step.state is None]
    if not left:
        return list(theorems)
    first, step = left[0]
    why = f"the first is {first.name}: {one_line(step.error, 200)}"
    if len(left) == len(theorems):
        raise UserError(f"{where}: none of {len(left)} statements elaborates ({why}). Is LEAN's Mathlib another one?")
    terminal.say(f"note: {len(left)} of {len(theorems)} theorems of {where} do not elaborate, and are left out ({why})")
    return [theorem for theorem, step in zip(theorems, steps, strict=True) if step.state is not None]


async def starts(theorems: Sequence[Theorem], workers: Workers) -> list[Step]:
    """The first state of each, or why it has none."""
    return list(await asyncio.gather(*(workers.start(theorem.statement) for theorem in theorems)))
