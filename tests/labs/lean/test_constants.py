"""The constants of proof search: their rules, and what they make of PROBES."""

from typing import Any

import pytest

from core.base.errors import UserError
from labs.lean.constants import LeanConstants


@pytest.mark.parametrize(
    ("probes", "expected"),
    [
        ("assumption", ("assumption",)),
        ("", ()),
        (" ; ", ()),
        ("assumption; rfl;assumption", ("assumption", "rfl")),
        ("constructor <;> assumption; rfl", ("constructor <;> assumption", "rfl")),
        ("intro h<;>simp", ("intro h<;>simp",)),
    ],
)
def test_probes_are_joined_by_semicolons_that_are_none_of_a_tactics_own(probes: str, expected: tuple[str, ...]) -> None:
    assert LeanConstants(PROBES=probes).probes == expected


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ALPHA": 1.5}, "ALPHA=1.5 is out of range"),
        ({"CANDIDATES": 0}, "CANDIDATES=0 is out of range"),
        ({"PROBE_LOGPROB": 0.5}, "PROBE_LOGPROB=0.5 is out of range"),
        ({"ENDS": "never"}, "one of line, model"),
        ({"TEMPERATURE": 0}, "CANDIDATES=4 at TEMPERATURE=0 would be the same tactic 4 times"),
        ({"PROBES": "a;b;c", "MAX_NODES": 3}, "MAX_NODES=3 leaves the model none"),
    ],
)
def test_constants_that_make_no_search_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        LeanConstants(**changes)


def test_one_greedy_candidate_is_a_search() -> None:
    assert LeanConstants(TEMPERATURE=0, CANDIDATES=1).CANDIDATES == 1
