"""Reasoning cache (arXiv 2602.03773), call by call."""

from typing import Any

from core.types import Completion
from harness.scaffolds.reasoning_cache import reasoning_cache
from tests.fakes.model import PROBLEM, but, traced

SIZES: dict[str, Any] = {"ROUNDS": 3, "SUMMARY_TOKENS": 70, "CARRY": "full"}


def replies(names: tuple[str | int, ...], prompt: str) -> Completion:
    """Reply with thinking and an answer, or with a summary."""
    if names[0] == "summary":
        text = f"Summary: I recall {names[1]}."
        return Completion("", 0, "summing up", text, finish_reason="stop", completion_tokens=7)
    thinking, answer = f"thought {names[0]}", f"attempt {names[0]} \\boxed{{42}}"
    return Completion("", 0, thinking, answer, finish_reason="stop", completion_tokens=10)


def test_three_rounds_are_three_solutions_and_two_summaries() -> None:
    populations, model = traced(reasoning_cache, replies, **SIZES)
    assert [names for names, *_ in model.asked] == [
        (0, 0),
        ("summary", 0),
        (1, 0),
        ("summary", 1),
        (2, 0),
    ]
    assert [[m.completion.text for m in p] for p in populations] == [
        [f"attempt {t} \\boxed{{42}}"] for t in range(3)
    ]
    assert [p[0].parents for p in populations] == [[], [0], [0]]
    assert [[c.key for c in p[0].side_calls] for p in populations] == [
        [],
        ["('summary', 0)"],
        ["('summary', 1)"],
    ]
    assert not any(p[0].notes or p[0].carried_over for p in populations)


def test_summaries_see_the_newest_attempt_with_its_thinking_and_the_summary_before() -> None:
    _, model = traced(reasoning_cache, replies, **SIZES)
    first, second = model.prompts("summary")
    assert "thought 0" in first and "attempt 0" in first and "(none)" in first
    assert "thought 1" in second and "attempt 1" in second and "I recall 0." in second
    assert "attempt 0" not in second and "summing up" not in second
    assert all(
        "at most two paragraphs" in prompt and PROBLEM.statement in prompt
        for prompt in (first, second)
    )
    assert [changes for names, _, changes in model.asked if names[0] == "summary"] == [
        {"max_tokens": 70, "answer_opening": "Summary:"}
    ] * 2


def test_an_attempt_cut_off_while_thinking_is_summarised_and_costs_no_answer() -> None:
    cut = Completion("", 0, "a long way", "", finish_reason="length", completion_tokens=100)
    (_, second, third), model = traced(reasoning_cache, but(replies, {(1, 0): cut}), **SIZES)
    assert "a long way" in model.prompts("summary", 1)[0]
    assert second[0].completion.text.startswith("attempt 0") and second[0].carried_over
    assert [c.key for c in second[0].side_calls] == ["('summary', 0)", "(1, 0)"]
    assert second[0].notes == ["truncated candidate", "empty candidate"]
    assert third[0].completion.text.startswith("attempt 2") and not third[0].carried_over
