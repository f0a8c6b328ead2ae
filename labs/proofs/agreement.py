"""Compare a grader's points with people's points for the same proofs. Intervals are over problems
(core/base/stats.py). Kappa and the distributions weigh proofs equally. Other figures weigh problems
equally. Missing grades are left out."""

import math
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from operator import attrgetter
from statistics import fmean
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from core.base.stats import estimate_from_sums, mean_by_problem, paired
from core.types import MAX_POINTS

Figure = Callable[[NDArray[np.float64]], NDArray[np.float64]]
Json = dict[str, Any]
Points = list[tuple[float, float]]  # of each proof: people's points, and the grader's
T = TypeVar("T")
ALL = range(MAX_POINTS + 1)
# the least points of buckets 1 to 3, so that the buckets are 0, 1-3, 4-6 and 7 points
BUCKETS = (1, 4, 7)
LENGTHS = 3  # the number of length groups, which are about equally large


@dataclass(frozen=True)
class Pair:
    """A proof's points by a person (`human`) and by the `grader` (None: no grade), and its `length`
    in characters."""

    problem: str
    human: float
    grader: float | None
    length: int = 0
    writer: str = ""


def figures(pairs: Sequence[Pair]) -> Json:
    """Return the metrics of a grader, as in the results JSON. Errors, advantages and biases are in
    points.

    - bucket_accuracy: the share of proofs that the grader and people put into the same bucket.
    - order_kept: the share of pairs that the grader orders as people do. A pair is two proofs of a
      problem that people gave different points. A grader's tie counts half. `order` counts the
      same, reversed and tied pairs.
    - quadratic_kappa: Cohen's kappa with quadratic weights (Cohen 1968, Psychological Bulletin 70)
      on whole points.
    - advantage_difference: the mean |grader's advantage - people's advantage|. A proof's advantage
      is its points minus the mean of its problem's proofs. Problems with one proof are left out.
      This is QED-Nano's advantage_diff (arXiv 2604.04898), and follows Shao et al. 2024 (arXiv
      2402.03300) without dividing by the standard deviation.
    - bias, also by writer and by length: the mean of the grader's points minus people's points.
    - given, distribution: the numbers and the shares of proofs with 0, 1, … 7 points. Mean points
      are rounded first.
    """
    graded = [pair for pair in pairs if pair.grader is not None]
    problems = [_points(proofs) for proofs in _grouped(graded, attrgetter("problem")).values()]
    by_writer = sorted(_grouped(graded, attrgetter("writer")).items())
    by_length = _by_length(graded).items()
    return {
        **_by_problem(problems),
        "bias": _bias("", graded),
        "bias_by_writer": [_bias(writer, proofs) for writer, proofs in by_writer],
        "bias_by_length": [_bias(span, proofs) for span, proofs in by_length],
        **given([(pair.problem, pair.grader) for pair in pairs]),
    }


def _points(proofs: Sequence[Pair]) -> Points:
    return [(pair.human, pair.grader) for pair in proofs if pair.grader is not None]


def _by_problem(problems: Sequence[Points]) -> Json:
    """Return the metrics of agreement. `problems` has the points of each problem's proofs."""
    errors = []
    advantages = []
    moments = []
    buckets = []
    for proofs in problems:
        differences = [grader - human for human, grader in proofs]
        errors.append([1.0, fmean(map(abs, differences))])
        if len(proofs) > 1:
            mean = fmean(differences)
            advantages.append([1.0, fmean(abs(difference - mean) for difference in differences)])
        of_proofs = [_moments(_whole(human), _whole(grader)) for human, grader in proofs]
        moments.append(np.sum(of_proofs, axis=0).tolist())
        buckets.append(fmean(bucket(human) == bucket(grader) for human, grader in proofs))
    orders = [_order(proofs) for proofs in problems]
    kept = []
    for order in orders:
        if order:  # otherwise people gave all proofs the same points
            share = (order["same"] + order["tied"] / 2) / order.total()
            kept.append(share)
    names = ("same", "reversed", "tied")
    return {
        "mean_absolute_error": _resampled(errors, ratio),
        "bucket_accuracy": mean_by_problem(buckets).to_json(),
        "order_kept": mean_by_problem(kept).to_json(),
        "order": {name: sum(order[name] for order in orders) for name in names},
        "advantage_difference": _resampled(advantages, ratio),
        "quadratic_kappa": _resampled(moments, _kappa),
    }


