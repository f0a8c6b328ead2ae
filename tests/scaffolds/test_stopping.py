"""Stopping early: the two rules by hand, and what a run makes of them."""

import asyncio
import json
import random
import threading
from pathlib import Path

import pytest

from core.scaffolds.rsa import rsa
from core.scaffolds.stopping import adaptive, confidence, leading_votes
from core.types import Completion, Member, Population, Problem
from tests.conftest import run
from tests.fakes.model import constants_with

PROBLEM = Problem("p", "?", "42")


def population(*answers: str | None) -> Population:
    texts = ["no box" if answer is None else f"so \\boxed{{{answer}}}" for answer in answers]
    return [Member(Completion("0" * 32, 1, "", text, finish_reason="stop")) for text in texts]


def stops(population: Population, unanimous: int, confident: float, problem: Problem = PROBLEM) -> bool:
    return adaptive(
        problem, population, constants_with({"STOP_WHEN_UNANIMOUS": unanimous, "STOP_CONFIDENCE": confident})
    )


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
def test_the_rules_by_hand(answers: list[str | None], unanimous: bool, at_95: bool, at_90: bool) -> None:
    made = population(*answers)
    assert (stops(made, 1, 0), stops(made, 0, 0.95), stops(made, 0, 0.9)) == (unanimous, at_95, at_90)
    assert not stops(made, 0, 0)


def test_members_that_say_the_same_agree_however_they_spell_it() -> None:
    problem = Problem("p", "?", "?", "math")
    spelled = [r"2\sqrt{2}", r"\sqrt{8}", r"2^{3/2}", r"\frac{4}{\sqrt{2}}"]
    assert stops(population(*spelled, *spelled), 1, 0, problem)
    made = population(*spelled, *spelled[:3], "3")
    assert leading_votes(problem, made) == 7
    assert not stops(made, 1, 0, problem) and stops(made, 0, 0.95, problem) and not stops(made, 0, 0.99, problem)


def test_the_loop_goes_on_while_a_rule_thinks() -> None:
    """Telling whether answers say the same may take seconds, and requests of other problems must not wait for it."""
    asked = threading.Event()

    async def ask(messages: object, *names: str | int, **changes: object) -> Completion:
        return population("7")[0].completion

    async def both() -> list[Population]:
        async def other_work() -> None:
            asked.set()

        made: list[Population] = []
        async for newest in rsa(
            PROBLEM, ask, constants_with({"SEED": 0, "N": 2, "K": 1, "T": 2, "CARRY": "answer"}), stop=rule
        ):
            made.append(newest)
            asked.clear()
            asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(other_work()))
        return made

    def rule(*_: object) -> bool:
        heard.append(asked.wait(30))
        return False

    heard: list[bool] = []
    assert len(asyncio.run(both())) == 3 and heard == [True, True]


def test_the_reference_answer_plays_no_part() -> None:
    wrong = population(*["7"] * 8)
    assert stops(wrong, 1, 0) and leading_votes(PROBLEM, wrong) == 8


def test_confidence_is_the_posterior_of_a_majority() -> None:
    """Against simulation: a share drawn uniformly, and eight votes; how often is it above a half where v votes came?"""
    rng = random.Random(5)
    seen: dict[int, list[bool]] = {v: [] for v in range(9)}
    for _ in range(60_000):
        share = rng.random()
        seen[sum(rng.random() < share for _ in range(8))].append(share > 0.5)
    for votes, above in seen.items():
        assert confidence(votes, 8) == pytest.approx(sum(above) / len(above), abs=0.02)
    assert confidence(8, 8) == 1 - 1 / 512


def test_a_run_stops_early_reuses_what_02_made_and_says_what_it_saved(results: Path) -> None:
    settings = ("LIMIT=4", "N=4", "T=3")
    assert run("02_rsa_basic", *settings)[0] == 0
    status, out, err = run("04_rsa_adaptive", *settings)
    assert status == 0, err
    full = json.loads((results / "02_rsa_basic.json").read_text())
    early = json.loads((results / "04_rsa_adaptive.json").read_text())
    assert all(p["finished"] for p in early["problems"])
    shorter = 0
    for mine, theirs in zip(early["problems"], full["problems"], strict=True):
        kept = len(mine["steps"])
        assert [s["mean_accuracy"] for s in mine["steps"]] == [s["mean_accuracy"] for s in theirs["steps"]][:kept]
        votes = [len({m["answer"] for m in s["members"]}) == 1 and s["members"][0]["answer"] for s in theirs["steps"]]
        first = next((t for t, agreed in enumerate(votes) if agreed), 3)
        assert kept == first + 1, "it ends at the first population that agrees"
        shorter += kept < 4
    assert shorter, "nothing to see: choose other problems"
    spent = [sum(s["completions"] for s in d["metrics"]["steps"]) for d in (early, full)]
    assert spent[0] < spent[1] == 4 * 4 * 4
    assert f"{spent[0]:,} completions came from the journal" in out
    assert early["metrics"]["steps"][-1]["mean_accuracy"]["n"] == 4
