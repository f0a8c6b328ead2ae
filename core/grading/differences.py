r"""Find the reason why two unequal math answers may still mean the same (doubts.py).

Two answers certainly differ if both have one kind and the same variables, and if they differ in a
value. Doubts are another kind, variable or unit, a rounded value, and notation with two readings.
Only the judge's child process imports this module, because sympy may hang (equality.py)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy

from core.grading.doubts import KINDS, MEASURES, NAMES, NOTATION, ROUNDED, VARIABLES
from core.grading.equality import (
    Answer,
    Unreadable,
    against_zero,
    as_equation,
    as_set,
    equal,
    guarded,
    in_order_of_names,
    is_inequality,
    points_for,
    read,
    same,
    same_value,
    solutions,
    variables,
    with_arguments,
)
from core.grading.units import sizes_like

ROUNDING = sympy.Rational(1, 100)  # largest relative error of a value rounded to a whole number
CLOSE = sympy.Rational(1, 1000)  # largest relative error of a fraction for an irrational: 22/7


@dataclass(frozen=True)
class Rule:
    """Another reading of a notation. `example` has two texts that are equal in it. `pattern` is
    replaced by `instead`, which is in our notation. The other text must match `against`."""

    name: str
    example: tuple[str, str]
    pattern: str
    instead: str
    against: str = ""

    def readings(self, text: str, other: str) -> list[str]:
        """Return the text in the other reading. The list is empty if the rule does not apply."""
        if not re.search(self.against, other):
            return []
        again = re.sub(self.pattern, self.instead, text)
        return [again] if again != text else []


_TRIG = r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])(?:\^\{?[0-9]\}?)?"
_NUMBER = r"\A(-?[0-9]+(?:\.[0-9]+)?)\Z"
_DIGITS = r"\(?([0-9A-F]+)\)? ?_ ?"
_NO_BASE = r"\A[^_]*\Z"
_HAS_ANGLE = r"\\pi|π|arc|rad|-1"
_INVERSE = r" ?\^ ?\{ ?-1 ?\}"
_LOG = r"\\?(?<![a-z])log(?![a-z])(?! ?_)"
RULES = (
    # numbers
    Rule(
        "dot between thousands",
        ("1.250", "1250"),
        r"\A(-?[0-9]{1,3})\.([0-9]{3})(?![0-9])",
        r"\1\2",
    ),
    Rule(
        "decimal comma that cleaning took for thousands",
        ("1250", "1.25"),
        r"\A(-?[0-9]{1,3}\.[0-9]{1,3})(?![0-9.])",
        r"\1e3",
    ),
    Rule("decimal comma before zeros", ("2000", "2"), r"\A(-?[0-9]{1,3})000\Z", r"\1"),
    Rule(
        "decimal comma in a list",
        ("(1,5; 2,5)", "(1.5, 2.5)"),
        r"(?<=[0-9]),(?=[0-9])",
        r".",
    ),
    Rule(
        "mixed number with a hyphen",
        ("3-1/2", "3.5"),
        r"\b([0-9]+)-([0-9]+)/([0-9]+)\b",
        r"\1\\frac{\2}{\3}",
    ),
    Rule(
        "per cent left out",
        ("25", "0.25"),
        _NUMBER,
        r"\1\\%",
        against=r"\A0?\.[0-9]|/|\\frac",
    ),
    Rule(
        "base left out",
        ("1101", "1101_2"),
        _DIGITS + r"(?:[0-9]|\{[^{}]*\})",
        r"\1",
        against=_NO_BASE,
    ),
    Rule(
        "base in words left out",
        ("1101", r"1101_\text{two}"),
        _DIGITS + r"\\text ?\{[^{}]*\}",
        r"\1",
        against=_NO_BASE,
    ),
    Rule(
        "dot in the middle as a decimal point",
        ("1·5", "1.5"),
        r"\A(-?[0-9]+) ?· ?([0-9]+)\Z",
        r"\1.\2",
    ),
    Rule(
        "value repeated in brackets",
        (r"\frac38 (0.375)", "0.375"),
        r"\A([^()=]*[^()=\s]) ?\([^()]*[0-9][^()]*\)\Z",
        r"\1",
    ),
    Rule("binary prefix", ("0b1101", "13"), r"\A0b([01]+)", r"\1_2"),
    # functions
    Rule("log as ln", (r"\log x", r"\ln x"), _LOG, r"\\ln "),
    Rule("lg as log", (r"\lg x", r"\log_{10} x"), r"\\lg(?![A-Za-z])", r"\\log_{10} "),
    Rule("lg as a binary logarithm", (r"\lg 8", "3"), r"\\lg(?![A-Za-z])", r"\\log_2 "),
    Rule("degrees left out", ("30", r"\frac{\pi}{6}"), _NUMBER, r"\1^\\circ", against=_HAS_ANGLE),
    Rule(
        "sine of degrees",
        (r"\sin 30", r"\frac12"),
        rf"({_TRIG} ?[({{]? ?[0-9.]+)(?![0-9.]|\\|\^)",
        r"\1^\\circ",
    ),
    Rule("reciprocal of a sine", (r"\sin^{-1} x", r"\csc x"), r"\\sin" + _INVERSE, r"\\csc "),
    Rule("reciprocal of a cosine", (r"\cos^{-1} x", r"\sec x"), r"\\cos" + _INVERSE, r"\\sec "),
    Rule("reciprocal of a tangent", (r"\tan^{-1} x", r"\cot x"), r"\\tan" + _INVERSE, r"\\cot "),
    # how far a sign reaches
    Rule(
        "product in an exponent",
        ("e^2x", "e^{2x}"),
        r"\^ ?([0-9]+) ?([A-Za-z])(?![A-Za-z])",
        r"^{\1\2}",
    ),
    Rule(
        "product under a root",
        (r"\sqrt2x", r"\sqrt{2x}"),
        r"\\sqrt ?([0-9]) ?([a-z])(?![a-z])",
        r"\\sqrt{\1\2}",
    ),
    Rule(
        "fraction before a letter",
        ("1/2x", r"\frac{x}{2}"),
        r"\b([0-9]+|[a-z])/([0-9]+) ?(?=[A-Za-z\\])",
        r"\\frac{\1}{\2}",
    ),
    Rule(
        "brackets below a slash",
        ("1/2(x+1)", r"\frac{1}{2x+2}"),
        r"/ ?([0-9]+|[a-z]) ?(\([^()]*\))",
        r"/(\1\2)",
    ),
)


FAILURES = (  # of sympy
    ArithmeticError, AttributeError, NotImplementedError, RecursionError, TypeError, ValueError,
)  # fmt: skip


def difference(answer: str, truth: str) -> str | None:
    """Return a doubt about two cleaned answers that are readable and not equal. Return None if they
    certainly differ. If sympy fails, that is a doubt, too."""
    try:
        if any(_is_equal_by(rule, answer, truth) for rule in RULES):
            return NOTATION
        return _doubt(read(answer), read(truth))
    except (Unreadable, *FAILURES):
        return NOTATION


def _is_equal_by(rule: Rule, answer: str, truth: str) -> bool:
    mine = rule.readings(answer, truth)
    theirs = rule.readings(truth, answer)
    pairs = [(one, truth) for one in mine] + [(answer, one) for one in theirs]
    pairs += zip(mine, theirs, strict=False)
    return any(equal(one, other) for one, other in pairs)


def _doubt(a: Answer, b: Answer) -> str | None:
    """Return a doubt about two answers that are not equal, or None if they certainly differ."""
    b = with_arguments(b, a)
    if a.name and b.name and a.name != b.name and same(_unnamed(a), _unnamed(b)):
        return NAMES
    kinds = {a.kind, b.kind}
    if kinds == {"value"}:
        return _doubt_of_units(a, b) or _doubt_of_values(a, b)
    if kinds == {"relation"} or (kinds == {"value", "relation"} and (a.name or b.name)):
        return _doubt_of_relations(as_equation(a), as_equation(b))
    if kinds == {"row"}:
        return _doubt_of_rows(a, b)
    if kinds == {"ratio"}:
        return None if len(a.members) == len(b.members) else KINDS
    if kinds <= {"list", "set"}:
        return _doubt_of_lists(a, b)
    are_intervals = "set" not in kinds and None not in (as_set(a), as_set(b))
    return None if are_intervals else KINDS


def _unnamed(answer: Answer) -> Answer:
    return replace(answer, name="")


def _certainly(doubts: Sequence[str | None]) -> str | None:
    """Return None if one part of two answers certainly differs, or else the first part's doubt."""
    return None if None in doubts else doubts[0]


