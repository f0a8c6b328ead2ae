"""Marking schemes are read if they keep their form, and checked to add up."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labs.proofs.curate.schemes import RULE, read

PLAIN = "Checkpoints:\n- 3 points: a\n- 4 points: b\nNo credit:\n- c\nDeductions:\n- 1 point: d"
CHAINS = (
    "Checkpoints:\n- 2 points: a\nChain: x\n- 5 points: b\nChain: y\n- 1 point: c\n- 4 points: d\n"
    "No credit:\n- none\nDeductions:\n- none"
)


@pytest.mark.parametrize("text", [f"Checkpoints: I think of two.\n\n{PLAIN}\n", CHAINS])
def test_a_scheme_is_what_stands_below_its_last_heading_written_in_one_form(text: str) -> None:
    own = text[text.rindex("Checkpoints:") :].strip()
    assert read(text) == {"grading_scheme": own.replace("Checkpoints:", f"Checkpoints ({RULE}):")}


@pytest.mark.parametrize(
    "text",
    [
        "```\n" + PLAIN + "\n```",
        PLAIN.replace("Checkpoints:", "## **Checkpoints (7 points in all)**").replace(
            "No credit:", "**NO CREDIT**"
        ),
        PLAIN.replace("- 3 points: a", "* **3 points:** a").replace(
            "- 4 points: b", "\n  • **4 Points**: b\r"
        ),
        f"{CHAINS}\n\nNo, rather:\n\n{PLAIN}",
    ],
)
def test_what_models_set_off_is_read(text: str) -> None:
    assert read(text) == read(PLAIN) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Checkpoints:", "Steps:"),
        *(
            ("- 3 points", f"- {number} points")
            for number in ("3.5", "3/7", "3 to 4", "-3", "three", "0", "8", "٣")
        ),
        ("- 3 points: a", "- 3 points:"),
        ("- 3 points: a", "3 points: a"),
        ("- 3 points: a", "- a (3 points)"),
        ("- 3 points: a", "- 3 points: a\nwhich is clear"),
        ("- 3 points: a", "- none"),
        ("- 4 points: b", "Chain:\n- 4 points: b"),
        ("- 4 points: b", "Chain: x\n- 4 points: b\nChain: y"),
        ("No credit:\n- c\n", ""),
        ("Deductions:\n- 1 point: d", ""),
        ("Deductions:", "Deductions:\nDeductions:"),
        ("No credit:", "Chain: x\nNo credit:"),
        ("- 1 point: d", "- d"),
        ("- 1 point: d", "- 1 point: d\nChain: x\n- 7 points: e"),
        ("- 1 point: d", "- 1 point: d\nI hope that this helps."),
        ("- 1 point: d", "- 1 point: d\nNo credit:\n- e"),
    ],
)
def test_anything_else_is_unreadable(old: str, new: str) -> None:
    assert old in PLAIN and read(PLAIN.replace(old, new)) is None


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("4 points", "3 points", "chain 2: 6 points"),
        ("- 5 points", "- 6 points", "chain 1: 8 points"),
        ("- 2 points: a", "- 7 points: a", "chain 1: 12 points"),
    ],
)
def test_each_way_adds_up_to_seven_and_chains_are_not_added(old: str, new: str, fault: str) -> None:
    assert read(CHAINS.replace(old, new)) == f"does not add up ({fault})"
    assert (
        read("Checkpoints:\n- 6 points: a\nNo credit:\nDeductions:") == "does not add up (6 points)"
    )


def test_a_scheme_that_stands_in_what_was_shown_is_nobodys() -> None:
    shown = f"It is so.\n{PLAIN}"
    assert (
        read(shown, shown) is None
        and read(f"As they say:\n\n**Checkpoints:**\n\n{PLAIN[13:]}", shown) is None
    )
    assert read(CHAINS, shown) == read(CHAINS) != None  # noqa: E711


@example("\x1f", "")
@given(st.text(), st.text())
def test_any_text_is_read_or_not(text: str, shown: str) -> None:
    found = read(f"Checkpoints:\n{text}\nNo credit:\n- none\nDeductions:\n- none", shown)
    assert not isinstance(found, dict) or read(found["grading_scheme"]) == found
