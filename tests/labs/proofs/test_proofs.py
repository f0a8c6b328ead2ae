"""Grading a proof: mean and spread, repeated requests, missing points, proofs that are not sent,
counts and cost."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from core.base.prices import Prices
from core.types import Completion, Message, Problem
from labs.proofs.grade.asking import Item
from labs.proofs.grade.cli import figures_of
from labs.proofs.proofs import ATTEMPTS, Grading, Points, grade

PROOF = Problem("p1", "Show that n is even.", None, "proof", grading_scheme="7 for all")
MADE = Completion(
    "k", 0, "I think: Points: 7", "n is 2k. Points: 7", finish_reason="stop", completion_tokens=9
)
ANSWER = Problem("p2", "How much is 6*7?", "42", "math")


def graded(
    reply: Callable[[int, int], str | Completion],
    count: int = 1,
    problem: Problem = PROOF,
    made: Completion = MADE,
) -> tuple[Points, list[tuple[Any, ...]]]:
    """Grade by `reply(number, attempt)`; return the points and the names of the requests."""
    names: list[tuple[Any, ...]] = []

    async def ask(messages: Sequence[Message], *asked: str | int, **changes: Any) -> Completion:
        assert not changes
        names.append(asked)
        text = reply(int(asked[-2]), int(asked[-1]))
        return (
            text
            if isinstance(text, Completion)
            else Completion("", 0, "", text, finish_reason="stop")
        )

    return asyncio.run(grade(problem, made, ask, count)), names


def test_points_come_with_reasons_and_the_scheme_and_several_have_a_mean_and_a_spread() -> None:
    found, names = graded(lambda number, attempt: "It holds.\nPoints: 6")
    assert (found.grade, found.points_share, found.spread, found.why, found.scheme) == (
        6,
        6 / 7,
        None,
        None,
        "7 for all",
    )
    assert found.gradings[0].reason == "It holds.\nPoints: 6" and len(names) == 1 == len(
        found.calls
    )
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
    assert (found.grade, found.points_share, found.why) == (None, None, f"grading {why}") and len(
        found.calls
    ) == 2
    found, names = graded(lambda number, attempt: "Points: 0" if attempt else bad)
    assert (found.grade, found.why, len(names), len(found.calls)) == (0, None, 2, 2)
    found, _ = graded(lambda number, attempt: bad if number else "Points: 5", count=2)
    assert (found.grade, found.spread, [each.why for each in found.gradings]) == (
        5,
        None,
        [None, why],
    )


@pytest.mark.parametrize(
    ("made", "ungraded", "points_share"),
    [
        (replace(MADE, finish_reason="length"), "cut off", 0),
        (replace(MADE, answer=" \n"), "empty", 0),
        (replace(MADE, error="status 500"), "failed", None),
        (replace(MADE, finish_reason="content_filter"), "filtered", None),
    ],
)
def test_what_is_no_proof_is_sent_to_nobody(
    made: Completion, ungraded: str, points_share: int | None
) -> None:
    found, names = graded(lambda number, attempt: "Points: 7", made=made)
    assert names == [] and (found.why, found.grade, found.points_share) == (
        ungraded,
        None,
        points_share,
    )


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


PRICES = Prices(read=1.0, cached=1.0, written=10.0)


def call(read: int = 100, written: int = 10) -> Completion:
    return Completion(
        "", 0, "", "x", prompt_tokens=read, completion_tokens=written, finish_reason="stop"
    )


def with_points(*points: int | None, calls: int = 1) -> Points:
    return Points(
        tuple(
            Grading(p, None if p is not None else "unreadable", "", (call(),) * calls)
            for p in points
        )
    )


def of_problems(*names: str) -> list[Item]:
    return [Item(Problem(name, "x", None, "proof"), Completion("", 0)) for name in names]


def test_what_is_graded_missing_and_not_delivered_is_counted_with_what_it_took() -> None:
    of = figures_of(
        of_problems("a", "a", "b", "b", "c"),
        [
            with_points(7),
            with_points(6),
            Points(ungraded="cut off"),
            with_points(4, 6),
            with_points(None, calls=2),
        ],
        PRICES,
    )
    assert (of["proofs"], of["problems"], of["graded"]) == (5, 3, 3)
    assert of["not_delivered"] == {"cut off": 1} and of["missing"] == {"grading unreadable": 1}
    assert (
        of["gradings"] == 5
        and of["missing_gradings"] == {"unreadable": 1}
        and of["asked_again"] == 1
    )
    assert of["spread"] == pytest.approx(2**0.5)
    assert (of["input_tokens"], of["output_tokens"], of["cost"]) == (
        600,
        60,
        pytest.approx(6 * 200e-6),
    )


def test_the_same_proof_is_paid_for_once_and_tokens_that_nobody_counted_are_unknown() -> None:
    same = with_points(5)
    assert figures_of(of_problems("a", "a"), [same, same], PRICES)["input_tokens"] == 100
    lacking = Points((Grading(5, None, "", (call(0, 0),)),))
    of = figures_of(of_problems("a"), [lacking], PRICES)
    assert of["input_tokens"] is None and of["cost"] is None
    failed = Points((Grading(None, "failed", "", (Completion("", 0, error="gone"),)),))
    assert figures_of(of_problems("a"), [failed], None)["input_tokens"] == 0
