"""How far a grader can be trusted: its points beside those that people gave the same proofs.

Pure. What a grader left out is missing, and told apart from all that is counted. Intervals are over problems, for the
proofs of one problem are alike (core/base/stats.py). Mean error, buckets, order, advantages and bias give each problem
the same weight; kappa and the distributions give it to each proof.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from core.base.stats import Estimate, Paired, mean_by_problem, of_sums, paired
from core.types import MAX_POINTS

Figure = Callable[[NDArray[np.float64]], NDArray[np.float64]]
BUCKETS = ((0, 0), (1, 3), (4, 6), (7, 7))  # nothing, a start, nearly all, all: points from and to


@dataclass(frozen=True)
class Pair:
    """One proof of a `problem`: the points of a `human`, and those of the `grader` (None: missing; of several gradings
    their mean). `length` of the proof, in characters; `writer`: who wrote it."""

    problem: str
    human: float
    grader: float | None
    length: int = 0
    writer: str = ""


@dataclass(frozen=True)
class Order:
    """Pairs of proofs of one problem that people gave different points: how many the grader puts in the same order, in
    the other one, or gives the same points (`tied`)."""

    same: int
    reversed: int
    tied: int

    @property
    def share(self) -> float | None:
        """In the same order, a tie counting half; None without pairs."""
        pairs = self.same + self.reversed + self.tied
        return (self.same + self.tied / 2) / pairs if pairs else None


@dataclass(frozen=True)
class Bias:
    """How much more than people a grader gives the proofs of one `group`, in points, the mean over problems with its
    95% interval; `n` proofs."""

    group: str
    mean: float
    low: float
    high: float
    n: int


def missing(pairs: Sequence[Pair]) -> int:
    """How many proofs the grader has no points for; nothing below counts them."""
    return sum(pair.grader is None for pair in pairs)


def bucket(points: float) -> int:
    """The place in BUCKETS of so many points; a mean between two belongs to the nearer one. Raises ValueError outside
    of 0 to 7."""
    whole = math.floor(points + 0.5)
    for place, (low, high) in enumerate(BUCKETS):
        if low <= whole <= high and 0 <= points <= MAX_POINTS:
            return place
    raise ValueError(f"{points} is not from 0 to {MAX_POINTS}")


def mean_absolute_error(pairs: Sequence[Pair]) -> Estimate:
    """In points, each problem with the same weight."""
    together = _grouped(_known(pairs), lambda pair: pair.problem)
    return _mean_error([[abs(pair.human - _points(pair)) for pair in proofs] for proofs in together.values()])


def bucket_accuracy(pairs: Sequence[Pair]) -> Estimate:
    """The share of proofs that the grader puts into the same bucket, each problem with the same weight."""
    return _by_problem(pairs, lambda human, grader: float(bucket(human) == bucket(grader)))


def order(pairs: Sequence[Pair]) -> Order:
    """Whether the grader puts the proofs of a problem in the order that people do."""
    together = _grouped(_known(pairs), lambda pair: pair.problem)
    signs = [
        (one.human - other.human) * (_points(one) - _points(other))
        for proofs in together.values()
        for one, other in combinations(proofs, 2)
        if one.human != other.human
    ]
    return Order(sum(sign > 0 for sign in signs), sum(sign < 0 for sign in signs), sum(sign == 0 for sign in signs))


def order_kept(pairs: Sequence[Pair]) -> Estimate:
    """The share of such pairs that the grader puts in the same order, a tie counting half; the mean over the problems
    that have any."""
    together = _grouped(_known(pairs), lambda pair: pair.problem)
    shares = [order(proofs).share for proofs in together.values()]
    return mean_by_problem([[share] for share in shares if share is not None])


def advantage_difference(pairs: Sequence[Pair]) -> Estimate:
    """What a reinforcement learner would get wrong, in points. A proof's advantage is what it has above the mean of its
    problem's proofs (Shao et al. 2024, arXiv 2402.03300, without the division); the figure is the mean over problems of
    the mean |grader's advantage - people's|, as QED-Nano's authors chose their grader (arXiv 2604.04898; advantage_diff
    in eval/scripts/stats.py of CMU-AIRe/QED-Nano). A grader who is a point too kind to all is right by it. Problems
    with one proof have no advantages, and are in none."""
    together = _grouped(_known(pairs), lambda pair: pair.problem)
    values = []
    for proofs in together.values():
        if len(proofs) > 1:
            above = [_points(pair) - pair.human for pair in proofs]
            mean = sum(above) / len(above)
            values.append([abs(each - mean) for each in above])
    return _mean_error(values)


def quadratic_kappa(pairs: Sequence[Pair]) -> Estimate:
    """Cohen's kappa with quadratic weights (Cohen 1968, Psychological Bulletin 70) on whole points: 1 is agreement, 0
    what chance brings with the same distributions. Means are rounded to the nearer point. nan where it is not defined:
    without proofs, or where both give all the same points."""
    together = _grouped(_known(pairs), lambda pair: pair.problem)
    rounded = [
        [(math.floor(pair.human + 0.5), math.floor(_points(pair) + 0.5)) for pair in proofs]
        for proofs in together.values()
    ]
    sums = [[sum(part) for part in zip(*(_moments(h, g) for h, g in proofs), strict=True)] for proofs in rounded]
    return _resampled(sums, _kappa)


def distribution(given: Sequence[tuple[str, float | None]]) -> list[Estimate]:
    """For 0 to 7 the share of proofs that got so many points (a mean: the nearer ones). `given`: problem and points,
    None where they are missing."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for problem, points in given:
        if points is not None:
            found[problem].append(math.floor(points + 0.5))
    table = [[len(of), *(of.count(points) for points in range(MAX_POINTS + 1))] for of in found.values()]
    return [of_sums([[row[0], row[1 + points]] for row in table], ratio) for points in range(MAX_POINTS + 1)]


