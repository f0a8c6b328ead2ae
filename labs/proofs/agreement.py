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

from core.base.stats import mean_by_problem, of_sums, paired
from core.types import MAX_POINTS

Figure = Callable[[NDArray[np.float64]], NDArray[np.float64]]
Json = dict[str, Any]
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
    known = [pair for pair in pairs if pair.grader is not None]
    grouped = _grouped(known, attrgetter("problem")).values()
    problems = [
        [(pair.human, pair.grader) for pair in proofs if pair.grader is not None]
        for proofs in grouped
    ]
    more = [[grader - human for human, grader in proofs] for proofs in problems]
    errors = [[1.0, fmean(map(abs, of))] for of in more]
    advantages = [[1.0, fmean(abs(each - fmean(of)) for each in of)] for of in more if len(of) > 1]
    moments = [
        np.sum([_moments(*map(_whole, points)) for points in proofs], axis=0).tolist()
        for proofs in problems
    ]
    orders = [_order(proofs) for proofs in problems]
    buckets = [
        fmean(bucket(human) == bucket(grader) for human, grader in proofs) for proofs in problems
    ]
    return {
        "mean_absolute_error": _resampled(errors, ratio),
        "bucket_accuracy": mean_by_problem(buckets).to_json(),
        "order_kept": mean_by_problem(
            [(o["same"] + o["tied"] / 2) / o.total() for o in orders if o.total()]
        ).to_json(),
        "order": {name: sum(of[name] for of in orders) for name in ("same", "reversed", "tied")},
        "advantage_difference": _resampled(advantages, ratio),
        "quadratic_kappa": _resampled(moments, _kappa),
        "bias": _bias("", known),
        "bias_by_writer": [
            _bias(name, of) for name, of in sorted(_grouped(known, attrgetter("writer")).items())
        ],
        "bias_by_length": [_bias(name, of) for name, of in _by_length(known).items()],
        **given([(pair.problem, pair.grader) for pair in pairs]),
    }


def given(points: Sequence[tuple[str, float | None]]) -> Json:
    """Count the proofs with 0, 1, … 7 whole points, and estimate their shares. `points` has
    (problem, points) pairs."""
    found: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for problem, each in points:
        if each is not None:
            found[problem][_whole(each)] += 1
    table = [[of.total(), *(of[points] for points in ALL)] for of in found.values()]
    shares = [
        of_sums([[row[0], row[1 + points]] for row in table], ratio).to_json() for points in ALL
    ]
    return {
        "given": [sum(of[points] for of in found.values()) for points in ALL],
        "distribution": shares,
    }


def change(proofs: Sequence[tuple[str, float, float]]) -> Json | None:
    """Estimate the mean difference (second minus first) in points. A row of `proofs` is a problem
    and two grades."""
    if not proofs:
        return None
    problems = _grouped(proofs, lambda proof: proof[0]).values()
    before, after = (
        [fmean(points[side] / MAX_POINTS for _, *points in of) for of in problems]
        for side in (0, 1)
    )
    found = asdict(paired(before, after))
    return found | {name: found[name] * MAX_POINTS for name in ("difference", "low", "high")}


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
    signs = [(h1 - h2) * (g1 - g2) for (h1, g1), (h2, g2) in combinations(proofs, 2) if h1 != h2]
    return Counter("same" if sign > 0 else "reversed" if sign < 0 else "tied" for sign in signs)


def _by_length(known: Sequence[Pair]) -> dict[str, list[Pair]]:
    """Divide proofs into LENGTHS groups of about the same size. Proofs of one length share a
    group."""
    ordered = sorted(known, key=attrgetter("length"))
    places = [math.ceil(len(ordered) * part / LENGTHS) - 1 for part in range(1, LENGTHS + 1)]
    ends = sorted({ordered[place].length for place in places if ordered})
    begins = [ordered[0].length, *(end + 1 for end in ends)] if ordered else []
    return {
        f"{begin} to {end} characters": [pair for pair in ordered if begin <= pair.length <= end]
        for begin, end in zip(begins, ends, strict=False)
    }


def _bias(group: str, proofs: Sequence[Pair]) -> Json | None:
    found = change(
        [(pair.problem, pair.human, pair.grader) for pair in proofs if pair.grader is not None]
    )
    if not found:
        return None
    return {
        "group": group,
        "mean": found["difference"],
        "low": found["low"],
        "high": found["high"],
        "n": len(proofs),
    }


def _resampled(sums: Sequence[Sequence[float]], figure: Figure) -> Json:
    """Estimate a figure by the bootstrap over problems. An interval is left out if its two ends are
    equal."""
    found: Json = of_sums(sums, figure).to_json()
    return found if found["low"] != found["high"] else found | {"low": None, "high": None}


def _moments(human: int, grader: int) -> tuple[int, ...]:
    return 1, human, grader, human**2, grader**2, (human - grader) ** 2


def _kappa(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute quadratic kappa from the sums of `_moments`. Gives NaN if all points are equal."""
    with np.errstate(invalid="ignore", divide="ignore"):
        _, human, grader, human2, grader2, observed = np.moveaxis(sums / sums[..., :1], -1, 0)
        by_chance = human2 + grader2 - 2 * human * grader
        return np.where(by_chance > 1e-12, 1 - observed / by_chance, np.nan)


def _grouped(proofs: Sequence[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    found: defaultdict[str, list[T]] = defaultdict(list)
    for proof in proofs:
        found[key(proof)].append(proof)
    return dict(found)


def _whole(points: float) -> int:
    return math.floor(points + 0.5)