def given(points: Sequence[tuple[str, float | None]]) -> Json:
    """Count the proofs with 0, 1, … 7 whole points, and estimate their shares. `points` has
    (problem, points) pairs."""
    by_problem: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for problem, mean in points:
        if mean is not None:
            by_problem[problem][_whole(mean)] += 1
    counters = by_problem.values()
    numbers = []
    shares = []
    for whole in ALL:
        numbers.append(sum(counter[whole] for counter in counters))
        sums = [[counter.total(), counter[whole]] for counter in counters]
        shares.append(estimate_from_sums(sums, ratio).to_json())
    return {"given": numbers, "distribution": shares}


def change(proofs: Sequence[tuple[str, float, float]]) -> Json | None:
    """Estimate the mean difference (second minus first) in points. A row of `proofs` is a problem
    and two grades."""
    if not proofs:
        return None
    problems = _grouped(proofs, lambda proof: proof[0]).values()
    before = [fmean(first / MAX_POINTS for _, first, _ in grades) for grades in problems]
    after = [fmean(second / MAX_POINTS for _, _, second in grades) for grades in problems]
    estimate = asdict(paired(before, after))
    for name in ("difference", "low", "high"):
        estimate[name] *= MAX_POINTS
    return estimate


def bucket(points: float) -> int:
    """Return the bucket (0 to 3) of 0 to 7 `points`. A mean is rounded to the nearest whole number
    first."""
    return bisect(BUCKETS, _whole(points))


def ratio(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide the second of two sums by the first, which is a count. Gives NaN if the count is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sums[..., 0] > 0, sums[..., 1] / sums[..., 0], np.nan)


def _order(proofs: Sequence[tuple[float, float]]) -> Counter[str]:
    """Count the pairs of a problem's proofs that the grader orders as people do, reverses or
    ties."""
    counts = Counter[str]()
    for (human, grader), (other_human, other_grader) in combinations(proofs, 2):
        if human == other_human:
            continue
        sign = (human - other_human) * (grader - other_grader)
        if sign > 0:
            counts["same"] += 1
        elif sign < 0:
            counts["reversed"] += 1
        else:
            counts["tied"] += 1
    return counts


def _by_length(proofs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """Divide proofs into LENGTHS groups of about the same size. Proofs of one length share a
    group."""
    if not proofs:
        return {}
    ordered = sorted(proofs, key=attrgetter("length"))
    ends = set()
    for part in range(1, LENGTHS + 1):
        count = math.ceil(len(ordered) * part / LENGTHS)
        ends.add(ordered[count - 1].length)
    groups = {}
    begin = ordered[0].length
    for end in sorted(ends):
        group = [pair for pair in ordered if begin <= pair.length <= end]
        groups[f"{begin} to {end} characters"] = group
        begin = end + 1
    return groups


def _bias(group: str, proofs: Sequence[Pair]) -> Json | None:
    points = [(pair.problem, pair.human, pair.grader) for pair in proofs if pair.grader is not None]
    estimate = change(points)
    if not estimate:
        return None
    return {
        "group": group,
        "mean": estimate["difference"],
        "low": estimate["low"],
        "high": estimate["high"],
        "n": len(proofs),
    }


def _resampled(sums: Sequence[Sequence[float]], figure: Figure) -> Json:
    """Estimate a figure by the bootstrap over problems. An interval is left out if its two ends are
    equal."""
    estimate: Json = estimate_from_sums(sums, figure).to_json()
    if estimate["low"] == estimate["high"]:
        estimate |= {"low": None, "high": None}
    return estimate


def _moments(human: int, grader: int) -> tuple[int, ...]:
    return 1, human, grader, human**2, grader**2, (human - grader) ** 2


def _kappa(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute quadratic kappa from the sums of `_moments`. Gives NaN if all points are equal."""
    with np.errstate(invalid="ignore", divide="ignore"):
        _, human, grader, human2, grader2, observed = np.moveaxis(sums / sums[..., :1], -1, 0)
        by_chance = human2 + grader2 - 2 * human * grader
        return np.where(by_chance > 1e-12, 1 - observed / by_chance, np.nan)


def _grouped(proofs: Sequence[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    groups: defaultdict[str, list[T]] = defaultdict(list)
    for proof in proofs:
        groups[key(proof)].append(proof)
    return dict(groups)


def _whole(points: float) -> int:
    return math.floor(points + 0.5)
