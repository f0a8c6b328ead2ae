"""Reading and judging answers: a table of cases (cases/boxed.json), properties, and the judge in
its process."""

import asyncio
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.base.stats import pass_at_k
from core.constants import BOXED, WHOLE
from core.eval import (
    MAX_COMPARISONS,
    NEUTRAL,
    grade_answers,
    groups,
    is_correct,
    is_reference,
    judge,
)
from core.grading import boxed
from core.grading import judge as judge_module
from core.grading.boxed import DOUBTS, Extraction, canonical, clean, extract, stated
from core.grading.escapes import RULES, Rule, restored
from core.grading.final import final_lines, says_nothing
from core.grading.text import read
from core.types import Completion, Member, Problem

OF_TEXT = {"implied", "several numbers"}  # tests/core/grading/test_text.py
FOLDER = Path(__file__).parents[1] / "cases"
CASES: list[dict[str, Any]] = json.loads((FOLDER / "boxed.json").read_text(encoding="utf-8"))
PAIRS: list[dict[str, Any]] = json.loads((FOLDER / "equal.json").read_text(encoding="utf-8"))
# Pairs of spellings of one answer.
SPELLINGS = json.loads((FOLDER / "spellings.json").read_text(encoding="utf-8"))
# Texts of tokens that matter to the reader, which hit edges far more often than arbitrary
# characters.
TOKENS = r"""\boxed \boxed{ \fbox{ { } \{ \} \\ \ \text{ \textbf \left \right \, \! \; {,} , . % \% $ \$ ^\circ ^ _ ° 0
00 7 42 1,024 -5 − + = x m+n \frac{1}{2} \frac12 / ( ) \circ or cm thousand"""
PIECES = st.sampled_from([*TOKENS.split(), " ", "\n", "\u2009", "\u200b", "\ud800"])
LATEX = st.lists(PIECES, max_size=25).map("".join)
TYPES = st.sampled_from(["integer", "math"])


def test_cases() -> None:
    for case in CASES:
        found = read(case["text"], BOXED, case["type"], case.get("truncated", False))
        assert (found.answer, found.doubt) == (case["answer"], case["doubt"]), case
        if "truth" in case:
            assert is_correct(found.answer, case["truth"], case["type"]) is case["correct"], (
                found,
                case,
            )


def test_the_table_covers_every_doubt() -> None:
    assert {case["doubt"] for case in CASES} | OF_TEXT == {None, *DOUBTS}


@given(st.one_of(LATEX, st.text(max_size=200)), TYPES, st.booleans())
def test_extract_never_raises_and_its_answer_can_be_stored(
    text: str, kind: str, truncated: bool
) -> None:
    found = extract(text, kind, truncated)
    assert found.doubt is None or found.doubt in DOUBTS
    (found.answer or "").encode("utf-8")
    canonical(text, kind)
    is_correct(text, text, "integer")


@given(LATEX, TYPES)
def test_boxing_an_answer_reads_the_same_answer(text: str, kind: str) -> None:
    answer = extract(rf"\boxed{{{text}}}", kind).answer
    if answer is not None:
        again = extract(rf"\boxed{{{answer}}}", kind)
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
        assert canonical(text, "math") == expected


@given(LATEX, TYPES)
def test_a_canonical_answer_is_its_own_canonical_answer(text: str, kind: str) -> None:
    once = canonical(text, kind)
    assert canonical(once, kind) == once


@given(LATEX, LATEX, st.integers(0, 999))
def test_the_only_box_is_found_anywhere(before: str, after: str, answer: int) -> None:
    before, after = (text.replace(r"\boxed", "").replace(r"\fbox", "") for text in (before, after))
    found = extract(rf"{before}\boxed{{{answer}}} {after}")
    assert found == extract(rf"\boxed{{{answer}}}")
    assert (found.answer, found.doubt) == (str(answer), None)


# --- Final: lines ---

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
    found = extract(text, kind, truncated)
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
        is_balanced = bool(stating) and boxed.box_spans(rf"\boxed{{{stating[-1]}}}")[0] == [
            (7, 7 + len(stating[-1]))
        ]
        expected = (
            extract(rf"\boxed{{{stating[-1]}}}", kind) if is_balanced else Extraction(None, None)
        )
        assert found.answer == expected.answer
    assert found.answer is None or found.answer in stated(text, kind)