# --- values ---


def _doubt_of_units(a: Answer, b: Answer) -> str | None:
    mine = a.unit.measured
    theirs = b.unit.measured
    if mine and theirs:
        is_known = mine == theirs or a.unit.ratio(b.unit) is not None
        return None if is_known else MEASURES
    if not a.unit.agrees(b.unit):  # other things, or an unknown unit: 3 gallons and 12 quarts
        return MEASURES
    if not (mine or theirs) or not (_is_expression(a.value) and _is_expression(b.value)):
        return None
    measured, plain = (a, b) if mine else (b, a)
    ratios = sizes_like(mine or theirs)
    converted = [measured.value * sympy.Rational(ratio) for ratio in ratios]
    is_equal = any(same_value(value, plain.value) for value in converted)
    return MEASURES if is_equal or not ratios else None


def _is_expression(value: Any) -> bool:
    return isinstance(value, sympy.Expr) and not isinstance(value, sympy.MatrixBase)


def _doubt_of_values(a: Answer, b: Answer) -> str | None:
    mine = a.value
    theirs = b.value
    if (":" in a.text) != (":" in b.text):  # 2:15 is a ratio or a time
        return KINDS
    if isinstance(mine, sympy.MatrixBase) and isinstance(theirs, sympy.MatrixBase):
        return _doubt_of_matrices(mine, theirs)
    if isinstance(mine, sympy.Set) and isinstance(theirs, sympy.Set):
        return None
    if not _is_expression(mine) or not _is_expression(theirs):
        return KINDS
    if mine.free_symbols != theirs.free_symbols:
        return VARIABLES
    if mine.free_symbols and _agree_in_whole_numbers(mine, theirs):
        return NOTATION
    return _doubt_of_rounding(a, b)


