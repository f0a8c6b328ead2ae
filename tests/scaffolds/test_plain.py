"""The scaffolds every comparison needs: majority of N, best of N by self-verification, self-refinement."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.scaffolds import prompts
from core.scaffolds.best_of import BEST_OF, best, best_of
from core.scaffolds.majority import MAJORITY, majority
from core.scaffolds.refinement import REFINEMENT, refinement
from core.types import Completion
from tests.fakes.model import PROBLEM, Model, constants_with, run

BEST: dict[str, Any] = {"N": 4, "VERIFY_MODE": "verdict", "VERIFY_SAMPLES": 2, "VERIFY_TOKENS": 60}
FAILED = Completion("", 0, error="refused")


def solution(names: tuple[str | int, ...], prompt: str) -> str:
    return f"solution {names} \\boxed{{42}}"


@pytest.mark.parametrize(
    ("n", "sizes"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8]), (9, [1, 2, 4, 8, 9])]
)
def test_majority_yields_the_beginnings_of_one_sample(n: int, sizes: list[int]) -> None:
    model = Model(solution)
    populations = run(majority, model, N=n)
    assert [len(population) for population in populations] == sizes
    keys = [[member.completion.key for member in population] for population in populations]
    assert all(longer[: len(shorter)] == shorter for shorter, longer in pairwise(keys))
    for before, population in zip([[], *populations], populations, strict=False):
        assert [m.carried_over for m in population] == [i < len(before) for i in range(len(population))]
        assert [m.parents for m in population] == [[i] if i < len(before) else [] for i in range(len(population))]
    assert len(model.asked) == n == MAJORITY.max_completions(constants_with({"N": n}))
    assert {prompt for _, prompt, _ in model.asked} == {prompts.solve(PROBLEM)[0]["content"]}


@pytest.mark.parametrize(
    ("n", "stage", "sizes"),
    [(5, 1, [1, 2, 3, 4, 5]), (9, 3, [1, 2, 4, 7, 9]), (12, 4, [1, 2, 4, 8, 12]), (4, 1024, [1, 2, 4]), (1, 1, [1])],
)
def test_majority_grows_by_a_stage_at_most(n: int, stage: int, sizes: list[int]) -> None:
    model = Model(solution)
    populations = run(majority, model, N=n, STAGE=stage)
    assert [len(population) for population in populations] == sizes
    for before, population in zip([[], *populations], populations, strict=False):
        assert [m.carried_over for m in population] == [i < len(before) for i in range(len(population))]
    assert sorted(names for names, *_ in model.asked) == [(0, i) for i in range(n)]


def test_small_stages_leave_no_server_idle() -> None:
    """Samples are asked for in doublings: one at a time, a problem would wait 60 times."""
    model = Model(solution)
    asked = []

    async def grow() -> None:
        async for _ in majority(PROBLEM, model, constants_with({"N": 60, "STAGE": 1})):
            asked.append(len(model.asked))

    asyncio.run(grow())
    assert sorted(set(asked)) == [1, 2, 4, 8, 16, 32, 60]


def test_majority_asks_no_more_than_the_stages_that_are_taken() -> None:
    """A budget that stops it after two stages has paid for two samples."""
    model = Model(solution)

    async def two_stages() -> None:
        stages = majority(PROBLEM, model, constants_with({"N": 64}))
        await anext(stages)
        await anext(stages)

    asyncio.run(two_stages())
    assert [names for names, *_ in model.asked] == [(0, 0), (0, 1)]


def test_majority_keeps_failed_samples_as_data() -> None:
    populations = run(majority, Model(lambda names, prompt: FAILED if names == (0, 1) else "\\boxed{42}"), N=4)
    assert [m.completion.error for m in populations[-1]] == [None, "refused", None, None]


def verdicts(said: Callable[[int, int], str]) -> Callable[[tuple[str | int, ...], str], str]:
    """A model that solves, and judges member i for the j-th time with `said(i, j)`."""
    return lambda names, prompt: said(int(names[2]), int(names[3])) if names[0] == "verify" else f"solution {names[1]}"


def test_best_of_verifies_each_sample_and_keeps_the_best() -> None:
    model = Model(verdicts(lambda i, j: "Verdict: True" if i == 2 or j == 0 else "Verdict: False"))
    samples, scored, final = run(best_of, model, **BEST)
    assert len(model.asked) == 4 + 4 * 2 == BEST_OF.max_completions(constants_with(BEST))
    assert [m.carried_over for m in samples] == [False] * 4 and [m.carried_over for m in scored] == [True] * 4
    assert [m.self_score for m in scored] == [0.5, 0.5, 1.0, 0.5]
    assert [m.parents for m in scored] == [[0], [1], [2], [3]] and [len(m.side_calls) for m in scored] == [2] * 4
    (winner,) = final
    assert (
        winner.parents == [2]
        and winner.carried_over
        and winner.completion.text == "solution 2"
        and not winner.side_calls
    )
    for names, prompt, changes in model.asked[4:]:
        assert f"Candidate solution:\nsolution {names[2]}\n" in prompt and PROBLEM.statement in prompt
        assert changes == {"max_tokens": 60, "answer_opening": "Verdict:"}


def test_ties_of_best_of_are_decided_by_lot_the_same_way_every_time() -> None:
    def winner(seed: int) -> int:
        populations = run(best_of, Model(verdicts(lambda i, j: "Verdict: True")), SEED=seed, **BEST)
        return populations[-1][0].parents[0]

    winners = [winner(seed) for seed in range(24)]
    assert set(winners) == {0, 1, 2, 3} and winners == [winner(seed) for seed in range(24)]


def test_unreadable_verdicts_are_unknown_not_bad_and_noted() -> None:
    def said(i: int, j: int) -> str:
        return {0: "Verdict: False", 1: "I cannot tell.", 2: "Verdict: " + ("True" if j else "maybe"), 3: ""}[i]

    _, scored, (winner,) = run(best_of, Model(verdicts(said)), **BEST)
    assert [m.self_score for m in scored] == [0.0, None, 1.0, None]
    assert [m.notes for m in scored] == [
        [],
        ["unreadable verdict"] * 2,
        ["unreadable verdict"],
        ["unreadable verdict"] * 2,
    ]
    assert winner.parents == [2]
    # Where all that is known is bad, the unknown ones stand level with it, and the lot decides between all four.
    drawn = {
        run(best_of, Model(verdicts(lambda i, j: "Verdict: False" if i < 2 else "?")), SEED=seed, **BEST)[-1][
            0
        ].parents[0]
        for seed in range(24)
    }
    assert drawn == {0, 1, 2, 3}


def test_best_of_never_chooses_an_empty_sample_while_another_speaks() -> None:
    def some(names: tuple[str | int, ...], prompt: str) -> str | Completion:
        if names[0] == "verify":
            return "Verdict: False"
        return FAILED if names[1] == 0 else "solution 2" if names[1] == 2 else ""

    for seed in range(6):
        model = Model(some)
        samples, scored, (winner,) = run(best_of, model, SEED=seed, **BEST)
        assert winner.parents == [2] and len(model.prompts("verify")) == 2
        assert [m.notes for m in samples] == [["empty candidate"], ["empty candidate"], [], ["empty candidate"]]
        assert scored[0].self_score is None and scored[0].verdicts is None
    silent = {run(best_of, Model(lambda names, prompt: ""), SEED=seed, **BEST)[-1][0].parents[0] for seed in range(24)}
    assert silent == {0, 1, 2, 3}, "of nothing but empty ones, one is drawn"


@given(st.lists(st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1), st.integers(0, 2**31))
def test_the_best_is_a_highest_score_or_an_unknown_one(scores: list[float | None], seed: int) -> None:
    chosen = scores[best(scores, np.random.default_rng(seed))]
    known = [score for score in scores if score is not None]
    assert chosen is None or chosen == max(known)
    if len(set(known)) > 1:
        assert chosen is not None, "unknown is the mean, and some score is above it"


def test_refinement_shows_each_chain_its_own_last_solution_and_nothing_else() -> None:
    model = Model(solution)
    populations = run(refinement, model, N=2, ROUNDS=3)
    assert [len(population) for population in populations] == [2] * 4
    assert len(model.asked) == 8 == REFINEMENT.max_completions(constants_with({"N": 2, "ROUNDS": 3}))
    for t in (1, 2, 3):
        for i in (0, 1):
            (prompt,) = model.prompts(t, i)
            assert prompt == prompts.aggregate(PROBLEM, [solution((t - 1, i), "")])[0]["content"]
            assert "1 candidate solution" in prompt and "\\boxed{}" in prompt
        assert [m.parents for m in populations[t]] == [[0], [1]] and not any(m.carried_over for m in populations[t])


def test_a_refinement_without_an_answer_leaves_its_chain_where_it_was() -> None:
    def some(names: tuple[str | int, ...], prompt: str) -> str | Completion:
        if names == (1, 0):
            return FAILED
        return "" if names in ((0, 1), (1, 1)) else solution(names, prompt)

    model = Model(some)
    populations = run(refinement, model, N=2, ROUNDS=2)
    kept = populations[1][0]
    assert kept.carried_over and kept.completion.text == solution((0, 0), "") and kept.notes == ["empty candidate"]
    assert [check.error for check in kept.side_calls] == ["refused"] and kept.parents == [0]
    assert solution((0, 0), "") in model.prompts(2, 0)[0], "the next round refines what is left"
    first = prompts.solve(PROBLEM)[0]["content"]
    assert model.prompts(1, 1) == [first] and model.prompts(2, 1) == [first], "nothing to refine: afresh"
    assert populations[1][1].parents == [] and populations[2][1].completion.text


def test_truncated_refinements_go_on_and_are_noted() -> None:
    cut = Completion("", 0, answer="half a solution", finish_reason="length")
    populations = run(refinement, Model(lambda names, prompt: cut if names[0] == 1 else "x"), N=1, ROUNDS=1)
    assert populations[1][0].notes == ["truncated candidate"] and not populations[1][0].carried_over
