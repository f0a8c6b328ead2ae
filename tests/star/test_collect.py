"""Samples that were made to deceive: none is trained on."""

import asyncio
from typing import Any

import pytest

from core.results.rounds import FIRST, RATIONALISED
from core.star.collect import judged
from core.star.constants import StarConstants
from core.types import Completion, Problem

PROBLEM = Problem("p", "What is 6*7?", "42")
STEPS = "6*7 = 42\nso it is 42\n"


async def asked(*_: Any, **__: Any) -> Completion:
    raise AssertionError("nothing is asked to judge an answer")


def dropped(text: str, way: str = FIRST, thinking: str = "", **changes: Any) -> str:
    made = Completion("k", 0, thinking, text, finish_reason="stop")
    return asyncio.run(judged(PROBLEM, made, way, asked, StarConstants(**changes))).dropped


@pytest.mark.parametrize(
    "tag",
    [
        *("<|im_end|>", "<|im_start|>assistant", "<|endoftext|>", "<|eot_id|>", "<|start_header_id|>", "<|return|>"),
        *("<think>", "</think>", "<tool_call>", "</tool_response>", "<tools>", "<s>", "</s>", "<eos>", "<unk>"),
        *("[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/SYSTEM_PROMPT]"),
        *("[THINK]", "<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>", "<unused7>", "<reserved_106>"),
        *("<｜User｜>", "<｜end▁of▁sentence｜>", "<beginning_of_sentence>", "<EOS_TOKEN>", "<extra_id_0>"),
        *("[gMASK]", "<sop>", "<eoh>", "◁think▷", "◁/think▷", "<seed:think>", "<minimax:tool_call>", "[|user|]"),
    ],
)
def test_tags_of_chat_templates_are_found(tag: str) -> None:
    assert dropped(f"6*7 = 42 {tag}\nso it is 42\nFinal: 42") == "chat tags"
    assert dropped(f"{STEPS}Final: 42", thinking=f"well {tag}") == "chat tags"


@pytest.mark.parametrize(
    "text",
    ["0 < |x| < 3", "P(a<X|b) = 1", "[1/2]", "|x|<3 and |y|>2", "<a|b>", "a<b:c>d", "[a|b|c]", "[|x|]", "2<3|6>1"],
)
def test_mathematics_is_no_tag(text: str) -> None:
    assert dropped(f"{text}\n{STEPS}Final: 42") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{STEPS}Final: 42", ""),
        (f"{STEPS}\\boxed{{42}}", ""),
        (f"{STEPS}Final: $42$", ""),
        (f"{STEPS}Final: 041", "wrong"),
        (f"Final: 41\n{STEPS}Final: 42", "several finals"),
        (f"{STEPS}Final: 41\rFinal: 42", "control characters"),
        (f"{STEPS}Final: 41\u2028Final: 42", "control characters"),
        (f"{STEPS}\x1b[2JFinal: 42", "control characters"),
        (f"{STEPS}Final: 42\nor 43", "text after it"),
        (f"{STEPS}Final: <answer>", "placeholder"),
        ("a step\n" * 5000 + "Final: 42", "too many steps"),
        ("Final: 1\n" * 5000 + "Final: 42", "several finals"),
        ("Final: 42", "too few steps"),
        (f"{STEPS}Final: 9**9**9**9", "wrong"),
    ],
)
def test_what_a_sample_is_dropped_for(text: str, reason: str) -> None:
    assert dropped(text) == reason


def test_an_echo_of_the_hint_and_another_value_are_told_in_thinking_too() -> None:
    echo = "For my own check: the right answer is 42."
    assert dropped(f"{STEPS}Final: 42", RATIONALISED) == ""
    assert dropped(f"{echo}\n{STEPS}Final: 42", RATIONALISED) == "told"
    assert dropped(f"{STEPS}Final: 42", RATIONALISED, thinking=echo) == "told"
    assert dropped(f"The answer is 41.\n{STEPS}Final: 42", RATIONALISED) == "another value"


def test_without_a_filter_a_wrong_sample_is_kept_and_one_without_form_is_not() -> None:
    assert dropped(f"{STEPS}Final: 41", FILTER=0) == ""
    assert dropped("Final: 41", FILTER=0) == "too few steps"
    assert dropped(f"6*7 = 41\n{STEPS}Final: 42", SOUND=1) == "false equation"