@given(
    st.integers(0, 999),
    st.sampled_from(["Final: %d", "**Final:** %d", "FINAL ANSWER: $%d$", "> Final: `%d`."]),
    LATEX,
)
def test_the_only_line_is_found_anywhere(answer: int, form: str, around: str) -> None:
    around = around.replace("box", "")
    assert extract(f"{around}\n{form % answer}\n{around}") == Extraction(str(answer), None)
    assert extract(f"{around}\n{form % answer}\n{around}\n\\boxed{{{answer}}}") == Extraction(
        str(answer), None
    )
    assert extract(f"\\boxed{{{answer + 1}}}\n{form % answer}").doubt in (
        "several",
        "not an integer",
    )


def test_a_line_and_a_box_that_spell_one_answer_are_no_doubt() -> None:
    problem = Problem("p", "?", r"2\sqrt{2}", "math")
    texts = (
        "Final: \\sqrt{8}\n\\boxed{2\\sqrt2}",
        "Final: \\sqrt{8}\nFinal: 2\\sqrt2",
        "Final: 3\nFinal: 2\\sqrt2",
    )
    members = [Member(Completion("", 0, answer=text, finish_reason="stop")) for text in texts]
    grades = grade_answers(problem, members).grades
    assert [(grade.value, grade.doubt) for grade in grades] == [
        (1.0, None),
        (1.0, None),
        (1.0, "several"),
    ]


@pytest.mark.parametrize(
    ("answer", "truth", "doubt"),
    [
        ("8", "7", None),
        ("7 is wrong", "7", "not mathematics"),
        ("isosceles", "7", "not mathematics"),
        ("isosceles", "scalene", None),
        ("7", "seven apples, and then 3", "reference not read"),
        (r"x \equiv 3 \pmod 8", r"x\equiv 3 \pmod{8}", None),
        (r"\text{at least } 7", "7", "not mathematics"),
        (r"\text{not } 7", "7", "not mathematics"),
        ("Tom has 7 apples and 3 pears", "7", "not mathematics"),
        ("The function is even", "even", "not mathematics"),
        ("odd", "even", None),
        ("7", "between 6 and 8", "reference not read"),
        (r"\text{Step 7}", "7", "not mathematics"),
    ],
)
def test_a_wrong_answer_that_mathematics_cannot_read_is_in_doubt(
    answer: str, truth: str, doubt: str | None
) -> None:
    members = [Member(Completion("", 0, answer=rf"\boxed{{{answer}}}", finish_reason="stop"))]
    assert grade_answers(Problem("p", "?", truth, "math"), members).grades[0].doubt == doubt


@pytest.mark.parametrize(
    ("text", "truth", "answer", "doubt"),
    [
        (
            r"\boxed{\text{a circle of diameter 3}}",
            "a circle of diameter 3",
            "a circle of diameter 3",
            "sentence",
        ),
        (r"\boxed{\text{a circle of diameter 3}}", "3", "3", "sentence"),
        (r"\boxed{\sqrt8} or \boxed{2\sqrt2}", r"2\sqrt{2}", r"2\sqrt2", None),
        (r"\boxed{2} or \boxed{3}", "2, 3", "2, 3", "list"),
    ],
)
def test_an_answer_with_two_readings_has_the_reading_of_the_reference(
    text: str, truth: str, answer: str, doubt: str | None
) -> None:
    member = Member(Completion("", 0, answer=text, finish_reason="stop"))
    (grade,) = grade_answers(Problem("p", "?", truth, "math"), [member]).grades
    assert (grade.value, grade.answer, grade.doubt) == (1.0, answer, doubt)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_restores_the_escapes_of_its_example(rule: Rule) -> None:
    assert rule.apply(rule.before) == rule.after == restored(rule.before)
    assert restored(rule.after) == rule.after


def test_all_that_a_text_states() -> None:
    text = (
        "\\boxed{42} and \\boxed{042}\nFinal: ...\nFinal: 41\nFinal: so \\boxed{7}\nFinal answer: "
        "41"
    )
    assert stated(text) == ["42", "7", "41"]
    assert stated("Final: 1/2\nthe answer is 42", "math") == ["1/2"] and stated("", "math") == []
    assert stated("\\boxed{" + "9" * 2000 + "}") == [None]


