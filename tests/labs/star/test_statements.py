"""Statements that are one: planted repetitions are found, and other statements are others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.star.statements import hash_of, near

PLAIN = "Find the remainder when 7*43 + 6*58 is divided by 1000."
LATEX = r"Let $x_1 + \frac{1}{2} = \left(3 - y\right)^2$. What is \(x\)?"

DRESSED = [
    PLAIN.upper(),
    PLAIN.replace(" ", " \n\u00a0\u200b "),
    PLAIN.replace(" + ", "+"),
    PLAIN.replace("7*43 + 6*58", "$7*43 + 6*58$"),
    f"“{PLAIN.rstrip('.')} ?”",
    "\u200b\u00ad".join(PLAIN),
    "".join(chr(ord(each) + 0xFEE0) if each.isdigit() else each for each in PLAIN),  # full width
]
SET = [
    LATEX.replace("$", "").replace(r"\(", "$").replace(r"\)", "$"),
    LATEX.replace("$", "$$"),
    LATEX.replace(r"\left", "").replace(r"\right", ""),
    LATEX.replace(r"\frac", r"\displaystyle \dfrac"),
    LATEX.replace(" + ", r"\,+\;").replace(" = ", r"~=\quad "),
    LATEX.replace("^2", "^{2}").replace("x_1", "x_{1}"),
    LATEX.replace("-", "−"),
]


@pytest.mark.parametrize(
    ("text", "planted"), [(PLAIN, each) for each in DRESSED] + [(LATEX, each) for each in SET]
)
def test_a_repetition_in_another_dress_is_found(text: str, planted: str) -> None:
    assert planted != text and hash_of(planted) == hash_of(text)


@pytest.mark.parametrize(
    "before", ["12. ", "1.12) ", "(a) ", "Problem 12: ", "Question: ", "**Problem 12.** "]
)
@pytest.mark.parametrize("points", ["(5 points)", "[10 pts]"])
def test_a_labelled_repetition_is_found(before: str, points: str) -> None:
    for planted in (
        f"{before}{LATEX}",
        f"{before}{points} {LATEX}",
        f"{before}{LATEX} {points}.",
        f"(1 mark) {LATEX}",
    ):
        assert hash_of(planted) == hash_of(LATEX), planted


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PLAIN, PLAIN.replace("43", "34")),
        ("Find 2 3", "Find 23"),
        ("-5 + 3 = ?", "5 + 3 = ?"),
        ("Compute 5!", "Compute 5"),
        (r"What is $\frac12$?", r"What is $\frac13$?"),
        ("12.5 + 3 = ?", "5 + 3 = ?"),  # no label
        ("(5)*(3) + 4", "(6)*(3) + 4"),
        ("12: 3 = x: 4", "15: 3 = x: 4"),
        ("2**3 + 4**5", "2*3 + 4*5"),
        ("x <= 2, and x ≤ 3", "x <= 2, and x < 3"),
        ("Find x.", "Find the x."),  # a rewording, which is not found
        ("Find |x|", "Find x"),
        ("[5 points] on a circle are joined.", "[7 points] on a circle are joined."),
        ("Find x^{2n}.", "Find x^2n."),
        ("Example 3 shows f(3)=2. Find f(1).", "Example 4 shows f(3)=2. Find f(1)."),
        ("Problem 12 is hard. Find x.", "Problem 13 is hard. Find x."),
    ],
)
def test_other_statements_are_others(one: str, other: str) -> None:
    assert hash_of(one) != hash_of(other)


def test_statements_with_eight_words_in_common_are_near() -> None:
    other = "Tom has 12 red and 7 blue pens in a box. How many pens has Tom in all?"
    named = {
        "numbers": other.replace("12", "15"),
        "more": f"{other} Explain.",
        "names": other.replace("Tom", "Ann").replace("pens", "nuts"),
        "other": PLAIN,
    }
    assert near(named.items(), [other]) == ("numbers", "more")


@given(st.text() | st.text("\\$~ .,:;?ab()[]{}!^_12frac\n\t\u200b\u0345ς−“½\u0301İ\x00\ud800"))
def test_any_text_has_a_hash(text: str) -> None:
    assert len(hash_of(text)) == 64


def test_the_wording_of_a_task_makes_no_statements_near() -> None:
    task = "State the final answer to the following arithmetic problem:"
    held_out = [f"{task} {first} + 17 - 4 + 5 - 6 + 7 - 8 =" for first in range(20, 23)]
    similar = f"{task} 21 + 17 - 4 + 5 - 6 + 7 - 9 ="
    named = [("other", f"{task} 4 - 3 + 11 ="), ("similar", similar)]
    assert near(named, held_out) == ("similar",)
