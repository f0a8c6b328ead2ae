"""Majority of N, best of N by self-verification, and self-refinement."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from core import prompts
from harness.scaffolds.best_of import BEST_OF, best_of
from harness.scaffolds.majority import majority
from harness.scaffolds.refinement import REFINEMENT, refinement
from tests.fakes.model import PROBLEM, Model, Names, Reply, constants_with, run, traced

BEST: dict[str, Any] = {"N": 4, "SCORE": "verdict", "VERIFY_SAMPLES": 2, "VERIFY_TOKENS": 60}


def solution(names: Names, prompt: str) -> str:
    return f"solution {names} \\boxed{{42}}"


@pytest.mark.parametrize(
    ("n", "stage", "sizes"),
    [
        (1, 0, [1]),
        (9, 0, [1, 2, 4, 8, 9]),
        (5, 1, [1, 2, 3, 4, 5]),
        (12, 4, [1, 2, 4, 8, 12]),
        (4, 1024, [1, 2, 4]),
    ],
)
def test_majority_yields_the_beginnings_of_one_sample(n: int, stage: int, sizes: list[int]) -> None:
    populations, model = traced(majority, solution, N=n, STAGE=stage)
    assert [len(population) for population in populations] == sizes
    keys = [[member.completion.key for member in population] for population in populations]
    assert all(longer[: len(shorter)] == shorter for shorter, longer in pairwise(keys))
    for before, population in zip([[], *populations], populations, strict=False):
        assert [m.carried_over for m in population] == [
            i < len(before) for i in range(len(population))
        ]
        assert [m.parents for m in population] == [
            [i] if i < len(before) else [] for i in range(len(population))
        ]
    assert sorted(names for names, *_ in model.asked) == [(0, i) for i in range(n)]
    assert {prompt for _, prompt, _ in model.asked} == {prompts.solve(PROBLEM)[0]["content"]}


@pytest.mark.parametrize("stage", [0, 1])
def test_samples_are_asked_for_in_doublings_as_stages_are_taken(stage: int) -> None:
    """One by one, a problem would wait 60 times. All at once, a budget for two stages would pay for
    all."""
    model = Model(solution)
    config = constants_with({"N": 60, "STAGE": stage})

    async def sizes() -> list[int]:
        return [len(model.asked) async for _ in majority(PROBLEM, model, config)]

    assert sorted(set(asyncio.run(sizes()))) == [1, 2, 4, 8, 16, 32, 60]


def verdicts(judge: Callable[[int, int], str]) -> Reply:
    """Return a model that solves, and judges member i for the j-th time with `judge(i, j)`."""
    return lambda names, prompt: (
        judge(int(names[2]), int(names[3])) if names[0] == "verify" else f"solution {names[1]}"
    )


def test_best_of_verifies_each_sample_and_keeps_the_best() -> None:
    model = Model(verdicts(lambda i, j: "Verdict: True" if i == 2 or j == 0 else "Verdict: False"))
    samples, scored, final = run(best_of, model, **BEST)
    assert len(model.asked) == 4 + 4 * 2 == BEST_OF.max_completions(constants_with(BEST))
    assert [m.carried_over for m in samples] == [False] * 4 and [
        m.carried_over for m in scored
    ] == [True] * 4
    assert [m.self_score for m in scored] == [0.5, 0.5, 1.0, 0.5]
    assert [m.parents for m in scored] == [[0], [1], [2], [3]] and [
        len(m.side_calls) for m in scored
    ] == [2] * 4
    (winner,) = final
    assert winner.parents == [2] and winner.carried_over and not winner.side_calls
    assert winner.completion.text == "solution 2"
    for names, prompt, changes in model.asked[4:]:
        assert (
            f"Candidate solution:\nsolution {names[2]}\n" in prompt and PROBLEM.statement in prompt
        )
        assert changes == {"max_tokens": 60, "answer_opening": "Verdict:"}


def winners(reply: Reply) -> set[int]:
    return {run(best_of, Model(reply), SEED=seed, **BEST)[-1][0].parents[0] for seed in range(24)}


def test_ties_of_best_of_are_decided_by_lot() -> None:
    assert winners(verdicts(lambda i, j: "Verdict: True")) == {0, 1, 2, 3}


def test_unreadable_verdicts_are_unknown_not_bad_and_noted() -> None:
    def verdict(i: int, j: int) -> str:
        return {
            0: "Verdict: False",
            1: "I cannot tell.",
            2: "Verdict: " + ("True" if j else "maybe"),
            3: "",
        }[i]

    _, scored, (winner,) = run(best_of, Model(verdicts(verdict)), **BEST)
    assert [m.self_score for m in scored] == [0.0, None, 1.0, None]
    assert [m.notes.count("unreadable verdict") for m in scored] == [0, 2, 1, 2]
    assert winner.parents == [2]
    # Where all that is known is bad, the unknown ones stand level with it, and the lot decides
    # between all four.
    assert winners(verdicts(lambda i, j: "Verdict: False" if i < 2 else "?")) == {0, 1, 2, 3}


def test_refinement_shows_each_chain_its_own_last_solution_and_nothing_else() -> None:
    populations, model = traced(refinement, solution, N=2, ROUNDS=3)
    assert [len(population) for population in populations] == [2] * 4
    assert (
        len(model.asked) == 8 == REFINEMENT.max_completions(constants_with({"N": 2, "ROUNDS": 3}))
    )
    for t in (1, 2, 3):
        for i in (0, 1):
            (prompt,) = model.prompts(t, i)
            assert prompt == prompts.aggregate(PROBLEM, [solution((t - 1, i), "")])[0]["content"]
            assert "1 candidate solution" in prompt and "\\boxed{}" in prompt
        assert [m.parents for m in populations[t]] == [[0], [1]] and not any(
            m.carried_over for m in populations[t]
        )
