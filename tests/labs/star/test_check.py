"""The format guard: what is kept, what is dropped and why, and traces that mean to get past it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.grading.boxed import extract
from labs.star.check import REASONS, Checked, check

STEPS = "7*43=301\n6*58=348, 301+348=649\n"
KEPT = [
    "Final: 649",
    "**Final:** $649$\n\n",
    "\n> **Final: 649**\n",
    "Final: the sum of both is 649.",
    "Final: \\boxed{649}",
    "\\boxed{649}",
    "So it is $\\boxed{649}$.",
    "**\\[\\boxed{649}\\]**",
    "\\[\n\\boxed{649}.\n\\]\n",
    "$$\n\\boxed{649}\n$$",
    "\\boxed{\\boxed{649}}",
]
DROPPED = [
    ("", "no final line"),
    ("so the Final: 649", "no final line"),
    ("\\boxed{649", "no final line"),
    ("Final: 649\nI hope it helps.", "text after it"),
    ("\\boxed{649} apples", "text after it"),
    ("\\boxed{\n649\n}", "text after it"),
    ("Final: 649\nFinal: 649", "several finals"),
    ("\\boxed{649}\nFinal: 649", "several finals"),
    ("Final: 649\n\\boxed{649}", "several finals"),
    ("\\boxed{649}\n\\boxed{649}", "several finals"),
    ("\\boxed{64\nFinal: 649", "several finals"),
    ("Final:", "placeholder"),
    ("Final: ...", "placeholder"),
    ("Final: **<answer>**", "placeholder"),
    ("\\boxed{}", "placeholder"),
    ("\\boxed{\\text{answer}}", "placeholder"),
    ("Final: " + "9" * 1001, "unreadable"),
    ("Final: 42}", "unreadable"),
    ("3\n4\n5\n6\n7\n8\n9\nFinal: 649", "too many steps"),
    ("\x1b[2JFinal: 649", "control characters"),
    ("\u202eFinal: 649", "control characters"),
    ("\ud800\nFinal: 649", "control characters"),
    ("6\u200b49\nFinal: 649", "control characters"),
    ("So it is 12.\u2028Final: 649", "control characters"),
    ("a step\rFinal: 649", "control characters"),
    ("\U000e0041\nFinal: 649", "control characters"),
]


@pytest.mark.parametrize("last", KEPT)
def test_steps_and_then_the_answer_are_kept(last: str) -> None:
    assert check(STEPS + last, 2, 8) == Checked("", 2)
    assert check((STEPS + last).replace("\n", "\r\n"), 2, 2) == Checked("", 2)
    assert check("\n \n\t\n\u3000\n$$\n---\n" + STEPS.replace("\n", "\n\n") + last, 2, 2) == Checked("", 2)
    assert check(last, 2, 8) == Checked("too few steps", 0)
    assert check(STEPS + last, 3, 8).reason == "too few steps" and check(STEPS + last, 0, 1).reason == "too many steps"


@pytest.mark.parametrize(("last", "reason"), DROPPED)
def test_others_are_dropped_for_a_reason(last: str, reason: str) -> None:
    assert check(STEPS + last, 2, 8).reason == reason


def test_the_tables_cover_every_reason() -> None:
    assert {reason for _, reason in DROPPED} | {"empty", "too few steps"} == set(REASONS)
    assert all(check(text, 0, 8) == Checked("empty", 0) for text in ("", " \n\t\r\n", "\u3000"))
    heading = "**Final Answer:**\n\\[\n\\boxed{649}\n\\]"  # it states nothing, and is a step
    assert check(STEPS + heading, 2, 8) == Checked("", 3)


PIECES = ["Final:", "final answer:", "42", "\\boxed{", "}", "\\boxed{7}", "a step", "...", "$", "\\[", "**", "```", ">"]
TEXTS = st.lists(st.sampled_from([*PIECES, " ", "\n", "\n", "\r\n", "\r", "\u2028", "\ud800", "\x1b"]), max_size=30)


@given(
    st.one_of(TEXTS.map("".join), st.text(max_size=200)),
    st.sampled_from(["", *KEPT]),
    st.integers(0, 3),
    st.integers(3, 9),
)
def test_what_is_kept_states_its_answer_once_and_last(before: str, end: str, least: int, most: int) -> None:
    text = before + end
    checked = check(text, least, most)
    assert checked.reason in ("", *REASONS) and checked.steps <= text.count("\n") + 1
    if checked.reason:
        return
    read = extract(text, "math")
    assert least <= checked.steps <= most and read.answer and read.doubt is None
    assert len(text.splitlines()) == len(text.replace("\r\n", "\n").removesuffix("\n").split("\n"))
    lines = [line for line in text.split("\n") if line.strip(" $*.\r]\\")]
    assert extract("\n".join(lines[:-1]), "math").answer is None


@pytest.mark.parametrize(
    "text",
    [
        "a step\n" * 250_000,
        "Final: 7\n" * 75_000,
        "\\boxed{7}\n" * 75_000,
        "\\boxed{7}" + "$ " * 750_000 + "x",
        "\\boxed{" * 250_000,
        "Final: " + "9" * 2_500_000,
    ],
    ids=lambda text: text[:12].encode("unicode_escape").decode(),
)
def test_hostile_traces_take_linear_time(text: str) -> None:
    started = time.process_time()
    check(text, 2, 8)
    assert time.process_time() - started < 15  # about 1 s; a quadratic reader needs hours
