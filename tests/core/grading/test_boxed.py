"""Reading answers in boxes and `Final:` lines: a table of cases (cases/boxed.json), and
properties."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.constants import BOXED
from core.eval import is_correct
from core.grading.boxed import stated
from core.grading.boxes import box_spans
from core.grading.canonical import canonical
from core.grading.extraction import DOUBTS, Extraction
from core.grading.final import final_lines, says_nothing
from core.grading.kinds import named
from core.grading.kinds.integer import Integer
from core.grading.kinds.math import Math
from tests.helpers.latex import LATEX, TYPES
from tests.helpers.reading import extract

# tests/core/grading/test_text.py and test_choice.py
ELSEWHERE = {"several numbers", "not an option", "other text"}
CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "cases" / "boxed.json").read_text(encoding="utf-8")
)


def test_cases() -> None:
    for case in CASES:
        found = named(case["type"])().read(case["text"], BOXED, case.get("truncated", False))
        assert (found.answer, found.doubt) == (case["answer"], case["doubt"]), case
        if "truth" in case:
            assert is_correct(found.answer, case["truth"], case["type"]) is case["correct"], (
                found,
                case,
            )


def test_the_table_covers_every_doubt() -> None:
    assert {case["doubt"] for case in CASES} | ELSEWHERE == {None, *DOUBTS}


@given(st.one_of(LATEX, st.text(max_size=200)), TYPES, st.booleans())
def test_extract_never_raises_and_its_answer_can_be_stored(
    text: str, kind: str, truncated: bool
) -> None:
    found = extract(text, named(kind)(), truncated)
    assert found.doubt is None or found.doubt in DOUBTS
    (found.answer or "").encode("utf-8")
    named(kind)().canonical(text)
    is_correct(text, text, "integer")


@given(LATEX, TYPES)
def test_boxing_an_answer_reads_the_same_answer(text: str, kind: str) -> None:
    answer = extract(rf"\boxed{{{text}}}", named(kind)()).answer
    if answer is not None:
        again = extract(rf"\boxed{{{answer}}}", named(kind)())
        assert again.answer == answer
        assert again.doubt in (None, "not an integer")


VOTES = {
    "-0.50": "-1/2", r"-\frac{6}{8}": "-3/4", r"\frac{-6}{8}": "-3/4", "- 6 / 8": "-3/4", (
        r"\tfrac12"
    ): (
        "1/2"
    ),
    "4.0": "4", "2x + 1": "2x+1", "( 1,2 )": "(1, 2)", "No Solution": "no solution",
}  # fmt: skip
# The third is one and a half, not 11/2.
SAME = ("1/0", "1/2/3", r"1\frac{1}{2}", r"\frac{1}{2}3", "0.5/2", "4 2", "1e9", "5, 600", r"\pi r")


def test_math_votes_are_counted_on() -> None:
    for text, expected in (VOTES | dict(zip(SAME, SAME, strict=True))).items():
        assert canonical(text) == expected


@given(LATEX, TYPES)
def test_a_canonical_answer_is_its_own_canonical_answer(text: str, kind: str) -> None:
    once = named(kind)().canonical(text)
    assert named(kind)().canonical(once) == once


@given(LATEX, LATEX, st.integers(0, 999))
def test_the_only_box_is_found_anywhere(before: str, after: str, answer: int) -> None:
    before, after = (text.replace(r"\boxed", "").replace(r"\fbox", "") for text in (before, after))
    found = extract(rf"{before}\boxed{{{answer}}} {after}", Integer())
    assert found == extract(rf"\boxed{{{answer}}}", Integer())
    assert (found.answer, found.doubt) == (str(answer), None)


FINALS = "Final Final: final ANSWER answer: ** _ ` > # ... <answer> 7 41 The"
BOXES = ("\\boxed{", "}", "\\boxed{7}")
LINES = st.lists(
    st.sampled_from([*FINALS.split(), *BOXES, " ", "\n", "\n", "\r\n", "\u2028", "\x85", "\ud800"]),
    max_size=25,
).map("".join)


@given(LINES, TYPES, st.booleans())
@example("ANSWER\n>", "integer", False)
@example("answer:7\n", "integer", True)
def test_lines_are_read_without_a_guess(text: str, kind: str, truncated: bool) -> None:
    found = extract(text, named(kind)(), truncated)
    lines = final_lines(text)
    assert found.doubt is None or found.doubt in DOUBTS
    assert [text[line.start : line.end] for line in lines] == [
        line for line in text.splitlines() if final_lines(line)
    ]
    if "box" not in text:
        stating = [
            line.value
            for line in lines
            if not says_nothing(line.value) and (not truncated or line.end < len(text))
        ]
        is_balanced = bool(stating) and box_spans(rf"\boxed{{{stating[-1]}}}")[0] == [
            (7, 7 + len(stating[-1]))
        ]
        expected = Extraction(None, None)
        if is_balanced:
            expected = extract(rf"\boxed{{{stating[-1]}}}", named(kind)())
        assert found.answer == expected.answer
    assert found.answer is None or found.answer in stated(text, named(kind)())


@given(
    st.integers(0, 999),
    st.sampled_from(["Final: %d", "**Final:** %d", "FINAL ANSWER: $%d$", "> Final: `%d`."]),
    LATEX,
)
def test_the_only_line_is_found_anywhere(answer: int, form: str, around: str) -> None:
    around = around.replace("box", "")
    text = f"{around}\n{form % answer}\n{around}"
    assert extract(text, Integer()) == Extraction(str(answer), None)
    assert extract(f"{text}\n\\boxed{{{answer}}}", Integer()) == Extraction(str(answer), None)
    assert extract(f"\\boxed{{{answer + 1}}}\n{form % answer}", Integer()).doubt in (
        "several",
        "not an integer",
    )


def test_all_that_a_text_states() -> None:
    text = (
        "\\boxed{42} and \\boxed{042}\nFinal: ...\nFinal: 41\nFinal: so \\boxed{7}\nFinal answer: "
        "41"
    )
    assert stated(text, Integer()) == ["42", "7", "41"]
    assert stated("Final: 1/2\nthe answer is 42", Math()) == ["1/2"] and stated("", Math()) == []
    assert stated("\\boxed{" + "9" * 2000 + "}", Integer()) == [None]


@given(
    st.integers(0, 999),
    st.integers(0, 999),
    st.sampled_from([r"\frac{%d}{%d}", "%d/%d", "%d, %d", "%d %d", "%d^{%d}"]),
)
def test_digits_are_never_taken_out_of_an_expression(a: int, b: int, form: str) -> None:
    found = extract(rf"\boxed{{{form % (a, b)}}}", Integer())
    if ("frac" in form or "/" in form) and b and a % b == 0:  # nothing is guessed: it divides
        assert found == Extraction(str(a // b), None)
    else:
        assert found.doubt == "not an integer"
        assert not any(is_correct(found.answer, str(n), "integer") for n in (a, b))


def test_boxes_that_say_the_same_in_canonical_form_are_not_several() -> None:
    assert extract(r"\boxed{0.5}, that is \boxed{\frac12}", Math()).doubt is None
    found = extract(r"\boxed{3} \boxed{\sqrt{8}} \boxed{\sqrt8} \boxed{2\sqrt2}", Math())
    assert (found.doubt, found.others) == ("several", (r"\sqrt8", r"\sqrt{8}", "3"))
    many = extract("".join(rf"\boxed{{x+{i}}}" for i in range(50)), Math())
    assert (many.doubt, many.others) == ("several", ())


@pytest.mark.parametrize(
    ("text", "times"),
    [
        *((text, 200_000) for text in ("{", "}", "\\", "*")),
        *(
            (text, 25_000)
            for text in (
                r"\boxed{",
                r"\boxed{7}",
                r"\boxed{}",
                r"\boxed ",
                "Final:",
                "Final: 7\n",
                "> ",
            )
        ),
        *(
            (text, 12_500)
            for text in ("the answer is 7 ", "#### ", r"\boxed{{{7}}}", r"\boxed{7} or ")
        ),
        *(
            (text, 12_500)
            for text in ("\nProblem: ", "<|im_end|>7", r"use \boxed{x} ", r"\\frac", "\ta")
        ),
        (r"\boxed{The sum of " + "a " * 450 + "is 1}", 200),
        (r"\boxed{" * 25_000 + "}" * 25_000, 1),
        (r"\boxed{" + "{}" * 50_000, 1),
        (r"\boxed" + " " * 200_000, 1),
        (r"\boxed " + "9" * 200_000, 1),
        (r"\boxed{" + "9" * 200_000 + "}", 1),
        ("*" * 100_000 + "Final: " + "*" * 100_000, 1),
        ("Final: " + "[*" * 100_000, 1),
        ("".join(rf"\boxed{{{'{' * (i % 400)}7{'}' * (i % 400)}}}" for i in range(400)), 1),
    ],
    ids=lambda value: f"{value!s:.12}",
)
def test_hostile_texts_take_linear_time(text: str, times: int) -> None:
    started = time.process_time()
    extract(text * times, Integer())
    assert time.process_time() - started < 5  # at most 0.2 s; a quadratic reader needs minutes
