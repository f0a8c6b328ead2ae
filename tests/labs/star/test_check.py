"""The format guard: what is kept, what is dropped and why, and traces that mean to get past it."""

import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.constants import AUTO, LAST_NUMBER, TEXT
from core.grading.kinds.math import Math
from core.types import Problem
from labs.star.check import REASONS, Checked, check
from labs.star.hints import is_stated_first, states_another
from labs.star.sound import false_equations
from labs.star.statements import hash_of
from tests.helpers.reading import extract

STEPS = "7*43=301\n6*58=348, 301+348=649\n"
KEPT = [
    "Final: 649", "**Final:** $649$\n\n", "\n> **Final: 649**\n", "Final: the sum of both is 649.",
    "Final: \\boxed{649}", "\\boxed{649}", "So it is $\\boxed{649}$.", "**\\[\\boxed{649}\\]**",
    "\\[\n\\boxed{649}.\n\\]\n", "$$\n\\boxed{649}\n$$", "\\boxed{\\boxed{649}}",
]  # fmt: skip
DROPPED = [
    ("", "no final line"), ("so the Final: 649", "no final line"), ("\\boxed{649", "no final line"),
    ("Final: 649\nI hope it helps.", "text after it"), ("\\boxed{649} apples", "text after it"),
    ("Final: 649\nFinal: 649", "several finals"), ("\\boxed{649}\nFinal: 649", "several finals"),
    ("\\boxed{649}\n\\boxed{649}", "several finals"), ("\\boxed{64\nFinal: 649", "several finals"),
    ("Final:", "placeholder"), ("Final: **<answer>**", "placeholder"), ("\\boxed{\\text{answer}}", (
        "placeholder"
    )),
    ("Final: " + "9" * 1001, "unreadable"), ("Final: 42}", "unreadable"),
    ("3\n4\n5\n6\n7\n8\n9\nFinal: 649", "too many steps"), ("\x1b[2JFinal: 649", (
        "control characters"
    )),
    ("\u202eFinal: 649", "control characters"), ("\ud800\nFinal: 649", "control characters"),
    ("So it is 12.\u2028Final: 649", "control characters"), ("a step\rFinal: 649", (
        "control characters"
    )),
]  # fmt: skip
# With ANSWER: the way, the end of the text, and the reason to drop it.
SPOKEN = [
    (TEXT, "The answer is 649.", ""), (TEXT, "\n**The final answer is $649$.**\n", ""), (TEXT,
    "#### 649", (
        ""
    )),
    (TEXT, "\\boxed{649}", ""), (TEXT, "So there are 649 of them.", "no final line"),
    (TEXT, "The answer is 649.\nI hope it helps.", "text after it"),
    (TEXT, "The answer is 648.\nNo, the answer is 649.", "several finals"),
    (TEXT, "The answer is 6\u200b49.", "control characters"),
    (TEXT, "3\n4\n5\n6\n7\n8\n9\nThe answer is 649.", "too many steps"), (AUTO,
    "The answer is 649.", (
        ""
    )),
    (AUTO, "\\boxed{649}\nThe answer is 649.", "text after it"), (LAST_NUMBER, "649", ""),
    (LAST_NUMBER, "I do not know.", "no final line"),
]  # fmt: skip


@pytest.mark.parametrize("last", KEPT)
def test_steps_and_then_the_answer_are_kept(last: str) -> None:
    assert check(STEPS + last, 2, 8) == Checked("", 2)
    assert check((STEPS + last).replace("\n", "\r\n"), 2, 2) == Checked("", 2)
    assert check(
        "\n \n\t\n\u3000\n$$\n---\n" + STEPS.replace("\n", "\n\n") + last, 2, 2
    ) == Checked("", 2)
    assert check(last, 2, 8) == Checked("too few steps", 0)
    assert (
        check(STEPS + last, 3, 8).reason == "too few steps"
        and check(STEPS + last, 0, 1).reason == "too many steps"
    )


@pytest.mark.parametrize("last", KEPT)
def test_a_final_line_alone_passes_if_it_is_asked_for(last: str) -> None:
    assert check(STEPS + last, 2, 8, takes_box=False).reason == (
        "" if "Final" in last else "no final line"
    )
    assert (
        check((STEPS + last).replace("Final", "Final answer"), 2, 8, takes_box=False).reason
        == "no final line"
    )
    assert check((STEPS + last).replace("Final", "Final answer"), 2, 8) == Checked("", 2)


