"""Estimates and paired comparisons: their arithmetic, their honesty at the edges, and coverage in
simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.base import stats
from core.base.quantiles import t_quantile
from core.base.stats import LEVEL, Estimate, auc, holm, mean_by_problem, paired, relative_change

RATES = st.floats(0, 1, allow_nan=False)


@given(st.lists(RATES, min_size=1, max_size=60))
def test_the_interval_holds_the_value_and_stays_in_range(values: list[float]) -> None:
    estimate = mean_by_problem(values)
    assert 0 <= estimate.low <= estimate.value + 1e-12
    assert estimate.value - 1e-12 <= estimate.high <= 1
    assert estimate.high - estimate.low > 0.01
    assert estimate.n == len(values)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=2, max_size=60))
def test_a_mean_over_samples_weighs_problems_by_their_samples(
    counts: list[tuple[int, int]],
) -> None:
    means = [min(hits, samples) / samples for hits, samples in counts]
    samples = [number for _, number in counts]
    estimate = mean_by_problem(means, samples)
    hits = sum(min(right, number) for right, number in counts)
    assert estimate.value == pytest.approx(hits / sum(samples))
    assert 0 <= estimate.low <= estimate.value + 1e-12
    assert estimate.value - 1e-12 <= estimate.high <= 1


def test_equal_numbers_of_samples_change_nothing() -> None:
    means = [0.25, 0.5, 1.0, 0.0]
    weighted, plain = mean_by_problem(means, [4] * 4), mean_by_problem(means)
    assert (weighted.low, weighted.high) == pytest.approx((plain.low, plain.high))


def test_one_problem_with_most_samples_says_little() -> None:
    """A problem with 99% of the samples tells as much as one problem."""
    unequal, equal = mean_by_problem([0.0] * 10, [891] + [1] * 9), mean_by_problem([0.0] * 10)
    assert equal.high < 0.3 < 0.9 < unequal.high


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
def test_the_interval_covers_the_truth_with_unequal_samples(rate: float) -> None:
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(300):
        samples = rng.integers(1, 17, 30)
        chances = rng.beta(rate, 1 - rate, 30)
        estimate = mean_by_problem(rng.binomial(samples, chances) / samples, samples.tolist())
        missed += not estimate.low <= rate <= estimate.high
    assert missed <= 30


def test_all_solved_leaves_room_for_doubt() -> None:
    solved, none = mean_by_problem([1] * 30), mean_by_problem([0] * 30)
    assert (solved.value, solved.high, none.value, none.low) == (1, 1, 0, 0)
    assert solved.low == pytest.approx(0.905, abs=0.001)  # the rule of three: 1 - 3/30 and a little
    assert none.high == pytest.approx(1 - solved.low)


def test_few_failures_in_many_samples_are_no_failed_problem() -> None:
    """239 of 240 right, on 30 problems: more is known than from 30 votes, but the set may lack
    problems that fail."""
    nearly = mean_by_problem([1] * 29 + [7 / 8])
    assert nearly.low == pytest.approx(nearly.value - (7 / 8) * (1 - 0.05 ** (1 / 30)))
    assert nearly.high < 1
    assert nearly.low > mean_by_problem([1] * 30).low > mean_by_problem([1] * 29 + [0]).low
    turned = mean_by_problem([0] * 29 + [1 / 8])
    assert (turned.low, turned.high) == pytest.approx((1 - nearly.high, 1 - nearly.low), abs=1e-6)


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [(3, 10, 0.0667, 0.6525), (1, 30, 0.0008, 0.1722), (15, 30, 0.3130, 0.6870)],
)
def test_yes_no_problems_have_the_exact_interval(
    right: int, n: int, low: float, high: float
) -> None:
    """Clopper and Pearson's, from tables."""
    estimate = mean_by_problem([1] * right + [0] * (n - right))
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=6e-5)


def test_few_problems_say_little() -> None:
    assert mean_by_problem([1]) == Estimate(1.0, 0.0, 1.0, 1)
    empty = mean_by_problem([])
    assert math.isnan(empty.value)
    assert empty.to_json() == {"value": None, "low": 0.0, "high": 1.0, "n": 0}


