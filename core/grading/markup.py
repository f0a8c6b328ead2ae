r"""Remove LaTeX commands and Markdown around words: \text{True} and **True** become True."""

import re

_COMMAND = re.compile(
    r"\\(?:text(?!color)\w*|math\w+|mbox|boxed|underline|boldsymbol|bm|operatorname|color ?\{\w+\}"
    r"|textcolor ?\{\w+\}) ?(?:\{([^{}]*)\}|(?<=\\mathbf|\\mathrm) ([A-Za-z]))"
)
_SPACE = re.compile(
    r"\\(?:q?quad|bf|rm|it|sf|tiny|small|large|Large|huge|Huge)(?![A-Za-z])|\\[ ,;:!]|[\s~\u00a0]+"
)
_ESCAPED = re.compile(r"\\(?=[&%#])|\\(?:left|right)(?![A-Za-z])")
_DELIMITER = re.compile(r"\\[()\[\]]|\\?\$")
_BRACES = re.compile(r"\\?\{([^{}]*?)\\?\}")
_MARKS = " *_`\"'“”‘’"
# Full-width punctuation and letters, as in Chinese and Japanese
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3010: "[", 0x3011: "]"}


def half_width(text: str) -> str:
    """Return `text` with ASCII letters and punctuation: （Ｃ） is (C)."""
    return text.translate(_FULL_WIDTH)


def without_markup(text: str) -> str:
    r"""Return `text` without commands and marks around its content: \text{(C) }42 is (C) 42."""
    before = ""
    text = half_width(text)
    while text != before:
        before = text
        text = _COMMAND.sub(_content, text)
    text = _ESCAPED.sub("", _DELIMITER.sub("", text))
    text = " ".join(_SPACE.sub(" ", text).split()).strip(_MARKS)
    inner = _BRACES.fullmatch(text)
    return inner[1].strip(_MARKS) if inner else text


def _content(command: re.Match[str]) -> str:
    return command[1] or command[2] or ""
