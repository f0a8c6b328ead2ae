"""Grading a proof: mean and spread, repeated requests, missing points, and proofs that are not sent."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from core.types import Completion, Message, Problem
from labs.proofs.proofs import ATTEMPTS, Points, grade

PROOF = Problem("p1", "Show that n is even.", None, "proof", grading_scheme="7 for all")
MADE = Completion("k", 0, "I think: Points: 7", "n is 2k. Points: 7", finish_reason="stop", completion_tokens=9)
ANSWER = Problem("p2", "How much is 6*7?", "42", "math")


def graded(
    reply: Callable[[int, int], str | Completion], count: int = 1, problem: Problem = PROOF, made: Completion = MADE
) -> tuple[Points, list[tuple[Any, ...]]]:
    """Grade by `reply(number, attempt)`; return the points and the names of the requests."""
    names: list[tuple[Any, ...]] = []

    async def ask(messages: Sequence[Message], *asked: str | int, **changes: Any) -> Completion:
        assert not changes
        names.append(asked)
        text = reply(int(asked[-2]), int(asked[-1]))
        return text if isinstance(text, Completion) else Completion("", 0, "", text, finish_reason="stop")

    return asyncio.run(grade(problem, made, ask, count)), names


def test_points_come_with_reasons_and_the_scheme_and_several_have_a_mean_and_a_spread() -> None:
    found, names = graded(lambda number, attempt: "It holds.\nPoints: 6")
    assert (found.grade, found.worth, found.spread, found.why, found.scheme) == (6, 6 / 7, None, None, "7 for all")
    assert found.gradings[0].reason == "It holds.\nPoints: 6" and len(names) == 1 == len(found.calls)
    found, names = graded(lambda number, attempt: f"Points: {(2, 4, 6)[number]}", count=3)
    assert (found.grade, found.spread, len(names)) == (4, 2, 3)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("Points: 9", "unreadable"),
        ("", "unreadable"),
        (Completion("", 0, "", "Points: 7", finish_reason="length"), "cut off"),
        (Completion("", 0, error="status 500"), "failed"),
        (Completion("", 0, "", "Points: 7", finish_reason="content_filter"), "filtered"),
    ],
)
def test_what_is_missing_is_asked_once_more_and_never_0(bad: str | Completion, why: str) -> None:
    found, names = graded(lambda number, attempt: bad)
    assert len(names) == ATTEMPTS == 2 and len(set(names)) == 2
    assert (found.grade, found.worth, found.why) == (None, None, f"grading {why}") and len(found.calls) == 2
    found, names = graded(lambda number, attempt: "Points: 0" if attempt else bad)
    assert (found.grade, found.why, len(names), len(found.calls)) == (0, None, 2, 2)
    found, _ = graded(lambda number, attempt: bad if number else "Points: 5", count=2)
    assert (found.grade, found.spread, [each.why for each in found.gradings]) == (5, None, [None, why])


@pytest.mark.parametrize(
    ("made", "ungraded", "worth"),
    [
        (replace(MADE, finish_reason="length"), "cut off", 0),
        (replace(MADE, answer=" \n"), "empty", 0),
        (replace(MADE, error="status 500"), "failed", None),
        (replace(MADE, finish_reason="content_filter"), "filtered", None),
    ],
)
def test_what_is_no_proof_is_sent_to_nobody(made: Completion, ungraded: str, worth: int | None) -> None:
    found, names = graded(lambda number, attempt: "Points: 7", made=made)
    assert names == [] and (found.why, found.grade, found.worth) == (ungraded, None, worth)


@pytest.mark.parametrize(
    ("text", "stated", "points", "by"),
    [
        ("So \\boxed{42}.", 7, 7, "math-verify"),
        ("So \\boxed{41}.", 7, 0, "math-verify"),
        ("\\boxed{41} or \\boxed{42}", 7, 7, "grader"),
        ("It is forty-two.", 0, 0, "grader"),
        ("It is forty-two.", 5, None, "grader"),
    ],
)
def test_of_answers_a_grader_decides_what_math_verify_leaves_in_doubt(
    text: str, stated: int, points: int | None, by: str
) -> None:
    """To a grader too, an answer is right or wrong, so that 5 points are unreadable."""
    made = replace(MADE, answer=text)
    found, names = graded(lambda number, attempt: f"Points: {stated}", problem=ANSWER, made=made)
    assert (found.grade, found.by) == (points, by)
    assert len(names) == (0 if by == "math-verify" else 1 if points is not None else ATTEMPTS)
