"""Read numbers in words (two thirds, five apples) and in other countries' notation (1.250.000).

`in_digits` changes only texts with one reading. `with_point` reads a comma as a decimal point. This
is certain only if the other answer is a number without one."""

import re
from fractions import Fraction

from core.grading.units import unit_of

# --- words ---

_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_BELOW_100 = {word: number for number, word in enumerate(_ONES.split())}
_BELOW_100 |= {word: 10 * number for number, word in enumerate(_TENS.split(), 2)}
_COUNTS = {"dozen": 12, "hundred": 100}  # multiply what precedes them
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_MULTIPLES = _COUNTS | _SCALES
NAMES = (*_BELOW_100, "hundred", *_SCALES)  # of whole numbers
_PARTS = {
    "half": 2, "halve": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6,
    "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10, "hundredth": 100, "thousandth": 1000,
}  # fmt: skip
_WORD = re.compile(r"[a-z]+(?=[ -]|\Z)")
_SCALED = re.compile(rf"(-?[0-9]+(?:\.[0-9]+)?) ({'|'.join(_MULTIPLES)})s?(?![A-Za-z])(.*)")
_TEXT = re.compile(r"\\(?:text|textrm|mathrm|mbox) ?\{([^{}\\]*)\}")
MAX_WORDS = 12  # most words of a number


def _whole(words: list[str]) -> int | None:
    """Return the whole number that `words` spell, or None: "two thousand and five" is 2005."""
    total = 0
    group = 0  # the number before the next thousand or million
    smallest = 10**15
    for word in words:
        if word in _SCALES:
            if not group or _SCALES[word] >= smallest:
                return None
            smallest = _SCALES[word]
            total += group * smallest
            group = 0
        elif word in _COUNTS:
            if not 0 < group < 100:
                return None
            group *= _COUNTS[word]
        elif word not in _BELOW_100:
            if word != "and" or not (group or total) or word == words[-1]:
                return None
        elif not _can_follow(_BELOW_100[word], group, total):
            return None
        else:
            group += _BELOW_100[word]
    return total + group if words else None


def _can_follow(number: int, group: int, total: int) -> bool:
    """Return whether a number below 100 can be added: "twenty one", but not "one two"."""
    if group == 0:
        return total == 0 or number > 0
    if number < 10:
        return number > 0 and group % 10 == 0 and group % 100 != 10
    return group % 100 == 0


def _number(words: list[str]) -> Fraction | None:
    """Return the number that `words` spell, with a sign, an article or a fraction, or None."""
    match words:
        case ["minus" | "negative", *rest]:
            number = _number(rest)
            return None if number is None else -number
        case ["half"]:
            return Fraction(1, 2)
        case ["half", "a" | "an", *rest]:
            number = _number(["a", *rest])
            return None if number is None else number / 2
        case ["a" | "an", word, *rest] if word in _MULTIPLES or word in _PARTS:
            return _number(["one", word, *rest])
    parts = _PARTS.get(words[-1].removesuffix("s")) if words else None
    if parts is None:
        whole = _whole(words)
        return None if whole is None else Fraction(whole)
    *before, _ = words
    if "and" not in words:  # two thirds
        count = _whole(before)
        return Fraction(count, parts) if count else None
    index = words.index("and")  # two and a half
    whole = _whole(words[:index])
    fraction = _number(words[index + 1 :])
    if whole is None or fraction is None or not 0 < fraction < 1:
        return None
    return whole + fraction


def _spelled(text: str) -> tuple[Fraction, str] | None:
    """Return the number that the most words at the start of `text` spell, and the rest, or None."""
    ends = [word.end() for word in _WORD.finditer(text.lower()[:200])][:MAX_WORDS]
    for end in reversed(ends):
        number = _number(re.split("[ -]+", text[:end].lower()))
        if number is not None:
            return number, text[end:].strip()
    return None


# --- notation ---

# Notations by pattern, separators of thousands, and the decimal separator.
_CERTAIN = (
    (r"[0-9]{1,3}(?:\.[0-9]{3}){2,}", ".", ","),  # 1.250.000
    (r"[0-9]{1,3}(?:[. '][0-9]{3})+,[0-9]+", ". '", ","),  # 1.234,56
    (r"[0-9]{1,3}(?:'[0-9]{3})+(?:\.[0-9]+)?", "'", "."),  # 1'250'000.5
)
_MAYBE_LISTS = (
    (r"[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}(?:\.[0-9]+)?", ",", "."),  # 12,50,000 in India
    (r"(?![1-9][0-9]{0,2},[0-9]{3}(?![0-9]))[0-9]+,[0-9]+", "", ","),  # 12,5 but not 1,250
)
# A number may be followed by a unit, but not by more mathematics or another number.
_END = r"(?![0-9.,'])(?!\s*[-+*/^(,;:]|\s*\\(?!text|mathrm|mbox|%|\$)|\s+[0-9])"


def _rewritten(text: str, notations: tuple[tuple[str, str, str], ...]) -> str | None:
    """Return `text` with the number at its start in our notation, or None in other notation."""
    for pattern, thousands, decimal in notations:
        number = re.match(rf"(-?)({pattern}){_END}", text)
        if number:
            digits = "".join(sign for sign in number[2] if sign not in thousands)
            return number[1] + digits.replace(decimal, ".") + text[number.end() :]
    return None


def with_point(text: str) -> str | None:
    """Return `text` with a decimal point for its comma: 12.5 cm for 12,5 cm. Else return None."""
    return _rewritten(text, _MAYBE_LISTS)


def in_digits(text: str) -> str:
    """Return a cleaned math answer in digits if it is a number in words or in another notation.

    A unit or noun may follow. "five apples" becomes "5 apples", "5 million" becomes "5000000", and
    "1.250.000" becomes "1250000". Other texts are returned unchanged."""
    if (number := _rewritten(text, _CERTAIN)) is not None:
        return number
    plain = re.sub(r"\s+", " ", _TEXT.sub(r" \1 ", text)).strip()
    if scaled := _SCALED.fullmatch(plain):
        value = Fraction(scaled[1]) * _MULTIPLES[scaled[2]]
        rest = scaled[3].strip()
    elif spelled := _spelled(plain):
        value, rest = spelled
    else:
        return text
    sign = "-" if value < 0 else ""
    digits = f"{sign}{abs(value)}"
    if value.denominator > 1:
        digits = rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
    if not rest:
        return digits
    if rest in ("percent", "per cent"):
        return f"{digits}%"
    has_number = any(word in _BELOW_100 or word in _MULTIPLES for word in rest.lower().split())
    is_noun = re.fullmatch("[A-Za-z ]+", rest) and unit_of(rest, is_one=value == 1)
    return rf"{digits}\text{{ {rest}}}" if is_noun and not has_number else text
