r"""Split LaTeX at separators outside brackets. Brackets may be mixed, as in [1,2)."""

import re

TOKEN = re.compile(r"\\(?:begin|end)\s?\{[a-z*]+\}|\\[A-Za-z]+|\\[\s\S]|[\s\S]")
_OPENING = {"{", "(", "[", r"\{", r"\lfloor", r"\lceil"}
_CLOSING = {"}", ")", "]", r"\}", r"\rfloor", r"\rceil"}
_FIRST = ("(", "[", r"\{", "{")  # brackets that may enclose a whole answer
_LAST = (")", "]", r"\}", "}")


class Unreadable(Exception):
    """The error for a text that cannot be read as mathematics."""


def split(text: str, *separators: str) -> tuple[list[str], list[str]]:
    """Split `text` at `separators` outside brackets. Returns the parts and the separators."""
    parts = [""]
    between = []
    for token, depth in _tokens(text):
        if depth == 0 and token in separators:
            between.append(token)
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts], between


def enclosed(text: str) -> tuple[str, str] | None:
    """Return the brackets around the whole text, such as "[)", and their content, or None if none
    enclose it."""
    tokens = _tokens(text)
    first = tokens[0][0]
    last = tokens[-1][0]
    if first not in _FIRST or last not in _LAST:
        return None
    if any(depth == 0 for _, depth in tokens[1:-1]):
        return None
    return first[-1] + last[-1], text[len(first) : -len(last)].strip()


def _tokens(text: str) -> list[tuple[str, int]]:
    """Return each token of `text` with the number of brackets around it. Raises Unreadable if
    brackets do not balance."""
    tokens = []
    depth = 0
    for token in TOKEN.findall(text):
        if token in _CLOSING or token.startswith((r"\end{", r"\end ")):
            depth -= 1
        tokens.append((token, depth))
        if token in _OPENING or token.startswith(r"\begin"):
            depth += 1
    if depth:
        raise Unreadable
    return tokens
