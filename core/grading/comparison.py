"""Compare two answers after reading: kinds, names, units and members."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import sympy

from core.grading.expressions import expression
from core.grading.formula import Answer
from core.grading.relations import are_same_relations, as_equation, as_set
from core.grading.values import each_among, is_same_set, is_same_value

LETTER = r"(?:\\[A-Za-z]+|[A-Za-z])(?:_(?:\{[^{}]*\}|[A-Za-z0-9]))?"
_ARGUMENTS = re.compile(
    rf"(?P<head>{LETTER}|[A-Za-z]{{3,}})(?:\({LETTER}(?:,{LETTER})*\)|(?P<index>_[a-z]))"
)


def is_same(a: Answer, b: Answer) -> bool:
    """Return whether two answers are equal. Their names must be equal, except for a function's
    argument: f(t) = t^2 is f(x) = x^2. Units may differ if they measure the same quantity."""
    b = with_arguments(b, a)
    kinds = {a.kind, b.kind}
    if a.name and b.name and a.name != b.name and "relation" not in kinds:
        return False
    converted = _in_unit_of(a, b)
    if converted is None:
        return False
    a = converted
    if kinds == {"value"}:
        return is_same_value(a.value, b.value)
    # y = 2x+1 and y-2x = 1
    if kinds == {"relation"} or (kinds == {"value", "relation"} and (a.name or b.name)):
        return are_same_relations(as_equation(a), as_equation(b))
    for compare in _COMPARISONS:
        verdict = compare(a, b)
        if verdict is not None:
            return verdict
    if b.kind == "value":  # start with the value, because most values are no sets
        a, b = b, a
    mine = as_set(a)
    return mine is not None and is_same_set(mine, as_set(b))


def _in_unit_of(a: Answer, b: Answer) -> Answer | None:
    """Return `a` in the unit of `b`, unchanged if the units agree, or None if they differ."""
    if a.unit.agrees(b.unit):
        return a
    ratio = a.unit.ratio(b.unit)
    are_values = a.kind == b.kind == "value" and isinstance(a.value, sympy.Expr)
    if ratio is None or not are_values:
        return None
    return replace(a, value=a.value * sympy.Rational(ratio.numerator, ratio.denominator))


# --- one function for each pair of kinds: it returns None for answers of other kinds ---


def _compare_lists(a: Answer, b: Answer) -> bool | None:
    """Compare lists and sets in any order. Members with names such as x = 1, y = 2 have an
    order."""
    kinds = {a.kind, b.kind}
    if not kinds <= {"list", "set"}:
        return None
    if kinds == {"list"} and len(a.members) != len(b.members):  # 1, 1, 2 has a double root
        return False
    if kinds == {"list"} and in_order_of_names(a) != in_order_of_names(b):
        return _are_all_same(a.members, b.members)
    if not each_among(a.members, b.members, is_same):
        return False
    return each_among(b.members, a.members, is_same)


def _compare_rows(a: Answer, b: Answer) -> bool | None:
    if {a.kind, b.kind} != {"row"}:
        return None
    if a.brackets != b.brackets:
        return False
    return _are_all_same(a.members, b.members)


def _compare_list_with_row(a: Answer, b: Answer) -> bool | None:
    """Compare a list with a point: x = 1, y = 2 is a point, but 1, 2 and x = 2, 3 are not."""
    if {a.kind, b.kind} != {"list", "row"}:
        return None
    if a.kind == "row":
        a, b = b, a
    if not _is_named_point(a) or b.brackets != "()":
        return False
    return _are_all_same(a.members, b.members)


def _compare_ratios(a: Answer, b: Answer) -> bool | None:
    if {a.kind, b.kind} != {"ratio"}:
        return None
    mine = [member.value for member in a.members]
    theirs = [member.value for member in b.members]
    if len(mine) != len(theirs):
        return False
    pairs = zip(mine, theirs, strict=True)
    return all(is_same_value(x * theirs[0], y * mine[0]) for x, y in pairs)


def _compare_vectors(a: Answer, b: Answer) -> bool | None:
    if {a.kind, b.kind} != {"value", "row"}:
        return None
    return is_vector(a, b) or None  # another row may be an interval


def _compare_value_with_set(a: Answer, b: Answer) -> bool | None:
    """Compare a value with a set of one member: {5} is 5, but {x} may be a fractional part."""
    if {a.kind, b.kind} != {"value", "set"}:
        return None
    if a.kind == "set":
        a, b = b, a
    if len(b.members) != 1 or not isinstance(a.value, sympy.Expr):
        return None
    if a.value.free_symbols:
        return False
    (member,) = b.members
    return is_same(a, member)


_COMPARISONS: tuple[Callable[[Answer, Answer], bool | None], ...] = (
    _compare_lists,
    _compare_rows,
    _compare_list_with_row,
    _compare_ratios,
    _compare_vectors,
    _compare_value_with_set,
)


# --- names ---


def with_arguments(answer: Answer, model: Answer) -> Answer:
    """Return a function's value with the argument names of the `model`, or another answer
    unchanged.

    f(x) = x^2 becomes f(t) = t^2 if the model is f(t), and a_k = 2k becomes a_n = 2n."""
    mine = _ARGUMENTS.fullmatch(answer.name)
    theirs = _ARGUMENTS.fullmatch(model.name)
    if not mine or not theirs or mine["head"] != theirs["head"]:
        return answer
    if {answer.kind, model.kind} != {"value"} or not isinstance(answer.value, sympy.Basic):
        return answer
    letters = _letters_of(mine)
    wanted = _letters_of(theirs)
    if len(letters) != len(wanted) or _has_doubles(letters) or _has_doubles(wanted):
        return answer
    free = {symbol.name: symbol for symbol in answer.value.free_symbols}
    # a_n = 2n has a general index, but a_n = 3 has not. P(A) = 3 is a value, but f(x) = 3 is a
    # function.
    is_general = all(re.fullmatch("[t-z]", letter) for letter in (*letters, *wanted))
    if free.keys().isdisjoint(letters) and (mine["index"] or not is_general):
        return answer
    # f(x) = x + t is not f(t) = t + t
    if any(name in free and name not in letters for name in wanted):
        return answer
    renamed = {}
    for letter, name in zip(letters, wanted, strict=True):
        if letter in free:
            renamed[free[letter]] = sympy.Symbol(name, real=True)
    return replace(answer, value=answer.value.xreplace(renamed), name=model.name)


def _has_doubles(letters: Sequence[str]) -> bool:
    return len(set(letters)) < len(letters)


def _letters_of(name: re.Match[str]) -> list[str]:
    """List the symbols of a function's arguments, or of an index."""
    head = name["head"]
    arguments = name[0].removeprefix(head)
    letters: list[str] = re.findall(LETTER, arguments)
    return [_symbol_name(letter) for letter in letters]