@pytest.mark.parametrize(("way", "end", "reason"), SPOKEN)
def test_the_last_line_may_state_the_answer_as_answer_asks(way: str, end: str, reason: str) -> None:
    found = check(STEPS + end, 2, 8, way=way)
    assert found.reason == reason and (reason or found.steps == 2)
    if "Final" not in end:
        assert check(STEPS + end, 2, 8, takes_box=False, way=way).reason in (
            "no final line",
            "control characters",
        )


@pytest.mark.parametrize(("last", "reason"), DROPPED)
def test_others_are_dropped_for_a_reason(last: str, reason: str) -> None:
    assert check(STEPS + last, 2, 8).reason == reason


def test_the_tables_cover_every_reason() -> None:
    assert {reason for _, reason in DROPPED} | {"empty", "too few steps"} == set(REASONS)
    assert all(check(text, 0, 8) == Checked("empty", 0) for text in ("", " \n\t\r\n", "\u3000"))
    heading = "**Final Answer:**\n\\[\n\\boxed{649}\n\\]"  # it states nothing, and is a step
    assert check(STEPS + heading, 2, 8) == Checked("", 3)


PIECES = [
    "Final:",
    "final answer:",
    "42",
    "\\boxed{",
    "}",
    "\\boxed{7}",
    "a step",
    "...",
    "$",
    "\\[",
    "**",
    "```",
    ">",
]
TEXTS = st.lists(
    st.sampled_from([*PIECES, " ", "\n", "\n", "\r\n", "\r", "\u2028", "\ud800", "\x1b"]),
    max_size=30,
)


@given(
    st.one_of(TEXTS.map("".join), st.text(max_size=200)),
    st.sampled_from(["", *KEPT]),
    st.integers(0, 3),
    st.integers(3, 9),
)
@example("$final answer:>", "\n> **Final: 649**\n", 0, 3)
def test_what_is_kept_states_its_answer_once_and_last(
    before: str, end: str, least: int, most: int
) -> None:
    text = before + end
    checked = check(text, least, most)
    assert checked.reason in ("", *REASONS) and checked.steps <= text.count("\n") + 1
    if checked.reason:
        return
    read = extract(text, Math())
    assert least <= checked.steps <= most and read.answer and read.doubt in (None, "sentence")
    assert len(text.splitlines()) == len(text.replace("\r\n", "\n").removesuffix("\n").split("\n"))
    lines = [line for line in text.split("\n") if line.strip(" $*.\r]\\")]
    assert extract("\n".join(lines[:-1]), Math()).answer is None


READERS: dict[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "form": (
        lambda text: check(text, 2, 8),
        ("a step\n", "Final: 7\n", "\\boxed{7}\n", "\\boxed{", "9"),
    ),
    "final": (
        lambda text: check(text, 2, 8, takes_box=False),
        ("Final: 7\n", "Final answer: 7\n", "Final*", ":", "* "),
    ),
    "box": (lambda text: check(f"\\boxed{{7}}{text}x", 2, 8), ("$ ",)),
    "first": (
        lambda text: is_stated_first(f"{text}\nFinal: 7", "7", ""),
        ("answer is ", "a", " ", "\n", "1 a "),
    ),
    "another": (
        lambda text: states_another(text, Problem("n", "?", "7")),
        ("answer is ", "a", " ", "\n", "1 a "),
    ),
    "sound": (false_equations, ("1+", "=", "1=", "9", "1=2 ", "1*", "\n", "7*8=5,", "1*1=1 ")),
    "statement": (hash_of, ("# ", "problem ", "1.", "(5 points", "\\left", "$", " ")),
}


@pytest.mark.parametrize("name", READERS)
def test_hostile_texts_take_linear_time(name: str) -> None:
    read, parts = READERS[name]
    for part in parts:
        started = time.process_time()
        read(part * (50_000 // len(part)))
        # about 0.1 to 0.3 s; a quadratic reader needs 6 s
        assert time.process_time() - started < 2, part
