"""Read the tool calls of the math agent's planner: lines such as `CALL improve {"report": 1}`."""

import json
import re

CALL = "CALL"
TOOLS = {  # each tool's name and its argument's name
    "approaches": "count",
    "solve": "approach",  # optional
    "verify": "solution",
    "improve": "report",
    "select": "solutions",
    "merge": "solutions",
    "submit": "solution",
}
BAD = "bad tool arguments"  # the note on most invalid calls

_CALL = re.compile(rf"^[ \t>*_`+\-\d.)]*+{CALL}\b[ \t:]*+(.*)$", re.MULTILINE)


class InvalidCall(Exception):
    """An invalid call. The exception's two arguments are a note for the results and a reason for
    the planner."""


def call_lines(text: str) -> list[str]:
    """Return the text after CALL of each line that starts with CALL, or with list marks and
    CALL."""
    return [line.strip(" \t\r*_`") for line in _CALL.findall(text)]


def read_call(line: str) -> tuple[str, list[int]]:
    """Return the tool and its numbers from a line of `call_lines`. Raises InvalidCall if the line
    is invalid or ""."""
    words = re.match(r"(\w+)\s*+(.*)", line)
    if not words:
        raise InvalidCall("no tool call", f"no line starts with {CALL} and a tool")
    tool, stated = words.groups()
    if tool not in TOOLS:
        raise InvalidCall(
            "unknown tool", f"there is no tool {tool:.40}; there are {', '.join(TOOLS)}"
        )
    name = TOOLS[tool]
    try:
        arguments, _ = json.JSONDecoder().raw_decode(stated or "{}")
    except (ValueError, RecursionError):
        raise InvalidCall(BAD, f"no JSON object follows {tool} on its line") from None
    if tool == "solve" and arguments in ({}, {name: None}):
        return tool, []
    if not isinstance(arguments, dict) or list(arguments) != [name]:
        raise InvalidCall(BAD, f'{tool} takes one argument, "{name}"')
    takes_list = name == "solutions"
    numbers = arguments[name] if takes_list else [arguments[name]]
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        wanted = "a list of whole numbers" if takes_list else "a whole number"
        raise InvalidCall(BAD, f'"{name}" must be {wanted}')
    return tool, numbers
