"""Agreement of a grader with people, against values computed by hand."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.proofs import agreement
from labs.proofs.agreement import Pair, bucket, change, figures

# Two problems. Differences, grader less human: +1, 0, -3, missing | +2, 0.
PAIRS = [
    Pair("p1", 6, 7, 100, "ann"),
    Pair("p1", 0, 0, 200, "bob"),
    Pair("p1", 7, 4, 300, "ann"),
    Pair("p1", 7, None, 400, "bob"),
    Pair("p2", 1, 3, 500, "bob"),
    Pair("p2", 3, 3, 600, "ann"),
]


def figure(name: str, pairs: Sequence[Pair]) -> Any:
    return figures(pairs)[name]


def kappa(pairs: Sequence[Pair]) -> Any:
    return figure("quadratic_kappa", pairs)["value"]


def test_the_error_is_the_mean_of_the_problems() -> None:
    found = figure("mean_absolute_error", PAIRS)  # ((1 + 0 + 3) / 3 + (2 + 0) / 2) / 2
    assert found["value"] == pytest.approx((4 / 3 + 1) / 2) and found["n"] == 2
    assert 0 <= found["low"] <= found["value"] <= found["high"] <= 7
    assert figure("mean_absolute_error", [])["value"] is None


def test_the_intervals_of_error_and_kappa_fit_together() -> None:
    """Ten problems with 0 to 7 points each, a point too many in one of them."""
    one_off = [Pair(f"p{i}", i % 8, i % 8 + (i == 3)) for i in range(10)]
    error, fit = figure("mean_absolute_error", one_off), figure("quadratic_kappa", one_off)
    assert error["value"] == pytest.approx(0.1) and error["low"] == 0 and 0.1 < error["high"] < 0.5
    assert 0.9 < fit["low"] < fit["value"] < fit["high"] == 1, (
        "if the error may be 0, kappa may be 1"
    )
    agreed = figures([replace(pair, grader=pair.human) for pair in one_off])
    assert agreed["mean_absolute_error"]["low"] is agreed["quadratic_kappa"]["low"] is None, (
        "nothing shows a spread"
    )


def test_buckets() -> None:
    assert [bucket(points) for points in range(8)] == [0, 1, 1, 1, 2, 2, 2, 3]
    assert [bucket(points) for points in (0.4, 0.5, 3.4, 3.5, 6.4, 6.5)] == [0, 1, 1, 2, 2, 3]
    # p1: 4-6 and 7; 0 and 0; 7 and 4-6. p2: both in 1-3.
    assert figure("bucket_accuracy", PAIRS)["value"] == pytest.approx((1 / 3 + 1) / 2)


def test_order_is_within_a_problem_and_the_mean_of_the_problems_that_show_any() -> None:
    # p1: (6, 0) same, (6, 7) reversed, (0, 7) same. p2: (1, 3) tied. The missing one is in no pair.
    assert figure("order", PAIRS) == {"same": 2, "reversed": 1, "tied": 1}
    unordered = [Pair("p3", 4, 0), Pair("p3", 4, 7)]
    assert figure("order", unordered) == {"same": 0, "reversed": 0, "tied": 0}, (
        "people see no order"
    )
    found = figure("order_kept", [*PAIRS, *unordered])
    assert found["value"] == pytest.approx((2 / 3 + 1 / 2) / 2) and found["n"] == 2
    assert figure("order_kept", unordered)["n"] == 0
    means = [Pair("p", 5, 10 / 3), Pair("p", 2, 10 / 3)]
    assert figure("order", means) == {"same": 0, "reversed": 0, "tied": 1}


def test_kappa_by_hand() -> None:
    # human 0 0 7 7, grader 0 7 7 7: observed 49 / 4; by chance (2 * (0 + 3 * 49) + 2 * (49 + 0)) /
    # 16 = 392 / 16.
    pairs = [Pair("p", h, g) for h, g in ((0, 0), (0, 7), (7, 7), (7, 7))]
    assert kappa(pairs) == pytest.approx(1 - (49 / 4) / (392 / 16)) == pytest.approx(0.5)
    # human 1 2 3, grader 2 2 2: observed 2 / 3, by chance the same.
    assert kappa([Pair("p", h, 2) for h in (1, 2, 3)]) == pytest.approx(0)
    assert kappa([Pair("p", h, 7 - h) for h in range(8)]) == pytest.approx(-1)
    assert kappa([]) is kappa([Pair("p", 3, 3)] * 2) is None
    assert kappa([*pairs, Pair("p", 5, None)]) == kappa(pairs)
    assert figure("quadratic_kappa", pairs)["low"] is None, "of one problem there is no interval"


def test_bias_by_writer_and_by_length() -> None:
    found = figures(PAIRS)
    ann, bob = found["bias_by_writer"]
    assert (ann["group"], ann["n"]) == ("ann", 3) and ann["mean"] == pytest.approx(
        ((1 - 3) / 2 + 0) / 2
    )
    assert (bob["group"], bob["n"]) == ("bob", 2) and bob["mean"] == pytest.approx((0 + 2) / 2)
    whole = found["bias"]
    assert whole["mean"] == pytest.approx(((1 + 0 - 3) / 3 + (2 + 0) / 2) / 2) and whole["n"] == 5
    assert (whole["low"], whole["high"]) == (-7, 7), "two problems bound nothing"
    kind = figure("bias", [Pair(f"p{i}", 3, 3 + i % 2, 10 * i, "ann") for i in range(40)])
    assert kind["mean"] == pytest.approx(0.5) and 0.3 < kind["low"] < 0.5 < kind["high"] < 0.8
    assert [(each["group"], each["mean"], each["n"]) for each in found["bias_by_length"]] == [
        ("100 to 200 characters", pytest.approx(0.5), 2),
        ("201 to 500 characters", pytest.approx(-0.5), 2),
        ("501 to 600 characters", 0, 1),
    ]
    assert [
        each["n"] for each in figure("bias_by_length", [replace(pair, length=5) for pair in PAIRS])
    ] == [5]
    nothing = figures([])
    assert (nothing["bias_by_length"], nothing["bias_by_writer"], nothing["bias"]) == ([], [], None)


def test_the_advantage_difference_by_hand() -> None:
    # Grader less human: p1 +1 0 -3, mean -2/3; p2 +2 0, mean 1. p3 has one proof, and no advantage.
    found = figure("advantage_difference", [*PAIRS, Pair("p3", 0, 7)])
    assert (
        found["value"] == pytest.approx(((5 / 3 + 2 / 3 + 7 / 3) / 3 + (1 + 1) / 2) / 2)
        and found["n"] == 2
    )
    kind = [Pair(f"p{human % 2}", human, human + 0.5) for human in (0, 1, 3, 4, 6)]
    assert figure("advantage_difference", kind)["value"] == pytest.approx(0), (
        "equal kindness to all misleads nobody"
    )
    worst = figure("advantage_difference", [Pair("p", 0, 7), Pair("p", 7, 0)])
    assert worst["value"] == pytest.approx(7) and worst["high"] is None, (
        "one problem bounds nothing"
    )


def test_the_change_by_an_attack_is_paired_by_problem() -> None:
    found = change([("p1", 7, 7), ("p1", 0, 2), ("p2", 3, 4), ("p2", 3, 3)])
    assert (
        found
        and found["difference"] == pytest.approx((1 + 0.5) / 2)
        and (found["n"], found["wins"]) == (2, 2)
    )
    assert change([]) is None


def test_distributions_are_shares_of_proofs_and_means_count_as_the_nearer_points() -> None:
    found = agreement.given([("a", 0), ("a", 6.5), ("b", 7), ("b", 3.4), ("b", None)])
    assert found["given"] == [1, 0, 0, 1, 0, 0, 0, 2]
    shares = found["distribution"]
    assert [each["value"] for each in shares] == [0.25, 0, 0, 0.25, 0, 0, 0, 0.5]
    assert shares[7]["low"] <= 0.5 <= shares[7]["high"] and shares[7]["n"] == 2


POINTS = st.integers(0, 7)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), POINTS, POINTS | st.none(), st.integers(0, 9)),
        max_size=20,
    )
)
def test_a_grader_who_agrees_is_perfect_and_none_is_lost(
    rows: list[tuple[str, int, int | None, int]],
) -> None:
    pairs = [Pair(problem, human, grader, length) for problem, human, grader, length in rows]
    found = figures(pairs)
    known = sum(pair.grader is not None for pair in pairs)
    assert sum(each["n"] for each in found["bias_by_length"]) == sum(found["given"]) == known
    assert (
        found["quadratic_kappa"]["value"] is None
        or -1 - 1e-9 <= found["quadratic_kappa"]["value"] <= 1 + 1e-9
    )
    for name in ("advantage_difference", "order_kept"):
        value, low, high = (found[name][end] for end in ("value", "low", "high"))
        assert None in (value, low) or 0 <= low <= value <= high <= 7
    agreed = figures([replace(pair, grader=pair.human) for pair in pairs])
    assert not pairs or (
        agreed["mean_absolute_error"]["value"],
        agreed["bucket_accuracy"]["value"],
    ) == (0, 1)
    assert agreed["order"]["reversed"] == agreed["order"]["tied"] == 0
    fit = agreed["quadratic_kappa"]["value"]
    assert fit is None or math.isclose(fit, 1)
