"""Constants: read, overridden, checked, and an error that lists them."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import constants
from core.errors import UserError

FILE: dict[str, Any] = {"__file__": "x", "run": len, "N": 8, "K": 3, "TEMPERATURE": 0.7, "CARRY": "answer", "_P": 1}


def test_constants_are_the_upper_case_names_with_overrides_on_top() -> None:
    read = constants.read(FILE, ["N=16", "TEMPERATURE=1"])
    assert dict(read) == {"N": 16, "K": 3, "TEMPERATURE": 1.0, "CARRY": "answer"}
    assert isinstance(read.N, int) and isinstance(read.TEMPERATURE, float)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("M=3", "unknown constant 'M'"),
        ("T=3", "unknown constant 'T'"),
        ("n=3", "unknown constant 'n'"),
        ("N", "is no NAME=value"),
        ("N=", "N= is not a whole number"),
        ("N=three", "N=three is not a whole number from 1 to 1024"),
        ("N=8.5", "N=8.5 is not a whole number"),
        ("N=0", "N=0 is out of range"),
        ("N=-1", "out of range"),
        ("N=2000000", "out of range"),
        ("TEMPERATURE=nan", "out of range"),
        ("TEMPERATURE=hot", "TEMPERATURE=hot is not a number"),
        ("CARRY=everything", "one of answer, tail, full"),
        ("K=9", "K=9 is larger than N=8"),
    ],
)
def test_a_wrong_override_is_one_line_that_lists_the_constants(override: str, words: str) -> None:
    with pytest.raises(UserError) as raised:
        constants.read(FILE, [override])
    message = str(raised.value)
    assert words in message and "\n" not in message
    assert "Constants of this experiment: N=8, K=3, TEMPERATURE=0.7, CARRY=answer" in message


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"CALLS": 15, "K": 1}, "K=1 leaves the planner nothing"),
        ({"REVIEWS": 3, "VERIFY_SAMPLES": 2}, "REVIEWS=3 is larger than VERIFY_SAMPLES=2"),
        ({"MINUTES": 5, "ROUNDS": 0}, "MINUTES=5 bounds no waves"),
    ],
)
def test_constants_that_contradict_each_other_are_told(values: dict[str, float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        constants.Config(values)
    constants.Config({name: value for name, value in values.items() if name not in ("K", "REVIEWS", "MINUTES")})


@pytest.mark.parametrize(
    "changes",
    [
        {"N": "8"},
        {"N": True},
        {"N": None},
        {"CARRY": 3},
        {"ORDER": "used"},
        {"SIZE": 3},
        {"N": 8.5},
        {"N": float("inf")},
    ],
)
def test_a_wrong_constant_in_the_file_is_found(changes: dict[str, Any]) -> None:
    if changes == {"N": "8"}:
        assert (
            constants.read(FILE | changes, []).N == 8
        )  # what the command line gives as text may stand in the file too
        return
    with pytest.raises(UserError, match="Constants of this experiment"):
        constants.read(FILE | changes, [])


def test_a_constant_that_the_scaffold_needs_and_the_file_lacks_is_named() -> None:
    with pytest.raises(UserError, match="needs the constant T"):
        _ = constants.read(FILE, []).T


def test_problems_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBLEMS", "mine.json")
    assert constants.read(FILE | {"PROBLEMS": "auto"}, []).PROBLEMS == "mine.json"
    assert constants.read(FILE | {"PROBLEMS": "auto"}, ["PROBLEMS=sums"]).PROBLEMS == "sums"
    assert "PROBLEMS" not in constants.read(FILE, [])


@given(st.text())
def test_any_override_is_read_or_refused_by_a_users_error(text: str) -> None:
    with contextlib.suppress(UserError):
        constants.read(FILE, [text, "N=" + text])
