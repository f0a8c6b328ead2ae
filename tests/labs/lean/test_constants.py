"""Test the rules of the constants, and the tactics in PROBES."""

from typing import Any

import pytest

from core.base.errors import UserError
from labs.lean.constants import AblationConstants, IterationConstants, LeanConstants


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
def test_probes_are_joined_by_semicolons_that_are_none_of_a_tactics_own(
    probes: str, expected: tuple[str, ...]
) -> None:
    assert LeanConstants(PROBES=probes).probes == expected


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"ALPHA": 1.5}, "ALPHA"),
        ({"TEMPERATURE": 0}, "CANDIDATES"),
        ({"PROBES": "a;b;c", "MAX_NODES": 3}, "MAX_NODES"),
        ({"PROBES": "rfl; exact?"}, "exact?"),
        ({"EXPLORE": "native_decide"}, "native_decide"),
        ({"ITERATION": 3}, "MAX_ITERATION"),
        ({"ITERATION": 1, "RESET": 1}, "RESET"),
        ({"TRAIN_NODES": 2, "EXPLORE": "lemmas"}, "MAX_NODES"),
    ],
)
def test_constants_that_make_no_search_are_refused(changes: dict[str, Any], name: str) -> None:
    assert LeanConstants(TEMPERATURE=0, CANDIDATES=1).CANDIDATES == 1
    with pytest.raises(UserError, match=name):
        IterationConstants(**changes)


def test_a_trial_of_the_orders_leaves_nodes_to_the_policy() -> None:
    found = AblationConstants(EXPLORE="lemmas", MAX_NODES=60, SMOKE=1).tried()
    assert len(found.probes) < found.MAX_NODES and found.EXPLORE == "none" and found.SEEDS == 1


def test_a_trial_says_which_constants_it_sets() -> None:
    [(name, text)] = IterationConstants(SMOKE=1).trial_rows()
    assert name == "trial" and "MAX_NODES=4" in text and "MAX_THEOREMS=6" in text
    assert IterationConstants().trial_rows() == []
