"""Samples that were made to deceive: none is trained on."""

import asyncio
from typing import Any

import pytest

from core.types import Completion, Problem
from labs.star.collect import Sample, judged
from labs.star.constants import StarConstants
from labs.star.counts import counted
from labs.star.prompts import collecting
from labs.star.record import FIRST, RATIONALISED, Way
from labs.star.report import malformed

PROBLEM = Problem("p", "What is 6*7?", "42")
STEPS = "6*7 = 42\nso it is 42\n"


async def asked(*_: Any, **__: Any) -> Completion:
    raise AssertionError("nothing is asked to judge an answer")


def dropped(text: str, way: Way = FIRST, thinking: str = "", **changes: Any) -> str:
    return sample(text, way, thinking, **changes).dropped


def sample(
    text: str, way: Way = FIRST, thinking: str = "", end: str = "stop", **changes: Any
) -> Sample:
    completion = Completion("k", 0, thinking, text, finish_reason=end)
    return asyncio.run(judged(PROBLEM, completion, way, asked, StarConstants(**changes)))


@pytest.mark.parametrize(
    "tag",
    [
        *(
            "<|im_end|>",
            "<|im_start|>assistant",
            "<|start_header_id|>",
            "<｜User｜>",
            "<｜end▁of▁sentence｜>",
        ),
        *(
            "<think>",
            "</think>",
            "<tool_call>",
            "</tool_response>",
            "</s>",
            "[/INST]",
            "<start_of_turn>",
        ),
    ],
)
def test_tags_of_chat_templates_are_found(tag: str) -> None:
    assert dropped(f"6*7 = 42 {tag}\nso it is 42\nFinal: 42") == "chat tags"
    assert dropped(f"{STEPS}Final: 42", thinking=f"well {tag}") == "chat tags"


@pytest.mark.parametrize(
    "text",
    ["0 < |x| < 3", "P(a<X|b) = 1", "[1/2]", "|x|<3 and |y|>2", "<a|b>", "[|x|]", "2<3|6>1"],
)
def test_mathematics_is_no_tag(text: str) -> None:
    assert dropped(f"{text}\n{STEPS}Final: 42") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{STEPS}Final: 42", ""),
        (f"{STEPS}\\boxed{{42}}", ""),
        (f"{STEPS}Final: 041", "wrong"),
        (f"{STEPS}\x1b[2JFinal: 42", "control characters"),
        (f"{STEPS}Final: 9**9**9**9", "wrong"),
    ],
)
def test_what_a_sample_is_dropped_for(text: str, reason: str) -> None:
    assert dropped(text) == reason


def test_an_echo_of_the_hint_and_another_value_are_found_in_thinking_too() -> None:
    echo = "For my own check: the right answer is 42."
    assert dropped(f"{STEPS}Final: 42", RATIONALISED) == ""
    assert dropped(f"{echo}\n{STEPS}Final: 42", RATIONALISED) == "answer first"
    assert dropped(f"{STEPS}Final: 42", RATIONALISED, thinking=echo) == "answer first"
    assert dropped(f"{STEPS}Final: 42", RATIONALISED, thinking="\\boxed{41}") == "another value"


def test_without_a_filter_a_wrong_sample_is_kept_and_one_without_form_is_not() -> None:
    assert dropped(f"{STEPS}Final: 41", FILTER=0) == ""
    assert dropped("Final: 41", FILTER=0) == "too few steps"
    assert dropped(f"6*7 = 41\n{STEPS}Final: 42", SOUND=1) == "false equation"


@pytest.mark.parametrize("fewshot", ["format", "math"])
@pytest.mark.parametrize(
    ("text", "end", "kept"),
    [
        (f"{STEPS}Final: 42", "stop", "Final: 42"),
        (f"{STEPS}Final: 42\n\nThe answer is 42.", "stop", "Final: 42"),
        (f"{STEPS}Final: 42\nFinal: 42", "stop", "Final: 42"),
        (f"{STEPS}**Final:** 42\n\nFinal: 43 and so", "length", "**Final:** 42"),
        (f"{STEPS}Final: $42$\n\\boxed{{43}}", "stop", "Final: $42$"),
        (f"{STEPS}Final: 42", "length", "cut off"),
        (f"{STEPS}Final: 41\nFinal: 42", "stop", "wrong"),
        (f"{STEPS}\\boxed{{42}}", "stop", "no final line"),
        (f"{STEPS}Final Answer:\n\\boxed{{42}}", "stop", "no final line"),
        (f"{STEPS}**Final Answer**: \\boxed{{42}}", "stop", "no final line"),
        (f"{STEPS}Final Answer: 42\nFinal: 42", "stop", "several finals"),
    ],
)
def test_a_solution_ends_with_the_final_line_that_the_prompt_asks_for(
    text: str, end: str, kept: str, fewshot: str
) -> None:
    found = sample(text, end=end, FEWSHOT=fewshot)
    assert (found.dropped or found.completion.text.removeprefix(STEPS)) == kept
    assert sample(text, end="stop", FEWSHOT="none").completion.text == text


def test_right_samples_that_are_malformed_are_counted_with_a_constant_that_keeps_them() -> None:
    texts = [
        "6*7 = 42\nFinal: 42",
        "6*7 = 42\nFinal: 41",
        f"{STEPS}\\boxed{{42}}",
        f"{STEPS}Final: 42",
        "42",
    ]
    texts.append(f"{STEPS}</s>\nFinal: 42")
    found = counted([sample(text, FEWSHOT="format") for text in texts])
    assert found["malformed"] == {"too few steps": 1, "no final line": 1, "chat tags": 1}
    assert all(
        each in malformed(found)
        for each in ("1 too few steps", "MIN_STEPS", "FEWSHOT=math", "FEWSHOT=none")
    )
    assert malformed({"malformed": {}}) == ""


@pytest.mark.parametrize("fewshot", ["none", "format", "math"])
def test_a_hint_stands_before_the_demand_for_form(fewshot: str) -> None:
    config = StarConstants(FEWSHOT=fewshot)
    plain, hinted = (str(collecting(PROBLEM, config, hint)[-1]["content"]) for hint in (None, "42"))
    demand = plain.removeprefix(PROBLEM.statement)
    assert hinted.startswith(PROBLEM.statement) and hinted.count("the right answer is 42") == 1
    assert hinted.endswith(demand) is (fewshot != "none") and demand in hinted