@pytest.mark.parametrize("values", [[1.5], [-0.1], [0.5, math.nan]])
def test_values_that_are_no_rates_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="problem"):
        mean_by_problem(values)


@pytest.mark.parametrize("n", [5, 30])
@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("samples", [1, 8])
def test_the_interval_covers_the_truth(n: int, rate: float, samples: int) -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        # some problems easy, some hard
        chances = rng.beta(rate, 1 - rate, n) if samples > 1 else np.full(n, rate)
        estimate = mean_by_problem((rng.binomial(samples, chances) / samples).tolist())
        covered += estimate.low <= rate <= estimate.high
    assert covered / 300 >= 0.92  # 0.95 less twice the standard error of 300 runs


@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize("elsewhere", [0.005, 0.02, 0.05])
@pytest.mark.parametrize("is_mirrored", [False, True])
def test_the_interval_covers_the_truth_if_few_problems_can_be_solved(
    n: int, elsewhere: float, is_mirrored: bool
) -> None:
    """A set may lack the solvable problems. Without an allowance, 85 to 93% of intervals contain
    the truth."""
    rng = np.random.default_rng(0)
    solvable = 1.5 / n
    truth = solvable + (1 - solvable) * elsewhere
    covered = 0
    for _ in range(400):
        chances = np.where(rng.random(n) < solvable, 1.0, elsewhere)
        means = rng.binomial(8, chances) / 8
        estimate = mean_by_problem(1 - means if is_mirrored else means)
        covered += estimate.low <= (1 - truth if is_mirrored else truth) <= estimate.high
    assert covered / 400 >= 0.94


@pytest.mark.parametrize("n", [10, 30, 100])
@pytest.mark.parametrize(
    ("scores", "chances"),
    [
        ([0.01, 1.0], [0.5, 0.5]),
        ([0.01, 1.0], [0.9, 0.1]),
        ([0.01, 1.0], [0.03, 0.97]),
        ([0.0, 0.4, 1.0], [0.3, 0.4, 0.3]),
        ([0.4, 1.0], [0.95, 0.05]),
        ([0.05, 0.5], [0.95, 0.05]),
    ],
)
def test_the_interval_of_scores_covers_the_truth(
    n: int, scores: list[float], chances: list[float]
) -> None:
    rng = np.random.default_rng(0)
    truth = float(np.dot(scores, chances))
    covered = 0
    for _ in range(300):
        estimate = mean_by_problem(rng.choice(scores, n, p=chances))
        covered += estimate.low <= truth <= estimate.high
    assert covered / 300 >= 0.9


@pytest.mark.parametrize("score", [0.01, 0.4, 0.99])
def test_equal_scores_leave_room_for_unseen_problems(score: float) -> None:
    """The rule of three bounds the share of problems with other scores."""
    for n in (10, 30, 100):
        unseen = 1 - LEVEL ** (1 / n)
        estimate = mean_by_problem([score] * n)
        assert estimate.value == pytest.approx(score)
        assert estimate.low <= score * (1 - unseen) + 1e-9
        assert estimate.high >= score + unseen * (1 - score) - 1e-9
        assert estimate.high - estimate.low < 4 / n


@pytest.mark.parametrize(
    ("df", "quantile"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (10, 2.228), (31, 2.040), (1000, 1.962)],
)
def test_the_quantiles_of_students_t(df: int, quantile: float) -> None:
    assert t_quantile(LEVEL, df) == pytest.approx(quantile, rel=3e-4)


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


def flips_p(differences: list[float]) -> float:
    """The sign-flip test, spelled out."""
    patterns = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in itertools.product((-1, 1), repeat=len(differences))
    ]
    return sum(abs(total) >= abs(sum(differences)) - 1e-9 for total in patterns) / len(patterns)


