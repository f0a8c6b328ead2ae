"""RSA as in its paper's code: the request of step 0, and CARRY="summary" call by call."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import prompts
from core.types import Completion, Problem
from harness.run import solve_sync
from harness.scaffolds.common import CUT_SUMMARY, EMPTY_SUMMARY
from harness.scaffolds.reasoning_cache import OPENING
from harness.scaffolds.rsa_paper import RSA_PAPER
from tests.fakes.model import (
    FAILED,
    PROBLEM,
    PROOF,
    SIZES,
    Broken,
    Jumbled,
    Model,
    Names,
    Wayward,
    but,
    constants_with,
    run,
    traced,
)
from tests.fakes.server import ScriptedServer
from tests.helpers.runs import TWO, load, timeless

SUMMARY: dict[str, Any] = {"N": 4, "K": 2, "T": 2, "CARRY": "summary"}
IN_A_BOX = replace(PROBLEM, statement="How much is 6*7? Output it within \\boxed{}.")
IN_TAGS = replace(PROBLEM, statement="How much is 6*7? Put it between <answer> and </answer>.")


def replies(names: Names, prompt: str) -> Completion:
    """Reply with thinking and an answer, or with a summary."""
    if names[0] == "summary":
        thinking, answer = "summing up", f"Summary: outline {names[1:]}"
    else:
        thinking, answer = f"thought {names}", f"solution {names}"
    return Completion("", 0, thinking, answer, finish_reason="stop", completion_tokens=10)


def first_prompts(problem: Problem, **constants: Any) -> set[str]:
    model = Model(replies)
    run(RSA_PAPER, model, problem, **SUMMARY | constants)
    return set(model.prompts(0))


@pytest.mark.parametrize("problem", [IN_A_BOX, IN_TAGS])
def test_a_statement_with_the_form_of_its_answer_is_sent_alone(problem: Problem) -> None:
    assert first_prompts(problem) == {problem.statement}


@pytest.mark.parametrize("problem", [PROBLEM, PROOF, replace(PROOF, statement=IN_A_BOX.statement)])
def test_any_other_statement_is_sent_with_our_prompt(problem: Problem) -> None:
    assert first_prompts(problem) == {prompts.solve(problem)[0]["content"]}


def test_without_candidates_a_later_step_sends_the_statement_alone_too() -> None:
    failed: dict[Names, Completion | str] = {(0, i): FAILED for i in range(4)}
    model = Model(but(replies, failed))
    run(RSA_PAPER, model, IN_A_BOX, **SUMMARY)
    assert set(model.prompts(1)) == {IN_A_BOX.statement}


def test_each_member_of_all_steps_but_the_last_is_summarised_once() -> None:
    populations, model = traced(RSA_PAPER, replies, **SUMMARY)
    summaries = [names for names, *_ in model.asked if names[0] == "summary"]
    assert sorted(summaries) == [("summary", t, i) for t in range(2) for i in range(4)]
    assert len(model.asked) == 12 + 8 == RSA_PAPER.max_completions(constants_with(SUMMARY))
    for t, population in enumerate(populations):
        for i, member in enumerate(population):
            keys = [call.key for call in member.side_calls]
            assert keys == [repr(("summary", t, i))] * (t < 2) and not member.notes
    changes = [changes for names, _, changes in model.asked if names[0] == "summary"]
    assert changes == [{"answer_opening": OPENING}] * 8, "with the sampling of solutions"


def test_a_summary_sees_the_whole_member_and_aggregations_see_the_summaries() -> None:
    populations, model = traced(RSA_PAPER, replies, **SUMMARY)
    for t, population in enumerate(populations):
        for i, member in enumerate(population):
            (prompt,) = model.prompts(t, i)
            shown = [f"\noutline {(t - 1, j)}" for j in member.parents]
            places = [prompt.index(text) for text in shown]
            assert places == sorted(places) and len(places) == 2 * (t > 0)
            assert not any(text in prompt for text in ("solution (", "summing up", OPENING))
            for summarising in model.prompts("summary", t, i):
                assert f"thought {(t, i)}\n\nsolution {(t, i)}" in summarising
                assert PROBLEM.statement in summarising


@pytest.mark.parametrize(
    ("reply", "notes", "shows"),
    [
        (FAILED, [EMPTY_SUMMARY], "thought (0, 1)"),
        (Completion("", 0, "hm", finish_reason="length"), [EMPTY_SUMMARY], "thought (0, 1)"),
        (Completion("", 0, "hm", "Summary: \n"), [EMPTY_SUMMARY], "thought (0, 1)"),
        (Completion("", 0, "hm", "Summary: half", finish_reason="length"), [CUT_SUMMARY], "half"),
    ],
)
def test_a_candidate_without_a_summary_is_shown_itself_and_noted(
    reply: Completion, notes: list[str], shows: str
) -> None:
    sizes = SUMMARY | {"N": 2, "T": 1}
    (first, last), model = traced(RSA_PAPER, but(replies, {("summary", 0, 1): reply}), **sizes)
    assert [member.notes for member in first] == [[], notes] and len(first[1].side_calls) == 1
    for i, member in enumerate(last):
        (prompt,) = model.prompts(1, i)
        assert sorted(member.parents) == [0, 1]
        assert shows in prompt and "outline (0, 0)" in prompt and "outline (0, 1)" not in prompt


def test_a_member_without_text_is_not_summarised() -> None:
    (first, _, _), model = traced(RSA_PAPER, but(replies, {(0, 1): FAILED}), **SUMMARY)
    assert not model.prompts("summary", 0, 1) and not first[1].notes
    assert len(model.asked) == 19


def test_a_slow_summary_delays_only_its_descendants() -> None:
    early: set[Names] = set()

    class Slow(Jumbled):
        async def __call__(self, messages: Any, *names: Any, **changes: Any) -> Completion:
            reply = await super().__call__(messages, *names, **changes)
            if names == ("summary", 0, 0):
                count = -1
                while count < len(self.asked):
                    count = len(self.asked)
                    for _ in range(100):
                        await asyncio.sleep(0)
                early.update(asked for asked, *_ in self.asked)
            return reply

    sizes = SUMMARY | {"K": 1, "T": 3}
    populations = run(RSA_PAPER, Slow(replies, seed=1), **sizes)
    waiting = {0}
    for t in (1, 2, 3):
        waiting = {i for i, member in enumerate(populations[t]) if waiting & set(member.parents)}
        assert {i for i in range(4) if (t, i) not in early} == waiting
    assert populations == run(RSA_PAPER, Jumbled(replies, seed=2), **sizes)


@pytest.mark.parametrize("world", range(3))
def test_broken_off_anywhere_it_has_asked_for_nothing_else(world: int) -> None:
    sizes = SIZES | SUMMARY
    whole = Wayward(seed=0, world=world)
    populations = run(RSA_PAPER, whole, **sizes)
    assert any(member.notes for population in populations for member in population)
    for life in range(len(whole.asked)):
        broken = Wayward(seed=life, life=life, world=world)
        with pytest.raises(Broken):
            run(RSA_PAPER, broken, **sizes)
        assert broken.book().items() <= whole.book().items()


def test_a_repeated_run_asks_nothing_and_a_longer_one_goes_on(
    server: ScriptedServer, tmp_path: Path
) -> None:
    sizes = SUMMARY | {"N": 2, "T": 1}
    solve_sync(RSA_PAPER, TWO, folder=tmp_path, name="x", **sizes)
    first = load(tmp_path, "x")
    assert len(server.asked) == 2 * (4 + 2) and first["metrics"]["side_calls"]["completions"] == 4
    solve_sync(RSA_PAPER, TWO, folder=tmp_path, name="x", **sizes)
    assert len(server.asked) == 12
    assert timeless(load(tmp_path, "x")) == timeless(first)
    solve_sync(RSA_PAPER, TWO, folder=tmp_path, name="x", **sizes | {"T": 2})
    assert len(server.asked) == 12 + 2 * (2 + 2), "the summaries of step 1, and step 2"
