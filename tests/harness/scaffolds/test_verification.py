"""Self-verification: verdicts and their mean, and P(True) from logprobs."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest

from core.types import Completion, Member, Message
from harness.scaffolds.verification import p_true, verify
from tests.fakes.model import PROBLEM, constants_with


def test_p_true_is_normalised_over_both_words_and_their_spellings() -> None:
    found = p_true(
        {
            " True": math.log(0.2),
            "true": math.log(0.1),
            " False": math.log(0.1),
            "maybe": math.log(0.6),
        }
    )
    assert found == pytest.approx(0.75)
    assert p_true({" True": -0.1}) == 1.0
    assert p_true({"maybe": -0.1}) is None and p_true({}) is None


def config(**changes: Any) -> Any:
    return constants_with({"SCORE": "verdict", "VERIFY_TOKENS": 400, "VERIFY_SAMPLES": 3} | changes)


def test_scores_are_means_of_readable_verdicts_and_unreadable_ones_are_not_false() -> None:
    answers = dict.fromkeys([(0, 2), (1, 0), (1, 1), (1, 2)], "who knows")
    answers |= {(0, 0): "Verdict: True", (0, 1): "Verdict: False"}

    async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
        assert names[:2] == ("verify", 4) and changes["max_tokens"] == 400
        return Completion("0" * 32, 0, answer=answers[(int(names[2]), int(names[3]))])

    population = [Member(Completion("0" * 32, i, answer="a")) for i in range(2)]
    population.append(Member(Completion("0" * 32, 2, error="failed")))
    asyncio.run(verify(PROBLEM, population, 4, ask, config()))
    assert population[0].verdicts == [1.0, 0.0, None] and population[0].self_score == 0.5
    assert population[1].verdicts == [None] * 3 and population[1].self_score is None
    assert population[2].verdicts is None, "a failed candidate is not verified"
    assert len(population[0].side_calls) == 3


def test_p_true_reads_one_token_with_the_models_own_probabilities() -> None:
    """SGLang reports probabilities as the sampling leaves them, so all of it is off."""
    asked: list[dict[str, Any]] = []

    async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
        asked.append(changes)
        return Completion(
            "0" * 32, 0, answer=" True", logprobs={" True": math.log(0.6), " False": math.log(0.2)}
        )

    population = [Member(Completion("0" * 32, 0, answer="a"))]
    asyncio.run(verify(PROBLEM, population, 0, ask, config(SCORE="p_true")))
    off = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
    assert asked == [{"max_tokens": 1, "opening": "Verdict:", "top_logprobs": 20} | off], (
        "a second look says the same"
    )
    assert population[0].self_score == pytest.approx(0.75) and len(population[0].side_calls) == 1