def test_p_is_the_share_of_sign_patterns_at_least_as_far_out() -> None:
    differences = [0.5, 0.25, -0.125, 0.75, 0.0, 0.375]
    assert paired([0.2] * 6, [0.2 + d for d in differences]).p == pytest.approx(
        flips_p(differences)
    )


def test_equal_runs_do_not_differ() -> None:
    # 0.1 + 0.2 is not 0.3 in binary, and is no loss
    result = paired([0.1 + 0.2, 1, 0], [0.3, 1, 0])
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


UNITS = st.integers(0, 8).map(lambda right: right / 8)
CASES = {
    "one problem": [1.0],
    "five wins of five": [0.5] * 5,
    "six wins of six": [1.0] * 6,
    "six wins, many ties": [0.125] * 6 + [0.0] * 200,
    "five wins, many ties": [1.0] * 5 + [0.0] * 200,
    "one large win": [1.0] + [0.0] * 29,
    "a large loss among small wins": [-1.0] + [0.125] * 29,
    "all alike, small and steady": [0.05] * 30,
    "all losses": [-1.0] * 19,
    "no difference": [0.0] * 30,
    "as many wins as losses": [0.25, -0.25] * 40,
    "two thousand": [0.125] * 900 + [-0.125] * 820 + [0.0] * 280,
    "two thousand, all different": [0.02 + math.sin(i) / 2 for i in range(2000)],
}


def agrees(differences: list[float]) -> None:
    """The interval holds 0 exactly where p does not reject it."""
    result = paired([max(0.0, -d) for d in differences], [max(0.0, d) for d in differences])
    assert (result.low > 0 or result.high < 0) == (result.p <= LEVEL), result
    assert -1 <= result.low <= result.difference <= result.high <= 1


@pytest.mark.parametrize("case", CASES)
def test_p_and_the_interval_are_one_inference(case: str) -> None:
    agrees(CASES[case])
    agrees([-d for d in CASES[case]])


@given(st.lists(st.tuples(UNITS, UNITS), min_size=1, max_size=14))
@settings(max_examples=300)
def test_p_and_the_interval_agree_whatever_was_seen(pairs: list[tuple[float, float]]) -> None:
    agrees([b - a for a, b in pairs])


