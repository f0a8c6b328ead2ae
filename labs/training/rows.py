"""Read the rows to train on (JSON lines with Alpaca's columns), and choose their number and order. Needs no torch."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import parse_json, read_lines

FORM = 'A row is a line such as {"instruction": "…", "input": "", "output": "…"}'


@dataclass(frozen=True)
class Row:
    """A user's turn (`prompt`) and the assistant's turn (`reply`). A reply with thinking contains </think>. A `system`
    message may precede them."""

    prompt: str
    reply: str
    system: str = ""


def read(path: Path) -> list[Row]:
    """Read the rows in `path`. Raises UserError if there is no row, or, with the line number, if a row is invalid."""
    rows = []
    for number, line in enumerate(read_lines(path, "the data", FORM), 1):
        if line.strip():
            rows.append(_row(parse_json(line, f"{path} line {number}", FORM), f"{path} line {number}"))
    if not rows:
        raise UserError(f"{path} contains no rows. {FORM}")
    return rows


def _row(row: Any, where: str) -> Row:
    if not isinstance(row, dict):
        raise UserError(f"{where} is not a JSON object. {FORM}")
    names = ("instruction", "input", "output", "system")
    texts = [row.get(name, "") for name in names]
    for name, text in zip(names, texts, strict=True):
        if not isinstance(text, str):
            raise UserError(f"{where}: {name} is not a string. {FORM}")
        if not text.strip() and name in ("instruction", "output"):
            raise UserError(f"{where} has no {name}. {FORM}")
        if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
            raise UserError(f"{where}: {name} contains a lone surrogate (\\ud800 to \\udfff). Remove this character")
    prompt, more, reply, system = texts
    return Row("\n\n".join(filter(None, (prompt, more))), reply, system)


def passes(lengths: Sequence[int], epochs: float, tokens: int | None, seed: int) -> list[list[int]]:
    """Return the indices of the rows to train on, pass by pass, each pass in random order. `lengths` has the tokens of
    each row. `epochs` is the number of passes (the last may be partial). If `tokens` is set, it replaces `epochs`."""
    rng, count = random.Random(seed), len(lengths)
    left = tokens if tokens is not None else int(epochs) * count + round(epochs % 1 * count) or 1
    orders: list[list[int]] = []
    while left > 0:
        orders.append([])
        for i in rng.sample(range(count), count):
            if left > 0:
                orders[-1].append(i)
                left -= lengths[i] if tokens is not None else 1
    return orders
