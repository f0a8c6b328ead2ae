"""Traces that were shown the answer: what gives that away and what does not (cases/hints.json), and other values."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.star.hints import MAX_STATED, states_another, told
from core.types import Problem

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "cases" / "hints.json").read_text(encoding="utf-8")
)
NUMBER = Problem("n", "?", "649")
ROOT = Problem("r", "?", r"2\sqrt{2}", "math")


@pytest.mark.parametrize("case", CASES, ids=[f"{i:03d} {case['text'][:50]}" for i, case in enumerate(CASES)])
def test_case(case: dict[str, Any]) -> None:
    around = f"7*43=301\n{case['text']}\n6*58=348"
    for text in (case["text"], case["text"].replace(" ", "  \t"), case["text"].replace("'", "’"), around):
        assert told(text, case.get("statement", "")) is case["told"]


def test_the_table_has_both_kinds() -> None:
    assert sum(case["told"] for case in CASES) > 80 < sum(not case["told"] for case in CASES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\boxed{649}", False),
        ("7*43=301, so 12 more.\nFinal: 0649", False),
        ("the answer is 649. So the final answer is **649**.\nFinal: 649", False),
        ("the answer is $649$ and \\boxed{649}", False),
        ("the answer is 649 apples", False),
        ("the answer is \\boxed{649}.", False),
        ("the answer is 7*43+6*58 = 649", False),
        ("the answer is 3 more than 12", False),
        ("the answer is 12 mod 5", False),
        ("is the answer 12?", False),
        ("the answer is 12?", False),
        ("If the answer is 12, then 5.", False),
        ("the answer is not 12", False),
        ("A tempting wrong answer is 12.", False),
        ("the answer is an integer below 1000", False),
        ("the remainder is 12", False),
        ("Final: ...", False),
        ("", False),
        ("\\boxed{650} \\boxed{649}", True),
        ("Final: 650\n\\boxed{649}", True),
        ("Final: 12\nFinal: 649", True),
        ("The answer is 12.\n\\boxed{649}", True),
        ("So the answer is **12**, wait.\nFinal: 649", True),
        ("The answer to the problem is 12.", True),
        ("the final answer is $12$.", True),
        ("The final value is \\(12\\)!", True),
        ("Answer: 12", True),
        ("the answer is 1,649.", True),
        ("the answer is -649", True),
        ("the answer is 12 because 3*4=12", True),
        ("\\boxed{" + "9" * 2000 + "}", True),
        ("".join(f"\\boxed{{{n}}}" for n in range(MAX_STATED + 1)), True),
    ],
)
def test_another_value_than_the_answer(text: str, expected: bool) -> None:
    assert states_another(text, NUMBER) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\boxed{\\sqrt8}, that is \\boxed{2\\sqrt{2}}", False),
        ("the answer is $\\sqrt{8}$.\nFinal: 2\\sqrt2", False),
        ("the answer is $\\sqrt{7}$.", True),
        ("the answer is 3.", True),
        ("Final: 2.83", True),
    ],
)
def test_spellings_of_one_answer_are_one(text: str, expected: bool) -> None:
    assert states_another(text, ROOT) is expected


def test_without_an_answer_nothing_is_another() -> None:
    assert not states_another("\\boxed{1}", Problem("p", "?", None, "proof"))


WORDS = (
    "the",
    "answer",
    "is",
    "given",
    "hint",
    "told",
    "as",
    "we",
    "12",
    "649",
    ".",
    "\n",
    "Final:",
    "\\boxed{649}",
    "$",
    "so",
)


@given(st.one_of(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join), st.text(max_size=200)))
def test_nothing_raises(text: str) -> None:
    assert isinstance(told(text), bool) and isinstance(states_another(text, NUMBER), bool)


@pytest.mark.parametrize(
    "part", ["answer is ", "so ", "match the ", "as given ", "a", " ", "\n", "answer: (", "told we "]
)
def test_hostile_traces_take_linear_time(part: str) -> None:
    text = part * (200_000 // len(part))
    started = time.process_time()
    told(text)
    states_another(text, NUMBER)
    assert time.process_time() - started < 20  # 1 or 2 s