@pytest.mark.parametrize(
    "differences",
    [
        [0.5, 0.25, -0.125, 0.75, 0.0, 0.375, 0.125, -0.25],
        [0.125] * 7 + [-0.125],
        [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [-0.5, -0.375, -0.5, -0.25, -0.625, -0.375, -0.5],
    ],
)
def test_no_shift_that_the_test_accepts_is_left_out(differences: list[float]) -> None:
    result = paired([max(0.0, -d) for d in differences], [max(0.0, d) for d in differences])
    for shift in np.linspace(-1, 1, 81):
        accepted = flips_p([d - shift for d in differences]) > LEVEL
        is_inside = result.low <= shift <= result.high
        assert is_inside or not accepted
        # the excuse: a part of the shift lies in problems that are missing
        if accepted != is_inside:
            assert min(abs(shift - result.low), abs(shift - result.high)) < 0.36


def test_what_was_not_sampled_may_be_there() -> None:
    """No problem differs: by the rule of three, one in ten may, or one in 667."""
    result = paired([1] * 30, [1] * 30)
    assert (result.low, result.high) == pytest.approx((-0.095, 0.095), abs=0.001)
    assert paired([0] * 2000, [0] * 2000).high == pytest.approx(0.0015, abs=1e-4)


def test_few_problems_reject_no_shift() -> None:
    for n in range(1, 6):
        result = paired([0] * n, [1] * n)
        assert (result.p, result.low, result.high) == (2.0 ** (1 - n), -1, 1)
    assert paired([0] * 6, [1] * 6).low > 0.5


@pytest.mark.parametrize("n", [10, 30])
@pytest.mark.parametrize("gain", [0.0, 0.1])
@pytest.mark.parametrize("samples", [1, 8])
def test_the_paired_interval_covers_the_truth(
    n: int, gain: float, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one sample, few yes-no problems differ: the plain inverted test and Student's t cover
    less."""
    monkeypatch.setattr(stats, "DRAWS", 2000)
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        easy = rng.beta(0.8, 0.2, n) if samples > 1 else np.full(n, 0.8)
        a = rng.binomial(samples, easy) / samples
        better = rng.binomial(samples, easy + gain / 0.2 * (1 - easy)) / samples
        result = paired(a, better if samples > 1 else np.where(rng.random(n) < gain / 0.2, 1.0, a))
        covered += result.low <= gain <= result.high
    assert covered / 200 >= 0.92


@pytest.mark.parametrize(("a", "b"), [([0.5], [0.5, 1]), ([], [])])
def test_different_numbers_of_problems_are_refused(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError, match="same problems"):
        paired(a, b)


@given(
    st.lists(st.sampled_from([0, 0.25, 0.5, 1]), max_size=8),
    st.lists(st.sampled_from([0, 0.25, 0.5, 1]), max_size=8),
)
def test_auc_is_the_share_of_pairs_in_the_right_order(
    right: list[float], wrong: list[float]
) -> None:
    pairs = [1.0 if r > w else 0.5 if r == w else 0.0 for r in right for w in wrong]
    assert auc(right, wrong) == (pytest.approx(sum(pairs) / len(pairs)) if pairs else None)


def test_a_change_in_cost_is_a_ratio_of_means() -> None:
    result = relative_change([100, 300, 200, 400], [50, 160, 90, 210])
    assert result is not None
    assert result.value == pytest.approx(510 / 1000 - 1) and result.n == 4
    assert -0.55 < result.low < result.value < result.high < -0.42, "half of each, long or short"
    scaled = relative_change([1e6, 3e6, 2e6, 4e6], [5e5, 1.6e6, 9e5, 2.1e6])
    assert scaled is not None and (scaled.low, scaled.high) == pytest.approx(
        (result.low, result.high)
    )


def test_what_has_no_ratio_or_no_interval_is_said() -> None:
    assert (
        relative_change([], [])
        is relative_change([0, 0], [1, 2])
        is relative_change([1, 2], [0, 0])
        is None
    )
    one = relative_change([100], [50])
    assert one is not None and one.to_json() == {"value": -0.5, "low": None, "high": None, "n": 1}
    same = relative_change([100, 200], [100, 200])
    assert same == Estimate(0.0, 0.0, 0.0, 2)
    far = relative_change([1, 1e9], [1e9, 1])
    assert far is not None and -1 <= far.low < far.high < math.inf
    lone = relative_change([100, 0, 0], [50, 0, 0])
    assert (
        lone is not None and lone.value == -0.5 and math.isnan(lone.low) and math.isnan(lone.high)
    )


@pytest.mark.parametrize("n", [10, 30])
def test_the_interval_of_a_ratio_covers_the_truth_and_is_narrow(n: int) -> None:
    rng = np.random.default_rng(7)
    covered, width = 0, []
    for _ in range(300):
        hard = rng.lognormal(7, 0.8, n)
        result = relative_change(
            hard * rng.lognormal(0, 0.1, n), 0.7 * hard * rng.lognormal(0, 0.1, n)
        )
        assert result is not None
        covered += result.low <= -0.3 <= result.high
        width.append(result.high - result.low)
    assert covered / 300 >= 0.92
    # as the ratio of sums of such lengths varies
    assert np.mean(width) < 0.75 * 2 * 2.3 * 0.141 * math.sqrt(1.9 / n)


def test_p_values_are_corrected_for_their_number() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.5, 0.9]) == [1.0, 1.0, 1.0] and holm([0.03]) == [0.03] and holm([]) == []


@given(st.lists(RATES, max_size=12))
def test_a_corrected_p_is_no_less_and_keeps_the_order(ps: list[float]) -> None:
    corrected = holm(ps)
    assert all(raw <= each <= 1 for raw, each in zip(ps, corrected, strict=True))
    assert all(
        corrected[i] <= corrected[j]
        for i in range(len(ps))
        for j in range(len(ps))
        if ps[i] <= ps[j]
    )
