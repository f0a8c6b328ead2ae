"""Races: the confidence sequence covers, drops are rarely wrong, and a race depends on the past
only."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.session.racing import Array, intervals, log_capital, lower_bounds, pair_level, race

SCORES = st.lists(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=4, max_size=4),
    min_size=1,
    max_size=60,
)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=80), st.floats(-0.9, 0.9))
@settings(deadline=None, max_examples=30)
def test_bounds_never_fall_and_are_the_means_that_a_test_rejects(
    differences: list[float], mean: float
) -> None:
    values = np.array(differences)
    bounds = lower_bounds(values, 0.05)
    assert (np.diff(bounds) >= 0).all() and (bounds >= -1).all() and (bounds < 1).all()
    ever = log_capital(values, mean).max() >= -np.log(0.05)
    assert (bounds[-1] >= mean) == ever or abs(bounds[-1] - mean) <= 0.0051, (
        "the bound is on a grid"
    )
    low, high = intervals(values, 0.05)
    assert (low >= -1).all() and (high <= 1).all() and low[-1] == low.max()
    assert np.allclose(intervals(-values, 0.05), (-high, -low))


@pytest.mark.parametrize(
    "chances", [(0.5, 0.0, 0.5), (0.1, 0.8, 0.1), (0.05, 0.95, 0.0), (0.01, 0.59, 0.4)]
)
def test_the_sequence_contains_the_mean_at_all_looks_at_once(chances: tuple[float, ...]) -> None:
    """The level is 20%, so that 600 draws of 200 differences can show a fault: 20% +- 4 standard
    errors."""
    rng = np.random.default_rng(3)
    drawn = rng.choice([-1.0, 0.0, 1.0], (600, 200), p=chances)
    mean = chances[2] - chances[0]
    missed = np.mean([log_capital(each, mean).max() >= -np.log(0.2) for each in drawn])
    assert missed <= 0.2 + 4 * 0.0163
    assert np.mean([lower_bounds(each, 0.2)[-1] for each in drawn[:10]]) > mean - 0.25, (
        "and it is not vacuous"
    )


def drawn(rng: np.random.Generator, problems: int, gains: list[float]) -> Array:
    hard = rng.beta(0.6, 0.9, (problems, 1))
    return (rng.random((problems, len(gains))) < hard + np.array(gains) * (1 - hard)).astype(float)


def test_equal_entries_are_rarely_dropped_and_a_better_one_wins() -> None:
    rng, alpha = np.random.default_rng(5), 0.3
    equal = [race(drawn(rng, 150, [0.0] * 4), alpha) for _ in range(40)]
    assert np.mean([bool(each.dropped) for each in equal]) <= alpha
    better = [race(drawn(rng, 150, [0.0, 0.0, 0.7, 0.0])) for _ in range(8)]
    assert all(each.left == [2] and each.is_settled and each.looks < 100 for each in better)


def test_intervals_of_all_pairs_are_right_at_once() -> None:
    """Of equal entries, some pair's interval would exclude 0 far more often than alpha if each had
    its own level."""
    rng, alpha, entries = np.random.default_rng(4), 0.2, 8
    assert pair_level(alpha, 2) == alpha and pair_level(alpha, 3) == pytest.approx(alpha / 3)
    equal = [drawn(rng, 150, [0.0] * entries) for _ in range(100)]

    def wrong(level: float) -> float:
        """Return the share of sets of scores with an interval that excludes 0."""

        def excludes(differences: Array) -> bool:
            return bool(
                max(log_capital(differences).max(), log_capital(-differences).max())
                >= -np.log(level / 2)
            )

        pairs = list(combinations(range(entries), 2))
        return float(np.mean([any(excludes(s[:, i] - s[:, j]) for i, j in pairs) for s in equal]))

    assert wrong(alpha) > 2 * alpha
    assert wrong(pair_level(alpha, entries)) <= alpha


def test_an_effect_settles_a_race_of_entries_that_hardly_differ() -> None:
    same = np.tile((np.arange(300) % 2)[:, np.newaxis], (1, 3)).astype(float)
    assert not race(same).is_settled and race(same).looks == 300
    settled = race(same, effect=0.05)
    assert settled.is_settled and settled.left == [0, 1, 2] and settled.looks < 300
    rng = np.random.default_rng(6)
    # the second is 24 points better
    wrong = [race(drawn(rng, 300, [0.0, 0.4]), 0.3, 0.05) for _ in range(100)]
    assert np.mean([each.left[0] == 0 and each.is_settled for each in wrong]) <= 0.3


@given(SCORES, st.integers(1, 60))
@settings(deadline=None)
def test_a_race_knows_only_the_past_and_ignores_scores_after_a_drop(
    rows: list[list[float]], first: int
) -> None:
    whole, alpha = np.array(rows), 0.9
    found = race(whole, alpha)
    before = race(whole[:first], alpha)
    assert before.dropped == {entry: at for entry, at in found.dropped.items() if at <= first}
    cut = whole.copy()
    for entry, at in found.dropped.items():
        cut[at:, entry] = np.nan
    again = race(cut, alpha)
    assert (again.left, again.dropped) == (found.left, found.dropped) and found.left
