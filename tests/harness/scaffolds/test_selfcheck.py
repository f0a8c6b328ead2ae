"""Self-check (arXiv 2507.15855), call by call."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from core.types import Population
from harness.scaffolds.selfcheck import SELFCHECK, selfcheck
from tests.fakes.model import Model, constants_with, run, traced

SIZES: dict[str, Any] = {"ROUNDS": 30, "PASSES": 5, "FAILURES": 10, "VERIFY_TOKENS": 60}
P, F, U = "yes", "No.", "Hard to tell."
FLAWS = "1. The sum is wrong."
FULL = f"{FLAWS}\n\nDetails:\nStep 1 holds.\nVerdict: False"


def reviewer(
    verdicts: Sequence[str], rest: str = F, report: str = FULL
) -> Callable[[tuple[str | int, ...], str], str]:
    """Return a model whose reviews are `report`, classified as `verdicts`, then as `rest`.
    Solutions have names."""
    classes = dict(enumerate(verdicts))

    def reply(names: tuple[str | int, ...], prompt: str) -> str:
        if names[0] == "verify":
            return report
        if names[0] == "classify":
            return classes.get(int(names[1]), rest)
        return f"solution {names[0]}-{names[1]} \\boxed{{42}}"

    return reply


def reviewed_by(
    verdicts: Sequence[str], rest: str = F, **constants: Any
) -> tuple[Model, list[Population]]:
    model = Model(reviewer(verdicts, rest))
    return model, run(selfcheck, model, **(SIZES | constants))


@pytest.mark.parametrize(
    ("verdicts", "rest", "reviews", "corrections", "is_accepted"),
    [
        ([], P, 5, 0, True),  # accepted at once
        ([], F, 10, 10, False),  # never passed
        ([F, P, P, P, P, P], F, 6, 1, True),
        ([P, P, P, P, F], P, 10, 1, True),  # four passes are forgotten after a failure
        ([F] * 9 + [P], F, 20, 19, False),  # and nine failures after a pass
        ([P, F] * 15, F, 30, 15, False),  # the rounds run out
        ([], U, 10, 10, False),  # what is not clear is a failure,
        ([P, P, P, P, U], P, 10, 1, True),  # which ends a row of passes
    ],
)
def test_rows_of_passes_or_failures_or_the_rounds_end_it(
    verdicts: list[str], rest: str, reviews: int, corrections: int, is_accepted: bool
) -> None:
    model, populations = reviewed_by(verdicts, rest)
    assert (len(model.prompts("verify")), len(model.prompts("correct"))) == (reviews, corrections)
    assert (
        len(model.asked)
        == 2 + 2 * reviews + corrections
        <= SELFCHECK.max_completions(constants_with(SIZES))
        == 92
    )
    assert len(model.prompts("classify")) == reviews
    assert [len(population) for population in populations] == [1] * (2 + reviews)
    notes = [note for population in populations for note in population[0].notes]
    assert ("never accepted" not in notes) is is_accepted
    assert notes.count("never accepted") == (not is_accepted)
    assert notes.count("unreadable verdict") == [*verdicts, *[rest] * 30][:reviews].count(U)


def test_by_its_own_verdict_a_review_takes_one_request() -> None:
    """With CLASSIFY = 0: 7 completions if accepted at once, 22 if never. An unclear verdict
    fails."""
    for verdict, least in (("Verdict: True", 7), ("Verdict: False", 22), ("I cannot tell.", 22)):
        populations, model = traced(selfcheck, reviewer([], report=verdict), **SIZES, CLASSIFY=0)
        assert len(model.asked) == least and not model.prompts("classify")
        notes = [note for p in populations for note in p[0].notes]
        assert notes.count("unreadable verdict") == (10 if "tell" in verdict else 0)
    assert SELFCHECK.max_completions(constants_with(SIZES | {"CLASSIFY": 0})) == 62