@given(
    st.integers(0, 999),
    st.integers(0, 999),
    st.sampled_from([r"\frac{%d}{%d}", "%d/%d", "%d, %d", "%d %d", "%d^{%d}"]),
)
def test_digits_are_never_taken_out_of_an_expression(a: int, b: int, form: str) -> None:
    found = extract(rf"\boxed{{{form % (a, b)}}}")
    if ("frac" in form or "/" in form) and b and a % b == 0:  # nothing is guessed: it divides
        assert found == Extraction(str(a // b), None)
    else:
        assert found.doubt == "not an integer"
        assert not any(is_correct(found.answer, str(n)) for n in (a, b))


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
    extract(text * times)
    assert time.process_time() - started < 5  # at most 0.2 s; a quadratic reader needs minutes


# --- votes ---


@pytest.mark.parametrize(
    ("answers", "truth", "kind", "tied", "score", "counts"),
    [
        (["42", None, "042", "7", None], "42", "integer", ("42",), 1.0, {"42": 2, "7": 1}),
        (
            ["100", "7", "42"],
            "7",
            "integer",
            ("7", "42", "100"),
            1 / 3,
            {"7": 1, "42": 1, "100": 1},
        ),
        ([], "42", "integer", (), 0.0, {}),
        ([None, None], "42", "integer", (), 0.0, {}),
        (
            [r"\frac{1}{2}", r"\frac{1}{2}", "42"],
            "42",
            "integer",
            (r"\frac{1}{2}",),
            0.0,
            {r"\frac{1}{2}": 2, "42": 1},
        ),
        (
            ["0.5", r"\frac12", r"\dfrac{2}{4}", "7"],
            "1/2",
            "math",
            ("1/2",),
            1.0,
            {"1/2": 3, "7": 1},
        ),
    ],
)
def test_a_vote(
    answers: list[str | None],
    truth: str,
    kind: str,
    tied: tuple[str, ...],
    score: float,
    counts: dict[str, int],
) -> None:
    found = groups(answers, kind)
    assert found.tied == tied and found.counts == counts
    assert found.score(truth, kind) == pytest.approx(score)


@given(
    st.lists(st.sampled_from([None, "1", "01", "2", "3", "x"])),
    st.sampled_from(["1", "2"]),
    st.randoms(),
)
def test_a_vote_does_not_depend_on_order(
    answers: list[str | None], truth: str, random: Any
) -> None:
    result = groups(answers)
    assert 0 <= result.score(truth) <= 1
    assert sum(result.counts.values()) == sum(answer is not None for answer in answers)
    random.shuffle(answers)
    again = groups(answers)
    assert (again.counts, again.spelled, again.score(truth)) == (
        result.counts,
        result.spelled,
        result.score(truth),
    )


def test_spellings_vote_together() -> None:
    assert len(SPELLINGS) >= 40
    for a, b in [*SPELLINGS, *(pair[::-1] for pair in SPELLINGS)]:
        found = groups([a] * 3 + [b] * 2 + ["77777"] * 4, "math")
        assert found.score(b, "math") == 1.0 and found.counts == {
            canonical(a, "math"): 5,
            "77777": 4,
        }
        assert found.tied == (canonical(a, "math"),) == found.names[4:5]


Equal = Callable[[str, str], bool | None]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[Equal], list[tuple[str, str]]]:
    """Put another judge in math-verify's place; the list of what it is asked comes back."""

    def put(equal: Equal) -> list[tuple[str, str]]:
        asked: list[tuple[str, str]] = []

        def spied(answer: str, truth: str) -> bool | None:
            asked.append((answer, truth))
            return equal(answer, truth)

        monkeypatch.setattr("core.eval.math_equal", spied)
        return asked

    return put


@given(random=st.randoms(use_true_random=False))
def test_verdicts_that_do_not_chain_go_to_the_commoner_spelling_whatever_the_order(
    random: Any,
) -> None:
    def equal(answer: str, truth: str) -> bool:
        return {answer, truth} in ({"a_1", "b_1"}, {"b_1", "c_1"})  # and a is not c

    answers = ["a_1"] * 3 + ["b_1"] * 2 + ["c_1"] * 3 + ["d_1"]
    random.shuffle(answers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("core.eval.math_equal", equal)
        assert groups(answers, "math").counts == {"a_1": 5, "c_1": 3, "d_1": 1}
        assert groups([*answers, "c_1"], "math").counts == {"c_1": 6, "a_1": 3, "d_1": 1}
        assert groups([*answers, "b_1", "b_1"], "math").counts == {"b_1": 10, "d_1": 1}


def test_a_vote_asks_the_judge_so_many_times_at_most_and_the_commonest_first(
    judged: Callable[[Equal], list[tuple[str, str]]],
) -> None:
    asked = judged(lambda answer, truth: {answer, truth} == {"x_{10}", "x_{11}"})
    rare = [f"x_{{{i}}}" for i in range(12, 302)]
    counts = groups([*rare, "x_{10}", "x_{11}", "x_{10}", "x_{11}"], "math").counts
    assert counts["x_{10}"] == 4 and len(counts) == 291
    assert len(asked) <= MAX_COMPARISONS and set(asked[0]) == {"x_{10}", "x_{11}"}


def test_integers_and_numbers_need_no_judge(
    judged: Callable[[Equal], list[tuple[str, str]]],
) -> None:
    asked = judged(lambda *_: True)
    assert groups(["42", "042", "7", r"\frac12", "x"]).counts == {
        "42": 2,
        "7": 1,
        "x": 1,
        r"\frac12": 1,
    }
    assert groups(["0.333333", "1/3", r"\frac{2}{6}", "-7", "7"], "math").counts == {
        "1/3": 2, "7": 1, "-7": 1, "333333/1000000": 1
    }  # fmt: skip
    assert not asked


def test_an_answer_that_hangs_costs_two_deadlines_and_the_others_are_compared(
    judged: Callable[[Equal], list[tuple[str, str]]],
) -> None:
    hanging, simple = {"h_1", "h_2"}, {"s_1", "s_2", "s_3"}
    late: list[tuple[str, str]] = []

    def equal(answer: str, truth: str) -> bool | None:
        if len({answer, truth} & hanging) == 1:
            late.append((answer, truth))
            return None
        return {answer, truth} <= simple

    judged(equal)
    answers = ["h_1"] * 5 + ["h_2"] * 5 + ["s_1"] * 3 + ["s_2"] * 2 + ["s_3"] * 2
    found = groups(answers, "math")
    assert found.counts == {"s_1": 7, "h_1": 5, "h_2": 5} and found.score("s_1", "math") == 1.0
    assert found.undecided == 2 and len(late) == 4 and {(h, NEUTRAL) for h in hanging} < set(late)


def test_boxes_that_say_the_same_in_canonical_form_are_not_several() -> None:
    assert extract(r"\boxed{0.5}, that is \boxed{\frac12}", "math").doubt is None
    found = extract(r"\boxed{3} \boxed{\sqrt{8}} \boxed{\sqrt8} \boxed{2\sqrt2}", "math")
    assert (found.doubt, found.others) == ("several", (r"\sqrt8", r"\sqrt{8}", "3"))
    many = extract("".join(rf"\boxed{{x+{i}}}" for i in range(50)), "math")
    assert (many.doubt, many.others) == ("several", ())


# --- pass@k ---


@pytest.mark.parametrize("n", range(1, 9))
def test_pass_at_k_is_the_share_of_draws_with_a_correct_one(n: int) -> None:
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        draws = list(itertools.combinations([i < c for i in range(n)], k))
        assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws), abs=1e-15)


