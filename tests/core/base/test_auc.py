"""The AUC over the candidates of several problems, and its interval."""

import numpy as np
import pytest

from core.base.auc import pooled_auc

Drawn = tuple[list[list[float]], list[list[float]]]


def drawn(rng: np.random.Generator, problems: int) -> Drawn:
    """Draw 8 candidates for each problem. The scores of right ones are higher by 1 on average, and
    those of an easy problem are higher too."""
    right: list[list[float]] = []
    wrong: list[list[float]] = []
    for _ in range(problems):
        is_right = rng.random(8) < rng.random()
        scores = rng.normal() + rng.normal(size=8) + is_right
        right.append(scores[is_right].tolist())
        wrong.append(scores[~is_right].tolist())
    return right, wrong


def test_all_pairs_of_all_problems_count() -> None:
    right, wrong = drawn(np.random.default_rng(1), 5)
    pairs = [float(r > w) for own in right for r in own for other in wrong for w in other]
    estimate = pooled_auc(right, wrong)
    assert estimate is not None and estimate.n == 5
    assert estimate.value == pytest.approx(sum(pairs) / len(pairs))
    assert 0 <= estimate.low < estimate.value < estimate.high <= 1


def test_the_interval_contains_the_true_value() -> None:
    rng = np.random.default_rng(2)
    truth = pooled_auc(*drawn(rng, 3000))
    assert truth is not None
    covered = 0
    for _ in range(200):
        estimate = pooled_auc(*drawn(rng, 30))
        assert estimate is not None
        covered += estimate.low <= truth.value <= estimate.high
    assert covered / 200 >= 0.92


def test_without_both_kinds_there_is_no_auc() -> None:
    assert pooled_auc([], []) is None
    assert pooled_auc([[0.5], []], [[], []]) is None


def test_one_problem_has_the_widest_interval() -> None:
    estimate = pooled_auc([[0.9]], [[0.1]])
    assert estimate is not None
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (1.0, 0.0, 1.0, 1)


def test_perfect_scores_of_few_problems_may_be_chance() -> None:
    estimate = pooled_auc([[0.9]] * 5, [[0.1]] * 5)
    assert estimate is not None
    assert estimate.high == 1 and 0.4 < estimate.low < 0.6
