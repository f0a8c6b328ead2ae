r"""Clean the text of a box: characters, commands without meaning, units, and forms of numbers.

RULES are applied in their order, again and again until the text stays the same. Each has an
example, which is its test."""

import re
import unicodedata
from functools import lru_cache

from core.grading.boxes import box_contents
from core.grading.calculations import worked_out
from core.grading.quantities import amount_of_money, stated_number
from core.grading.rules import Rewrite, Rule, replacing, rewritten
from core.types import MAX_ANSWER_CHARS

MAX_PASSES = 20  # passes of cleaning: a text that needs more has no answer
# the values of Rule.keeps_units: units stay in formulas, and whole numbers lose them
FORMULA = True
WHOLE_NUMBER = False

_THIN_SPACE = "\u2009"
_FRACTIONS = "¼½¾⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
_CHARACTERS = (
    dict.fromkeys("−–﹣－", "-")
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", " ")
    | {"\u202f": _THIN_SPACE, "，": ",", "．": ".", "∘": "°", "º": "°"}
    | {chr(ord("０") + digit): str(digit) for digit in range(10)}
)
for _character in _FRACTIONS:
    _top, _, _bottom = unicodedata.normalize("NFKD", _character).partition("⁄")
    _CHARACTERS[_character] = rf"\frac{{{_top}}}{{{_bottom}}}"
_TABLE = str.maketrans(_CHARACTERS)
# A backslash and the letters or the character after it are one token, so that \\ or \{ is never
# split.
_COMMAND = r"\\(?:[A-Za-z]+|[\s\S])|[$~]"
_MEANINGS = (
    dict.fromkeys(("$", r"\.", r"\$", r"\(", r"\)", r"\[", r"\]"), " ")
    | dict.fromkeys((r"\quad", r"\qquad", r"\bf", r"\rm", r"\it"), " ")
    | dict.fromkeys((r"\large", r"\Large", r"\huge"), " ")
    | dict.fromkeys((r"\!", r"\left", r"\right", r"\displaystyle", r"\textstyle", r"\limits"), "")
    | dict.fromkeys((r"\,", r"\thinspace", r"\;", r"\:", r"\>", "\\ ", "\\\u2009"), _THIN_SPACE)
    | dict.fromkeys((r"\dfrac", r"\tfrac", r"\cfrac"), r"\frac")
    | {"~": _THIN_SPACE, r"\%": "%", r"\degree": "°", r"\textdegree": "°"}
    | {r"\lvert": "|", r"\rvert": "|"}
)
_WRAPPER = (
    r"(?<!\\)\\(?:[fmh]?box|boxed|text(?:bf|it|rm|sf|tt|up|normal)?"
    r"|math(?:rm|bf|it|sf|tt|normal|ord)|bm|boldsymbol"
    r"|ensuremath|operatorname|emph|underline|(?:text)?color\s*\{\w*\})(?![A-Za-z])"
)
_WRAPPED = r"(?<![\^_])" + _WRAPPER + r"\s*\{([^{}\\]*)\}"
# A unit or remark after a math answer stays in \text{}. Otherwise its letters would become
# variables.
_REMARK = re.compile(
    r"(?<=[^\s{]) ?\\(?:text(?:bf|it|rm|normal)?|mbox|mathrm(?! ?\{ ?[deij] ?\})) ?"
    r"(\{[^{}\\]*\}(?: ?\^ ?(?:[23]|\{[23]\}))?)\Z"
)
_LEAD = (
    r"(?i)\A(?:(?:so|thus|hence|therefore),? )?(?:(?:the|my|our) )?(?:final |correct )?"
    r"answer ?(?:is ?:?|[:=]) ?"
)
_MODULO = (
    r" ?(?:\\pmod|\( ?(?:(?:\\b?)?mod(?![A-Za-z])|\\text ?\{ ?mod ?\}))"
    r" ?(?:\{ ?([0-9]+) ?\}|([0-9]+)) ?\)?\Z"
)
_ORDINAL = re.compile(
    r"([0-9]+) ?\^? ?\{? ?(?:\\(?:text|mathrm) ?\{ ?)?(?:st|nd|rd|th)(?: ?\}){0,2}"
)
_MIXED = re.compile(r"(-? ?[0-9]+) ([1-9][0-9]?)/([1-9][0-9]?)")
_SPACED = re.compile(r"[-+]?[1-9][0-9]{0,2}(?: [0-9]{3})+(?:\.[0-9]+)?")
_RESIDUE = re.compile(r"([0-9]{1,9})\\pmod\{([0-9]{1,9})\}")


def _with_meaning(token: re.Match[str]) -> str:
    return _MEANINGS.get(token[0], token[0])


def _amount(text: str) -> str:
    money = amount_of_money(text)
    return text if money is None else money[0]


def _amount_with_currency(text: str) -> str:
    money = amount_of_money(text)
    if money is None:
        return text
    number, currency = money
    return rf"{number}\text{{ {currency}}}"


def _without_ordinal(text: str) -> str:
    ordinal = _ORDINAL.fullmatch(text)
    return ordinal[1] if ordinal else text


def _mixed_number(text: str) -> str:
    mixed = _MIXED.fullmatch(text)
    if not mixed or int(mixed[2]) >= int(mixed[3]):
        return text
    return rf"{mixed[1]}\frac{{{mixed[2]}}}{{{mixed[3]}}}"


