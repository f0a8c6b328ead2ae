"""Read the rows to train on (JSON lines with Alpaca's columns), and choose their number and order.
Needs no torch."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from core.base.errors import UserError
from core.base.fields import Filled, fitted
from core.base.files import parse_json, read_lines, storable

FORM = 'A row is a line such as {"instruction": "…", "input": "", "output": "…"}'


class Line(Struct):
    """A row in Alpaca's shape: a user's turn (`prompt`) and the assistant's turn (`output`). A
    reply with thinking contains </think>. A `system` message may precede them."""

    instruction: Filled
    output: Filled
    input: str | None = ""
    system: str = ""

    @property
    def prompt(self) -> str:
        return "\n\n".join(filter(None, (self.instruction, self.input)))


def lines(path: Path) -> Iterator[tuple[int, str, Any]]:
    """Yield the number, the text and the JSON value of each line that is not blank. Raises
    UserError."""
    for number, line in enumerate(read_lines(path, "the data", FORM), 1):
        if line.strip():
            yield number, line.strip(), parse_json(line, f"{path}, line {number}", FORM)


def read(path: Path) -> list[Line]:
    """Read the rows in `path`. Raises UserError if there is no row, or, with the line number, if a
    row is invalid."""
    rows = []
    for number, _, found in lines(path):
        where = f"{path}, line {number}"
        rows.append(row := fitted(found, Line, f"{where} is not a row", FORM))
        if any(storable(text) != text for text in (row.prompt, row.output, row.system)):
            raise UserError(
                f"{where} contains a lone surrogate (\\ud800 to \\udfff). Remove this character"
            )
    if not rows:
        raise UserError(f"{path} contains no rows. {FORM}")
    return rows


def passes(lengths: Sequence[int], epochs: float, tokens: int | None, seed: int) -> list[list[int]]:
    """Return the indices of the rows to train on, pass by pass, each pass in random order.
    `lengths` has the tokens of each row. `epochs` is the number of passes (the last may be
    partial). If `tokens` is set, it replaces `epochs`."""
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
