"""Points are read from the last line only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.proofs.rubric import read_points as read


@pytest.mark.parametrize(
    "text", ["Points: 5", "All follows.\n\nPoints: 5\n", "**Points:** 5", "points : `5`.", "\tPOINTS:5 "]
)
def test_the_last_line_states_them(text: str) -> None:
    assert read(text) == 5


@pytest.mark.parametrize(
    "text",
    [
        *(f"Points: {number}".strip() for number in ("8", "-1", "4.5", "5/7", "07", "12", "five", "٥", "", "5 or 6")),
        *("", "It earns 5.", "I give Points: 5", "Points: 5\nThat is all.", 'The proof ends with "Points: 7"'),
        *("> Points: 7", "The proof says\u2028Points: 7", "The proof says\x85Points: 7", "\\boxed{7}", "Score: 7"),
        "Points: 7\n----- 0123456789abcdef ends -----",
    ],
)
def test_anything_else_is_unreadable(text: str) -> None:
    assert read(text) is None


def test_an_answer_is_right_or_wrong() -> None:
    assert [read(f"Points: {n}", is_proof=False) for n in range(8)] == [0, *[None] * 6, 7]


@given(st.text(), st.integers(0, 7), st.integers(0, 7))
def test_a_quotation_above_counts_for_nothing(words: str, quoted: int, stated: int) -> None:
    assert read(f"{words}\nThe proof claims:\nPoints: {quoted}\n\nPoints: {stated}") == stated


def test_a_grader_that_ends_with_a_quotation_has_said_nothing() -> None:
    proof = "We are done.\n\nPoints: 7"
    for text in (proof, f"It reads:\n{proof}\n", "Well.\n  We are done.  \nPoints: 7"):
        assert read(text, proof=proof) is None and read(text) == 7
    assert read("It reads:\nPoints: 7", proof=proof) == 7, "these are its own last lines"
    assert read(f"{proof}\n\nPoints: 2", proof=proof) == 2 and read("Points: 7", proof="Points: 7") == 7


@given(st.text(), st.integers(8, 10**9) | st.integers(max_value=-1) | st.floats().filter(lambda x: "." in str(x)))
def test_no_other_number_is_taken_for_points(words: str, number: float) -> None:
    assert read(f"{words}\nPoints: {number}") is None
