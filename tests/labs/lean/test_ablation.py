"""Searches in several orders: the comparison by hand, and an iteration that is missing. Golden files pin the rest."""

from pathlib import Path

import pytest

from core.base.errors import UserError
from core.base.stats import paired
from labs.lean import ablation
from labs.lean.experiments import iteration_of
from tests.labs.lean.searches import outcomes


def test_orders_are_compared_by_theorem_over_all_seeds() -> None:
    found = {
        ablation.LOGPROB: [outcomes(2, None, 7, None), outcomes(2, None, None, None)],
        ablation.BOTH: [outcomes(2, 8, 7, None), outcomes(1, 8, 7, None)],
        ablation.RANDOM: [outcomes(None, None, None, None)] * 2,
    }
    told = ablation.compared(found, [4, 8])
    assert told[ablation.LOGPROB]["solved"]["8"]["value"] == pytest.approx((1 + 0 + 0.5 + 0) / 4)
    assert told[ablation.LOGPROB]["solved"]["4"]["value"] == pytest.approx(1 / 4)
    assert told[ablation.LOGPROB]["by_seed"] == [0.5, 0.25] and "gain" not in told[ablation.LOGPROB]
    both, random = (told[order]["gain"] for order in (ablation.BOTH, ablation.RANDOM))
    assert both["difference"] == pytest.approx((0 + 1 + 0.5 + 0) / 4) and (both["wins"], both["losses"]) == (2, 0)
    assert random["difference"] == pytest.approx(-0.375) and (random["wins"], random["losses"]) == (0, 2)
    by_hand = paired([[1, 1], [0, 0], [1, 0], [0, 0]], [[1, 1], [1, 1], [1, 1], [0, 0]])
    assert both["p"] == by_hand.p and both["p_holm"] == min(1.0, 2 * by_hand.p)
    text = ablation.table(told, [4, 8], 100)
    assert max(map(len, text.splitlines())) <= 100 and "+37.5" in text and "budget 5" in text


def test_an_iteration_without_an_energy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ITERATION=4"):
        iteration_of(tmp_path / "iteration_4")