def _doubt_of_matrices(mine: Any, theirs: Any) -> str | None:
    if mine.shape != theirs.shape:
        return KINDS if len(mine) == len(theirs) else None
    entries = zip(mine.flat(), theirs.flat(), strict=True)
    pairs = [(Answer("value", one), Answer("value", other)) for one, other in entries]
    return _certainly([_doubt(one, other) for one, other in pairs if not same(one, other)])


def _agree_in_whole_numbers(a: Any, b: Any) -> bool:
    """Return whether two expressions are equal at whole numbers above 0: (-1)^n and cos(n pi)."""
    verdicts = [
        guarded(same_value, a.xreplace(at), b.xreplace(at))
        for at in points_for(sorted(a.free_symbols, key=str))
        if all(number.is_Integer and number > 0 for number in at.values())
    ]
    return False not in verdicts and verdicts.count(True) >= 3


# --- rounded values ---

_DECIMAL = re.compile(r"(?<![0-9.])([0-9]*)\.([0-9]+)(?![0-9.])")
_WHOLE = re.compile(r"-?[0-9]+(?: ?\\?%)?")


def _doubt_of_rounding(a: Answer, b: Answer) -> str | None:
    """Return a doubt if one answer may be the other rounded. Expressions are compared at points.

    A decimal may differ by less than one in its last place, and a fraction by less than CLOSE. A
    whole number may differ by less than a half and ROUNDING."""
    value = a.value * sympy.Rational(a.unit.ratio(b.unit) or 1)
    symbols = sorted(value.free_symbols, key=str)
    step = max(_relative_step(a.text), _relative_step(b.text))
    is_whole = any(_WHOLE.fullmatch(answer.text) for answer in (a, b))
    for at in points_for(symbols)[:4] if symbols else [{}]:
        one = _evaluated(value.xreplace(at))
        other = _evaluated(b.value.xreplace(at))
        if one.is_infinite or other.is_infinite:
            return None
        smaller = min(abs(one), abs(other))
        error = step * smaller
        if one.is_Rational != other.is_Rational:
            error = max(error, CLOSE * smaller)
        if is_whole:
            error = max(error, min(sympy.Rational(1, 2), ROUNDING * smaller))
        if not abs(one - other) < error:
            return None
    return ROUNDED


def _evaluated(value: Any) -> Any:
    return value if value.is_Rational else value.evalf(30)


