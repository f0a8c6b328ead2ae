"""Numbers in words and in other notation, and quantities in several units."""

from fractions import Fraction

import pytest

from core.grading.numerals import in_digits, with_point
from core.grading.units import Unit, compound


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("seven", "7"),
        ("Twenty-one", "21"),
        ("two thousand three hundred and five", "2305"),
        ("five apples", r"5\text{ apples}"),
        ("half a dozen", "6"),
        ("one and a half", r"\frac{3}{2}"),
        ("minus two thirds", r"-\frac{2}{3}"),
        ("ten percent", "10%"),
        (r"2.5\text{ million}", "2500000"),
        ("1.250.000", "1250000"),
        ("1'250.5", "1250.5"),
        ("1.234,56", "1234.56"),
        *((text, text) for text in ("star", "one two", "twenty thirty", "one of them")),
        *((text, text) for text in ("12.5", "1.250", "12,5")),
    ],
)
def test_numbers_in_words_and_in_other_notation(text: str, digits: str) -> None:
    assert in_digits(text) == digits
    assert in_digits(digits) == digits


def test_a_decimal_comma_is_no_comma_of_thousands_or_of_a_list() -> None:
    assert with_point("12,5") == "12.5"
    assert with_point(r"0,75\text{ m}") == r"0.75\text{ m}"
    assert with_point("12,50,000") == "1250000"
    for text in ("1,250", "12, 5", "1,2,3", "(1,2)", "1,2+x", "x"):
        assert with_point(text) is None, text


@pytest.mark.parametrize(
    ("text", "quantity"),
    [
        ("2 hours and 15 minutes", (Fraction(9, 4), Unit("h"))),
        (r"9\text{ feet }4\text{ inches}", (Fraction(28, 3), Unit("ft"))),
        ("9'4\"", (Fraction(28, 3), Unit("ft"))),
        ("-1 h 30 min", (Fraction(-3, 2), Unit("h"))),
        ("5 m", None),
        ("15 minutes and 2 hours", None),
        ("5 kg 3 m", None),
        ("1 year 3 days", None),
        ("2 boys and 3 girls", None),
    ],
)
def test_a_quantity_in_several_units(text: str, quantity: tuple[Fraction, Unit] | None) -> None:
    assert compound(text) == quantity


@pytest.mark.parametrize(
    ("one", "other", "ratio"),
    [
        ("km/h", "m/s", Fraction(5, 18)),
        ("L", "cm^3", Fraction(1000)),
        ("dollar", "cent", Fraction(100)),
        ("yr", "d", None),
        ("t", "kg", None),
        ("m", "m^2", None),
        ("", "m", None),
    ],
)
def test_the_ratio_of_two_units(one: str, other: str, ratio: Fraction | None) -> None:
    assert Unit(one).ratio(Unit(other)) == ratio
