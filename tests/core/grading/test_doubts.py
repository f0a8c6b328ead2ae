"""Doubts about verdicts: no wrong verdict is silent, and a certain verdict has no doubt."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.base.files import ROOT
from core.eval import grade_answers, is_equal
from core.grading.differences import difference
from core.grading.doubts import DOUBTS_OF_WRONG, NAMES, NOTATION
from core.grading.extraction import DOUBTS
from core.grading.notations import NOTATIONS, Notation
from core.types import Completion, Grade, Member, Problem

FOLDER = Path(__file__).parents[2] / "cases"
# Pairs that may be judged wrongly, but not without a doubt.
DOUBTED: list[dict[str, Any]] = json.loads((FOLDER / "doubted.json").read_text(encoding="utf-8"))
PAIRS: list[dict[str, Any]] = json.loads((FOLDER / "equal.json").read_text(encoding="utf-8"))


def graded(answer: str, truth: str, answer_type: str = "math") -> Grade:
    reply = Completion("", 0, answer=rf"\boxed{{{answer}}}", finish_reason="stop")
    return grade_answers(Problem("p", "?", truth, answer_type), [Member(reply)]).grades[0]


def verdict(answer: str, truth: str, answer_type: str = "math") -> tuple[float | None, str | None]:
    grade = graded(answer, truth, answer_type)
    return grade.value, grade.doubt


def test_no_wrong_verdict_is_silent() -> None:
    assert len(DOUBTED) >= 300
    for pair in DOUBTED:
        for answer, truth in ((pair["one"], pair["other"]), (pair["other"], pair["one"])):
            grade = graded(answer, truth)
            assert (grade.value == 1) is pair["equal"] or grade.doubt, (answer, truth)
            assert grade.doubt is None or grade.doubt in DOUBTS_OF_WRONG | DOUBTS, (answer, truth)


def test_a_certain_verdict_has_no_doubt() -> None:
    certain = [pair for pair in PAIRS if pair.get("certain")]
    assert len(certain) >= 400
    for pair in certain:
        for answer, truth in ((pair["one"], pair["other"]), (pair["other"], pair["one"])):
            grade = graded(answer, truth)
            assert ((grade.value == 1), grade.doubt) == (pair["equal"], None), (answer, truth)


def test_docs_explain_each_doubt() -> None:
    legend = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    for doubt, meaning in DOUBTS_OF_WRONG.items():
        explanation = meaning.partition(":")[0].rstrip(".")
        assert f"| `{doubt}` | {explanation}. |" in legend


@pytest.mark.parametrize("notation", NOTATIONS, ids=lambda notation: notation.name)
def test_another_reading_that_makes_two_answers_equal_is_a_doubt(notation: Notation) -> None:
    one, other = notation.example
    assert is_equal(one, other, "math") is False
    assert difference(one, other) == difference(other, one) == NOTATION
    assert notation.readings(one, other) or notation.readings(other, one)


@settings(max_examples=40)
@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))
def test_two_whole_numbers_certainly_differ(one: int, other: int) -> None:
    is_thousandfold = one == 1000 * other or other == 1000 * one  # 2,000 with a decimal comma is 2
    assert difference(str(one), str(other)) is None or one == other or is_thousandfold


def test_a_comma_is_a_decimal_point_if_the_reference_answer_is_a_number() -> None:
    assert verdict("12,5", "12.5") == (1.0, None)
    assert verdict("12.5", "12,5") == (1.0, NOTATION)  # or the list 12 and 5
    assert graded("12, 5", "12.5").value == 0.0
    assert verdict("12,5", "5, 12") == (1.0, None)
    assert verdict("5,6", r"5\text{ and }6") == (1.0, None)


def test_the_name_in_a_box_counts_if_the_reference_answer_has_one() -> None:
    assert verdict("a_1 = 3", "a_2 = 3") == (0.0, NAMES)
    for truth in ("3", "a_1 = 3", "a_{1}=3.0"):
        assert verdict("a_1 = 3", truth) == (1.0, None)
    assert verdict(r"\text{Total} = 3", "x = 3") == (1.0, None), "a word is no name"


def test_an_integer_is_right_or_in_doubt() -> None:
    for answer in ("forty-two", "4.2e1", "1,042", "0.42", "42!", "-42", "42 or 43", "42_{10}"):
        value, doubt = verdict(answer, "42", "integer")
        assert value == 0.0 and doubt in DOUBTS, answer
    for answer in ("42.0", "0042", "42nd", r"42\text{ cm}", "x = 42"):
        assert verdict(answer, "42", "integer") == (1.0, None), answer
