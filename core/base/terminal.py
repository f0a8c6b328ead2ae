"""What we print: how wide it may be, tables, and numbers in short."""

import os
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

LEAST = 40  # columns: narrower, words are no use


def columns() -> int:
    """Of the terminal that standard output is, or as $COLUMNS says; 0 where neither bounds it: a file, a pipe."""
    told = os.environ.get("COLUMNS", "")
    return max(LEAST, int(told)) if told.isdigit() and int(told) else columns_of(sys.stdout)


def columns_of(stream: TextIO) -> int:
    """Of the terminal that `stream` is; 0 where it is none."""
    try:
        return max(LEAST, os.get_terminal_size(stream.fileno()).columns) if stream.isatty() else 0
    except (OSError, ValueError):
        return 0


def wrapped(text: str, indent: str = "", width: int | None = None) -> str:
    """`text`, line by line, broken between words where it is wider than the terminal (or `width`; 0 breaks nothing);
    what follows a break is indented so."""
    width = columns() if width is None else width
    if not width:
        return text
    lines = (
        textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
        for line in text.splitlines()
    )
    return "\n".join(part for parts in lines for part in parts)


def say(line: str) -> None:
    """A line of what goes on, at once, also into a file."""
    print(line, flush=True)


def cut(text: str, most: int) -> str:
    """`text`, its end left out where it is longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def short(number: float) -> str:
    """A number in a few characters: "812", "2.4k", "175k", "4.5M"."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 10 * size:
            return f"{number / size:,.0f}{letter}"
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return f"{number:.0f}"


def labelled(rows: Sequence[tuple[str, str]]) -> str:
    """Format rows of a label and a text. A text wider than the terminal continues below its own beginning."""
    width = max(len(label) for label, _ in rows) + 2
    return "\n".join(wrapped(f"{label:<{width}}{text}", " " * width) for label, text in rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table as text: the first of `rows` is its head. Names (a first column that is no numbers) stand to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    has_names = any(not row[0].isdigit() for row in rows[1:])

    def line(row: Sequence[str]) -> str:
        first = row[0].ljust(widths[0]) if has_names else row[0].rjust(widths[0])
        return "  ".join([first, *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))])

    lines = [line(row) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(each.rstrip() for each in lines)
