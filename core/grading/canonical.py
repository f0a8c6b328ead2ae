r"""Bring cleaned answers into the form by which votes are counted, and drop names such as "x ="."""

import re
from fractions import Fraction

from core.grading.calculations import RATIONAL, with_slash
from core.grading.cleaning import clean
from core.grading.numerals import in_digits
from core.grading.quantities import stated_number

# two different canonical forms are two different numbers
NUMBER = re.compile(r"-?[0-9]+(?:/[0-9]+)?")
WORDS = re.compile(r"(?=.*[A-Za-z]{3})[A-Za-z]+(?: [A-Za-z]+)*")
NOTHING = {
    "no solution",
    "no solutions",
    "empty set",
    "the empty set",
    r"\emptyset",
    r"\varnothing",
    "∅",
    r"\{\}",
}
_INDEX = r"'*(?:_(?:\{[A-Za-z0-9 ]+\}|[A-Za-z0-9]))?"
_ONE_NAME = re.compile(
    rf"(?:\\angle |\\triangle )?(?:\\?[A-Za-z]|\\[A-Za-z]+|[A-Z]+|[A-Za-z]{{4,}}){_INDEX}"
)


def is_aime(answer: str) -> bool:
    """Return whether an answer is a whole number from 0 to 999."""
    return re.fullmatch("[0-9]{1,3}", answer) is not None


def canonical(answer: str) -> str:
    r"""Return the canonical form of a formula, by which votes are counted. Numbers become exact
    fractions ("0.50" and \frac12 are "1/2"). Equal expressions such as \sqrt2/2 and 1/\sqrt2 keep
    different forms."""
    text = clean(answer)
    if text is None:
        return answer
    text = clean(in_digits(text)) or text
    number = _exact(text)
    if number is not None:
        return str(number)
    return text.lower() if WORDS.fullmatch(text) else _without_spaces(text)


def _exact(text: str) -> Fraction | None:
    """Return the number that `text` is, or None for other texts, such as 1/2/3 and 1/0."""
    number = with_slash(text)
    if not RATIONAL.fullmatch(number):
        return None
    try:
        return Fraction(number.replace(" ", ""))
    except (ValueError, ZeroDivisionError):
        return None


def _without_spaces(text: str) -> str:
    """Return a formula without spaces and braces that have no meaning. A space between digits, or
    after the comma of a list, separates numbers: "5, 600" is not 5,600."""
    text = re.sub(r"(\\[A-Za-z]+) (?![A-Za-z])", r"\1", text)
    text = re.sub(r"([\^_])\{([A-Za-z0-9])\}", r"\1\2", text)
    text = re.sub(r" ?, ?", ", ", text)
    return re.sub(r"(?<![A-Za-z0-9.,]) | (?![A-Za-z0-9.,])", "", text)


def read_value(box: str) -> str | None:
    """Return the cleaned formula in a box, or None if it is unreadable. "x = 42" and "42°" become
    "42"."""
    text = clean(box)
    if not text:
        return text
    name, equals, value = text.partition("=")
    if equals and _ONE_NAME.fullmatch(name.strip()):
        number = stated_number(value.strip())
    else:
        number = stated_number(text)
    return text if number is None else number.removesuffix(r"^\circ")


def dropped_name(box: str) -> str:
    """Return the name of a number that read_value drops, if it is a letter or a few capitals, not a
    word."""
    text = clean(box) or ""
    name, equals, _ = text.partition("=")
    is_dropped = equals and read_value(box) != text
    is_word = re.search(r"(?<![A-Za-z\\])[A-Za-z]*[a-z]{3}", name)
    return name.strip() if is_dropped and not is_word else ""
