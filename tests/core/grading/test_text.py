"""Reading answers as ANSWER says: a table of natural replies (cases/replies.json), and
properties."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.constants import AUTO, WAYS
from core.eval import grade_answers, is_equal
from core.grading.extraction import DOUBTS
from core.grading.kinds import named
from core.grading.kinds.math import Math
from core.types import Completion, Member, Problem
from tests.helpers.reading import extract

REPLIES = json.loads(
    (Path(__file__).parents[2] / "cases" / "replies.json").read_text(encoding="utf-8")
)
# Pieces of replies that matter to the reader.
PIECES = """the answer is Answer: #### ** 42 -5 1,024 $7 3/4 \\boxed{4} \\frac{1}{2} = so is not \
or ? . x apples than (
) of Question: wait 7%"""
TEXTS = st.lists(st.sampled_from([*PIECES.split(), " ", "\n", "The answer is "]), max_size=25).map(
    " ".join
)


def test_text_reads_the_answer_that_a_reply_states() -> None:
    for case in REPLIES:
        kind = case["type"]
        extraction = named(kind)().read(case["text"], "text", case.get("truncated", False))
        assert extraction.doubt is None or extraction.doubt in DOUBTS, case
        stated = case["stated"]  # null: the reply states none, or only implies one
        is_same = extraction.answer == stated or is_equal(extraction.answer, stated or "", kind)
        assert is_same, (extraction, case)
        if stated is not None:
            verdict = is_equal(stated, case["truth"], kind)
            assert is_equal(extraction.answer, case["truth"], kind) is verdict, (extraction, case)


def test_no_reply_is_falsely_right() -> None:
    for case in REPLIES:
        found = named(case["type"])().read(case["text"], "auto", case.get("truncated", False))
        if is_equal(found.answer, case["truth"], case["type"]):
            assert is_equal(case["stated"], case["truth"], case["type"]), case


@pytest.mark.parametrize(
    ("text", "way", "answer", "doubt"),
    [
        ("So he pays 1,042 dollars.", "number", "1042", None),
        ("First 30. The answer is 42.", "number", "42", None),
        ("Tom has 42 apples and Ann has 7.", "number", "7", "several numbers"),
        ("It is 10-52 = -42.", "number", "-42", "several numbers"),
        ("No number.", "number", None, "no answer"),
        ("He has 42", "text", None, "truncated"),
        ("42 apples.", "text", "42", None),
        ("42", "text", None, "truncated"),
        ("So he has 42 apples left.", "text", None, "no answer"),
        ("The answer is 50 - 8 = 42 apples.", "text", "42", None),
        ("Total = 42.\n\nQuestion: 3+5?\nAnswer: 8", "text", None, "no answer"),
        ("The answer is 41. Wait, the answer is 42.", "text", "42", "several"),
        ("\\boxed{41} The answer is 42.", "text", "42", "several"),
        ("\\boxed{41} The answer is 42.", "auto", "41", "several"),
        ("The answer is 42.", "auto", "42", None),
        ("The answer is 42.", "boxed", "42", "unboxed"),
        ("The answer is 42.\n\nQuestion: 3+3?\nAnswer: 6", "number", "42", None),
        ("The answer is 42.\n\nQuestion: 3+3?\nAnswer: 6", "text", "42", None),
        ("\\boxed{42}<|im_end|>\n<|im_start|>user\n3+3? \\boxed{6}", "auto", "42", None),
        ("The answer is 42.\n\nQuestion: 3+3?\n\\boxed{6}", "auto", "42", "several"),
        ("[THINK]So \\boxed{6}.[/THINK]The answer is 42.", "auto", "42", None),
        ("[THINK]So \\boxed{6}.[/THINK]There are 42.", "number", "42", None),
        ("Write \\boxed{answer}. So he has 42 apples left.", "auto", None, "no answer"),
    ],
)
def test_each_way_has_its_doubts(
    text: str, way: str, answer: str | None, doubt: str | None
) -> None:
    found = Math().read(text, way, truncated=doubt == "truncated")
    assert found.doubt == doubt
    assert found.answer == answer or is_equal(found.answer, answer or "", "math")


@given(
    st.one_of(TEXTS, st.text(max_size=100)),
    st.sampled_from(WAYS),
    st.sampled_from(["integer", "math"]),
)
def test_reading_never_raises_and_boxed_is_unchanged(text: str, way: str, kind: str) -> None:
    found = named(kind)().read(text, way)
    assert found.doubt is None or found.doubt in DOUBTS
    assert (found.answer is None) <= (found.doubt is not None)
    if (
        way == "boxed"
        and found.doubt != "unboxed"
        and (boxed := extract(text, named(kind)())).answer
    ):
        assert found.answer == boxed.answer
        # a sentence may state another answer than the box
        assert found == boxed or found.doubt == "several"


@pytest.mark.parametrize(
    "piece",
    [
        *"1($*",
        "1 ",
        "1, ",
        "the answer is 1\n",
        "\\boxed{1} ",
        "is 1 and ",
        "answer",
        "half of 1 + 1, or 1 ",
    ],
)
def test_a_long_reply_is_read_in_time(piece: str) -> None:
    began = time.process_time()
    for way in set(WAYS) - {AUTO}:  # which is one of the others
        Math().read(piece * (75_000 // len(piece)), way)
    # at most 0.6 s; without bounds in the patterns, 5 to 24 s
    assert time.process_time() - began < 4.5


def test_the_grader_reads_as_the_problem_says() -> None:
    reply = Member(Completion("k", 0, answer="So he has 42 apples.", finish_reason="stop"))
    doubts = {
        way: grade_answers(Problem("p", "?", "42", answer_form=way), [reply]).grades[0]
        for way in WAYS
    }
    assert {way: (grade.value, grade.doubt) for way, grade in doubts.items()} == {
        "boxed": (0.0, "no answer"),
        "text": (0.0, "no answer"),
        "number": (1.0, None),
        "auto": (0.0, "no answer"),
        "whole": (0.0, "no answer"),
    }
