"""A .env file: lines NAME=value, as shells and other tools read them, without what only a shell can do."""

import re

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_QUOTED = re.compile(r"""'([^']*)'\s*(?:\#.*)?|"((?:[^"\\]|\\.)*)"\s*(?:\#.*)?""")
_COMMENT = re.compile(r"(?:^|\s+)#.*")  # behind a value that stands in no quotes
_ESCAPED = re.compile(r"\\(.)")


def parse(text: str) -> dict[str, str]:
    """The variables of a .env file. Of two lines with one name the later counts; lines of any other form say nothing.
    Between double quotes a backslash takes what is behind it as it stands (\\n is a line break), between single ones it
    is a backslash. No variable is put into another's value."""
    found = {}
    for line in re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff")):
        if made := _LINE.fullmatch(line):
            found[made[1]] = _value(made[2])
    return found


def _value(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return _COMMENT.sub("", text)
    if quoted[1] is not None:
        return quoted[1]
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], quoted[2])
