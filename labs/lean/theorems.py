"""Theorems from a file: {"theorems": [{"name", "statement"}]}, all of it checked before anything is searched."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from core.base import files, terminal
from core.base.errors import UserError, one_line
from core.base.fields import fitted
from labs.lean import guard
from labs.lean.theorem import Theorem
from labs.lean.workers import Workers

REMEDY = 'It should hold {"theorems": [{"name": "…", "statement": "(p : Prop) : p → p"}, …]}'
TEST, TRAIN = (files.DATA / "lean" / f"lemmas_{part}.json" for part in ("test", "train"))  # the lemmas of "auto"


class _Row(Struct):
    name: Annotated[str, Meta(pattern=r"\A.*\S.*\Z", max_length=200)]
    statement: str


class _File(Struct):
    theorems: Annotated[list[_Row], Meta(min_length=1)]


def read(path: Path) -> list[Theorem]:
    """Read the theorems in a file, in order. Raises UserError for another file, for a name that is there twice, and for
    a statement that is more than binders and a type."""
    found = files.read_json(path, "the theorems", REMEDY)
    theorems: dict[str, Theorem] = {}
    for row in fitted(found, _File, f"the file {path} holds no theorems", REMEDY).theorems:
        if row.name in theorems:
            raise UserError(f"{path}: the name {row.name} stands there twice. Rename one, or remove it")
        if why := guard.refused_statement(row.statement):
            raise UserError(f"{path}: the statement of {row.name} is refused: {why}. Write binders, a colon and a type")
        theorems[row.name] = Theorem(row.name, row.statement)
    return list(theorems.values())


async def elaborating(
    theorems: Sequence[Theorem], workers: Workers, where: str, is_published: bool = False
) -> list[Theorem]:
    """Return the theorems whose statements elaborate. Raises UserError if one of a file does not. Of a published set,
    which nobody here can correct, the others are reported; then it raises UserError if none elaborates."""
    steps = await asyncio.gather(*(workers.run(theorem.statement) for theorem in theorems))
    left = [(theorem, step.error) for theorem, step in zip(theorems, steps, strict=True) if step.state is None]
    if not left:
        return list(theorems)
    why = f"the statement of {left[0][0].name} does not elaborate: {one_line(left[0][1], 300)}"
    if not is_published:
        raise UserError(f"{where}: {why}. Correct it")
    if len(left) == len(theorems):
        raise UserError(f"{where}: none of {len(left)} statements elaborates ({why}). Is LEAN's Mathlib another one?")
    terminal.say(f"note: {len(left)} of {len(theorems)} theorems of {where} are left out of all rates ({why})")
    return [theorem for theorem, step in zip(theorems, steps, strict=True) if step.state is not None]
