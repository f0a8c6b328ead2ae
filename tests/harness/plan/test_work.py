"""The requests of a run: expected, at most, and with elicited answers."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.rsa import RSA
from core.types import ELICITED_TOKENS, Bounded
from harness.plan import estimate
from harness.plan.estimate import Sums
from harness.plan.lengths import ASSUMED
from harness.plan.work import OTHERS, loads_of
from harness.scaffolds.best_of import BEST_OF
from harness.scaffolds.rsa_paper import RSA_PAPER
from harness.scaffolds.rsa_verified import RSA_VERIFIED
from tests.harness.plan.helpers import place, rsa, shown

CONSTANTS = st.fixed_dictionaries(
    {
        "N": st.integers(1, 64),
        "K": st.integers(1, 64),
        "T": st.integers(0, 12),
        "MAX_TOKENS": st.integers(1, 200_000),
        "ANSWER_TOKENS": st.integers(0, 20_000),
        "ELICIT": st.integers(0, 1),
        "CARRY": st.sampled_from(["answer", "tail", "full"]),
    }
)


@settings(max_examples=40)
@given(
    values=CONSTANTS,
    mode=st.sampled_from([None, "verdict", "p_true", "confidence"]),
    kv=st.sampled_from(["bf16", "fp8"]),
    count=st.integers(1, 100),
)
def test_any_constants_are_planned_and_expected_is_never_above_at_most(
    values: dict[str, Any], mode: str | None, kv: str, count: int
) -> None:
    values["K"] = min(values["N"], values["K"])
    overrides = [f"{name}={value}" for name, value in values.items()]
    if mode:
        overrides.append(f"SCORE={mode}")
    config: Any = rsa(*overrides, name="03_rsa_verify" if mode else "02_rsa_basic")
    scaffold: Bounded = RSA_VERIFIED if mode else RSA
    plan = estimate.Plan(config, count, ASSUMED, place(kv=kv), scaffold)
    assert sum(load.count for load in plan.loads) == count * scaffold.max_completions(config)
    sums = Sums.from_loads(plan.loads)
    assert sums.prompt <= sums.most_prompt * (1 + 1e-9) + 1
    assert sums.completion <= sums.most_completion * (1 + 1e-9) + 1
    assert 0 < plan.seconds[0] < plan.seconds[1]
    text = shown(plan, scaffold)
    assert "nan" not in text and "inf" not in text.replace("in flight", "")


def test_a_confidence_needs_no_request() -> None:
    words = ("N=4", "K=2", "T=2", "SCORE=confidence")
    scored = loads_of(rsa(*words, name="03_rsa_verify"), 5, ASSUMED, RSA_VERIFIED)
    plain = loads_of(rsa(*words[:3]), 5, ASSUMED, RSA)
    assert [load.kind for load in scored] == [load.kind for load in plain]
    assert [load.count for load in scored] == [load.count for load in plain]


@pytest.mark.parametrize("score", ["reward", "p_true", "verdict"])
def test_scores_of_samples_are_no_solutions(score: str) -> None:
    config = rsa("N=8", f"SCORE={score}", "VERIFY_SAMPLES=1", name="13_best_of")
    solutions, scores = loads_of(config, 5, ASSUMED, BEST_OF)
    assert scores.kind == ("verify", 0)
    assert solutions.count == scores.count == 5 * 8
    if score == "verdict":
        assert scores.count < scores.tokens < solutions.tokens
    else:
        assert scores.tokens == scores.count


@pytest.mark.parametrize("forced", [0, 512])
def test_summaries_are_planned_with_the_solutions_that_they_read(forced: int) -> None:
    words = ("N=4", "K=2", "T=3", f"ANSWER_TOKENS={forced}")
    whole, summarised = (
        loads_of(rsa(*words, f"CARRY={carry}", name="16_rsa_paper"), 5, ASSUMED, RSA_PAPER)
        for carry in ("full", "summary")
    )
    assert sum(load.count for load in whole) == 5 * 4 * 4
    assert summarised[-1].kind == OTHERS and summarised[-1].count == 5 * 4 * 3
    assert summarised[-1].prompt > ASSUMED.prompt + ASSUMED.answer
    assert summarised[1].prompt < whole[1].prompt
    assert summarised[1].at_most == whole[1].at_most, "if no summary can be read"


def test_each_solution_may_be_continued_if_answers_are_elicited() -> None:
    plain, elicited = (
        loads_of(rsa("ANSWER_TOKENS=0", f"ELICIT={n}"), 2, ASSUMED, RSA) for n in (0, 1)
    )
    for one, other in zip(plain, elicited, strict=True):
        assert other.prompts == pytest.approx(2 * one.prompts + one.tokens)
        assert other.tokens == one.tokens + ELICITED_TOKENS * one.count
    before = Sums.from_loads(plain)
    after = Sums.from_loads(elicited)
    assert after.most_prompt > 2 * before.most_prompt
    assert after.most_completion > before.most_completion
