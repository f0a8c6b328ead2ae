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


def test_right_candidates_of_few_problems_widen_the_interval() -> None:
    rng = np.random.default_rng(3)
    wrong = [rng.normal(size=8).tolist() for _ in range(30)]
    right = [rng.normal(1, size=8).tolist() for _ in range(30)]
    widths = []
    for count in (30, 3, 2, 1):
        some = [*right[:count], *([] for _ in range(30 - count))]
        estimate = pooled_auc(some, wrong)
        assert estimate is not None
        assert 0 <= estimate.low < estimate.value < estimate.high <= 1
        widths.append(estimate.high - estimate.low)
    assert widths == sorted(widths) and widths[-1] == 1


def test_perfect_scores_of_two_solved_problems_may_be_chance() -> None:
    right = [[1.0], [1.0], *([] for _ in range(28))]
    wrong = [[0.0]] * 30
    for scores, others, bounds in (
        (right, wrong, (0.05**0.5, 1.0)),
        (wrong, right, (0, 1 - 0.05**0.5)),
    ):
        estimate = pooled_auc(scores, others)
        assert estimate is not None
        assert (estimate.low, estimate.high) == pytest.approx(bounds)


def test_one_problem_with_nearly_all_right_candidates_has_a_wide_interval() -> None:
    rng = np.random.default_rng(4)
    right = [rng.normal(1, size=400).tolist(), [0.5]]
    estimate = pooled_auc(right, [rng.normal(size=4).tolist()] * 2)
    assert estimate is not None
    assert estimate.high - estimate.low > 0.8
