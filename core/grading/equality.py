r"""Compare two mathematical answers strictly, with math-verify's LaTeX parser. Either order gives
the same result.

Only the child process of sympy_process.py imports this module, because sympy may hang. An answer is
spelled in one way (spelling.py), taken apart (parsing.py), and its parts are compared
(comparison.py)."""

import re
from itertools import product

from core.grading.brackets import Unreadable
from core.grading.comparison import is_same
from core.grading.formula import Answer
from core.grading.parsing import read, read_spelled
from core.grading.spelling import as_power_of_ten, spelled
from core.grading.units import NO_UNIT
from core.grading.values import guarded

_ANGLED = r"\\(?:arc)?(?:sin|cos|tan|cot|sec|csc)"
# Signs that one text may lack, and texts that keep them.
_KEPT = {
    r"^\circ": re.compile(_ANGLED),  # sin 1 is not the sine of one degree
    r"\%": re.compile(rf"{_ANGLED}|[,;]|(?<!\\%)\Z"),  # a list, or more text after the sign
}


def is_equal(answer: str, truth: str) -> bool:
    """Return whether two LaTeX answers, cleaned by cleaning.py, are equal. If one is unreadable,
    compare their tokens."""
    try:
        mine, theirs = _readings(answer, truth)
        for my_reading, their_reading in product(mine, theirs):
            if guarded(is_same, my_reading, their_reading):
                return True
        return False
    except (Unreadable, RecursionError):
        return _tokens(answer) == _tokens(truth)


def readable(text: str) -> bool:
    """Return whether a cleaned answer can be compared by meaning, not only by spelling."""
    try:
        answer = read(text)
        return guarded(is_same, answer, answer) is True
    except (Unreadable, RecursionError):
        return False


def _tokens(text: str) -> list[str]:
    """Return the tokens of a text that cannot be read, without spaces and without braces around
    single tokens."""
    token = r"\\[A-Za-z]+|[0-9]+|\S"
    for _ in range(3):
        text = re.sub(rf"(?<!\\)\{{\s*({token})\s*\}}", r" \1 ", text)
    return re.findall(token, text)


def _readings(answer: str, truth: str) -> tuple[list[Answer], list[Answer]]:
    """List the possible readings of each text. If only one text has a degree or per cent sign, it
    is also read without the sign. A text with a sign keeps it if the other text has a unit
    (30 rad)."""
    mine = [read(answer)]
    theirs = [read(truth)]
    my_text = spelled(answer)
    their_text = spelled(truth)
    for sign in _KEPT:
        if theirs[0].unit == NO_UNIT:
            mine += _without_sign(sign, my_text, their_text)
        if mine[0].unit == NO_UNIT:
            theirs += _without_sign(sign, their_text, my_text)
    return mine + _as_power_of_ten(my_text), theirs + _as_power_of_ten(their_text)


def _without_sign(sign: str, text: str, other: str) -> list[Answer]:
    if sign not in text or sign in other or _KEPT[sign].search(text):
        return []
    return [read_spelled(text.replace(sign, ""))]


def _as_power_of_ten(text: str) -> list[Answer]:
    power = as_power_of_ten(text)
    return [] if power is None else [read_spelled(power)]
