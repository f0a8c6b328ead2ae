r"""Read the whole number that an "integer" answer states: (42), \frac{84}{2}, x = 42, 6*7 = 42."""

import re
from fractions import Fraction

from core.grading.quantities import stated_number

# Left sides of "= 41": a name ("x"), names with operators ("m+n"), a value such as "f(2)" or "|S|",
# or a calculation ("16+25"). "2x" is not allowed, because the answer of 2x = 10 is 5.
_INDEX = r"'*(?:_(?:\{[A-Za-z0-9 ]+\}|[A-Za-z0-9]))?"
_NAME = rf"(?:\\angle )?\\?[A-Za-z]+{_INDEX}"
_CALL = rf"{_NAME} ?\((?:{_NAME}|[0-9]+)(?: ?, ?(?:{_NAME}|[0-9]+))*\)"
_SIZE = rf"\| ?{_NAME} ?\||\\# ?{_NAME}|\[ ?{_NAME} ?\]"
_TERM = rf"(?:{_CALL}|{_SIZE}|{_NAME})"
_ASKED = re.compile(rf"{_TERM}(?: ?(?:[-+/]|\\cdot|\\times) ?{_TERM})*(?: ?\\b?mod ?[0-9]+)?")
# 100m+n: two names, so nothing to solve
_WEIGHTED = re.compile(rf"(?:[0-9]* ?{_NAME})(?: ?[-+] ?[0-9]* ?{_NAME})+")
_CALCULATION = re.compile(
    r"(?:[0-9+\-*/^(){}!,.× ·]|\\(?:cdot|times|div|d?frac|[dt]?binom|sqrt|b?mod)(?![A-Za-z]))+"
)
_FRACTION = re.compile(
    r"\A(-?) *\\frac *(?:\{ *(-?[0-9]+) *\}|([0-9])) *(?:\{ *([0-9]+) *\}|([0-9]))\Z"
)
RATIONAL = re.compile(r"-? ?[0-9.]+(?: ?/ ?[0-9]+)?")


def with_slash(text: str) -> str:
    r"""Return \frac{1}{2} as 1/2, and other texts unchanged."""
    return _FRACTION.sub(r"\1\2\3/\4\5", text)


def worked_out(text: str) -> str | None:
    """Return the number that `text` states, else None. It may be in parentheses, or a fraction that
    divides evenly. It may also follow "=", with a name or a calculation before the sign. The
    calculation is not computed."""
    before, _, last = text.rpartition("=")
    number = _integer(last)
    first, *rest = (part.strip() for part in before.split("="))
    if first and not (_is_name(first) or _may_equal(first, number)):
        return None
    for part in rest:
        if not _may_equal(part, number):
            return None
    return number


def _is_name(text: str) -> bool:
    if _ASKED.fullmatch(text):
        return True
    names = set(re.findall("[A-Za-z]+", text))
    return len(names) > 1 and _WEIGHTED.fullmatch(text) is not None


def _integer(text: str) -> str | None:
    text = text.strip()
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    quotient = with_slash(text).replace(" ", "")
    top, _, bottom = quotient.partition("/")
    if re.fullmatch("-?[0-9]+", top) and re.fullmatch("0*[1-9][0-9]*", bottom):
        value = Fraction(int(top), int(bottom))
        text = str(value)
    return stated_number(text, keeps_units=False)


def _may_equal(text: str, number: str | None) -> bool:
    """Return whether `text` is a calculation that may equal `number`. A number or fraction must
    equal `number`."""
    if not _CALCULATION.fullmatch(text) or not re.search("[0-9]", text):
        return False
    value = _integer(text)
    if value or RATIONAL.fullmatch(with_slash(text.strip("() "))):
        return value == number
    return True
