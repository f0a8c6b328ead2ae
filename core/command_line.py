"""Read an experiment's constants from the command line, and print its help."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from core.base.errors import one_line
from core.base.terminal import say, wrapped
from core.constants import A, ConstantGroup, constants_in, read, rules


def read_constants(kind: type[A], namespace: Mapping[str, Any], more_help: str = "") -> A:
    """Read an experiment's constants from its file and the command line. A note names ignored
    environment variables. With --help, print the help and `more_help`, and end the process."""
    overrides = sys.argv[1:]
    if asks_for_help(overrides):
        parts = [help_text(kind, namespace), more_help]
        print("\n\n".join(filter(None, parts)))
        raise SystemExit(0)
    used = {"PROBLEMS"}
    for override in (*kind.words(), *overrides):
        used.add(override.partition("=")[0])
    ignored = [name for name in rules(kind) if name in os.environ and name not in used]
    if ignored:
        settings = " ".join(f"{name}={one_line(os.environ[name], 40)}" for name in ignored)
        note = (
            f"note: {settings} in the environment has no effect. Put constants after the "
            "experiment's name"
        )
        say(note, sys.stderr)
    return read(kind, namespace, overrides)


def asks_for_help(overrides: Sequence[str]) -> bool:
    return "-h" in overrides or "--help" in overrides


def help_text(kind: type[ConstantGroup], namespace: Mapping[str, Any]) -> str:
    """Return an experiment's help, wrapped to the terminal's width. `namespace` has the globals of
    its file."""
    defaults = {field.name: field.default for field in fields(kind)}
    values: dict[str, Any] = {}
    for name, value in constants_in(namespace).items():
        if name in defaults:
            values[name] = value
            del defaults[name]
    parts = [_introduction(str(namespace.get("__doc__") or ""))]
    heading = "Constants (NAME=value changes one):"
    if values:
        heading = "Constants that the file sets (NAME=value changes one for a run):"
        parts += _list(heading, kind, values)
        heading = "Other constants, with their defaults:"
    if defaults:
        parts += _list(heading, kind, defaults)
    return "\n".join(parts)


def _introduction(text: str) -> str:
    """Return a docstring's paragraphs. Lines such as "Question: …" begin one too."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n|\n(?=[A-Z]\w+: )", text.strip()):
        words = paragraph.split()
        lines.append(wrapped(" ".join(words)))
    return "\n".join(lines)


def _list(heading: str, kind: type[ConstantGroup], values: Mapping[str, Any]) -> list[str]:
    """Return a heading, and a line for each constant with its value, meaning and range."""
    settings = [f"{name}={value}" for name, value in values.items()]
    width = max(map(len, settings))
    lines = ["", heading]
    for name, setting in zip(values, settings, strict=True):
        rule = rules(kind)[name]
        row = f"  {setting:{width}}  {rule.help} ({rule.span()})"
        lines.append(wrapped(row, " " * (width + 4)))
    return lines
