"""False equations in traces: which are found, and which are true or unsure
(cases/equations.json)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.files import ROOT
from labs.star.sound import false_equations

CASES: list[dict[str, Any]] = json.loads(
    (ROOT / "tests" / "cases" / "equations.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{i:03d} {case['text']}" for i, case in enumerate(CASES)]
)
def test_a_false_equation_is_found_and_a_true_or_unsure_one_is_not(case: dict[str, Any]) -> None:
    assert len(false_equations(case["text"])) == case["false"]
    if case["false"]:
        assert len(false_equations(f"So it begins.\n{case['text']}\nand 1+1=2.")) == 1


@given(st.integers(0, 10**6), st.sampled_from("+-*"), st.integers(0, 10**6), st.integers(-9, 9))
def test_whole_numbers_are_exact(one: int, sign: str, other: int, off: int) -> None:
    value = {"+": one + other, "-": one - other, "*": one * other}[sign] + off
    text = f"{one} {sign} {other} = {value}"
    assert false_equations(f"So {text}, and on.") == ([text] if off and value >= 0 else [])
