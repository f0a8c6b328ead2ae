"""Reading, comparing, voting and pass@k, and the default grader."""

import doctest
import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import core.eval
from core.base.errors import UserError
from core.constants import BOXED, WHOLE
from core.eval import (
    MAX_COMPARISONS,
    NEUTRAL,
    extract_answer,
    grade_answers,
    groups,
    is_correct,
    is_equal,
    majority_vote,
    pass_at_k,
)
from core.grading.canonical import canonical
from core.grading.kinds import kind_of, named
from core.grading.kinds.integer import Integer
from core.grading.kinds.math import Math
from core.types import Completion, Member, Problem

# Pairs of spellings of one answer.
SPELLINGS = json.loads(
    (Path(__file__).parents[1] / "cases" / "spellings.json").read_text(encoding="utf-8")
)


def test_an_unknown_answer_type_is_refused() -> None:
    for function in (is_correct, is_equal):
        for answer in ("1", "", None):
            with pytest.raises(UserError, match="'maths' is not one of"):
                function(answer, "1", "maths")


def test_examples_of_docstrings() -> None:
    examples = doctest.testmod(core.eval)
    assert examples.attempted >= 10
    assert examples.failed == 0


# --- read and compare ---


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So \boxed{41}. No, \boxed{42}.", "42"),
        (r"The area is \boxed{\dfrac{1}{2}}.", r"\frac{1}{2}"),
        (r"<think>\boxed{41}</think>Hence \boxed{1{,}024}.", "1024"),
        ("6 * 7 = 42\nFinal: 42", "42"),
        ("The answer is 42.", "42"),
        ("6 * 7 = 42", None),
        (r"\boxed{3 or 4}", "3 or 4"),
        (r"\boxed{}", None),
        ("", None),
    ],
)
def test_the_answer_of_an_output(text: str, answer: str | None) -> None:
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        ("42", "42", True),
        ("0.5", r"\frac{1}{2}", True),
        (r"x = \sqrt{8}", r"2\sqrt{2}", True),
        (r"So the answer is \boxed{\sqrt{8}}.", r"2\sqrt{2}", True),
        (r"6 * 7 = 42, so \boxed{41}", "42", False),
        ("12 cm", "12 m", False),
        ("I give up.", "42", False),
        ("42 or 43", "42", False),
        ("", "", False),
        (None, "42", False),
    ],
)
def test_an_answer_or_an_output_is_compared(
    answer: str | None, reference: str, right: bool
) -> None:
    assert is_correct(answer, reference) is right


def test_integers_are_compared_as_in_aime() -> None:
    assert is_correct("042", "42", "integer") and is_correct("42 cm", "42", "integer")
    assert not is_correct("1042", "1042", "integer")


def test_no_answer_is_wrong() -> None:
    assert is_equal(None, "42") is False


# --- vote ---


@pytest.mark.parametrize(
    ("answers", "winner"),
    [
        (["41", "42", "42"], "42"),
        ([r"\frac{84}{2}", "42", "41"], "42"),
        (["100", "7", "42"], "7"),
        (["9", "7"], "7"),
        (["7", None, None], "7"),
        ([None], None),
        ([], None),
    ],
)
def test_the_most_frequent_answer_wins_and_ties_have_an_order(
    answers: list[str | None], winner: str | None
) -> None:
    assert majority_vote(answers) == majority_vote(answers[::-1]) == winner


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
    found = groups(answers, named(kind)())
    assert found.tied == tied and found.counts == counts
    problem = Problem("p", "?", truth, kind)
    assert found.score(kind_of(problem)) == pytest.approx(score)


@given(
    st.lists(st.sampled_from([None, "1", "01", "2", "3", "x"])),
    st.sampled_from(["1", "2"]),
    st.randoms(),
)
def test_a_vote_does_not_depend_on_order(
    answers: list[str | None], truth: str, random: Any
) -> None:
    kind = kind_of(Problem("p", "?", truth, "integer"))
    result = groups(answers, kind)
    assert 0 <= result.score(kind) <= 1
    assert sum(result.counts.values()) == sum(answer is not None for answer in answers)
    random.shuffle(answers)
    again = groups(answers, kind)
    assert (again.counts, again.spelled, again.score(kind)) == (
        result.counts,
        result.spelled,
        result.score(kind),
    )


def test_spellings_vote_together() -> None:
    assert len(SPELLINGS) >= 40
    for a, b in [*SPELLINGS, *(pair[::-1] for pair in SPELLINGS)]:
        found = groups([a] * 3 + [b] * 2 + ["77777"] * 4, Math())
        assert found.score(Math(Problem("p", "?", b))) == 1.0 and found.counts == {
            canonical(a): 5,
            "77777": 4,
        }
        assert found.tied == (canonical(a),) == found.names[4:5]


Equal = Callable[[str, str], bool | None]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[Equal], list[tuple[str, str]]]:
    """Put another judge in math-verify's place; the list of what it is asked comes back."""

    def put(equal: Equal) -> list[tuple[str, str]]:
        asked: list[tuple[str, str]] = []

        def spied(answer: str, truth: str) -> bool | None:
            asked.append((answer, truth))
            return equal(answer, truth)

        monkeypatch.setattr("core.grading.kinds.math.math_equal", spied)
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
        patch.setattr("core.grading.kinds.math.math_equal", equal)
        assert groups(answers, Math()).counts == {"a_1": 5, "c_1": 3, "d_1": 1}
        assert groups([*answers, "c_1"], Math()).counts == {"c_1": 6, "a_1": 3, "d_1": 1}
        assert groups([*answers, "b_1", "b_1"], Math()).counts == {"b_1": 10, "d_1": 1}


def test_a_vote_asks_the_judge_so_many_times_at_most_and_the_commonest_first(
    judged: Callable[[Equal], list[tuple[str, str]]],
) -> None:
    asked = judged(lambda answer, truth: {answer, truth} == {"x_{10}", "x_{11}"})
    rare = [f"x_{{{i}}}" for i in range(12, 302)]
    counts = groups([*rare, "x_{10}", "x_{11}", "x_{10}", "x_{11}"], Math()).counts
    assert counts["x_{10}"] == 4 and len(counts) == 291
    assert len(asked) <= MAX_COMPARISONS and set(asked[0]) == {"x_{10}", "x_{11}"}


def test_integers_and_numbers_need_no_judge(
    judged: Callable[[Equal], list[tuple[str, str]]],
) -> None:
    asked = judged(lambda *_: True)
    assert groups(["42", "042", "7", r"\frac12", "x"], Integer()).counts == {
        "42": 2,
        "7": 1,
        "x": 1,
        r"\frac12": 1,
    }
    assert groups(["0.333333", "1/3", r"\frac{2}{6}", "-7", "7"], Math()).counts == {
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
    found = groups(answers, Math())
    assert (
        found.counts == {"s_1": 7, "h_1": 5, "h_2": 5}
        and found.score(Math(Problem("p", "?", "s_1"))) == 1.0
    )
    assert found.undecided == 2 and len(late) == 4 and {(h, NEUTRAL) for h in hanging} < set(late)


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


# --- grade a population ---


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
        (grade,) = grade_answers(Problem("1", "6*7?", "42", answer_form=way), population).grades
        assert (grade.value, grade.doubt) == (value, doubt)
