"""Counts and cost of a grading, against values computed by hand."""

import pytest

from core.base.prices import Prices
from core.types import Completion, Problem
from labs.proofs.grade.asking import Item
from labs.proofs.grade.cli import figures_of
from labs.proofs.proofs import Grading, Points

PRICES = Prices(read=1.0, cached=1.0, written=10.0)


def call(read: int = 100, written: int = 10) -> Completion:
    return Completion("", 0, "", "x", prompt_tokens=read, completion_tokens=written, finish_reason="stop")


def worth(*points: int | None, calls: int = 1) -> Points:
    return Points(tuple(Grading(p, None if p is not None else "unreadable", "", (call(),) * calls) for p in points))


def of_problems(*names: str) -> list[Item]:
    return [Item(Problem(name, "x", None, "proof"), Completion("", 0)) for name in names]


def test_what_is_graded_missing_and_not_delivered_is_counted_with_what_it_took() -> None:
    of = figures_of(
        of_problems("a", "a", "b", "b", "c"),
        [worth(7), worth(6), Points(ungraded="cut off"), worth(4, 6), worth(None, calls=2)],
        PRICES,
    )
    assert (of["proofs"], of["problems"], of["graded"]) == (5, 3, 3)
    assert of["not_delivered"] == {"cut off": 1} and of["missing"] == {"grading unreadable": 1}
    assert of["gradings"] == 5 and of["missing_gradings"] == {"unreadable": 1} and of["asked_again"] == 1
    assert of["spread"] == pytest.approx(2**0.5)
    assert (of["input_tokens"], of["output_tokens"], of["cost"]) == (600, 60, pytest.approx(6 * 200e-6))


def test_the_same_proof_is_paid_for_once_and_tokens_that_nobody_counted_are_unknown() -> None:
    same = worth(5)
    assert figures_of(of_problems("a", "a"), [same, same], PRICES)["input_tokens"] == 100
    lacking = Points((Grading(5, None, "", (call(0, 0),)),))
    of = figures_of(of_problems("a"), [lacking], PRICES)
    assert of["input_tokens"] is None and of["cost"] is None
    failed = Points((Grading(None, "failed", "", (Completion("", 0, error="gone"),)),))
    assert figures_of(of_problems("a"), [failed], None)["input_tokens"] == 0
