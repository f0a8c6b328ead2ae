"""Format text for a terminal: wrapped messages, heartbeats, tables and short numbers."""

import os
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count
from typing import TextIO

LEAST = 40  # columns. Text is never wrapped to a smaller width
SECOND = 1.0  # after which a step is announced, unless it is known to be long
UNITS = {"G": 1e9, "M": 1e6, "k": 1e3}


def columns(stream: TextIO | None = None) -> int:
    """Return the width of `stream`, or 0 for a file or a pipe. Without one: $COLUMNS, else standard
    output's width."""
    if stream is None:
        setting = os.environ.get("COLUMNS", "")
        if setting.isdigit() and int(setting):
            return max(LEAST, int(setting))
        stream = sys.stdout  # shutil would ask the terminal that started a notebook
    try:
        if not stream.isatty():
            return 0
        width = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0
    return max(LEAST, width)


def wrapped(text: str, indent: str = "", width: int | None = None) -> str:
    """Wrap text to `width` columns (default: the terminal's width, 0: no limit). Later lines begin
    with `indent`."""
    width = columns() if width is None else width
    if not width:
        return text
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    lines: list[str] = []
    for line in text.splitlines():
        lines += wrapper.wrap(line) or [""]
    return "\n".join(lines)


def say(line: str, stream: TextIO | None = None) -> None:
    """Print a message to `stream` (default: standard output) without buffering, wrapped to the
    terminal's width."""
    text = wrapped(line, "  ", columns(stream))
    print(text, file=stream, flush=True)


@contextmanager
def heartbeat(step: str, usual: str = "", is_long: bool = False) -> Iterator[None]:
    """Print on standard error what the block does, and later how long it has taken so far.

    The first line ends with the time that is `usual`. It follows after a SECOND, so a shorter block
    prints nothing, or at once for a step that `is_long`. setup.sh prints such lines, too."""
    ended = threading.Event()
    began = time.monotonic()
    lines = beats(step, usual)

    def print_lines() -> None:
        for seconds, line in lines:
            if ended.wait(began + seconds - time.monotonic()):
                return
            say(line, sys.stderr)

    if is_long:
        _, line = next(lines)
        say(line, sys.stderr)
    thread = threading.Thread(target=print_lines, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def beats(step: str, usual: str) -> Iterator[tuple[float, str]]:
    """Yield the lines of a heartbeat, with the seconds after which they are due."""
    yield SECOND, f"{step}, {usual} …" if usual else f"{step} …"
    for seconds in chain(range(10, 60, 10), count(60, 60)):
        yield seconds, f"{step}: {seconds} s so far …"


def cut(text: str, length: int) -> str:
    """Shorten `text` to `length` characters. Shortened text ends with an ellipsis."""
    if len(text) <= length:
        return text
    return text[: length - 1] + "…"


def short(number: float) -> str:
    """Format a number in a few characters: "812", "2.4k", "175k", "4.5M"."""
    for letter, size in UNITS.items():
        if number >= 10 * size:
            return f"{number / size:,.0f}{letter}"
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return f"{number:.0f}"


def labelled(rows: Sequence[tuple[str, str]]) -> str:
    """Format rows of a label and a text in two columns. Long texts are wrapped within their
    column."""
    width = 2 + max((len(label) for label, _ in rows), default=0)
    indent = " " * width
    return "\n".join(wrapped(f"{label:<{width}}{text}", indent) for label, text in rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Format a table as text, with its head in the first row. A first column of names is aligned
    left, others right."""
    columns_of_cells = list(zip(*rows, strict=True))
    widths = [max(map(len, cells)) for cells in columns_of_cells]
    has_names = not all(cell.isdigit() for cell in columns_of_cells[0][1:])
    lines = []
    for row in rows:
        cells = list(map(str.rjust, row, widths))
        if has_names:
            cells[0] = row[0].ljust(widths[0])
        lines.append("  ".join(cells).rstrip())
    rule = "  ".join("-" * width for width in widths)
    lines.insert(1, rule)
    return "\n".join(lines)
