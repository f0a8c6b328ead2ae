r"""Find the reason why two unequal math answers may still mean the same (doubts.py).

Two answers certainly differ if both have one kind and the same variables, and if they differ in a
value. Doubts are another kind, variable or unit, a rounded value, and notation with two readings
(notations.py). Only the child process of sympy_process.py imports this module, because sympy may
hang."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy

from core.grading.brackets import Unreadable
from core.grading.comparison import in_order_of_names, is_same, with_arguments
from core.grading.doubts import KINDS, MEASURES, NAMES, NOTATION, ROUNDED, VARIABLES
from core.grading.equality import is_equal
from core.grading.formula import Answer
from core.grading.notations import NOTATIONS, Notation
from core.grading.parsing import read
from core.grading.relations import (
    Relations,
    against_zero,
    as_equation,
    as_set,
    is_inequality,
    solutions,
    variables,
)
from core.grading.units import sizes_like
from core.grading.values import MIN_POINTS, guarded, is_expression, is_same_value, points_for

ROUNDING = sympy.Rational(1, 100)  # largest relative error of a value rounded to a whole number
CLOSE = sympy.Rational(1, 1000)  # largest relative error of a fraction for an irrational: 22/7
ROUNDING_POINTS = 4  # points at which expressions are compared as rounded values
_FAILURES = (  # of sympy
    ArithmeticError,
    AttributeError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)


def difference(answer: str, truth: str) -> str | None:
    """Return a doubt about two cleaned answers that are readable and not equal. Return None if they
    certainly differ. If sympy fails, that is a doubt, too."""
    try:
        if any(_is_equal_by(notation, answer, truth) for notation in NOTATIONS):
            return NOTATION
        return _doubt(read(answer), read(truth))
    except (Unreadable, *_FAILURES):
        return NOTATION


def _is_equal_by(notation: Notation, answer: str, truth: str) -> bool:
    mine = notation.readings(answer, truth)
    theirs = notation.readings(truth, answer)
    pairs = [(reading, truth) for reading in mine]
    pairs += [(answer, reading) for reading in theirs]
    pairs += zip(mine, theirs, strict=False)
    return any(is_equal(my_text, their_text) for my_text, their_text in pairs)


def _doubt(a: Answer, b: Answer) -> str | None:
    """Return a doubt about two answers that are not equal, or None if they certainly differ."""
    b = with_arguments(b, a)
    if a.name and b.name and a.name != b.name and is_same(_unnamed(a), _unnamed(b)):
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
    if "set" in kinds:
        return KINDS
    are_intervals = as_set(a) is not None and as_set(b) is not None
    return None if are_intervals else KINDS


def _unnamed(answer: Answer) -> Answer:
    return replace(answer, name="")


def _certainly(doubts: Sequence[str | None]) -> str | None:
    """Return None if one part of two answers certainly differs, or else the first part's doubt."""
    return None if None in doubts else doubts[0]


def _doubt_of_parts(mine: Sequence[Answer], theirs: Sequence[Answer]) -> list[str | None]:
    """Return the doubt about each pair of parts that are not equal."""
    doubts = []
    for my_part, their_part in zip(mine, theirs, strict=True):
        if not is_same(my_part, their_part):
            doubts.append(_doubt(my_part, their_part))
    return doubts


# --- values ---


def _doubt_of_units(a: Answer, b: Answer) -> str | None:
    my_unit = a.unit.measured
    their_unit = b.unit.measured
    if my_unit and their_unit:
        is_convertible = my_unit == their_unit or a.unit.ratio(b.unit) is not None
        return None if is_convertible else MEASURES
    if not a.unit.agrees(b.unit):  # other things, or an unknown unit: 3 gallons and 12 quarts
        return MEASURES
    if not (my_unit or their_unit) or not (is_expression(a.value) and is_expression(b.value)):
        return None
    return _doubt_of_missing_unit(a, b) if my_unit else _doubt_of_missing_unit(b, a)


def _doubt_of_missing_unit(measured: Answer, plain: Answer) -> str | None:
    """Return a doubt if another unit makes the values equal: 50 cm and 0.5."""
    ratios = sizes_like(measured.unit.measured)
    if not ratios:
        return MEASURES
    for ratio in ratios:
        if is_same_value(measured.value * sympy.Rational(ratio), plain.value):
            return MEASURES
    return None


def _doubt_of_values(a: Answer, b: Answer) -> str | None:
    mine = a.value
    theirs = b.value
    if (":" in a.text) != (":" in b.text):  # 2:15 is a ratio or a time
        return KINDS
    if isinstance(mine, sympy.MatrixBase) and isinstance(theirs, sympy.MatrixBase):
        return _doubt_of_matrices(mine, theirs)
    if isinstance(mine, sympy.Set) and isinstance(theirs, sympy.Set):
        return None
    if not is_expression(mine) or not is_expression(theirs):
        return KINDS
    if mine.free_symbols != theirs.free_symbols:
        return VARIABLES
    if mine.free_symbols and _agree_in_whole_numbers(mine, theirs):
        return NOTATION
    return _doubt_of_rounding(a, b)


def _doubt_of_matrices(mine: Any, theirs: Any) -> str | None:
    if mine.shape != theirs.shape:
        return KINDS if len(mine) == len(theirs) else None
    my_entries = [Answer("value", entry) for entry in mine.flat()]
    their_entries = [Answer("value", entry) for entry in theirs.flat()]
    return _certainly(_doubt_of_parts(my_entries, their_entries))


