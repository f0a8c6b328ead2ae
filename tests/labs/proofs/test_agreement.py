"""Agreement of a grader with people, against values that were computed by hand."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.proofs.agreement import (
    Order,
    Pair,
    advantage_difference,
    bias,
    bias_by_length,
    bias_by_writer,
    bucket,
    bucket_accuracy,
    change,
    distribution,
    mean_absolute_error,
    missing,
    order,
    order_kept,
    quadratic_kappa,
)

# Two problems. Differences, grader less human: +1, 0, -3, missing | +2, 0.
PAIRS = [
    Pair("p1", 6, 7, 100, "ann"),
    Pair("p1", 0, 0, 200, "bob"),
    Pair("p1", 7, 4, 300, "ann"),
    Pair("p1", 7, None, 400, "bob"),
    Pair("p2", 1, 3, 500, "bob"),
    Pair("p2", 3, 3, 600, "ann"),
]


def kappa(pairs: list[Pair]) -> float:
    return quadratic_kappa(pairs).value


def test_the_error_is_the_mean_of_the_problems() -> None:
    found = mean_absolute_error(PAIRS)  # ((1 + 0 + 3) / 3 + (2 + 0) / 2) / 2
    assert (
        found.value == pytest.approx((4 / 3 + 1) / 2)
        and found.n == 2
        and 0 <= found.low <= found.value <= found.high <= 7
    )
    assert missing(PAIRS) == 1 and missing([]) == 0 and math.isnan(mean_absolute_error([]).value)


def test_the_intervals_of_error_and_kappa_fit_together() -> None:
    """Ten problems with 0 to 7 points each, a point too many in one of them."""
    one_off = [Pair(f"p{i}", i % 8, i % 8 + (i == 3)) for i in range(10)]
    error, fit = mean_absolute_error(one_off), quadratic_kappa(one_off)
    assert error.value == pytest.approx(0.1) and error.low == 0 and 0.1 < error.high < 0.5
    assert 0.9 < fit.low < fit.value < fit.high == 1, "where the error may be 0, kappa may be 1"
    agreed = [replace(pair, grader=pair.human) for pair in one_off]
    assert all(math.isnan(of(agreed).low) for of in (mean_absolute_error, quadratic_kappa)), "nothing shows a spread"


def test_buckets() -> None:
    assert [bucket(points) for points in range(8)] == [0, 1, 1, 1, 2, 2, 2, 3]
    assert [bucket(points) for points in (0.4, 0.5, 3.4, 3.5, 6.4, 6.5)] == [0, 1, 1, 2, 2, 3]
    for points in (-0.1, 7.2, 8):
        with pytest.raises(ValueError, match="is not from 0 to 7"):
            bucket(points)
    # p1: 4-6 and 7; 0 and 0; 7 and 4-6. p2: both in 1-3.
    assert bucket_accuracy(PAIRS).value == pytest.approx((1 / 3 + 1) / 2)


def test_order_is_within_a_problem_and_ties_are_told() -> None:
    # p1: (6, 0) same, (6, 7) reversed, (0, 7) same. p2: (1, 3) tied. The missing one is in no pair.
    assert order(PAIRS) == Order(same=2, reversed=1, tied=1)
    assert order(PAIRS).share == 2.5 / 4 and order([]).share is None
    assert order([Pair("p", 3, 1), Pair("p", 3, 5)]) == Order(0, 0, 0), "people see no order"


def test_kappa_by_hand() -> None:
    # human 0 0 7 7, grader 0 7 7 7: observed 49 / 4; by chance (2 * (0 + 3 * 49) + 2 * (49 + 0)) / 16 = 392 / 16.
    pairs = [Pair("p", h, g) for h, g in ((0, 0), (0, 7), (7, 7), (7, 7))]
    assert kappa(pairs) == pytest.approx(1 - (49 / 4) / (392 / 16)) == pytest.approx(0.5)
    # human 1 2 3, grader 2 2 2: observed 2 / 3, by chance the same.
    assert kappa([Pair("p", h, 2) for h in (1, 2, 3)]) == pytest.approx(0)
    assert kappa([Pair("p", h, 7 - h) for h in range(8)]) == pytest.approx(-1)
    assert math.isnan(kappa([])) and math.isnan(kappa([Pair("p", 3, 3)] * 2))
    assert kappa([*pairs, Pair("p", 5, None)]) == kappa(pairs)
    assert math.isnan(quadratic_kappa(pairs).low), "of one problem there is no interval"
    several = [replace(pair, problem=name) for name in "abcde" for pair in pairs]
    found = quadratic_kappa(several)
    assert found.value == pytest.approx(0.5) and math.isnan(found.low), "problems that are all alike show no spread"
    mixed = quadratic_kappa([*several, *(Pair(name, h, h) for name in "fghij" for h in (0, 3, 7))])
    assert 0.5 < mixed.low < mixed.value < mixed.high < 1 and mixed.n == 10


def test_bias_by_writer_and_by_length() -> None:
    ann, bob = bias_by_writer(PAIRS)
    assert (ann.group, ann.n) == ("ann", 3) and ann.mean == pytest.approx(((1 - 3) / 2 + 0) / 2)
    assert (bob.group, bob.n) == ("bob", 2) and bob.mean == pytest.approx((0 + 2) / 2)
    whole = bias(PAIRS)
    assert whole and whole.mean == pytest.approx(((1 + 0 - 3) / 3 + (2 + 0) / 2) / 2) and whole.n == 5
    assert (whole.low, whole.high) == (-7, 7), "two problems bound nothing"
    kind = [Pair(f"p{i}", 3, 3 + i % 2, 10 * i, "ann") for i in range(40)]
    assert (found := bias(kind)) and found.mean == pytest.approx(0.5) and 0.3 < found.low < 0.5 < found.high < 0.8
    thirds = bias_by_length(PAIRS)
    assert [(each.mean, each.n) for each in thirds] == [(pytest.approx(0.5), 2), (pytest.approx(-0.5), 2), (0, 1)]
    assert [each.group for each in thirds] == [
        "100 to 200 characters",
        "201 to 500 characters",
        "501 to 600 characters",
    ]
    assert [each.n for each in bias_by_length([replace(pair, length=5) for pair in PAIRS])] == [5]
    assert bias_by_length([]) == [] == bias_by_writer([]) and bias([]) is None


def test_order_kept_is_the_mean_of_the_problems_that_show_any() -> None:
    # p1: 2 of 3 pairs; p2: one pair, tied.
    found = order_kept([*PAIRS, Pair("p3", 4, 0), Pair("p3", 4, 7)])
    assert found.value == pytest.approx((2 / 3 + 1 / 2) / 2) and found.n == 2
    assert order_kept([Pair("p", 1, 1)]).n == 0


def test_the_advantage_difference_by_hand() -> None:
    # Grader less human: p1 +1 0 -3, mean -2/3; p2 +2 0, mean 1. p3 has one proof, and no advantage.
    found = advantage_difference([*PAIRS, Pair("p3", 0, 7)])
    assert found.value == pytest.approx(((5 / 3 + 2 / 3 + 7 / 3) / 3 + (1 + 1) / 2) / 2) and found.n == 2
    kind = [replace(pair, grader=None if pair.grader is None else pair.human + 0.5) for pair in PAIRS]
    assert advantage_difference(kind).value == pytest.approx(0), "who is as kind to all misleads nobody"
    worst = advantage_difference([Pair("p", 0, 7), Pair("p", 7, 0)])
    assert worst.value == pytest.approx(7) and math.isnan(worst.high), "one problem bounds nothing"


def test_what_an_attack_changes_is_paired_and_what_is_missing_on_a_side_is_in_none() -> None:
    after = [replace(pair, grader=points) for pair, points in zip(PAIRS, (7, 2, None, 7, 4, 3), strict=True)]
    # p1: 0 and +2, two missing; p2: +1 and 0.
    found = change(PAIRS, after)
    assert found and found.difference == pytest.approx((1 + 0.5) / 2) and (found.n, found.wins) == (2, 2)
    assert change(PAIRS, [replace(pair, grader=None) for pair in PAIRS]) is None


def test_distributions_are_shares_of_proofs_and_means_count_as_the_nearer_points() -> None:
    found = distribution([("a", 0), ("a", 6.5), ("b", 7), ("b", 3.4), ("b", None)])
    assert [each.value for each in found] == [0.25, 0, 0, 0.25, 0, 0, 0, 0.5]
    assert found[7].low <= 0.5 <= found[7].high and found[7].n == 2


POINTS = st.integers(0, 7)


@given(st.lists(st.tuples(st.sampled_from("abc"), POINTS, POINTS | st.none(), st.integers(0, 9)), max_size=20))
def test_a_grader_who_agrees_is_perfect_and_none_is_lost(rows: list[tuple[str, int, int | None, int]]) -> None:
    pairs = [Pair(problem, human, grader, length) for problem, human, grader, length in rows]
    assert sum(each.n for each in bias_by_length(pairs)) == len(pairs) - missing(pairs)
    assert math.isnan(kappa(pairs)) or -1 - 1e-9 <= kappa(pairs) <= 1 + 1e-9
    assert all(math.isnan(each.low + each.value) or 0 <= each.low <= each.value <= each.high <= 7 for each in
               (advantage_difference(pairs), order_kept(pairs)))  # fmt: skip
    agreed = [replace(pair, grader=pair.human) for pair in pairs]
    assert not pairs or (mean_absolute_error(agreed).value == 0 and bucket_accuracy(agreed).value == 1)
    assert order(agreed).reversed == order(agreed).tied == 0 and (math.isnan(kappa(agreed)) or kappa(agreed) == 1)
