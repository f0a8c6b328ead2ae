"""What figures say, go or no go: by paired intervals, not by the bare rates."""

import pytest

from labs.lean import outcome
from tests.labs.lean.searches import outcomes


@pytest.mark.parametrize(
    ("number", "low", "high", "goes"),
    [
        (0, 0.01, 0.2, True),
        (0, 0.0, 0.2, False),  # a bare gain of 10 points that the interval does not show
        (0, -0.2, -0.01, False),
        (1, 0.01, 0.02, True),
        (1, -0.04, 0.08, True),  # too few theorems to say that it stands
        (1, -0.04, 0.04, False),  # it stands
        (2, -0.2, -0.01, False),
    ],
)
def test_an_iteration_goes_on_by_its_whole_interval(number: int, low: float, high: float, goes: bool) -> None:
    gain = {"difference": (low + high) / 2, "low": low, "high": high}
    assert outcome.risen(gain, number)[0] is goes


@pytest.mark.parametrize(
    ("proved", "of", "goes"), [(0, 100, False), (0, 5, False), (1, 5, True), (1, 100, True), (1, 400, False)]
)
def test_a_baseline_that_proves_nothing_or_too_little_is_no_go(proved: int, of: int, goes: bool) -> None:
    found, why = outcome.baseline(outcomes(*[1] * proved, *[None] * (of - proved)), 30, 0.05)
    assert found is goes and ("MAX_NODES" in why) is not goes


def test_other_theorems_are_not_compared() -> None:
    with pytest.raises(ValueError, match="other"):
        outcome.compared(outcomes(1), outcomes(1, 2), 8)
