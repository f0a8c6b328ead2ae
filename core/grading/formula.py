"""Define what an answer in mathematics is after reading: a value, a relation, or members."""

from dataclasses import dataclass
from typing import Any

from core.grading.units import NO_UNIT, Unit


@dataclass(frozen=True)
class Answer:
    """An answer in parts. The `kind` "value" has a sympy object as `value`. The kind "relation" has
    a tuple of sympy relations, which all hold. Other kinds have `members`: "list" (1, 2 without
    brackets), "set" (in braces, with ±, or joined by "or" or "and"), "ratio" (1:2:3), "union" and
    "row". A "row" is a point, an interval or a time of day, with `brackets` such as "[)" or "pm".
    `name` is a name on one side of an equals sign, or before ∈. `text` is the LaTeX of a
    "value"."""

    kind: str
    value: Any = None
    members: tuple["Answer", ...] = ()
    brackets: str = ""
    name: str = ""
    unit: Unit = NO_UNIT
    text: str = ""
