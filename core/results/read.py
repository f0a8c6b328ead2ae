"""Results files, read problem by problem: one of a million completions takes no more memory than a small one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.files import parse_json, read_lines

START, END = ' "problems": [\n', " ]\n"  # the lines around the problems, as core/results/write.py lays a file out
MEND = "Move the file away and run it again"


def read(path: Path) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Everything but "problems", and the problems one by one. A file that is laid out otherwise is read whole.

    Raises UserError where the file can't be read or is no JSON; of the problems, as they come. What it holds is for the
    caller to check.
    """
    lines = read_lines(path, "results", MEND)
    head: list[str] = []
    for line in lines:
        if line == START:
            return _json(path, [*head, '"problems": []}']), _problems(path, lines)
        head.append(line)
    data = _json(path, head)
    return data, iter(data.get("problems", []))


def _problems(path: Path, rest: Iterator[str]) -> Iterator[dict[str, Any]]:
    lines: list[str] = []
    for line in rest:
        if lines and (line == END or line.startswith("  {")):
            yield _json(path, ["".join(lines).rstrip(",\n")])
            lines.clear()
        if line == END:
            return
        lines.append(line)
    raise UserError(f"results {path} end in the middle. {MEND}")


def _json(path: Path, lines: list[str]) -> Any:
    return parse_json("".join(lines), f"results {path}", MEND)
