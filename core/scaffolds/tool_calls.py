"""Read tool calls from a planner's text, for servers and models without a format of their own.

A call is a line with CALL, the name of a tool, and a JSON object with the tool's one argument, a whole number or a list
of them: `CALL improve {"report": 1}`. List marks, emphasis, code fences and words after the object are ignored.
"""

import json
import re

from core.scaffolds.common import BAD_ARGUMENTS, NO_CALL, UNKNOWN_TOOL

CALL = "CALL"
TOOLS = {  # each with its one argument
    "approaches": "count",
    "solve": "approach",  # may be left out
    "verify": "solution",
    "improve": "report",
    "select": "solutions",
    "merge": "solutions",
    "submit": "solution",
}

_CALL = re.compile(rf"^[ \t>*_`+\-\d.)]*+{CALL}\b[ \t:]*+(.*)$", re.MULTILINE)


class InvalidCall(Exception):
    """A call that can't be executed: a `note` for the results, and a reason for the planner."""

    def __init__(self, note: str, why: str) -> None:
        super().__init__(why)
        self.note = note


def call_lines(text: str) -> list[str]:
    """Return the lines that start with CALL, without it."""
    return [line.strip(" \t\r*_`") for line in _CALL.findall(text)]


def read_call(line: str) -> tuple[str, list[int]]:
    """Return the tool and the numbers of a line from `call_lines`. Raises InvalidCall, also for ""."""
    words = re.match(r"(\w+)\s*+(.*)", line)
    if not words:
        raise InvalidCall(NO_CALL, f"no line starts with {CALL} and a tool")
    tool, stated = words.groups()
    if tool not in TOOLS:
        raise InvalidCall(UNKNOWN_TOOL, f"there is no tool {tool:.40}; there are {', '.join(TOOLS)}")
    name = TOOLS[tool]
    try:
        given, _ = json.JSONDecoder().raw_decode(stated or "{}")
    except (ValueError, RecursionError):
        raise InvalidCall(BAD_ARGUMENTS, f"no JSON object follows {tool} on its line") from None
    if tool == "solve" and given in ({}, {name: None}):
        return tool, []
    if not isinstance(given, dict) or list(given) != [name]:
        raise InvalidCall(BAD_ARGUMENTS, f'{tool} takes one argument, "{name}"')
    numbers = given[name] if name == "solutions" else [given[name]]
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        wanted = "a list of whole numbers" if name == "solutions" else "a whole number"
        raise InvalidCall(BAD_ARGUMENTS, f'"{name}" must be {wanted}')
    return tool, numbers
