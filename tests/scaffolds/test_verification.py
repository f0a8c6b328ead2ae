"""Self-verification: verdicts read or counted as unreadable, P(True) from logprobs, both modes on the real engine."""

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.seeds import derive
from core.engines.server import Server
from core.generate.generator import Generator
from core.generate.journal import Journal
from core.scaffolds.verification import p_true, read_verdict, verify
from core.types import Completion, Member, Message, Problem, Sampling
from tests.fakes.model import constants_with

PROBLEM = Problem("p", "Find the remainder when 7*43 + 6*58 + 9*27 + 4*81 is divided by 1000.", "216")
RIGHT = "7*43=301\n6*58=348, 301+348=649\n9*27=243, 649+243=892\n4*81=324, 892+324=1216\n\\boxed{216}"
WRONG = "7*43=301\n6*58=358, 301+358=659\n9*27=243, 659+243=902\n4*81=324, 902+324=1226\n\\boxed{226}"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Verdict: True", 1.0),
        ("Verdict: False", 0.0),
        ("verdict: true.", 1.0),
        ("**Verdict:** False", 0.0),
        ("**Verdict: True**", 1.0),
        ("Verdict: \\boxed{True}", 1.0),
        ("Verdict: $\\boxed{\\text{False}}$", 0.0),
        ("I first thought Verdict: True, but step 2 fails.\nVerdict: False", 0.0),
        ("All steps hold.\nTrue", 1.0),
        ("False.", 0.0),
        ("\\boxed{False}", 0.0),
        ("It is true that step 1 holds, and", None),
        ("The answer is not true or false", None),
        ("Verdict: Truely", None),
        ("Verdict: unclear", None),
        ("", None),
        ("Verdict:", None),
    ],
)
def test_verdicts_are_read_or_left_unread(text: str, verdict: float | None) -> None:
    assert read_verdict(text) == verdict


def test_endless_white_space_takes_no_time() -> None:
    assert read_verdict("Verdict:" + "\n" * 2_000_000 + "x") is None  # quadratic time would not end within the day


@given(st.text())
def test_reading_a_verdict_never_raises(text: str) -> None:
    assert read_verdict(text) in (None, 0.0, 1.0)
    assert read_verdict(text + "\nVerdict: False") == 0.0


def test_p_true_is_normalised_over_both_words_and_their_spellings() -> None:
    found = p_true({" True": math.log(0.2), "true": math.log(0.1), " False": math.log(0.1), "maybe": math.log(0.6)})
    assert found == pytest.approx(0.75)
    assert p_true({" True": -0.1}) == 1.0
    assert p_true({"maybe": -0.1}) is None and p_true({}) is None


def config(**changes: Any) -> Any:
    return constants_with({"VERIFY_MODE": "verdict", "VERIFY_TOKENS": 400, "VERIFY_SAMPLES": 3} | changes)


def test_scores_are_means_of_readable_verdicts_and_unreadable_ones_are_not_false() -> None:
    said = {
        (0, 0): "Verdict: True",
        (0, 1): "Verdict: False",
        (0, 2): "who knows",
        (1, 0): "?",
        (1, 1): "",
        (1, 2): "x",
    }

    async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
        assert names[:2] == ("verify", 4) and changes["max_tokens"] == 400
        return Completion("0" * 32, 0, answer=said[(int(names[2]), int(names[3]))])

    population = [Member(Completion("0" * 32, i, answer="a")) for i in range(2)]
    population.append(Member(Completion("0" * 32, 2, error="failed")))
    asyncio.run(verify(PROBLEM, population, 4, ask, config()))
    assert population[0].verdicts == [1.0, 0.0, None] and population[0].self_score == 0.5
    assert population[1].verdicts == [None] * 3 and population[1].self_score is None
    assert population[2].verdicts is None, "a failed candidate is not verified"
    assert len(population[0].side_calls) == 3


@pytest.mark.parametrize("mode", ["verdict", "p_true"])
def test_both_modes_work_on_the_real_engine(engine: Server, tmp_path: Path, mode: str) -> None:
    population = [Member(Completion("0" * 32, i, answer=text)) for i, text in enumerate([RIGHT, WRONG])]

    asked: list[dict[str, Any]] = []

    async def judge() -> None:
        with Journal(tmp_path / "a.jsonl") as journal:
            async with Generator(engine, journal, 4, 60) as generator:

                async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
                    asked.append(changes)
                    return await generator(messages, derive(*names), Sampling(**changes))

                await verify(PROBLEM, population, 0, ask, config(VERIFY_MODE=mode))

    asyncio.run(judge())
    right, wrong = (member.self_score for member in population)
    assert right is not None and wrong is not None
    if mode == "verdict":
        assert right > wrong
    if mode == "p_true":
        assert all(len(m.side_calls) == 1 and m.side_calls[0].completion_tokens == 1 for m in population)
        assert not any(m.side_calls[0].truncated for m in population), "one token is what was asked for"
        # SGLang reports probabilities as the sampling leaves them: they must be the model's own.
        off = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
        assert all({name: changes[name] for name in off} == off for changes in asked)
        assert all(0 < m.verdicts[0] < 1 for m in population if m.verdicts and m.verdicts[0] is not None)