def ratio(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of two sums the second over the first: a mean over proofs."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sums[..., 0] > 0, sums[..., 1] / sums[..., 0], np.nan)


def change(before: Sequence[Pair], after: Sequence[Pair]) -> Paired | None:
    """What the grader gives more `after` than `before`, proof by proof, in points; the mean over problems. Both hold
    the same proofs in the same order; those that miss points on either side are in none. None where all do."""
    both = [
        (one, other)
        for one, other in zip(before, after, strict=True)
        if one.grader is not None and other.grader is not None
    ]
    return _change([(one.problem, _points(one), _points(other)) for one, other in both])


def bias(pairs: Sequence[Pair]) -> Bias | None:
    """Of all proofs; None where none has points."""
    found = _biases({"": _known(pairs)})
    return found[0] if found else None


def bias_by_writer(pairs: Sequence[Pair]) -> list[Bias]:
    """By who wrote the proof, by name."""
    return _biases(dict(sorted(_grouped(_known(pairs), lambda pair: pair.writer).items())))


def bias_by_length(pairs: Sequence[Pair], parts: int = 3) -> list[Bias]:
    """Of the shortest proofs to the longest, in as many `parts` of about the same size; proofs of one length stay
    together."""
    known = sorted(_known(pairs), key=lambda pair: pair.length)
    lengths = [pair.length for pair in known]
    ends = [lengths[math.ceil(len(known) * part / parts) - 1] for part in range(1, parts + 1)] if known else []
    grouped: dict[str, list[Pair]] = {}
    for pair in known:
        part = next(place for place, end in enumerate(ends) if pair.length <= end)
        low = ends[part - 1] + 1 if part else lengths[0]
        grouped.setdefault(f"{low} to {ends[part]} characters", []).append(pair)
    return _biases(grouped)


def _biases(grouped: dict[str, list[Pair]]) -> list[Bias]:
    found = []
    for name, proofs in grouped.items():
        if more := _change([(pair.problem, pair.human, _points(pair)) for pair in proofs]):
            found.append(Bias(name, more.difference, more.low, more.high, len(proofs)))
    return found


def _change(proofs: Sequence[tuple[str, float, float]]) -> Paired | None:
    """From the second to the third number of each, in points, over the problems that the first names."""
    if not proofs:
        return None
    one, other = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for problem, before, after in proofs:
        one[problem].append(before / MAX_POINTS)
        other[problem].append(after / MAX_POINTS)
    found = paired(list(one.values()), list(other.values()))
    scaled = {name: getattr(found, name) * MAX_POINTS for name in ("difference", "low", "high")}
    return replace(found, **scaled)


def _mean_error(errors: Sequence[Sequence[float]]) -> Estimate:
    """Average over problems."""
    return _resampled([[1.0, sum(of) / len(of)] for of in errors], ratio)


def _resampled(sums: Sequence[Sequence[float]], figure: Figure) -> Estimate:
    """Estimate errors and kappa alike, so that their intervals fit together: by the bootstrap over problems. If no
    resample differs, the problems show nothing of how far the figure may be off: the interval is nan."""
    found = of_sums(sums, figure)
    return found if found.low < found.high else replace(found, low=math.nan, high=math.nan)


def _moments(human: int, grader: int) -> tuple[int, ...]:
    return 1, human, grader, human**2, grader**2, (human - grader) ** 2


def _kappa(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """From the sums of `_moments`: 1 less the mean squared difference over that of any two proofs' points."""
    with np.errstate(invalid="ignore", divide="ignore"):
        _, human, grader, human2, grader2, observed = np.moveaxis(sums / sums[..., :1], -1, 0)
        by_chance = human2 + grader2 - 2 * human * grader
        return np.where(by_chance > 1e-12, 1 - observed / by_chance, np.nan)


def _by_problem(pairs: Sequence[Pair], worth: Callable[[float, float], float]) -> Estimate:
    together = _grouped(_known(pairs), lambda pair: pair.problem)
    return mean_by_problem([[worth(pair.human, _points(pair)) for pair in proofs] for proofs in together.values()])


def _grouped(pairs: Sequence[Pair], key: Callable[[Pair], str]) -> dict[str, list[Pair]]:
    found: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        found[key(pair)].append(pair)
    return dict(found)


def _known(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.grader is not None]


def _points(pair: Pair) -> float:
    assert pair.grader is not None
    return pair.grader