def _without_group_spaces(text: str) -> str:
    return text.replace(" ", "") if _SPACED.fullmatch(text) else text


def _stated(keeps_units: bool) -> Rewrite:
    def rewrite(text: str) -> str:
        number = stated_number(text, keeps_units)
        return text if number is None else number

    return rewrite


def _unwrapped(text: str) -> str:
    return re.sub(_WRAPPER, " ", re.sub(_WRAPPED, r" \1 ", text))


def _unwrapped_before_remark(text: str) -> str:
    remark = _REMARK.search(text)
    if not remark:
        return _unwrapped(text)
    return _unwrapped(text[: remark.start()]) + rf"\text{remark[1]}"


def _without_outer_braces(text: str) -> str:
    is_enclosed = text.startswith("{") and box_contents(r"\boxed" + text)[0] == [text[1:-1]]
    return text[1:-1] if is_enclosed else text


def _without_modulus(text: str) -> str:
    residue = _RESIDUE.fullmatch(text)
    return residue[1] if residue and int(residue[1]) < int(residue[2]) else text


def _worked_out(text: str) -> str:
    number = worked_out(text)
    return text if number is None else number


RULES = (
    Rule("lone surrogates", "\ud800", "\ufffd", replacing("[\ud800-\udfff]", "\ufffd")),
    Rule("unusual characters", "−½", r"-\frac{1}{2}", lambda text: text.translate(_TABLE)),
    Rule("white space", "4\t2", "4 2", replacing(r"[^\S\u2009]+", " ")),
    Rule("money", "$5", "5", _amount, WHOLE_NUMBER),
    Rule("money with its currency", "$5", r"5\text{ dollar}", _amount_with_currency, FORMULA),
    Rule("commands without meaning", r"\left(4\right)", "(4)", replacing(_COMMAND, _with_meaning)),
    Rule("comma in braces", "1{,}024", "1,024", replacing(r"(?<!\\)\{,\}", ",")),
    Rule(
        "thin spaces of thousands",
        "1\u2009024",
        "1,024",
        replacing(r"(?<=[0-9])\u2009+(?=[0-9]{3}(?![0-9]))", ","),
    ),
    Rule("space after a power", "2^ 3", "2^3", replacing(r"(?<=[\^_])\s+", "")),
    Rule("several spaces", "4 \u2009 2", "4 2", replacing(r"\s+", " ")),
    Rule(
        "punctuation", " 42%.", "42", lambda text: text.lstrip(" ").rstrip(" .,;:%"), WHOLE_NUMBER
    ),
    Rule("punctuation", " 42%.", "42%", lambda text: text.lstrip(" ").rstrip(" .,;:"), FORMULA),
    Rule("announcement", "So, the final answer is 42", "42", replacing(_LEAD, "")),
    Rule(
        "hope",
        "42. I hope it is correct",
        "42",
        replacing(r" ?\. ?I hope (?:it|this) is correct\Z", ""),
    ),
    Rule(
        "per cent in words",
        "5 percent",
        "5%",
        replacing(r"(?<=[0-9}]) ?(?:\\text ?\{ ?per ?cent ?\}|per ?cent)\Z", "%"),
    ),
    Rule("modulus", "3 (mod 8)", r"3\pmod{8}", replacing(_MODULO, r"\\pmod{\1\2}")),
    Rule("ordinal number", "42nd", "42", _without_ordinal),
    Rule("mixed number", "3 1/2", r"3\frac{1}{2}", _mixed_number),
    Rule("spaces of thousands", "1 000 000", "1000000", _without_group_spaces),
    Rule("number with a unit", "042 cm", "42", _stated(WHOLE_NUMBER), WHOLE_NUMBER),
    Rule("number with a unit", "042 cm", r"42\text{ cm}", _stated(FORMULA), FORMULA),
    Rule("text commands", r"\text{x}+\mathrm{y}", " x + y ", _unwrapped, WHOLE_NUMBER),
    Rule(
        "text commands before a remark",
        r"\mathbf{x}+1 \text{ (even)}",
        r" x +1\text{ (even)}",
        _unwrapped_before_remark,
        FORMULA,
    ),
    Rule("outer braces", "{42}", "42", _without_outer_braces),
    Rule("residue", r"3\pmod{8}", "3", _without_modulus, WHOLE_NUMBER),
    Rule("calculation", "6*7 = 42", "42", _worked_out, WHOLE_NUMBER),
)
_RULES_OF = {
    keeps_units: [rule for rule in RULES if rule.keeps_units in (None, keeps_units)]
    for keeps_units in (FORMULA, WHOLE_NUMBER)
}


@lru_cache(maxsize=4096)
def clean(text: str, keeps_units: bool = True) -> str | None:
    r"""Clean the text of a box. Returns None if it is too long or nested too deeply. Cleaning twice
    changes nothing. Braces stay balanced, so that \boxed{} around the result is read as the same
    answer."""
    if len(text) > MAX_ANSWER_CHARS:
        return None
    rules = _RULES_OF[keeps_units]
    for _ in range(MAX_PASSES):
        cleaned = rewritten(text, rules)
        if cleaned == text:
            return text
        text = cleaned
    return None
