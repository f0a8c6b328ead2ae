"""Format text for a terminal: wrapped messages, tables and short numbers."""

import os
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

LEAST = 40  # columns. Text is never wrapped to a smaller width


def columns(stream: TextIO | None = None) -> int:
    """Return the width of `stream`, or 0 for a file or a pipe. Without one: $COLUMNS, else standard
    output's width."""
    given = "" if stream else os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given):
        return max(LEAST, int(given))
    stream = stream or sys.stdout  # shutil would ask the terminal that started a notebook
    try:
        return max(LEAST, os.get_terminal_size(stream.fileno()).columns) if stream.isatty() else 0
    except (OSError, ValueError):
        return 0


def wrapped(text: str, indent: str = "", width: int | None = None) -> str:
    """Wrap text to `width` columns (default: the terminal's width, 0: no limit). Later lines begin
    with `indent`."""
    width = columns() if width is None else width
    if not width:
        return text
    lines = (
        textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        or [""]
        for line in text.splitlines()
    )
    return "\n".join(part for parts in lines for part in parts)


def say(line: str, stream: TextIO | None = None) -> None:
    """Print a message to `stream` (default: standard output) without buffering, wrapped to the
    terminal's width."""
    print(wrapped(line, "  ", columns(stream)), file=stream, flush=True)


def cut(text: str, most: int) -> str:
    """Shorten `text` to `most` characters. Shortened text ends with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def short(number: float) -> str:
    """Format a number in a few characters: "812", "2.4k", "175k", "4.5M"."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 10 * size:
            return f"{number / size:,.0f}{letter}"
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return f"{number:.0f}"


def labelled(rows: Sequence[tuple[str, str]]) -> str:
    """Format rows of a label and a text in two columns. Long texts are wrapped within their
    column."""
    width = max((len(label) for label, _ in rows), default=0) + 2
    return "\n".join(wrapped(f"{label:<{width}}{text}", " " * width) for label, text in rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Format a table as text, with its head in the first row. A first column of names is aligned
    left, others right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    aligns = ["<" if any(not row[0].isdigit() for row in rows[1:]) else ">", *">" * len(widths[1:])]
    specs = [f"{align}{width}" for align, width in zip(aligns, widths, strict=True)]
    lines = ["  ".join(map(format, row, specs)) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)
