"""The split of a reply into thinking and answer, for all forms of thinking."""

import time
from typing import Any

import pytest

from core.base.thinking import FORMS, Form, has_tag, is_open, split_thinking, written_tags

THOUGHT = "First \\boxed{1}. Then \\boxed{25}."


@pytest.mark.parametrize(
    ("content", "reasoning", "cut", "expected"),
    [
        ("the answer", None, False, ("", "the answer")),
        ("the answer", "thoughts", False, ("thoughts", "the answer")),
        ("<think>\nthoughts\n</think>\n\nthe answer", None, False, ("thoughts", "the answer")),
        ("thoughts\n</think>\n\nthe answer", None, False, ("thoughts", "the answer")),
        (" and more</think>the answer", "thoughts", False, ("thoughts and more", "the answer")),
        ("<think>unfinished thou", None, False, ("unfinished thou", "")),
        (
            "The proof says:\n<think>\n\nPoints: 5",
            None,
            False,
            ("", "The proof says:\n<think>\n\nPoints: 5"),
        ),
        ("unfinished thou", None, True, ("unfinished thou", "")),
        ("", "unfinished thou", True, ("unfinished thou", "")),
        ("half an ans", "thoughts", True, ("thoughts", "half an ans")),
        ("", None, False, ("", "")),
    ],
)
def test_thinking_and_answer_are_split(
    content: str, reasoning: str | None, cut: bool, expected: Any
) -> None:
    assert split_thinking(content, reasoning, cut) == expected


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.example)
def test_all_forms_are_split(form: Form) -> None:
    opening, _, closing = form.example.partition("…")
    closing = closing.removesuffix("42")
    thought = f"{opening}\n{THOUGHT}\n"
    thinking, answer = split_thinking(f"{thought}{closing}\n\nThe answer is 30.", None)
    assert thinking.endswith(THOUGHT) and "|" not in thinking and answer == "The answer is 30."
    assert split_thinking(thought, None) == (thinking, "") and has_tag(thought)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            "<think>The tag `</think>` ends it. So 25.</think>\n\n30",
            ("The tag `</think>` ends it. So 25.", "30"),
        ),
        ('<think>"</think>" ends it</think>30', ('"</think>" ends it', "30")),
        ("<think>a</think>b\n</think>\nc", ("a</think>b", "c")),
        ("<think>a</think>\n\\boxed{3}\n</think>", ("a", "\\boxed{3}")),
        ("<think>a</think>b<think>c</think>d", ("a</think>b<think>c", "d")),
        ("<think>a</think>b\n<think>c", ("ac", "b")),
        ("\\boxed{3}\n<reasoning>because</reasoning>", ("because", "\\boxed{3}")),
        ("Let me see.\n[THINK]a[/THINK]b", ("Let me see.\na", "b")),
        ("The tag `<think>` is no thinking", ("", "The tag `<think>` is no thinking")),
        ("a < think > b", ("", "a < think > b")),
        ("<think>a</think>b<|im_end|>\n<think>c</think>d", ("a\n\nc", "b\n\n<|im_end|>\n\nd")),
        ("<think>a</think>b\n\nUser: c\n<think>d</think>e", ("a\n\nc\nd", "b\n\nUser:\n\ne")),
        ("b</s>[INST]c[/INST][THINK]d[/THINK]e", ("c[/INST]d", "b\n\n</s>[INST]\n\ne")),
        ("<think>a <|im_end|> b</think>c", ("a <|im_end|> b", "c")),
        ("a\nQuestion: b</think>c", ("a\nQuestion: b", "c")),
        ("<think>a</think>b\nQuestion: c\n</think>d", ("a</think>b\nQuestion: c", "d")),
        ("Here is my response: 42", ("", "Here is my response: 42")),
        ("analysis of the graph", ("", "analysis of the graph")),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>",
            ("a", "b"),
        ),
        (
            "<|begin_of_thought|>\na\n<|end_of_thought|>\n\n<|begin_of_solution|>\nb\n<|end_of_solution|>",
            ("a", "b"),
        ),
    ],
)
def test_only_real_tags_split(content: str, expected: tuple[str, str]) -> None:
    assert split_thinking(content, None) == expected


def test_a_request_closes_thinking_by_the_replys_own_tag() -> None:
    assert written_tags("<seed:think>so") == ("<seed:think>", "</seed:think>")
    assert written_tags("[THINK]so") == ("[THINK]", "[/THINK]")
    assert written_tags("so") == written_tags("<think>so") == ("<think>", "</think>")


def test_a_prompt_ends_inside_thinking() -> None:
    assert is_open("<|im_start|>assistant\n<think>\n") and is_open("[/INST][THINK]")
    assert not is_open("<think>\n\n</think>\n\n") and not is_open("assistant\n")


@pytest.mark.parametrize(
    "piece",
    [
        "<think>",
        "</think>",
        "<",
        "[",
        "<|end|>",
        "<|channel|>analysis",
        "a_",
        " ",
        "x<think>",
        "x</s>",
        "</think>x</s>",
    ],
)
def test_splitting_takes_linear_time(piece: str) -> None:
    began = time.process_time()
    split_thinking(piece * (200_000 // len(piece)), None)
    assert time.process_time() - began < 2  # at most 0.3 s
