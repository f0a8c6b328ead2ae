"""Test the policy: seeded single requests, and tactics from any text of a model."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import UserError
from core.types import Completion, Sampling
from labs.lean.policy import Policy, asked, tactic_in
from labs.lean.search import Candidate, Failed
from labs.lean.theorem import State
from tests.fakes.model import Model
from tests.labs.lean.worlds import constants

STATE = State("p q : Prop\nh : p\n⊢ p ∨ q")


@pytest.mark.parametrize(
    ("text", "tactic"),
    [
        ("  intro h  \n", "intro h"),
        (" \n ", ""),
        ("```lean4\nintro h\n```\n", "intro h"),
        ("```\nintro h\n```", "intro h"),
        ("``````", ""),
        ("```lean\n```", ""),
        ("```simp```", "simp"),
        ("```lean\nconstructor\n  · simp\n", "constructor\n  · simp"),
        ("  constructor\n  · simp", "constructor\n· simp"),
        ("`exact h`", "exact h"),
        ("exact `h`", "exact `h`"),
        ("```leanify\n```", "leanify"),
    ],
)
def test_the_tactic_is_within_fences_and_spaces(text: str, tactic: str) -> None:
    assert tactic_in(text) == tactic


@given(st.text(st.sampled_from("`\n aé⊢\t") | st.characters(), max_size=40))
def test_any_text_has_a_tactic_or_none(text: str) -> None:
    built = tactic_in(text)
    assert built == built.strip() and len(built) <= len(text)


def output(answers: Sequence[Completion | str], logprobs: Sequence[float | None] = ()) -> Model:
    """Return a model that answers a request by its number, with a log probability."""

    def reply(names: tuple[str | int, ...], prompt: str) -> Completion:
        number = int(names[-1])
        built = answers[number]
        if isinstance(built, Completion):
            return built
        logprob = logprobs[number] if logprobs else -1.0 - number
        return Completion("", 0, answer=built, finish_reason="stop", logprob=logprob)

    return Model(reply)


def proposed(model: Any, **changes: Any) -> tuple[list[Candidate] | Failed, dict[str, int]]:
    policy = Policy("lemma_1", model, constants(**changes))
    return asyncio.run(policy(STATE)), {
        name: count for name, count in policy.counts.items() if count
    }


def test_tactics_are_merged_with_the_best_log_probability_and_the_likeliest_comes_first() -> None:
    model = output(
        ["simp", "exact h", "simp ", "left", "", "``` "], [-3.0, -1.5, -0.5, -2.0, -0.1, -0.1]
    )
    found, counts = proposed(model, CANDIDATES=6)
    assert found == [("simp", -0.5), ("exact h", -1.5), ("left", -2.0)]
    assert counts == {"requests": 6, "repeated": 1, "empty": 2}


def test_a_tactic_is_asked_for_by_single_requests_that_the_state_names() -> None:
    model = output(["simp"] * 4)
    proposed(model, TEMPERATURE=1.2, MAX_TOKENS=64)
    names = [names for names, *_ in model.asked]
    assert [each[-1] for each in names] == [0, 1, 2, 3] and len({each[:-1] for each in names}) == 1
    assert names[0][:2] == ("tactic", "lemma_1") and STATE.pp in model.asked[0][1]
    assert [{"role": "user", "content": model.asked[0][1]}] == asked(STATE.pp)
    sampling = replace(Sampling(), **model.asked[0][2])
    assert sampling == Sampling(temperature=1.2, max_tokens=64, stop="\n", sum_logprobs=True)
    other = output(["simp"] * 4)
    asyncio.run(Policy("lemma_1", other, constants(CANDIDATES=4))(State("⊢ q")))
    assert other.asked[0][0][:2] == names[0][:2] and other.asked[0][0][2] != names[0][2]
    assert proposed(output([" simp\nrfl"] * 4), OPENING="Tactic:")[0] == [("simp", -1.0)]
    ended = output(["simp\nrfl"] * 4)
    assert proposed(ended, ENDS="model", OPENING="By ")[0] == [("simp\nrfl", -1.0)]
    assert ended.asked[0][2]["stop"] == "" and ended.asked[0][2]["opening"] == "By "


def test_what_a_server_takes_for_thinking_is_the_tactic_where_nothing_else_was_said() -> None:
    taken = Completion("", 0, thinking="simp", finish_reason="stop", logprob=-1.0)
    thought = Completion(
        "", 0, thinking="We try simp.", answer="exact h", finish_reason="stop", logprob=-2.0
    )
    lost = Completion("", 0, thinking="We try", finish_reason="length", logprob=-0.5)
    assert proposed(output([taken, thought, lost, ""]))[0] == [("simp", -1.0), ("exact h", -2.0)]


def test_what_is_cut_off_or_has_no_sum_is_no_tactic() -> None:
    cut = Completion("", 0, answer="exact fun", finish_reason="length", logprob=-9.0)
    failed = Completion("", 0, error="context overflow: …")
    model = output([cut, failed, "rcases h with ⟨x⟩", "simp"], [None, None, None, -1.0])
    assert proposed(model) == (
        [("simp", -1.0)],
        {"requests": 4, "cut off": 1, "failed": 1, "no sum": 1},
    )


def test_a_state_beyond_the_context_is_a_dead_end() -> None:
    refusal = Completion("", 0, error="context overflow: 9000 tokens exceed the context of 2304")
    silent = Completion("", 0, error="silent for 300 s")
    for last, is_too_long in ((refusal, True), (silent, False)):
        found, _ = proposed(output([refusal, refusal, refusal, last]))
        assert isinstance(found, Failed) and found.is_too_long == is_too_long


def test_a_policy_without_log_probabilities_is_refused_in_one_line() -> None:
    with pytest.raises(UserError, match="logprobs"):
        proposed(output(["simp"] * 4, [None] * 4))
    assert proposed(output([""] * 4, [None] * 4))[0] == [], "without text, nothing is known"
    logprobs = iter([*[-1.0] * 4, *[None] * 4])

    def reply(*_: object) -> Completion:
        logprob = next(logprobs)
        return Completion("", 0, answer="simp", finish_reason="stop", logprob=logprob)

    policy = Policy("x", Model(reply), constants(CANDIDATES=4))
    assert [asyncio.run(policy(State(pp))) for pp in "ab"] == [[("simp", -1.0)], []], (
        "the server once returned sums"
    )
