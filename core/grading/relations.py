"""Compare equations and inequalities, and convert answers to sets."""

from collections.abc import Sequence
from typing import Any

import sympy

from core.grading.expressions import expression
from core.grading.formula import Answer
from core.grading.values import (
    MIN_POINTS,
    complex_parts,
    each_among,
    guarded,
    is_same_number,
    is_same_set,
    points_for,
)

Relations = Sequence[Any]


def as_equation(answer: Answer) -> Relations:
    """Return the relations of an answer. y = 2x+1, a value with a name, is an equation too."""
    if answer.kind == "relation":
        return tuple(answer.value)
    if not answer.name or not isinstance(answer.value, sympy.Expr):
        return ()
    return (sympy.Eq(expression(answer.name), answer.value, evaluate=False),)


def are_same_relations(mine: Relations, theirs: Relations) -> bool:
    """Return whether two answers' relations are equal. Inequalities in one unknown are equal if
    they have the same solutions."""
    if not mine or not theirs or variables(mine) != variables(theirs):
        return False
    if is_inequality((*mine, *theirs)):
        return is_same_set(solutions(mine), solutions(theirs))
    if len(mine) != len(theirs):
        return False
    return each_among(mine, theirs, _is_multiple) and each_among(theirs, mine, _is_multiple)


def variables(relations: Relations) -> set[Any]:
    """Return the variables of all relations."""
    return set().union(*(relation.free_symbols for relation in relations))


def is_inequality(relations: Relations) -> bool:
    """Return whether the relations are inequalities in one unknown."""
    if len(variables(relations)) != 1:
        return False
    return not any(isinstance(relation, sympy.Eq) for relation in relations)


def _is_multiple(mine: Any, theirs: Any) -> bool:
    """Return whether one relation is a multiple of the other. For inequalities, the factor must be
    positive."""
    my_sign, my_side = against_zero(mine)
    their_sign, their_side = against_zero(theirs)
    if my_sign != their_sign:
        return False
    ratios = []
    for point in points_for(sorted(my_side.free_symbols | their_side.free_symbols, key=str)):
        below = guarded(_parts_at, their_side, point)
        if below is not None and below != (0, 0):
            ratios.append(my_side.xreplace(point) / their_side.xreplace(point))
    if len(ratios) < MIN_POINTS:
        return False
    if not all(guarded(is_same_number, ratio, ratios[0]) for ratio in ratios[1:]):
        return False
    factor = complex_parts(ratios[0], 50)
    if factor == (0, 0):
        return False
    return my_sign in ("==", "!=") or bool(factor[0] > 0)


def _parts_at(side: Any, point: dict[Any, Any]) -> tuple[Any, Any]:
    return complex_parts(side.xreplace(point), 50)


def against_zero(relation: Any) -> tuple[str, Any]:
    """Rewrite a relation so that its right side is 0, with "<" for ">" and "≤" for "≥". Returns
    sign and left side."""
    if isinstance(relation, (sympy.Eq, sympy.Ne)):
        return relation.rel_op, sympy.fraction(sympy.together(relation.lhs - relation.rhs))[0]
    return relation.rel_op.replace(">", "<"), relation.lts - relation.gts


def solutions(relations: Relations) -> Any:
    """Return the real solutions of inequalities in one unknown, or None if sympy cannot solve
    them."""
    return guarded(_intersection, relations)


def _intersection(relations: Relations) -> Any:
    return sympy.Intersection(*(relation.doit().as_set() for relation in relations))


def as_set(answer: Answer) -> Any:
    """Convert a set, a union, an interval or an inequality to a sympy set. Returns None for other
    answers."""
    values = [member.value for member in answer.members]
    are_expressions = all(isinstance(value, sympy.Expr) for value in values)
    match answer.kind:
        case "value" if isinstance(answer.value, sympy.Set):
            return answer.value
        # an equation does not equal the set of its solutions
        case "relation" if is_inequality(answer.value):
            return solutions(answer.value)
        case "row" if are_expressions and len(values) == 2:
            return _interval(answer)
        case "set" if are_expressions:
            return sympy.FiniteSet(*values)
        case "union":
            sets = [as_set(member) for member in answer.members]
            return None if None in sets else guarded(sympy.Union, *sets)
    return None


def _interval(row: Answer) -> Any:
    """Return the interval that a row of two members may be. (2,1) is a point, not an interval."""
    start, end = row.members
    is_left_open = row.brackets[0] in "(]"
    is_right_open = row.brackets[1] in ")["
    interval = guarded(sympy.Interval, start.value, end.value, is_left_open, is_right_open)
    return None if interval is sympy.S.EmptySet else interval
