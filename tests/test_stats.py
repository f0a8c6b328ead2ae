"""Estimates and paired comparisons: their arithmetic, their honesty at the edges, and coverage in simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import stats
from core.stats import Estimate, auc, mean_by_problem, paired

RATES = st.floats(0, 1, allow_nan=False)


def test_the_value_is_the_mean_of_problem_means_however_many_samples() -> None:
    assert mean_by_problem([[1, 1, 1, 1], [0], [1, 0]]).value == pytest.approx(0.5)
    assert mean_by_problem([[1, 0], [1, 0]]) == mean_by_problem([0.5, 0.5])


@given(st.lists(RATES, min_size=1, max_size=60))
def test_the_interval_holds_the_value_and_stays_in_range(values: list[float]) -> None:
    estimate = mean_by_problem(values)
    assert 0 <= estimate.low <= estimate.value + 1e-12
    assert estimate.value - 1e-12 <= estimate.high <= 1
    assert estimate.high - estimate.low > 0.01
    assert estimate.n == len(values)


def test_all_solved_leaves_room_for_doubt() -> None:
    solved, none = mean_by_problem([1] * 30), mean_by_problem([0] * 30)
    assert (solved.value, solved.high, none.value, none.low) == (1, 1, 0, 0)
    assert solved.low == pytest.approx(0.905, abs=0.001)  # the rule of three: 1 - 3/30 and a little
    assert none.high == pytest.approx(1 - solved.low)


def test_few_problems_say_little() -> None:
    assert mean_by_problem([1]) == Estimate(1.0, 0.0, 1.0, 1)
    empty = mean_by_problem([])
    assert math.isnan(empty.value)
    assert empty.to_json() == {"value": None, "low": 0.0, "high": 1.0, "n": 0}


def test_more_samples_of_one_problem_do_not_narrow_the_interval() -> None:
    few, many = [[1.0], [0.0], [1.0], [1.0]], [[1.0] * 64, [0.0] * 64, [1.0] * 64, [1.0] * 64]
    assert mean_by_problem(few) == mean_by_problem(many)


@pytest.mark.parametrize("values", [[1.5], [-0.1], [math.nan], [[0.5], []], [[0.5, 2.0]]])
def test_values_that_are_no_rates_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="problem"):
        mean_by_problem(values)


def test_json_has_the_fields_of_the_results_file() -> None:
    assert mean_by_problem([0.25, 0.75]).to_json().keys() == {"value", "low", "high", "n"}


@pytest.mark.parametrize("n", [5, 30])
@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("samples", [1, 8])
def test_the_interval_covers_the_truth(n: int, rate: float, samples: int) -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        chances = rng.beta(rate, 1 - rate, n) if samples > 1 else np.full(n, rate)  # some problems easy, some hard
        estimate = mean_by_problem((rng.binomial(samples, chances) / samples).tolist())
        covered += estimate.low <= rate <= estimate.high
    assert covered / 300 >= 0.92  # 0.95 less twice the standard error of 300 runs


@pytest.mark.parametrize(
    ("df", "quantile"), [(2, 4.303), (3, 3.182), (4, 2.776), (10, 2.228), (31, 2.040), (1000, 1.962)]
)
def test_the_quantiles_of_students_t(df: int, quantile: float) -> None:
    assert stats._t_975(df) == pytest.approx(quantile, rel=0.01 if df == 2 else 0.0015)


# --- paired ---


def test_a_gain_is_counted_and_signed_from_the_first_to_the_second() -> None:
    result = paired([0, 0.5, 1, 0.25], [1, 0.5, 0.5, 0.5])
    assert result.difference == pytest.approx((1 + 0 - 0.5 + 0.25) / 4)
    assert (result.wins, result.losses, result.ties, result.n) == (2, 1, 1, 4)


@given(st.lists(st.tuples(RATES, RATES), min_size=1, max_size=10))
def test_turning_the_comparison_round_turns_its_signs(pairs: list[tuple[float, float]]) -> None:
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    there, back = paired(a, b), paired(b, a)
    assert there.difference == pytest.approx(-back.difference, abs=1e-12)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-9)
    assert there.p == pytest.approx(back.p)
    assert (there.wins, there.losses, there.ties) == (back.losses, back.wins, back.ties)
    assert -1 <= there.low <= there.difference + 1e-9
    assert there.difference - 1e-9 <= there.high <= 1
    assert 0 < there.p <= 1


def test_p_is_the_share_of_sign_patterns_at_least_as_far_out() -> None:
    differences = [0.5, 0.25, -0.125, 0.75, 0.0, 0.375]
    patterns = [
        sum(s * d for s, d in zip(signs, differences, strict=True)) for signs in itertools.product((-1, 1), repeat=6)
    ]
    expected = sum(abs(total) >= abs(sum(differences)) for total in patterns) / len(patterns)
    assert paired([0.2] * 6, [0.2 + d for d in differences]).p == pytest.approx(expected)


def test_equal_runs_do_not_differ() -> None:
    result = paired([0.1 + 0.2, 1, 0], [0.3, 1, 0])  # 0.1 + 0.2 is not 0.3 in binary, and is no loss
    assert (result.difference, result.p, result.ties) == (0, 1, 3)
    assert result.high - result.low > 0.1


def test_many_problems_are_drawn_the_same_each_time_and_never_impossible() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(60).tolist(), rng.random(60).tolist()
    assert paired(a, b) == paired(a, b)
    certain = paired([0] * 60, [1] * 60).p
    assert 0 < certain < 1e-4


def test_drawn_and_exact_p_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    a = rng.random(16)
    b = np.clip(a + rng.normal(0.1, 0.2, 16), 0, 1)
    exact = paired(a.tolist(), b.tolist()).p
    monkeypatch.setattr(stats, "EXACT_UP_TO", 0)
    assert paired(a.tolist(), b.tolist()).p == pytest.approx(exact, abs=0.006)


def test_the_interval_agrees_with_p_for_small_steady_gains() -> None:
    result = paired([0.5] * 30, [0.55] * 30)
    assert 0 < result.low < 0.05 < result.high < 0.06
    assert result.p < 1e-4


def test_the_paired_interval_covers_the_truth() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(300):
        easy = rng.beta(0.3, 0.3, 30)
        a, b = rng.binomial(8, easy) / 8, rng.binomial(8, easy + 0.3 * (1 - easy)) / 8
        result = paired(a.tolist(), b.tolist())
        covered += result.low <= 0.15 <= result.high
    assert covered / 300 >= 0.92


@pytest.mark.parametrize(("a", "b"), [([0.5], [0.5, 1]), ([], [])])
def test_different_numbers_of_problems_are_refused(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError, match="same problems"):
        paired(a, b)


# --- auc ---


@given(
    st.lists(st.sampled_from([0, 0.25, 0.5, 1]), max_size=8), st.lists(st.sampled_from([0, 0.25, 0.5, 1]), max_size=8)
)
def test_auc_is_the_share_of_pairs_in_the_right_order(right: list[float], wrong: list[float]) -> None:
    pairs = [1.0 if r > w else 0.5 if r == w else 0.0 for r in right for w in wrong]
    assert auc(right, wrong) == (pytest.approx(sum(pairs) / len(pairs)) if pairs else None)