def _symbol_name(letter: str) -> str:
    for symbol in expression(letter).free_symbols:
        return str(symbol.name)
    return letter


def in_order_of_names(answer: Answer) -> bool:
    """Return whether the members have different names, so that their order counts: x = 1, y = 2 is
    (1, 2), not 2, 1."""
    names = {member.name for member in answer.members}
    names.discard("")
    return len(names) > 1


def _is_named_point(answer: Answer) -> bool:
    """Return whether a list is a point such as x = 1, y = 2. Letters must be in alphabetical
    order."""
    if not in_order_of_names(answer):
        return False
    names = [member.name for member in answer.members]
    are_letters = all(re.fullmatch("[A-Za-z]", name) for name in names)
    return names == sorted(names) or not are_letters


# --- members ---


def is_vector(a: Answer, b: Answer) -> bool:
    """Return whether a point such as (1, 2) equals the other answer, a matrix of one row or
    column."""
    if b.kind == "value":
        a, b = b, a
    matrix = a.value
    if not isinstance(matrix, sympy.MatrixBase) or b.brackets != "()":
        return False
    if 1 not in matrix.shape:
        return False
    entries = [Answer("value", entry) for entry in matrix.flat()]
    return _are_all_same(entries, b.members)


def _are_all_same(mine: Sequence[Answer], theirs: Sequence[Answer]) -> bool:
    if len(mine) != len(theirs):
        return False
    return all(map(is_same, mine, theirs))
