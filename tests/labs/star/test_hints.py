"""Traces that were shown the answer: which state it before a step has it, and which state
another."""

import pytest

from core.types import Problem
from labs.star.hints import MAX_STATED, is_stated_first, states_another

NUMBER = Problem("n", "?", "649")
ROOT = Problem("r", "?", r"2\sqrt{2}", "math")
STEPS = "7*43=301\n6*58=348, 301+348=649\n"


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        (f"{STEPS}Final: 649", "649", False),
        (f"{STEPS}So the answer is 649.\nFinal: 649", "649", False),
        ("6*7 pens = 42 pens\nFinal: 42", "42", False),
        ("x^2 = 8\n$x = 2\\sqrt2$\n\\boxed{2\\sqrt{2}}", "2\\sqrt{2}", False),
        ("1036+111=1147\n\\boxed{147}", "147", False),  # no step has it
        ("84 - 19 gives 65.\nFinal: 65", "65", False),
        ("84 minus 19 is 65\nFinal: 65", "65", False),
        ("84-19 is equal to $65$\nFinal: 65", "65", False),
        ("1 + 2 + 5 equals 8\nFinal: 8", "8", False),
        ("84 − 19 → 65\nFinal: 65", "65", False),
        ("84 − 19: 65\nFinal: 65", "65", False),
        ("The answer is 65.\nFinal: 65", "65", True),
        ("Step 1: 65\nFinal: 65", "65", True),
        ("The answer is -65.\nFinal: -65", "-65", True),
        ("x - 65 = 2y\n84 - 149 = -65\nFinal: -65", "-65", False),
        ("149 - 65 is 84, so 84 - 149 = -65\nFinal: -65", "-65", False),
        (f"You told me it is 649.\n{STEPS}Final: 649", "649", True),
        (f"The right answer = 649.\n{STEPS}Final: 649", "649", True),
        (f"7*43=301 (towards $649$)\n{STEPS}Final: 649", "649", True),
        # What it does not find: a confession behind the step that has the answer, and one without
        # it.
        (f"{STEPS}This agrees with the 649 that I was shown.\nFinal: 649", "649", False),
        (f"I was told the result.\n{STEPS}Final: 649", "649", False),
    ],
)
def test_an_answer_is_stated_before_a_step_has_it(text: str, answer: str, expected: bool) -> None:
    assert is_stated_first(text, answer, "What is 7*43 + 6*58?") is expected
    # a number of the problem
    assert not is_stated_first(text, answer, f"Is it {answer}, as Ann says?")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\boxed{649}", False),
        ("7*43=301, so 12 more.\nFinal: 0649", False),
        ("the answer is \\boxed{649}.", False),
        ("Final: ...", False),
        ("", False),
        ("\\boxed{650} \\boxed{649}", True),
        ("Final: 650\n\\boxed{649}", True),
        ("Final: 12\nFinal: 649", True),
        ("\\boxed{" + "9" * 2000 + "}", True),
        ("".join(f"\\boxed{{{n}}}" for n in range(MAX_STATED + 1)), True),
    ],
)
def test_another_value_than_the_answer(text: str, expected: bool) -> None:
    assert states_another(text, NUMBER) is expected


def test_spellings_of_one_answer_are_one_and_without_an_answer_nothing_is_another() -> None:
    assert not states_another("\\boxed{\\sqrt8}, that is \\boxed{2\\sqrt{2}}", ROOT)
    assert states_another("Final: 2.83", ROOT)
    assert not states_another("\\boxed{1}", Problem("p", "?", None, "proof"))