def test_pass_at_k_is_exact_for_large_n() -> None:
    assert pass_at_k(1_000_000, 1, 1_000) == 0.001
    assert pass_at_k(10_000, 1, 9_999) == 0.9999
    assert pass_at_k(10_000, 5_000, 5_000) == pytest.approx(1.0)
    assert pass_at_k(100_000, 3, 7) == pytest.approx(
        1 - math.prod((99_997 - i) / (100_000 - i) for i in range(7))
    )
    for c in (0, 1, 150, 299, 300):
        values = [pass_at_k(300, c, k) for k in range(1, 301)]
        assert (
            values[0] == c / 300 and values == sorted(values) and values[-1] == (1.0 if c else 0.0)
        )


@pytest.mark.parametrize(("n", "c", "k"), [(4, 2, 5), (4, 5, 1), (4, -1, 1), (4, 2, 0), (0, 0, 1)])
def test_pass_at_k_refuses_what_cannot_be_drawn(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match=r"pass@k"):
        pass_at_k(n, c, k)


# --- the judge of math answers ---


def test_pairs() -> None:
    """Two math answers, either way round, as they are written and as a box that is read again."""
    for pair in PAIRS:
        one, other, expected = pair["one"], pair["other"], pair["equal"]
        assert judge(one, other, "math") is expected, pair
        assert judge(other, one, "math") is expected, pair
        if "boxed" not in pair:  # a box loses the name of a number, and degrees
            assert (
                is_correct(extract(rf"\boxed{{{one}}}", "math").answer, other, "math") is expected
            ), pair


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
    assert judge(one, other, "math") is (number == near)
    assert judge(other, one, "math") is (number == near)


