"""Compare sympy objects: numbers, expressions with variables, matrices and sets.

Rational constants are compared exactly. Others must agree in 30 of 50 digits and, without sums and
integrals, in 450 of 500 digits. Expressions with variables must agree at fixed random points. Sets
are compared member by member."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sympy

from core.grading.brackets import Unreadable

# (digits computed, digits that must agree): the first pair decides most comparisons
DIGITS = ((50, 30), (500, 450))
POINTS = 16  # fixed random points at which expressions with variables are compared
MIN_POINTS = 3  # points at which both expressions must be defined
# Denominator and largest numerator of the points, in turn. Small whole numbers keep 2^n exact.
_GRIDS = ((1, 9), (1, 9), (7, 60), (101, 300))
_UNDECIDABLE = (
    Unreadable,
    ArithmeticError,
    ValueError,
    TypeError,
    NotImplementedError,
    AttributeError,
)
# 500 digits of these take too long
_SLOW = (sympy.Integral, sympy.Sum, sympy.Product)


def guarded(compare: Callable[..., Any], *values: Any) -> Any:
    """Return the result of `compare`, or None if sympy cannot decide, for example at a pole."""
    try:
        return compare(*values)
    except _UNDECIDABLE:
        return None


def is_expression(value: Any) -> bool:
    """Return whether a sympy object is an expression and no matrix."""
    return isinstance(value, sympy.Expr) and not isinstance(value, sympy.MatrixBase)


def is_same_value(mine: Any, theirs: Any) -> bool:
    """Return whether two sympy objects are equal."""
    if isinstance(mine, sympy.MatrixBase) and isinstance(theirs, sympy.MatrixBase):
        if mine.shape != theirs.shape:
            return False
        return all(map(is_same_value, mine.flat(), theirs.flat()))
    if isinstance(mine, sympy.Set) and isinstance(theirs, sympy.Set):
        return is_same_set(mine, theirs)
    if not is_expression(mine) or not is_expression(theirs):
        return False
    if mine == theirs:
        return not mine.has(sympy.nan, sympy.zoo)
    if mine.is_infinite or theirs.is_infinite:
        return False
    symbols = sorted(mine.free_symbols | theirs.free_symbols, key=str)
    if not symbols:
        return is_same_number(mine, theirs)
    return _agree_at_points(mine, theirs, symbols)


def _agree_at_points(mine: Any, theirs: Any, symbols: Sequence[Any]) -> bool:
    defined = 0
    for point in points_for(symbols):
        my_number = mine.xreplace(point)
        their_number = theirs.xreplace(point)
        verdict = guarded(is_same_number, my_number, their_number, DIGITS[:1])
        if verdict is False:
            return False
        if verdict:
            defined += 1
    return defined >= MIN_POINTS


def points_for(symbols: Sequence[Any]) -> list[dict[Any, Any]]:
    """Return POINTS assignments of fractions and whole numbers to `symbols`. Only the number of
    symbols matters."""
    chance = random.Random(len(symbols))
    points = []
    for index in range(POINTS):
        bottom, largest = _GRIDS[index % len(_GRIDS)]
        tops = [top for top in range(2, largest + len(symbols)) if top % bottom or bottom == 1]
        signs = (1,) if index < POINTS // 2 else (1, -1)
        chosen = chance.sample(tops, len(symbols))
        point = {}
        for symbol, top in zip(symbols, chosen, strict=True):
            signed = top * chance.choice(signs)
            point[symbol] = sympy.Rational(signed, bottom)
        points.append(point)
    return points


def is_same_number(mine: Any, theirs: Any, precisions: Sequence[tuple[int, int]] = DIGITS) -> bool:
    """Return whether two constants are equal. Raises one of sympy's errors if it cannot decide."""
    for digits, agreeing in precisions:
        my_parts = complex_parts(mine, digits)
        their_parts = complex_parts(theirs, digits)
        size = max(_square(my_parts), _square(their_parts))
        apart = _square((my_parts[0] - their_parts[0], my_parts[1] - their_parts[1]))
        if apart > size * sympy.Rational(1, 10 ** (2 * agreeing)):
            return False
        if digits == DIGITS[0][0]:
            my_exact = mine.doit()
            their_exact = theirs.doit()
            if my_exact.is_Rational and their_exact.is_Rational:
                return bool(my_exact == their_exact)
            if mine.has(*_SLOW) or theirs.has(*_SLOW):
                return True
    return True


def _square(parts: tuple[Any, Any]) -> Any:
    real, imaginary = parts
    return real * real + imaginary * imaginary


def complex_parts(value: Any, digits: int) -> tuple[Any, Any]:
    """Return the real and imaginary part of a constant. A part becomes 0 if even 20 times `digits`
    are only noise."""
    number = value.evalf(digits, maxn=20 * digits)
    real, imaginary = number.as_real_imag()
    return _part(real, digits), _part(imaginary, digits)


def _part(part: Any, digits: int) -> Any:
    if not (part.is_Float or part.is_Rational):
        raise Unreadable
    is_noise = part.is_Float and part._prec < 2 * digits
    return 0 if is_noise else part


def is_same_set(mine: Any, theirs: Any) -> bool:
    """Return whether two sympy sets are equal. None is equal to no set."""
    if mine is None or theirs is None:
        return False
    mine = guarded(mine.doit) or mine
    theirs = guarded(theirs.doit) or theirs
    if mine == theirs:
        return True
    if isinstance(mine, sympy.Interval) and isinstance(theirs, sympy.Interval):
        return _is_same_interval(mine, theirs)
    if _have_same_members(mine, theirs):
        return True
    is_subset = guarded(mine.is_subset, theirs) is True
    return is_subset and guarded(theirs.is_subset, mine) is True


def _have_same_members(mine: Any, theirs: Any) -> bool:
    """Return whether two unions or two finite sets have the same members."""
    if type(mine) is not type(theirs) or len(mine.args) != len(theirs.args):
        return False
    if isinstance(mine, sympy.Union):
        return each_among(mine.args, theirs.args, is_same_set)
    if isinstance(mine, sympy.FiniteSet):
        return each_among(mine.args, theirs.args, is_same_value)
    return False


def _is_same_interval(mine: Any, theirs: Any) -> bool:
    if mine.left_open != theirs.left_open:
        return False
    if mine.right_open != theirs.right_open:
        return False
    is_same_start = is_same_value(mine.start, theirs.start)
    return is_same_start and is_same_value(mine.end, theirs.end)


def each_among(
    members: Iterable[Any], others: Sequence[Any], is_same: Callable[[Any, Any], bool]
) -> bool:
    """Return whether each of `members` is the same as one of `others`."""

    def is_among(member: Any) -> bool:
        return any(is_same(member, other) for other in others)

    return all(map(is_among, members))
