r"""Read a box with only a number and a unit, or with an amount of money."""

import re

from core.grading.units import Unit, unit_of

# Words that change the number ("5 thousand", "5 or more") are not units. Few single letters are
# units: 5x and 5i are expressions.
_DEGREES = r"(?P<degrees>(?:\^ ?)?°|\^ ?\\circ|\^ ?\{ ?\\circ ?\})"
_TEXT = (
    r"\\(?:text|textrm|mathrm|mbox) ?\{(?P<unit>[A-Za-z ./()]*)\}"
    r"(?P<power> ?\^ ?(?:[23]|\{[23]\}))?"
)
_WORD = r"(?:[cmk]m|day|men|way|yen|[A-Za-z][a-z]{3,}|\([a-z]{4,}\))"
_WORDS = rf"(?<= )(?P<words>[ck]?m/[hs]|{_WORD}(?: (?:of|in|[a-z]{{3,}}))*)"
_WHOLE = r"(?P<whole>[0-9]+|(?!0,)[0-9]{1,3}(?:,[0-9]{3})+)"
_STATED = re.compile(
    rf"(?P<sign>[-+]?) ?{_WHOLE}(?P<decimals>\.[0-9]*)? ?"
    rf"(?:(?P<percent>%)|{_DEGREES}|{_TEXT}|{_WORDS})?"
)
_UNIT_WORD = re.compile(r"[A-Za-z./()]{2,}|[mgsLh]")
# every other sign is a dollar
_CURRENCIES = {"£": "pound", r"\pounds": "pound", "€": "euro", "¥": "yen", "₹": "rupee"}
_SIGN = r"\\pounds|(?:US ?)?\\?\$|USD|[£€¥₹]"
_AMOUNT = r"(?P<amount>[0-9]+(?:(?:,|\{,\})[0-9]{3})*(?:\.[0-9]+)?)"
_MONEY = re.compile(
    rf"(?P<minus>[-+]?) ?(?:(?P<before>{_SIGN})|(?=[0-9])) ?{_AMOUNT}"
    rf" ?(?P<behind>{_SIGN})?[ .,;:]*"
)
_DOLLAR = re.compile(r"(?<!\\)\$")


def stated_number(text: str, keeps_units: bool = True) -> str | None:
    """Return the number in `text` without separators and leading zeros. Returns None unless `text`
    is a number with or without a unit. Answers that keep units are not equal if units differ: 5 m
    is not 5 cm, and 12 boys are not 12 girls."""
    stated = _STATED.fullmatch(text)
    if not stated:
        return None
    words = (stated["unit"] or stated["words"] or "").split()
    if not all(map(_UNIT_WORD.fullmatch, words)):
        return None
    is_one = stated["whole"] == "1" and not stated["decimals"]
    unit = unit_of(stated["unit"] or stated["words"] or "", stated["power"] or "", is_one)
    if unit is None:
        return None
    number = _number(stated, keeps_units)
    if not keeps_units:
        return number
    if stated["degrees"] or unit.measured == "deg":
        return number + r"^\circ"
    return number + _in_text(unit, words)


def _number(stated: re.Match[str], keeps_units: bool) -> str:
    number = stated["whole"].replace(",", "").lstrip("0") or "0"
    decimals = stated["decimals"] or ""
    is_grouped = keeps_units and decimals == ".000"  # 1.000 may be a thousand
    if is_grouped or decimals.strip(".0"):
        number += decimals
    if stated["sign"] == "-" and number != "0":
        number = "-" + number
    return number + (stated["percent"] or "")


def _in_text(unit: Unit, words: list[str]) -> str:
    r"""Return a unit in \text{}: the name of a measure, or the `words` of counted things."""
    if unit.counted:
        return rf"\text{{ {' '.join(words)}}}"
    name, _, power = unit.measured.partition("^")
    if not name:
        return ""
    return rf"\text{{ {name}}}^{power}" if power else rf"\text{{ {name}}}"


def amount_of_money(text: str) -> tuple[str, str] | None:
    """Return the number and the currency's name of an amount of money, or None for other texts. A
    single $ is a currency's sign. Two enclose a formula."""
    is_sign = len(_DOLLAR.findall(text)) == 1
    money = _MONEY.fullmatch((text if is_sign else _DOLLAR.sub("", text)).strip())
    if not money or bool(money["before"]) == bool(money["behind"]):
        return None
    currency = _CURRENCIES.get(money["before"] or money["behind"], "dollar")
    return money["minus"] + money["amount"], currency
