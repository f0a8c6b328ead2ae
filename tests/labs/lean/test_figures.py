"""Judge figures by paired intervals, not by bare rates, and compare orders by hand. Golden files
pin the rest."""

from pathlib import Path

import pytest

from core.base.errors import UserError
from core.base.stats import paired
from labs.lean import experiments, outcome
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
def test_an_iteration_goes_on_by_its_whole_interval(
    number: int, low: float, high: float, goes: bool
) -> None:
    gain = {"difference": (low + high) / 2, "low": low, "high": high}
    assert outcome.risen(gain, number)[0] is goes


@pytest.mark.parametrize(
    ("proved", "of", "goes"),
    [(0, 100, False), (0, 5, False), (1, 5, True), (1, 100, True), (1, 400, False)],
)
def test_a_baseline_that_proves_nothing_or_too_little_is_no_go(
    proved: int, of: int, goes: bool
) -> None:
    found, why = outcome.baseline(outcomes(*[1] * proved, *[None] * (of - proved)), 30)
    assert found is goes and ("MAX_NODES" in why) is not goes


def test_orders_are_compared_by_theorem_over_all_seeds() -> None:
    found = {
        experiments.LOGPROB: [outcomes(2, None, 7, None), outcomes(2, None, None, None)],
        experiments.BOTH: [outcomes(2, 8, 7, None), outcomes(1, 8, 7, None)],
        experiments.RANDOM: [outcomes(None, None, None, None)] * 2,
    }
    orders = experiments.compared(found, [4, 8])
    assert orders[experiments.LOGPROB]["solved"]["8"]["value"] == pytest.approx(
        (1 + 0 + 0.5 + 0) / 4
    )
    assert orders[experiments.LOGPROB]["solved"]["4"]["value"] == pytest.approx(1 / 4)
    assert (
        orders[experiments.LOGPROB]["by_seed"] == [0.5, 0.25]
        and "gain" not in orders[experiments.LOGPROB]
    )
    both, random = (orders[order]["gain"] for order in (experiments.BOTH, experiments.RANDOM))
    assert both["difference"] == pytest.approx((0 + 1 + 0.5 + 0) / 4) and (
        both["wins"],
        both["losses"],
    ) == (2, 0)
    assert random["difference"] == pytest.approx(-0.375) and (random["wins"], random["losses"]) == (
        0,
        2,
    )
    by_hand = paired([1, 0, 0.5, 0], [1, 1, 1, 0])
    assert both["p"] == by_hand.p and both["p_holm"] == min(1.0, 2 * by_hand.p)
    text = experiments.table(orders, [4, 8], 100)
    assert max(map(len, text.splitlines())) <= 100 and "+37.5" in text and "budget 5" in text


def test_an_iteration_without_an_energy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ITERATION=4"):
        experiments.iteration_of(tmp_path / "iteration_4")
