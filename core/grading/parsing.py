r"""Take a cleaned answer apart: a name, a unit, the members of a list, and expressions.

The LaTeX parser drops bases, degrees, units and primes, and reads the segment AC as A times C. So
only the expressions in these parts go to the parser (expressions.py)."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, product

import sympy

from core.grading.brackets import Unreadable, enclosed, split
from core.grading.comparison import LETTER, is_same
from core.grading.expressions import expression
from core.grading.formula import Answer
from core.grading.spelling import spelled
from core.grading.units import NO_UNIT, Unit, compound, unit_of

MAX_MEMBERS = 60  # most members of a list or set (an answer with a longer one is compared as text)
MAX_SIGNS = 4  # plus-minus signs in one expression

_RELATIONS = {
    "=": sympy.Eq,
    "<": sympy.Lt,
    ">": sympy.Gt,
    r"\le": sympy.Le,
    r"\ge": sympy.Ge,
    r"\ne": sympy.Ne,
}
_CLOCK = re.compile(r"([0-9]{1,2})(?::([0-9]{2}))? ?(?:\\text ?\{ ?)?([AaPp])\.? ?[Mm]\.? ?\}?")
_THOUSANDS = re.compile(r"(?<![0-9,.])(?!0,)[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")
_BUILDER = re.compile(  # x \in \mathbb{R} \mid x > 2
    rf"({LETTER})\s*(?:\\in\s*\\mathbb\s?\{{R\}}|\\in\s*\\R)?\s*(?:\\mid|\||:)(.+)"
)
_RESIDUE = re.compile(r"(-?[0-9]+) ?\\pmod ?\{?([0-9]+)\}?")

# A name on one side of an equals sign: x, \angle ABC, total cost, f(x), (x, y), |AB|, gcd(a, b)
_WORD = r"(?:[A-Z]{2,}|(?:\\text\s?\{[A-Za-z ]+\}|[A-Za-z]{4,})(?: [A-Za-z]+)*)"
_ARGUMENT = rf"(?:{LETTER}|[0-9]+)"
_CALL = rf"\({_ARGUMENT}(?:, ?{_ARGUMENT})*\)"
_PLAIN = rf"(?:\\(?:angle|triangle|overline)\s?)?\{{?(?:{_WORD}|{LETTER})\}}?(?:{_CALL})?"
_POINT = rf"\(\s?{LETTER}(?:\s?,\s?{LETTER})+\s?\)"
_SIZE = rf"\| ?(?:{_WORD}|{LETTER}) ?\||\[ ?[A-Z]{{3,}} ?\]"
_FUNCTION = r"\\(?:gcd|lcm|max|min)\s*\([^()=]*[A-Za-z][^()=]*\)"
_NAME = re.compile(f"{_PLAIN}|{_POINT}|{_SIZE}|{_FUNCTION}")

# A value and the text after it: a unit or a remark
_TEXT_COMMAND = r"\\(?:text|mathrm|mbox|textrm|textnormal|textit|rm)"
_IN_TEXT = rf"{_TEXT_COMMAND}\s?\{{(?P<text>[A-Za-z .,/()\\^0-9{{}}-]*?)\}}"
_WORDS = r"(?<=\s)(?:[a-z]{4,}|day|men|way|yen)(?:[ ](?:[a-z]{4,}|[a-z]{2}))*"
_SHORT_UNIT = r"(?:(?:sq|cu|square|cubic)\s)?(?:[cmk]m|mm|kg|ft|mph|min|sec|hrs?|lbs?|oz|yd|mL)"
_POWER = r"(?P<power>\s?\^\s?(?:[23]|\{\s?[23]\s?\}))?"
_TRAILING = re.compile(
    r"^(?P<value>.*[^\s,;])(?:\s*,)?\s*"
    rf"(?:{_IN_TEXT}|(?<=[\s}})0-9])(?P<bare>{_WORDS}|{_SHORT_UNIT})){_POWER}$"
)


def read(text: str) -> Answer:
    """Read a cleaned answer. Raises Unreadable if it is not mathematics."""
    quantity = compound(text)
    if quantity is not None:
        number, unit = quantity
        return Answer("value", sympy.Rational(number.numerator, number.denominator), unit=unit)
    return read_spelled(spelled(text))


@lru_cache(maxsize=4096)
def read_spelled(text: str) -> Answer:
    """Read an answer in our spelling (spelling.py). Raises Unreadable if it is not mathematics."""
    text = re.sub(r"\\text\s?\{\s*(or|and)\s*\}", r" \1 ", text).strip()
    if not text:
        raise Unreadable
    for word in ("or", "and"):
        joined = re.sub(rf",?(?<![A-Za-z\\])\b{word}\b(?![A-Za-z])", "\0", text)
        if "\0" in joined:
            return _joined(split(joined, "\0", ",")[0], word)
    if clock := _CLOCK.fullmatch(text):
        return _time_of_day(clock)
    if not enclosed(text):
        text = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
    for kind, *separators in (("list", ",", ";"), ("union", r"\cup")):
        parts, _ = split(text, *separators)
        if len(parts) > 1:
            return _of_members(kind, parts)
    return _in_brackets(text) or _statement(text)


def _time_of_day(clock: re.Match[str]) -> Answer:
    hour = Answer("value", sympy.Integer(clock[1]))
    minute = Answer("value", sympy.Integer(clock[2] or 0))
    return Answer("row", members=(hour, minute), brackets=clock[3].lower() + "m")


def _in_brackets(text: str) -> Answer | None:
    """Read an answer in brackets: a set, a point, an interval or a value. Return None for other
    texts."""
    around = enclosed(text)
    if around is None:
        return None
    brackets, content = around
    parts, _ = split(content, ",", ";")
    if text.startswith(r"\{"):
        return _set(content, parts)
    if len(parts) > 1:
        return replace(_of_members("row", parts), brackets=brackets)
    inner = read_spelled(content)
    if brackets in ("()", "{}"):
        return inner
    if inner.kind == "value" and inner.value.free_symbols:  # [x] may be x rounded down
        raise Unreadable
    return None


def _of_members(kind: str, parts: Sequence[str]) -> Answer:
    if len(parts) > MAX_MEMBERS or not all(parts):
        raise Unreadable
    members: list[Answer] = []
    for part in parts:
        member = read_spelled(part)
        is_two_values = member.kind == "set" and r"\pm" in part
        if kind == "list" and is_two_values:  # 0, ±1 has three members
            members += member.members
        else:
            members.append(member)
    return Answer(kind, members=tuple(members))


def _joined(parts: Sequence[str], word: str) -> Answer:
    """Join the answers that `word` ("or" or "and") separates. Raises Unreadable if values and
    relations are mixed."""
    whole = _of_members("set", parts)
    are_relations = {member.kind == "relation" for member in whole.members}
    if are_relations == {False}:
        return whole
    if len(are_relations) > 1:
        raise Unreadable
    if word == "or":
        return replace(whole, kind="union")
    relations = [relation for member in whole.members for relation in member.value]
    return Answer("relation", tuple(relations))


def _set(content: str, parts: Sequence[str]) -> Answer:
    r"""Read the content of braces: members, or a condition such as x \mid x > 2."""
    builder = _BUILDER.fullmatch(content)
    if not builder:
        return _of_members("set", parts)
    condition = read_spelled(builder[2].strip())
    if condition.kind not in ("relation", "union"):
        raise Unreadable
    return condition


# --- one statement ---


def _statement(text: str) -> Answer:
    """Read an expression, an equation or an inequality. A name may precede it, and a unit may
    follow it."""
    text = _without_approximation(text)
    name, *sets = split(text, r"\in")[0]
    if len(sets) > 1 or (sets and not _NAME.fullmatch(name)):
        raise Unreadable
    if sets:
        return replace(read_spelled(sets[0]), name=_name(name))
    parts, signs = split(text, *_RELATIONS)
    if not signs:
        return _ratio_or_value(text)
    if not all(parts):
        raise Unreadable
    return _equation(parts) if set(signs) == {"="} else _inequality(parts, signs)


def _without_approximation(text: str) -> str:
    """Return the exact value of √2 ≈ 1.41, and the rounded one of x ≈ 1.41."""
    exact, *rounded = split(text, r"\approx")[0]
    if len(rounded) > 1:
        raise Unreadable
    return rounded[0] if rounded and _NAME.fullmatch(exact) else exact


def _ratio_or_value(text: str) -> Answer:
    parts, _ = split(text, ":")
    return _of_members("ratio", parts) if len(parts) > 2 else _value(text)


def _inequality(parts: Sequence[str], signs: Sequence[str]) -> Answer:
    sides = [expression(part) for part in parts]
    relations = []
    for sign, (left, right) in zip(signs, pairwise(sides), strict=True):
        relations.append(_RELATIONS[sign](left, right, evaluate=False))
    return Answer("relation", tuple(relations))


def _equation(parts: list[str]) -> Answer:
    """Read the sides of an equation. x = 84/2 = 42 is a value, but 2x = 10 is an equation."""
    if len(parts) == 2 and _NAME.fullmatch(parts[1]) and not _NAME.fullmatch(parts[0]):
        parts = parts[::-1]
    name = parts[0] if _NAME.fullmatch(parts[0]) else ""
    values = [read_spelled(part) for part in (parts[1:] if name else parts)]
    last = values[-1]
    if all(is_same(value, last) for value in values[:-1]):
        return last if last.name else replace(last, name=_name(name))
    if len(parts) > 2 or name:
        raise Unreadable
    left, right = parts
    return Answer("relation", (sympy.Eq(expression(left), expression(right), evaluate=False),))


def _name(text: str) -> str:
    return re.sub(r"\\text|[\s{}]", "", text)


# --- values ---


def _value(text: str) -> Answer:
    """Read an expression with a unit, a residue, a per cent sign, or plus-minus signs."""
    trailing = _TRAILING.match(text)
    unit = NO_UNIT
    has_remark = False
    if trailing and (trailing["text"] is not None or trailing["bare"]):
        unit = _unit_of(trailing)
        has_remark = not unit.measured
        text = trailing["value"].strip()
    if residue := _RESIDUE.fullmatch(text):
        return _residue(residue)
    if text.endswith(r"\%"):
        return _per_cent(text, unit)
    if re.search(r"\\(?:pm|mp)(?![A-Za-z])", text):
        return Answer("set", members=tuple(map(_value, _with_signs(text))), unit=unit)
    value = expression(text)
    if has_remark and getattr(value, "free_symbols", True):  # "n is even" is not the answer n
        raise Unreadable
    return Answer("value", value, unit=unit, text=text)


def _unit_of(trailing: re.Match[str]) -> Unit:
    words = trailing["text"] or trailing["bare"] or ""
    unit = unit_of(words, trailing["power"] or "", trailing["value"].strip() == "1")
    if unit is None:
        raise Unreadable
    return unit


def _residue(residue: re.Match[str]) -> Answer:
    number = int(residue[1])
    modulus = int(residue[2])
    if not modulus:
        raise Unreadable
    return Answer("value", sympy.Integer(number % modulus), unit=Unit(f"mod {modulus}"))


def _per_cent(text: str, unit: Unit) -> Answer:
    whole = _value(text.removesuffix(r"\%"))
    if whole.kind != "value" or not isinstance(whole.value, sympy.Expr):
        raise Unreadable
    return replace(whole, value=whole.value / 100, unit=unit, text=text)


def _with_signs(text: str) -> list[str]:
    r"""Return a copy of `text` for each choice of signs for \pm. If the text has a \mp, all signs
    change together. Raises Unreadable if there are more than MAX_SIGNS of them."""
    if len(re.findall(r"\\(?:pm|mp)(?![A-Za-z])", text)) > MAX_SIGNS:
        raise Unreadable
    pieces = re.split(r"\\pm(?![A-Za-z])", text)
    if r"\mp" in text:
        return ["+".join(pieces).replace(r"\mp", "-"), "-".join(pieces).replace(r"\mp", "+")]
    copies = []
    for signs in product("+-", repeat=len(pieces) - 1):
        copy = pieces[0]
        for sign, piece in zip(signs, pieces[1:], strict=True):
            copy += sign + piece
        copies.append(copy)
    return copies
