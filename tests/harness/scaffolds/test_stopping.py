"""Stopping early: the two rules by hand, and in a run."""

from typing import Any

import numpy as np
import pytest

from core.base import seeds
from core.rsa import RSA
from core.types import Completion, Member, Population, Problem
from harness.scaffolds.stopping import RSA_ADAPTIVE, adaptive, confidence, leading_votes
from tests.fakes.model import Model, Names, constants_with, run

PROBLEM = Problem("p", "?", "42")


def population(*answers: str | None) -> Population:
    texts = ["no box" if answer is None else f"so \\boxed{{{answer}}}" for answer in answers]
    return [Member(Completion("0" * 32, 1, "", text, finish_reason="stop")) for text in texts]


def stops(
    population: Population, unanimous: int, confident: float, problem: Problem = PROBLEM
) -> bool:
    config = constants_with({"STOP_WHEN_UNANIMOUS": unanimous, "STOP_CONFIDENCE": confident})
    return adaptive(problem, population, config)


@pytest.mark.parametrize(
    ("answers", "unanimous", "at_95", "at_90"),
    [
        (["7"] * 8, True, True, True),
        (["7", "007", *["7"] * 6], True, True, True),  # one answer, written in two ways
        (["7"] * 7 + ["8"], False, True, True),
        (["7"] * 6 + ["8", "9"], False, False, True),
        (["7"] * 7 + [None], False, True, True),  # who says nothing does not agree
        ([None] * 8, False, False, False),
    ],
)
def test_the_rules_by_hand(
    answers: list[str | None], unanimous: bool, at_95: bool, at_90: bool
) -> None:
    got = population(*answers)
    assert (stops(got, 1, 0), stops(got, 0, 0.95), stops(got, 0, 0.9)) == (unanimous, at_95, at_90)
    assert not stops(got, 0, 0)


def test_members_that_say_the_same_agree_however_they_spell_it() -> None:
    problem = Problem("p", "?", "?", "math")
    spelled = [r"2\sqrt{2}", r"\sqrt{8}", r"2^{3/2}", r"\frac{4}{\sqrt{2}}"]
    assert stops(population(*spelled, *spelled), 1, 0, problem)
    got = population(*spelled, *spelled[:3], "3")
    assert leading_votes(problem, got) == 7
    assert (
        not stops(got, 1, 0, problem)
        and stops(got, 0, 0.95, problem)
        and not stops(got, 0, 0.99, problem)
    )


def test_confidence_is_the_posterior_of_a_majority() -> None:
    """Compare with a simulation: draw a share and eight votes. How often is the share above a half
    for v votes?"""
    rng = np.random.default_rng(5)
    share = rng.random(60_000)
    seen = (rng.random((8, 60_000)) < share).sum(axis=0)
    for votes in range(9):
        assert confidence(votes, 8) == pytest.approx((share[seen == votes] > 0.5).mean(), abs=0.02)
    assert confidence(8, 8) == 1 - 1 / 512


def test_a_problem_ends_at_the_first_population_that_agrees() -> None:
    def reply(names: Names, prompt: str) -> str:
        answer: int = prompt.count("boxed{1}") > 1
        if names[0] == 0:
            answer = seeds.derive(*names) % 3
        return f"so \\boxed{{{answer}}}"

    shorter = 0
    for seed in range(8):
        sizes: dict[str, Any] = {
            "N": 4,
            "K": 3,
            "T": 3,
            "SEED": seed,
            "STOP_WHEN_UNANIMOUS": 1,
            "STOP_CONFIDENCE": 0,
        }
        whole, early = (run(scaffold, Model(reply), **sizes) for scaffold in (RSA, RSA_ADAPTIVE))
        agreed = [
            len({member.completion.text for member in population}) == 1 for population in whole
        ]
        assert early == whole[: agreed.index(True) + 1 if True in agreed[:3] else 4]
        shorter += len(early) < 4
    assert shorter > 0, "nothing to see"