def _relative_step(text: str) -> Any:
    """Return the largest relative error of the decimals in `text`: 1/314 for 3.14, or else 0."""
    numbers = [int(whole + places) for whole, places in _DECIMAL.findall(text)]
    smallest = min((number for number in numbers if number), default=None)
    return sympy.Rational(1, smallest) if smallest else sympy.Integer(0)


# --- relations, points and lists ---


def _doubt_of_relations(mine: Sequence[Any], theirs: Sequence[Any]) -> str | None:
    if not mine or not theirs:
        return KINDS
    if variables(mine) != variables(theirs):
        return VARIABLES
    if is_inequality((*mine, *theirs)):
        return _doubt_of_solutions(mine, theirs)
    if len(mine) > 1 or len(theirs) > 1:
        return KINDS
    (sign, left), (other, right) = against_zero(mine[0]), against_zero(theirs[0])
    if sign != other:
        return KINDS if "==" in (sign, other) else None
    symbols = sorted(variables(mine), key=str)
    if not left.is_polynomial(*symbols) or not right.is_polynomial(*symbols):
        return NOTATION
    # (x-1)^2 = 0 and x-1 = 0 have the same solutions.
    roots = [sympy.Poly(side, *symbols).sqf_part().monic() for side in (left, right)]
    return NOTATION if roots[0] == roots[1] else None


def _doubt_of_solutions(mine: Sequence[Any], theirs: Sequence[Any]) -> str | None:
    """Return a doubt about two inequalities that may have the same solutions.

    A letter such as n is often a whole number, so that n > 2 and n >= 3 are the same."""
    sets = [solutions(mine), solutions(theirs)]
    if None in sets:
        return NOTATION
    if not {symbol.name for symbol in variables(mine)} <= set("kmnpq"):
        return None
    whole = [sympy.Intersection(reals, sympy.S.Integers) for reals in sets]
    return NOTATION if whole[0] == whole[1] else None


def _doubt_of_rows(a: Answer, b: Answer) -> str | None:
    """Return a doubt about two points, intervals or times.

    (1, 2) and [1, 2] may be one point, but [1, 2) and (1, 2] are two intervals."""
    if len(a.members) != len(b.members):
        return None
    pairs = zip(a.members, b.members, strict=True)
    doubts = [_doubt(one, other) for one, other in pairs if not same(one, other)]
    if doubts:
        return _certainly(doubts)
    brackets = {a.brackets, b.brackets}
    is_certain = brackets == {"am", "pm"} or brackets & {"[)", "(]"}
    return None if is_certain else KINDS


def _doubt_of_lists(a: Answer, b: Answer) -> str | None:
    """Return None if a member of one list certainly differs from the other's, or else a doubt."""
    if _symbols(a) != _symbols(b):
        return VARIABLES
    if in_order_of_names(a) and in_order_of_names(b):
        names = sorted(member.name for member in a.members)
        if names == sorted(member.name for member in b.members) and len(set(names)) == len(names):
            return _doubt_of_named(a, b)
    found: list[str] = []
    for mine, theirs in ((a.members, b.members), (b.members, a.members)):
        for one in mine:
            if any(same(one, other) for other in theirs):
                continue
            doubts = [doubt for other in theirs if (doubt := _doubt(one, other)) is not None]
            if not doubts:
                return None
            found += doubts
    return found[0] if found else NOTATION


def _symbols(answer: Answer) -> set[Any]:
    """Return the variables of the values in a list."""
    values = [member.value for member in answer.members]
    return set().union(*(value.free_symbols for value in values if isinstance(value, sympy.Basic)))


def _doubt_of_named(a: Answer, b: Answer) -> str | None:
    """Return a doubt about two lists with the same names. Only x_1 and x_2 may be exchanged."""
    letters = {member.name.partition("_")[0] for member in a.members}
    if len(letters) == 1:
        mine = replace(a, members=tuple(map(_unnamed, a.members)))
        theirs = replace(b, members=tuple(map(_unnamed, b.members)))
        if same(mine, theirs):
            return NAMES
    by_name = {member.name: member for member in b.members}
    pairs = [(member, by_name[member.name]) for member in a.members]
    return _certainly([_doubt(one, other) for one, other in pairs if not same(one, other)])