@settings(max_examples=60)
@given(LATEX, LATEX)
def test_readable_answers_equal_themselves_and_equality_is_symmetric(one: str, other: str) -> None:
    one, other = (clean(text, "math") or "x" for text in (one, other))
    assert judge(one, other, "math") is judge(other, one, "math")
    assert judge(f"{one} ", one, "math") is not False or not is_reference(one, "math")


@pytest.mark.parametrize(
    ("thinking", "answer", "finish", "boxed", "whole"),
    [
        ("So \\boxed{42}. But let me check", "", "length", (0.0, "truncated"), (1.0, "truncated")),
        ("So \\boxed{42}.", "The answer is 42.", "stop", (1.0, "unboxed"), (1.0, None)),
        ("Is it \\boxed{41}?", "It is \\boxed{42}.", "stop", (1.0, None), (1.0, "several")),
        ("The answer is 42.", "", "stop", (0.0, "no answer"), (1.0, "unboxed")),
    ],
)
def test_the_whole_output_is_read_if_it_is_asked_for(
    thinking: str, answer: str, finish: str, boxed: tuple[float, str], whole: tuple[float, str]
) -> None:
    population = [Member(Completion("", 0, thinking, answer, finish_reason=finish))]
    for way, (value, doubt) in ((BOXED, boxed), (WHOLE, whole)):
        (grade,) = grade_answers(Problem("1", "6*7?", "42", way=way), population).grades
        assert (grade.value, grade.doubt) == (value, doubt)


def test_no_answer_is_wrong() -> None:
    assert judge(None, "42") is False
    assert is_correct("", "") is False


def test_a_comparison_that_hangs_is_ended_at_the_deadline_and_a_child_that_died_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(judge_module, "DEADLINE_S", 0.1)
    assert judge("9^{9^{9^{9^9}}}+1", "x", "math") is None
    child = judge_module._JUDGE._process
    assert not is_correct("9^{9^{9^{9^9}}}+1", "x", "math")  # known by now
    assert judge_module._JUDGE._process is child and "no verdict" in caplog.text
    monkeypatch.undo()
    assert is_correct("x+2", "2+x", "math")  # a new child
    child = judge_module._JUDGE._process
    assert child
    child.kill()
    child.wait()
    assert is_correct("x+4", "4+x", "math")


PROGRAM = """
import time
from core.grading import judge as math_verify
math_verify.WALL_S = {}
with math_verify._ending_after({}):
    {}
"""


def test_what_computes_ends_by_processor_time_and_what_waits_by_the_clock() -> None:
    for clock, seconds, block in ((600, 0.2, "while True: pass"), (0.2, 600, "time.sleep(600)")):
        command = [sys.executable, "-c", PROGRAM.format(clock, seconds, block)]
        done = subprocess.run(command, capture_output=True, timeout=300)
        assert done.returncode != 0 and b"Error" not in done.stderr, block
    kept = PROGRAM.format(60, 60, "time.sleep(0.01)") + "time.sleep(0.5)"
    assert subprocess.run([sys.executable, "-c", kept], timeout=300).returncode == 0


def test_an_interrupted_comparison_does_not_answer_the_next_one() -> None:
    def interrupt() -> None:
        while not judge_module._JUDGE._lock.locked():
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    assert not is_correct("x+5", "y", "math")
    with pytest.raises(KeyboardInterrupt):
        threading.Thread(target=interrupt).start()
        is_correct("9^{9^{9^{9^9}}}+2", "x", "math")
    assert not is_correct("x+7", "z", "math")
    assert is_correct("x+6", "6+x", "math")


def test_the_judge_works_from_threads_under_asyncio() -> None:
    async def all_at_once() -> list[bool]:
        return await asyncio.gather(
            *(
                asyncio.to_thread(is_correct, f"(x+{n})^2", f"x^2+{2 * n}x+{n * n + n % 2}", "math")
                for n in range(1, 9)
            )
        )

    assert asyncio.run(all_at_once()) == [n % 2 == 0 for n in range(1, 9)]


READ = (
    r"\frac{1}{2}", r"$\frac{\sqrt{3}}{2}$", r"45^\circ", r"12.5\%", r"5\text{ cm}", "1 or 2", (
        r"x=\pm 3"
    ),
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
    assert is_reference(answer, answer_type) is is_one
