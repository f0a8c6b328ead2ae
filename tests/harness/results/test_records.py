"""Records of members and steps, and how results count what they say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import convert

from core.base.errors import UserError
from core.grading.sympy_process import math_equal
from core.types import Completion, Grade, Graded, Member, Problem
from harness.report import run_table
from harness.results import model, read
from harness.results.records import record
from tests.fakes.model import graded_step
from tests.helpers.graded import document, graded, member, row, save

NAN = float("nan")
MATH = Problem("p", "?", r"2\sqrt{2}", "math")


def math(box: str, **changes: Any) -> Member:
    return member(f"so \\boxed{{{box}}}", **changes)


def warned(population: list[Member]) -> list[str]:
    """Return the warnings of a run of one population."""
    warnings: list[str] = document(graded([[population]]))["warnings"]
    return warnings


def test_members_that_say_the_same_are_one_group_whatever_their_spelling() -> None:
    boxes = ["3", r"\sqrt{8}", "3", r"2^{3/2}", "3", r"\sqrt{8}", r"\frac{4}{\sqrt2}"]
    record = graded_step(MATH, 0, [*map(math, boxes), member("no box")])
    assert [m["group"] for m in record["members"]] == [1, 0, 1, 0, 1, 0, 0, None]
    assert record["majority_answer"] == r"\sqrt{8}"
    assert record["majority_correct"] == 1.0
    assert [m["correct"] for m in record["members"]] == [False, True] * 3 + [True, False]


@pytest.mark.parametrize(
    ("value", "score"), [(1.2, 1.0), (-0.1, 0.0), (NAN, 0.0), (0.4, 1.2), ("0.5", 1.0), (1.0, "1")]
)
def test_a_grade_that_is_no_number_from_0_to_1_is_refused(value: Any, score: Any) -> None:
    grades = [Grade(1.0), Grade(value), Grade(None)]
    with pytest.raises(UserError, match="from 0 to 1"):
        record(0, [member("")] * 3, Graded(grades, score))


def test_grades_of_numpy_are_stored_as_numbers() -> None:
    values = [np.float32(0.25), np.float64(0.5), np.int64(1), np.bool_(True)]
    grades = [Grade(value) for value in values]  # type: ignore[arg-type]
    stored = record(0, [member("")] * 4, Graded(grades, np.float32(0.5)))  # type: ignore[arg-type]
    assert stored == json.loads(json.dumps(stored))
    assert [m["correct"] for m in stored["members"]] == [False, False, True, True]


def test_a_score_is_no_right_answer_and_counts_in_the_mean() -> None:
    grades = [Grade(1.0), Grade(0.4), Grade(0.0), Grade(None)]
    stored = record(0, [member("")] * 4, Graded(grades, 0.7))
    assert [m["correct"] for m in stored["members"]] == [True, False, False, None]
    assert [m.get("grade", "none") for m in stored["members"]] == ["none", 0.4, "none", None]
    assert stored["mean_accuracy"] == pytest.approx(1.4 / 3)
    assert [model.is_partly_right(m) for m in stored["members"]] == [False, True, False, False]
    proof = {"grade": 0.5, "points_share": 0.5 / 7}
    assert not model.is_partly_right(proof), "half a point of 7"


def test_what_was_undecided_is_counted_and_shown_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if an answer made sympy hang."""
    hanging = "9^{9^{9^{9^9}}}"

    def compare(*pair: str) -> bool | None:
        return None if hanging in pair else math_equal(*pair)

    monkeypatch.setattr("core.grading.kinds.math.math_equal", compare)
    truncated = math(hanging, finish_reason="length")
    record = graded_step(MATH, 0, [math(hanging), truncated, math(r"\sqrt{8}"), math("3")])
    verdicts = [(m["correct"], m["doubt"], "undecided" in m) for m in record["members"]]
    assert verdicts == [
        (False, "undecided", True),
        (False, "truncated", True),
        (True, None, False),
        (False, None, False),
    ]
    assert record["undecided_pairs"] == 1
    run = document([row("p", [record], answer=MATH.answer, answer_type="math")])
    step = run["metrics"]["steps"][0]
    assert (step["undecided"], step["undecided_pairs"], step["doubtful"]) == (2, 1, 2)
    assert sum("undecided" in words for words in run["warnings"]) == 1
    head, problems = read.read(save(run, tmp_path))
    assert head.metrics.steps[0].undecided == 2
    members = next(problems).steps[0].members
    assert [m.doubts for m in members] == [["undecided"], ["truncated", "undecided"], [], []]


def test_a_run_without_a_right_vote_is_warned_of() -> None:
    warnings = warned([member("\\boxed{7}"), member("no box")])
    (warning,) = [words for words in warnings if "no reply of the run" in words]
    assert "1 of 2" in warning
    few = [member("\\boxed{42}"), member("\\boxed{7}"), member("\\boxed{7}")]
    assert not any("no reply of the run" in words for words in [*warned(few[:1]), *warned(few)])


def test_references_that_are_no_answer_are_warned_of() -> None:
    word = Problem("p", "?", "Yes", "math")
    assert graded_step(word, 0, [math("7")])["members"][0]["doubt"] is None
    worked = Problem("p", "?", "5 and 2 are seven", "math")
    record = graded_step(worked, 0, [math("7")])
    run = document([row("p", [record], answer=worked.answer, answer_type="math")])
    assert record["members"][0]["doubt"] == "reference not read"
    assert run["metrics"]["no_reference"] == [1]
    assert any("1 reference answers" in words for words in run["warnings"])