def _agree_in_whole_numbers(mine: Any, theirs: Any) -> bool:
    """Return whether two expressions are equal at whole numbers above 0: (-1)^n and cos(n pi)."""
    verdicts = []
    for point in points_for(sorted(mine.free_symbols, key=str)):
        if all(number.is_Integer and number > 0 for number in point.values()):
            verdict = guarded(is_same_value, mine.xreplace(point), theirs.xreplace(point))
            verdicts.append(verdict)
    return False not in verdicts and verdicts.count(True) >= MIN_POINTS


# --- rounded values ---

_DECIMAL = re.compile(r"(?<![0-9.])([0-9]*)\.([0-9]+)(?![0-9.])")
_WHOLE = re.compile(r"-?[0-9]+(?: ?\\?%)?")


def _doubt_of_rounding(a: Answer, b: Answer) -> str | None:
    """Return a doubt if one answer may be the other rounded. Expressions are compared at points.

    A decimal may differ by less than one in its last place, and a fraction by less than CLOSE. A
    whole number may differ by less than a half and ROUNDING."""
    value = a.value * sympy.Rational(a.unit.ratio(b.unit) or 1)
    symbols = sorted(value.free_symbols, key=str)
    points: list[dict[Any, Any]] = points_for(symbols)[:ROUNDING_POINTS] if symbols else [{}]
    step = max(_relative_step(a.text), _relative_step(b.text))
    is_whole = any(_WHOLE.fullmatch(answer.text) for answer in (a, b))
    for point in points:
        mine = _evaluated(value.xreplace(point))
        theirs = _evaluated(b.value.xreplace(point))
        if mine.is_infinite or theirs.is_infinite:
            return None
        smaller = min(abs(mine), abs(theirs))
        error = step * smaller
        if mine.is_Rational != theirs.is_Rational:
            error = max(error, CLOSE * smaller)
        if is_whole:
            error = max(error, min(sympy.Rational(1, 2), ROUNDING * smaller))
        if not abs(mine - theirs) < error:
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


def _doubt_of_relations(mine: Relations, theirs: Relations) -> str | None:
    if not mine or not theirs:
        return KINDS
    if variables(mine) != variables(theirs):
        return VARIABLES
    if is_inequality((*mine, *theirs)):
        return _doubt_of_solutions(mine, theirs)
    if len(mine) > 1 or len(theirs) > 1:
        return KINDS
    my_sign, my_side = against_zero(mine[0])
    their_sign, their_side = against_zero(theirs[0])
    if my_sign != their_sign:
        return KINDS if "==" in (my_sign, their_sign) else None
    symbols = sorted(variables(mine), key=str)
    if not my_side.is_polynomial(*symbols) or not their_side.is_polynomial(*symbols):
        return NOTATION
    # (x-1)^2 = 0 and x-1 = 0 have the same solutions.
    my_factors = sympy.Poly(my_side, *symbols).sqf_part().monic()
    their_factors = sympy.Poly(their_side, *symbols).sqf_part().monic()
    return NOTATION if my_factors == their_factors else None


def _doubt_of_solutions(mine: Relations, theirs: Relations) -> str | None:
    """Return a doubt about two inequalities that may have the same solutions.

    A letter such as n is often a whole number, so that n > 2 and n >= 3 are the same."""
    my_reals = solutions(mine)
    their_reals = solutions(theirs)
    if my_reals is None or their_reals is None:
        return NOTATION
    if not {symbol.name for symbol in variables(mine)} <= set("kmnpq"):
        return None
    my_integers = sympy.Intersection(my_reals, sympy.S.Integers)
    their_integers = sympy.Intersection(their_reals, sympy.S.Integers)
    return NOTATION if my_integers == their_integers else None


def _doubt_of_rows(a: Answer, b: Answer) -> str | None:
    """Return a doubt about two points, intervals or times.

    (1, 2) and [1, 2] may be one point, but [1, 2) and (1, 2] are two intervals."""
    if len(a.members) != len(b.members):
        return None
    doubts = _doubt_of_parts(a.members, b.members)
    if doubts:
        return _certainly(doubts)
    brackets = {a.brackets, b.brackets}
    is_certain = brackets == {"am", "pm"} or brackets & {"[)", "(]"}
    return None if is_certain else KINDS


def _doubt_of_lists(a: Answer, b: Answer) -> str | None:
    """Return None if a member of one list certainly differs from the other's, or else a doubt."""
    if _symbols(a) != _symbols(b):
        return VARIABLES
    if _have_same_names(a, b):
        return _doubt_of_named(a, b)
    doubts: list[str] = []
    for members, others in ((a.members, b.members), (b.members, a.members)):
        for member in members:
            if any(is_same(member, other) for other in others):
                continue
            of_member = [doubt for other in others if (doubt := _doubt(member, other)) is not None]
            if not of_member:
                return None
            doubts += of_member
    return doubts[0] if doubts else NOTATION


def _have_same_names(a: Answer, b: Answer) -> bool:
    """Return whether the members of two lists have the same names, each of them once."""
    if not (in_order_of_names(a) and in_order_of_names(b)):
        return False
    my_names = sorted(member.name for member in a.members)
    their_names = sorted(member.name for member in b.members)
    return my_names == their_names and len(set(my_names)) == len(my_names)


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
        if is_same(mine, theirs):
            return NAMES
    by_name = {member.name: member for member in b.members}
    same_order = [by_name[member.name] for member in a.members]
    return _certainly(_doubt_of_parts(a.members, same_order))
