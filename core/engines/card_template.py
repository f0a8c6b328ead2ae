"""Read the arguments of a chat template from text: "enable_thinking=false thinking_budget=512"."""

import json
import re
import shlex

from core.base.errors import UserError

_NAME = re.compile(r"[A-Za-z_]\w*")


def template_in(text: str) -> dict[str, str | int | float | bool]:
    """Return the arguments in a value of TEMPLATE by name. A value is true, false, a number or
    text. Raises UserError for another form."""
    arguments: dict[str, str | int | float | bool] = {}
    try:
        words = shlex.split(text)
    except ValueError:  # a quotation mark is missing
        words = [""]
    for word in words:
        name, equals, value = word.partition("=")
        if not (equals and _NAME.fullmatch(name)):
            raise UserError(
                f"TEMPLATE={text:.60} is not NAME=value. Give arguments of the chat template, such "
                'as TEMPLATE="enable_thinking=false", with spaces between'
            )
        arguments[name] = _value(value)
    return arguments


def _value(text: str) -> str | int | float | bool:
    try:
        value = json.loads(text, parse_constant=str)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
