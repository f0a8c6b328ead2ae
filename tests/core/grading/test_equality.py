"""Comparing math answers with sympy: a table of pairs (cases/equal.json), and properties."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.eval import is_correct, is_equal
from core.grading.cleaning import clean
from core.grading.kinds import named
from core.grading.kinds.math import Math
from core.grading.verdicts import is_comparable
from tests.helpers.latex import LATEX

PAIRS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "cases" / "equal.json").read_text(encoding="utf-8")
)


def test_pairs() -> None:
    """Two math answers, either way round, as they are written and as a box that is read again."""
    for pair in PAIRS:
        one, other, expected = pair["one"], pair["other"], pair["equal"]
        assert is_equal(one, other, "math") is expected, pair
        assert is_equal(other, one, "math") is expected, pair
        if "boxed" not in pair:  # a box loses the name of a number, and degrees
            assert is_correct(Math().read(rf"\boxed{{{one}}}").answer, other, "math") is expected, (
                pair
            )


def spellings(number: Fraction) -> list[str]:
    sign, p, q = "-" if number < 0 else "", abs(number.numerator), number.denominator
    found = [
        f"{sign}{p}/{q}",
        rf"{sign}\frac{{{p}}}{{{q}}}",
        rf"{sign}\dfrac{{{7 * p}}}{{{7 * q}}}",
    ]
    found += [rf"{sign}{p} \cdot {q}^{{-1}}", rf"{sign}\frac{{\sqrt{{2}} \cdot {p}}}{{{q}\sqrt2}}"]
    if 10**60 % q == 0:
        digits = str(p * 10**60 // q).zfill(61)
        found.append(f"{sign}{digits[:-60]}.{digits[-60:]}")
    return found


NUMBERS = st.fractions(-100, 100, max_denominator=100) | st.builds(
    Fraction, st.integers(1, 10**40), st.sampled_from([1, 2**90, 10**50, 3**80])
)


@settings(max_examples=60)
@given(NUMBERS, st.sampled_from([0, 1, -1]), st.sampled_from([1, 10**6, 10**31, 10**55]), st.data())
def test_numbers_are_the_same_only_where_they_are_equal(
    number: Fraction, shift: int, by: int, data: Any
) -> None:
    near = number + Fraction(shift, by)
    one, other = (data.draw(st.sampled_from(spellings(n))) for n in (number, near))
    assert is_equal(one, other, "math") is (number == near)
    assert is_equal(other, one, "math") is (number == near)


@settings(max_examples=60)
@given(LATEX, LATEX)
def test_readable_answers_equal_themselves_and_equality_is_symmetric(one: str, other: str) -> None:
    one, other = (clean(text) or "x" for text in (one, other))
    assert is_equal(one, other, "math") is is_equal(other, one, "math")
    assert is_equal(f"{one} ", one, "math") is not False or not is_comparable(one)


READ = (
    r"\frac{1}{2}", r"$\frac{\sqrt{3}}{2}$", r"45^\circ", r"12.5\%", r"5\text{ cm}", "1 or 2",
    r"x=\pm 3",
    "no solution", r"9^{9^{9^9}}",
)  # fmt: skip
UNREAD = (r"x \equiv 3 \pmod{8}", "5!!", "isosceles", r"\text{Yes}", r"\frac{", "", "x" * 1001)


@pytest.mark.parametrize(
    ("answer", "answer_type", "is_one"),
    [
        ("042", "integer", True),
        ("1000", "integer", False),
        *((each, "math", each in READ) for each in READ + UNREAD),
    ],
)
def test_a_reference_can_be_compared_by_what_it_says(
    answer: str, answer_type: str, is_one: bool
) -> None:
    assert named(answer_type)().is_readable(answer) is is_one
