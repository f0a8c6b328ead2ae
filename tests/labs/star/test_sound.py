"""False equations in traces: what is told, what is true or can't be read surely (cases/equations.json), and every slip
of the embedded model."""

import json
import random
import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.files import ROOT
from labs.star.sound import false_equations
from scripts.embedded.sums import Terms, draw_terms
from scripts.embedded.texts import attempt, picked, products, solution

CASES: list[dict[str, Any]] = json.loads((ROOT / "tests" / "cases" / "equations.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[f"{i:03d} {case['text']}" for i, case in enumerate(CASES)])
def test_what_is_false_is_told_and_what_is_true_or_unsure_is_not(case: dict[str, Any]) -> None:
    assert len(false_equations(case["text"])) == case["false"]
    if case["false"]:
        assert len(false_equations(f"So it begins.\n{case['text']}\nand 1+1=2.")) == 1


def test_equations_are_told_as_they_stand_and_in_order() -> None:
    assert false_equations("2*3=6=7") == ["6=7"]
    assert false_equations("7*46=282, 42+282=325\n7 * 46  =\n 323") == ["7*46=282", "42+282=325", "7 * 46 = 323"]
    long = "10000" + "+10000" * 40 + "=" + "10000+" * 40 + "10001"
    assert false_equations(long) == [long[:200]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7*43\n= 302", ["7*43 = 302"]),
        ("7*43 &= 302 \\\\ &= 300+2", ["7*43 &= 302"]),
        ("7*43 +\n6*58 = 649", []),
        ("7*43 +\n6*58 = 650", ["7*43 + 6*58 = 650"]),
        ("301\n+ 348\n= 649", []),
        ("50\n- 8 = 42", []),
        ("7\n* 6 = 42", []),
        ("the remainder of\n7*3 = 1", []),
        ("7 mod 5 = 2\n3*4=12", []),
        ("10 = 4, modulo 3", []),
        ("modulo 3:\n2*5 = 13", []),
        ("modulo 3:\n2*5 = 1", []),
        ("modulo 3:\n2*5 = 12", ["2*5 = 12"]),
        ("a ≡ b\n2*5 = 9", []),
    ],
)
def test_lines_that_go_on_and_congruences(text: str, expected: list[str]) -> None:
    assert false_equations(text) == expected


# --- properties ---

SIGNS = {"*": ("*", " * ", "×", " \\times ", "\\cdot "), "+": ("+", " + "), "-": ("-", " - ", "−")}


@st.composite
def equations(draw: st.DrawFn) -> tuple[str, int]:
    """A calculation as text, and what it comes to."""

    def part(depth: int) -> tuple[str, int]:
        if depth == 0 or draw(st.booleans()):
            number = draw(st.integers(0, 10**6))
            return (f"{number:,}" if draw(st.integers(0, 5)) == 0 else str(number)), number
        sign = draw(st.sampled_from("*+-"))
        (one, a), (other, b) = part(depth - 1), part(depth - 1)
        wrap = draw(st.sampled_from(["(%s)", "( %s )"]))
        left = wrap % one if any(c in one for c in "*+-×\\−") else one
        right = wrap % other if any(c in other for c in "*+-×\\−") else other
        value = {"*": a * b, "+": a + b, "-": a - b}[sign]
        return f"{left}{draw(st.sampled_from(SIGNS[sign]))}{right}", value

    sign = draw(st.sampled_from("*+-"))
    (one, a), (other, b) = part(0), part(2)
    other = f"({other})" if any(c in other for c in "*+-×\\−") else other
    return f"{one}{draw(st.sampled_from(SIGNS[sign]))}{other}", {"*": a * b, "+": a + b, "-": a - b}[sign]


AROUND = st.sampled_from(
    ["%s", "So %s.", "Then $%s$", "- %s", "2. %s", "x = %s", "%s, so we go on", "**%s**", "We have %s"]
)
EQUALS = st.sampled_from(["=", " = ", "= "])


@given(equations(), AROUND, EQUALS)
def test_true_equations_are_never_told(equation: tuple[str, int], around: str, equals: str) -> None:
    text, value = equation
    for form in (str(value), f"{value:,}", f"{value}.0", f"{value + 5} - 5"):
        assert false_equations(around % f"{text}{equals}{form}") == []


@given(equations(), AROUND, EQUALS, st.data())
def test_a_changed_digit_is_always_told(
    equation: tuple[str, int], around: str, equals: str, data: st.DataObject
) -> None:
    text, value = equation
    if around.startswith("x") and "," in text:  # x = 1,300+1=…: or is x 1?
        text = text.replace(",", "")
    digits = str(abs(value))
    place = data.draw(st.integers(0, len(digits) - 1))
    least = 1 if place == 0 and len(digits) > 1 else 0
    new = data.draw(st.integers(least, 9).filter(lambda digit: digit != int(digits[place])))
    wrong = ("-" if value < 0 else "") + digits[:place] + str(new) + digits[place + 1 :]
    assert len(false_equations(around % f"{text}{equals}{wrong}")) == 1
    assert len(false_equations(around % f"{text}{equals}{value}{equals}{wrong}")) == 1


@given(st.fractions(0, 100, max_denominator=50), st.fractions(0, 100, max_denominator=50))
def test_fractions_are_exact(one: Fraction, other: Fraction) -> None:
    total, more = one + other, one + other + Fraction(1, 7)
    for form in ("{0.numerator}/{0.denominator}", r"\frac{{{0.numerator}}}{{{0.denominator}}}"):
        left = f"{form.format(one)} + {form.format(other)} = "
        assert false_equations(left + form.format(total)) == []
        assert len(false_equations(left + form.format(more))) == 1


PIECES = [
    "7",
    "46",
    "1,000",
    "0.5",
    "=",
    "=",
    "+",
    "-",
    "*",
    "/",
    "(",
    ")",
    "\\frac",
    "{",
    "}",
    "mod 7",
    "x",
    "so",
    ",",
    ".",
    "$",
    "\n",
]


@given(st.one_of(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.text(max_size=200)))
def test_nothing_raises(text: str) -> None:
    assert all(each and len(each) <= 200 for each in false_equations(text))


# --- the embedded model's sums ---


def test_every_slip_of_the_embedded_model_is_found() -> None:
    rng = random.Random(0)
    for _ in range(300):
        terms = Terms(draw_terms(rng, rng.randint(3, 8)), False)
        values = [picked(rng, attempt(term, 0.2, 0.5)) for term in terms]
        wrong = [f"{t.digit}*{t.number}={v}" for t, v in zip(terms, values, strict=True) if t.digit * t.number != v]
        assert false_equations(products(terms, values)) == wrong
        assert false_equations(solution(terms, values)) == wrong
        assert false_equations(solution(terms, [t.digit * t.number for t in terms])) == []
        off = false_equations(solution(terms, [t.digit * t.number for t in terms], 1, 10))
        assert len(off) == 1 and "+" in off[0]


@pytest.mark.parametrize(
    "part", ["1+", "=", "1=", "(", "1=2\n", "9", "1=2 ", "mod 7 ", "a b ", "1*", "\n", "((1)", "7*8=5,", "$"]
)
def test_hostile_traces_take_linear_time(part: str) -> None:
    text = part * (100_000 // len(part)) + "1=2"
    started = time.process_time()
    false_equations(text)
    assert time.process_time() - started < 30  # 1 to 4 s