def test_truncated_forced_and_failed_completions_are_counted_and_never_hidden() -> None:
    cut = member("", finish_reason="length")
    forced = member("", finish_reason="length", forced="Time is up. \\boxed{42}")
    failed = Member(Completion("0" * 32, 1, error="status 500: oops"))
    good = member("\\boxed{42}")
    good.side_calls = [failed.completion, Completion("1" * 32, 1, finish_reason="length")]
    run = document(graded([[[cut, forced, failed, good]]]))
    step = run["metrics"]["steps"][0]
    assert (step["truncated"], step["forced"], step["failed"], step["completions"]) == (2, 1, 1, 4)
    assert step["generation_seconds"] == 1.5
    assert [step[name] for name in ("unread", "doubtful", "problems")] == [1, 1, 1]
    assert step["mean_accuracy"]["value"] == 0.5
    passed = {k: rate["value"] for k, rate in step["pass_at_k"].items()}
    assert passed == {"1": 0.5, "2": pytest.approx(5 / 6), "3": 1, "4": 1}
    records = run["problems"][0]["steps"][0]["members"]
    assert [r["doubt"] for r in records] == ["truncated", "truncated", "failed", None]
    assert records[1]["correct"]
    assert records[1]["unforced"] == {"answer": None, "correct": False, "doubt": "truncated"}
    words = "\n".join(run["warnings"])
    assert "50.0% of 4 completions" in words
    assert "25.0% of 4 completions failed" in words
    assert run["metrics"]["side_calls"] == {"completions": 2, "truncated": 1, "failed": 1}
    assert records[3]["side_calls"][0]["error"] == "status 500: oops"
    assert words.count("\n1 of 2 side calls") == 2
    assert words.count("status 500: oops") == 2


def test_elicited_answers_are_counted_apart_from_forced_ones() -> None:
    text = "It is 41 or so."
    elicited = member(text, forced=f"{text}\n\nTherefore, the answer is \\boxed{{42}}")
    run = document(graded([[[elicited, member("\\boxed{42}")]]]))
    step = run["metrics"]["steps"][0]
    record = run["problems"][0]["steps"][0]["members"][0]
    assert (step["elicited"], step["forced"], step["truncated"], step["unread"]) == (1, 0, 0, 0)
    assert (record["answer"], record["correct"], record["doubt"]) == ("42", True, None)
    assert record["unforced"] == {"answer": None, "correct": False, "doubt": "no answer"}
    assert "elicited" in run_table.text(run)
    plain = document(graded([[[member("\\boxed{42}")]]]))
    assert "elicited" not in run_table.text(plain)
    assert "elicited" not in plain["metrics"]["steps"][0]


def test_answers_that_could_not_be_forced_are_counted_with_the_reason() -> None:
    refused: dict[str, Any] = {
        "finish_reason": "length",
        "not_forced": "refused it does not appear",
    }
    first = member("", **refused)
    stalled = member("", finish_reason="length", not_forced="stalled")
    last = member("a")
    last.side_calls = [Completion("1" * 32, 1, **refused)]
    carried = member("", **refused)
    carried.carried_over = True
    run = document(graded([[[first, stalled, last], [last, carried]]]))
    assert run["metrics"]["not_forced"] == {"refused it does not appear": 3, "stalled": 1}
    (warning,) = [words for words in run["warnings"] if words.startswith("4 ")]
    assert warning.endswith("refused it does not appear")
    record = run["problems"][0]["steps"][0]["members"][0]
    assert record["not_forced"] == "refused it does not appear"


def test_a_carried_over_member_costs_nothing_and_notes_are_counted() -> None:
    first = [member("\\boxed{42}"), member("\\boxed{1}")]
    notes = ["invalid selection", "invalid selection"]
    chosen = Member(first[0].completion, [0], carried_over=True, notes=notes)
    chosen.side_calls = [
        Completion("1" * 32, 2, answer="?", completion_tokens=7, finish_reason="stop")
    ]
    run = document(graded([[first, [chosen]]]))
    steps = run["metrics"]["steps"]
    assert [step["completion_tokens"] for step in steps] == [20, 0]
    assert [step["verification_tokens"] for step in steps] == [0, 7]
    assert run["metrics"]["tokens"]["completion"] == 27
    assert run["metrics"]["notes"] == {"invalid selection": 2}
    assert run["problems"][0]["steps"][1]["members"][0]["carried_over"]
    assert any("2 invalid selection" in warning for warning in run["warnings"])


def rewarded(answer: int, score: Any) -> Member:
    """Return a member with a reward model's score, which has no verdicts."""
    scored = math(str(answer))
    scored.self_score = score
    return scored


def test_a_score_without_verdicts_is_recorded_and_has_an_auc() -> None:
    """A reward model sets `self_score` alone, to any number, possibly of numpy."""
    scores = [(42, np.float32(3.5)), (42, 0.25), (1, -2.0), (1, float("nan"))]
    population = [rewarded(answer, score) for answer, score in scores]
    run = document(graded([[population, [math("42")]]]))
    first, last = run["problems"][0]["steps"]
    assert [m["self_score"] for m in first["members"]] == [3.5, 0.25, -2.0, None]
    assert not any("verdicts" in m or "side_calls" in m for m in first["members"])
    assert "self_score" not in last["members"][0]
    counts = run["metrics"]["verification"]
    assert (counts["auc"], counts["right"], counts["wrong"], counts["verdicts"]) == (1.0, 2, 1, 0)
    step = convert(first, model.StepResult)
    assert [m.self_score for m in step.members] == [3.5, 0.25, -2.0, None]
