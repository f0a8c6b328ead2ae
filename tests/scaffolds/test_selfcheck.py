"""Self-check (arXiv 2507.15855), call by call."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from core.scaffolds import prompts
from core.scaffolds.selfcheck import SELFCHECK, selfcheck
from core.types import Completion, Population
from tests.fakes.model import FAILED, PROBLEM, Model, but, constants_with, run, traced

SIZES: dict[str, Any] = {"ROUNDS": 30, "PASSES": 5, "FAILURES": 10, "VERIFY_TOKENS": 60}
FIRST = prompts.solve(PROBLEM)[0]["content"]
P, F, U = "yes", "No.", "Hard to tell."
FLAWS = "1. The sum is wrong."
FULL = f"{FLAWS}\n\nDetails:\nStep 1 holds.\nVerdict: False"


def reviewer(verdicts: Sequence[str], rest: str = F, said: str = FULL) -> Callable[[tuple[str | int, ...], str], str]:
    """A model whose reviews, all of them `said`, are classified as `verdicts` say, and then as `rest`; its solutions
    are told apart by name."""
    classes = dict(enumerate(verdicts))

    def reply(names: tuple[str | int, ...], prompt: str) -> str:
        if names[0] == "verify":
            return said
        if names[0] == "classify":
            return classes.get(int(names[1]), rest)
        return f"solution {names[0]}-{names[1]} \\boxed{{42}}"

    return reply


def reviewed_by(verdicts: Sequence[str], rest: str = F, **constants: Any) -> tuple[Model, list[Population]]:
    model = Model(reviewer(verdicts, rest))
    return model, run(selfcheck, model, **(SIZES | constants))


def asked(model: Model) -> list[tuple[str | int, ...]]:
    return [names for names, *_ in model.asked]


def test_accepted_at_once_it_takes_12_completions_and_never_accepted_32() -> None:
    """The source's counts: two solutions, then a review and a classification a round, and a correction after each
    failure, that of the last round too."""
    model, populations = reviewed_by([], P)
    assert asked(model) == [(0, 0), (1, 0)] + [(role, i) for i in range(5) for role in ("verify", "classify")]
    assert populations[-1][0].completion.text.startswith("solution 1-0")
    model, populations = reviewed_by([], F)
    rounds = [(role, i) for i in range(10) for role in ("verify", "classify", "correct")]
    assert asked(model) == [(0, 0), (1, 0), *rounds]
    assert populations[-1][0].completion.text.startswith("solution correct-9")


@pytest.mark.parametrize(
    ("verdicts", "rest", "reviews", "corrections", "is_accepted"),
    [
        ([], P, 5, 0, True),  # accepted at once
        ([], F, 10, 10, False),  # never passed
        ([F, P, P, P, P, P], F, 6, 1, True),
        ([P, P, P, P, F], P, 10, 1, True),  # four passes are forgotten after a failure
        ([F] * 9 + [P], F, 20, 19, False),  # and nine failures after a pass
        (([F] * 9 + [P]) * 3, F, 30, 27, False),  # the rounds run out
        ([P, F] * 15, F, 30, 15, False),
        ([], U, 10, 10, False),  # what is not clear is a failure,
        ([P, P, P, P, U], P, 10, 1, True),  # which ends a row of passes
        ([F] * 9 + [U], P, 10, 10, False),
    ],
)
def test_the_loop_ends_after_rows_of_passes_or_failures_or_with_the_rounds(
    verdicts: list[str], rest: str, reviews: int, corrections: int, is_accepted: bool
) -> None:
    model, populations = reviewed_by(verdicts, rest)
    assert (len(model.prompts("verify")), len(model.prompts("correct"))) == (reviews, corrections)
    assert len(model.asked) == 2 + 2 * reviews + corrections <= SELFCHECK.max_completions(constants_with(SIZES)) == 92
    assert len(model.prompts("classify")) == reviews
    assert [len(population) for population in populations] == [1] * (2 + reviews)
    notes = [note for population in populations for note in population[0].notes]
    assert ("never accepted" not in notes) is is_accepted
    assert notes.count("never accepted") == (not is_accepted) and notes.count("unreadable verdict") == (
        [*verdicts, *[rest] * 30][:reviews].count(U)
    )


def test_each_request_shows_what_its_role_needs() -> None:
    model, populations = reviewed_by([F, P, F], P, PASSES=2)
    assert asked(model)[:5] == [(0, 0), (1, 0), ("verify", 0), ("classify", 0), ("correct", 0)]
    assert asked(model)[5:10] == [("verify", 1), ("classify", 1), ("verify", 2), ("classify", 2), ("correct", 2)]
    assert asked(model)[10:] == [("verify", 3), ("classify", 3), ("verify", 4), ("classify", 4)]
    assert model.prompts(0, 0) == [FIRST]
    assert model.prompts(1, 0) == [prompts.aggregate(PROBLEM, ["solution 0-0 \\boxed{42}"])[0]["content"]]
    shown = {0: "solution 1-0", 1: "solution correct-0", 2: "solution correct-0", 3: "solution correct-2"}
    for number, solution in shown.items():
        (prompt,) = model.prompts("verify", number)
        assert solution in prompt and PROBLEM.statement in prompt and "repair nothing" in prompt
        assert FLAWS not in prompt, "a review knows of no other"
        (prompt,) = model.prompts("classify", number)
        assert FULL in prompt and solution not in prompt and PROBLEM.statement not in prompt, "the review, all of it"
    for number, solution in {0: "solution 1-0", 2: "solution correct-0"}.items():
        (prompt,) = model.prompts("correct", number)
        assert solution in prompt and FLAWS in prompt and "\\boxed{}" in prompt
        assert "Step 1 holds" not in prompt, "only the summary is handed on"
    changes = [(names[0], changes) for names, _, changes in model.asked if changes]
    assert changes == [
        (role, {"max_tokens": 60, "answer_opening": opening})
        for _ in range(5)
        for role, opening in (("verify", "Verdict:"), ("classify", "Answer:"))
    ]
    assert [p[0].completion.text.split()[1] for p in populations] == [
        "0-0", "1-0", "correct-0", "correct-0", "correct-2", "correct-2", "correct-2",
    ]  # fmt: skip
    assert [p[0].carried_over for p in populations] == [False, False, False, True, False, True, True]
    assert [p[0].parents for p in populations] == [[]] + [[0]] * 6
    assert [len(p[0].side_calls) for p in populations] == [0, 0, 2, 2, 2, 2, 2]


def test_by_its_own_verdict_a_review_takes_one_request() -> None:
    """CLASSIFY = 0: 7 completions where it is accepted at once, 22 where it never is, and what is unclear fails."""
    for verdict, least in (("Verdict: True", 7), ("Verdict: False", 22), ("I cannot tell.", 22)):
        populations, model = traced(selfcheck, reviewer([], said=verdict), **SIZES, CLASSIFY=0)
        assert len(model.asked) == least and not model.prompts("classify")
        notes = [note for p in populations for note in p[0].notes]
        assert notes.count("unreadable verdict") == (10 if "tell" in verdict else 0)
    assert SELFCHECK.max_completions(constants_with(SIZES | {"CLASSIFY": 0})) == 62


def test_a_correction_without_an_answer_leaves_the_solution_as_it_was() -> None:
    rule = reviewer([F, F], P)
    populations, model = traced(selfcheck, but(rule, {("correct", 0): FAILED}), **SIZES)
    kept = populations[2][0]
    assert kept.carried_over and kept.completion.text.startswith("solution 1-0") and kept.notes == ["empty candidate"]
    assert [check.key for check in kept.side_calls] == ["('verify', 0)", "('classify', 0)", "('correct', 0)"]
    assert "solution 1-0" in model.prompts("verify", 1)[0] and "solution 1-0" in model.prompts("correct", 1)[0]


def test_an_empty_candidate_fails_without_a_review_and_is_made_afresh() -> None:
    rule = reviewer([], P)
    late = {(0, 0), (1, 0), ("correct", 0)}
    populations, model = traced(selfcheck, lambda names, prompt: "" if names in late else rule(names, prompt), **SIZES)
    assert [names for names, *_ in model.asked][:5] == [
        (0, 0), (1, 0), ("correct", 0), ("correct", 1), ("verify", 2),
    ]  # fmt: skip
    assert all(prompt == FIRST for prompt in (*model.prompts(1), *model.prompts("correct")))
    assert [p[0].notes for p in populations[:4]] == [["empty candidate"]] * 3 + [[]]
    assert populations[-1][0].completion.text.startswith("solution correct-1")
    silent = Model(lambda names, prompt: "")
    last = run(selfcheck, silent, **SIZES)[-1][0]
    assert len(silent.asked) == 2 + 10 and not silent.prompts("verify")
    assert last.notes == ["never accepted", "empty candidate"]


def test_a_review_that_was_cut_off_is_noted_and_classified_by_its_forced_verdict() -> None:
    cut = Completion("", 0, "step 1 …", "", forced="Verdict: False", finish_reason="length")
    rule = reviewer([F], P)
    populations, model = traced(selfcheck, but(rule, {("verify", 0): cut}), **SIZES)
    assert populations[2][0].notes == ["truncated report"] and len(model.prompts("correct")) == 1
    assert "Verdict: False" in model.prompts("classify", 0)[0] and "step 1 …" not in model.prompts("classify", 0)[0]


def test_a_review_with_nothing_to_read_fails_unclassified_and_the_solution_is_improved_without_it() -> None:
    rule = reviewer([], P)
    populations, model = traced(selfcheck, but(rule, {("verify", 0): FAILED}), **SIZES)
    assert populations[2][0].notes == ["empty report"] and not model.prompts("classify", 0)
    alone = prompts.aggregate(PROBLEM, ["solution 1-0 \\boxed{42}"])[0]["content"]
    assert model.prompts("correct") == [alone]


def test_a_failed_classification_is_unreadable_and_a_failure() -> None:
    rule = reviewer([], P)
    populations, model = traced(selfcheck, but(rule, {("classify", 0): FAILED}), **SIZES)
    assert populations[2][0].notes == ["unreadable verdict"] and len(model.prompts("correct")) == 1
