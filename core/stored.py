"""Results files, read problem by problem: one of a million completions takes no more memory than a small one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

START, END = ' "problems": [\n', " ]\n"  # the lines around the problems, as core/results.py lays a file out


def read(path: Path) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Everything but "problems", and the problems one by one. A file that is laid out otherwise is read whole.

    Raises OSError, or ValueError (RecursionError, KeyError, …) for what is no such file; of the problems, as they come.
    """
    file = open(path, encoding="utf-8")  # noqa: SIM115
    head: list[str] = []
    for line in file:
        if line == START:
            return json.loads("".join(head) + '"problems": []}'), _problems(file)
        head.append(line)
    file.close()
    data = json.loads("".join(head))
    return data, iter(data.get("problems", []))


def _problems(file: TextIO) -> Iterator[dict[str, Any]]:
    lines: list[str] = []
    with file:
        for line in file:
            if lines and (line == END or line.startswith("  {")):
                yield json.loads("".join(lines).rstrip(",\n"))
                lines.clear()
            if line == END:
                return
            lines.append(line)
    raise ValueError("it ends in the middle")
