"""Marking schemes: what is read, what is not, and what adds up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.proofs import schemes
from labs.proofs.schemes import Chain, Item, Scheme, read

PLAIN = "Checkpoints:\n- 3 points: a\n- 4 points: b\nNo credit:\n- c\nDeductions:\n- 1 point: d"
CHAINS = (
    "Checkpoints:\n- 2 points: a\nChain: x\n- 5 points: b\nChain: y\n- 1 point: c\n- 4 points: d\n"
    "No credit:\n- none\nDeductions:\n- none"
)

words = st.text(st.characters(exclude_characters="\n"), max_size=30).map(str.strip).filter(bool)
items = st.lists(st.builds(Item, st.integers(1, 7), words), max_size=4).map(tuple)
free = words.filter(lambda said: said.strip(" .").lower() != schemes.NONE)
names = words.map(lambda said: said.strip(schemes._SIGNS)).filter(bool)
chains = st.lists(st.builds(Chain, names, items.filter(bool)), max_size=3).map(tuple)
any_scheme = st.builds(Scheme, items, chains, st.lists(free, max_size=3).map(tuple), items)


def test_a_scheme_is_what_stands_below_its_heading() -> None:
    assert read(f"Checkpoints: I think of two.\n\n{PLAIN}\n") == Scheme(
        (Item(3, "a"), Item(4, "b")), (), ("c",), (Item(1, "d"),)
    )
    assert read(CHAINS) == Scheme(
        (Item(2, "a"),), (Chain("x", (Item(5, "b"),)), Chain("y", (Item(1, "c"), Item(4, "d"))))
    )


@pytest.mark.parametrize(
    "said",
    [
        "```\n" + PLAIN + "\n```",
        PLAIN.replace("Checkpoints:", "## **Checkpoints (7 points in all)**").replace("No credit:", "**NO CREDIT**"),
        PLAIN.replace("- 3 points: a", "* **3 points:** a").replace("- 4 points: b", "\n  • **4 Points**: b\r"),
        f"{CHAINS}\n\nNo, rather:\n\n{PLAIN}",
    ],
)
def test_what_models_set_off_is_read(said: str) -> None:
    assert read(said) == read(PLAIN) and read(said)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Checkpoints:", "Steps:"),
        ("- 3 points: a", "- 3.5 points: a"),
        ("- 3 points: a", "- 3/7 points: a"),
        ("- 3 points: a", "- 3 to 4 points: a"),
        ("- 3 points: a", "- -3 points: a"),
        ("- 3 points: a", "- three points: a"),
        ("- 3 points: a", "- 0 points: a"),
        ("- 3 points: a", "- 8 points: a"),
        ("- 3 points: a", "- ٣ points: a"),
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


@pytest.mark.parametrize("said", ["", "Checkpoints:", "Checkpoints:\n", "\n\nNo credit:\n- a\nDeductions:\n- none"])
def test_what_is_no_scheme_is_none(said: str) -> None:
    assert read(said) is None


@pytest.mark.parametrize(
    ("scheme", "fault"),
    [
        (PLAIN, None),
        (CHAINS, None),
        (PLAIN.replace("4 points", "3 points"), "6 points"),
        (PLAIN.replace("4 points", "5 points"), "8 points"),
        (CHAINS.replace("- 5 points", "- 6 points"), "chain 1: 8 points"),
        (CHAINS.replace("- 1 point: c\n", ""), "chain 2: 6 points"),
        (CHAINS.replace("- 2 points: a", "- 7 points: a"), "chain 1: 12 points"),
        (CHAINS.replace("- 2 points: a\n", ""), "chain 1: 5 points"),
    ],
)
def test_each_way_adds_up_to_seven_and_chains_are_not_added(scheme: str, fault: str | None) -> None:
    found = read(scheme)
    assert found and found.fault == fault


def test_a_scheme_that_stands_in_what_was_shown_is_nobodys() -> None:
    shown = f"It is so.\n{PLAIN}"
    assert read(shown, shown) is None and read(f"As they say:\n\n**Checkpoints:**\n\n{PLAIN[13:]}", shown) is None
    assert read(CHAINS, shown) == read(CHAINS) != None  # noqa: E711


@given(any_scheme)
def test_what_is_written_is_read_again(scheme: Scheme) -> None:
    assert read(scheme.text) == scheme and read(f"Thus:\n{scheme.text}\n") == scheme


@given(any_scheme)
def test_the_fault_is_what_a_sum_by_hand_says(scheme: Scheme) -> None:
    ways = [scheme.common + chain.items for chain in scheme.chains] or [scheme.common]
    assert (scheme.fault is None) == all(sum(points for points, _ in way) == 7 for way in ways)


@given(st.text(), st.text())
def test_any_text_is_read_or_not(text: str, shown: str) -> None:
    found = read(f"Checkpoints:\n{text}\nNo credit:\n- none\nDeductions:\n- none", shown)
    assert found is None or read(found.text) == found
