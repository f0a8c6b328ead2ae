"""Compute means and paired differences over problems, with confidence intervals. Samples of one
problem are not independent, so problems are the clusters (Miller 2024, "Adding Error Bars to
Evals", arXiv 2411.00640). The script benchmarks/coverage.py simulates each interval's width, and
how often the interval contains the true value."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.05  # significance level of the tests. All intervals are 95% confidence intervals
# problems (for p: that differ). With more, DRAWS random sign patterns replace all 2**n patterns
EXACT_UP_TO = 18
DRAWS = 40_000
RESAMPLES = 10_000  # bootstrap samples of the problems
SEED = 2025
# mean_by_problem adds IMAGINED problems (all right or all wrong) and a PART of one more to the
# variance. They matter only if there are few problems, or if problems hardly differ.
# benchmarks/coverage.py chose these numbers and FINE.
IMAGINED, PART = 2.0, 0.05
FINE = 0.05  # a few differences below this size do not show how large other differences can be


@dataclass(frozen=True)
class Estimate:
    """A mean or another figure over `n` problems, with its 95% interval. If it is undefined,
    `value` is nan."""

    value: float
    low: float
    high: float
    n: int

    def to_json(self) -> dict[str, float | int | None]:
        """Return the fields for the results file, with None (JSON's null) for nan."""
        return {name: None if math.isnan(number) else number for name, number in vars(self).items()}


@dataclass(frozen=True)
class Paired:
    """A paired comparison: the mean `difference` b - a over `n` problems, with its 95% interval
    from `low` to `high`. `p` is the p-value of the two-sided sign-flip permutation test. If p <=
    LEVEL, the interval excludes 0, otherwise it contains 0. `wins`, `losses` and `ties` count the
    problems with b > a, b < a and b = a."""

    difference: float
    low: float
    high: float
    p: float
    n: int
    wins: int
    losses: int
    ties: int


# one number per problem, such as the mean over its samples
Values = Sequence[float] | NDArray[np.float64]


def mean_by_problem(values: Values) -> Estimate:
    """Average the problems' means, with a 95% interval.

    The interval is Clopper and Pearson's for an effective number of yes-no problems (Korn and
    Graubard 1998, Survey Methodology 24). This number is n if no problem has both right and wrong
    samples, and higher if problems are more alike. If all samples are right, the interval is
    one-sided: 0.05**(1/n) to 1 (rule of three). If all are wrong, it is mirrored. One problem or
    none gives 0 to 1.

    But the set may lack a rare kind of problem, for example the few that the model can solve. If no
    problem scores above the highest score here, a kind that does is at most `unseen` of all
    problems (rule of three). It may be all right. So the interval reaches at least unseen * (1 -
    highest score) above the mean, and mirrored below it. Raises ValueError for a value outside [0,
    1]."""
    means = _rates(values)
    n, mean = means.size, float(means.mean()) if means.size else math.nan
    if n < 2:
        return Estimate(mean, 0.0, 1.0, n)
    low, high = _of_effective_number(means)
    if 0 < mean < 1:  # otherwise the rule of three has given the interval
        unseen = 1 - LEVEL ** (1 / n)
        low = min(low, mean - unseen * float(means.min()))
        high = max(high, mean + unseen * (1 - float(means.max())))
    return Estimate(mean, low, high, n)


def _of_effective_number(means: NDArray[np.float64]) -> tuple[float, float]:
    """Return Clopper and Pearson's interval for the effective number of yes-no problems. There are
    at least two."""
    n, mean = means.size, float(means.mean())
    most = mean * (1 - mean)  # the variance if each problem is all right or all wrong
    alike = IMAGINED * most + PART
    worth = n * (n * most + alike) / (float(((means - mean) ** 2).sum()) + alike)
    right, wrong = mean * worth, (1 - mean) * worth
    low = _beta_quantile(LEVEL if not wrong else LEVEL / 2, right, wrong + 1) if right else 0.0
    high = (
        _beta_quantile(1 - (LEVEL if not right else LEVEL / 2), right + 1, wrong) if wrong else 1.0
    )
    return min(low, mean), max(high, mean)


def paired(a: Values, b: Values) -> Paired:
    """Compare b with a. a[i] and b[i] belong to the same problem, and are in [0, 1].

    The test flips the signs of the differences b - a. The p-value is the share of sign patterns
    whose mean is at least as far from 0 as the observed mean. With up to EXACT_UP_TO differences
    other than 0, all patterns are tried. With more, random patterns are drawn with a fixed seed,
    and the observed pattern is added to them (Phipson and Smyth 2010). For the interval, patterns
    are drawn if there are more than EXACT_UP_TO problems.

    The interval contains all shifts (assumed mean differences) that the test does not reject. To
    test a shift, we subtract it from the differences. A sign pattern splits the problems into two
    parts. The pattern is at least as extreme as the observed one if the shift is between the means
    of the parts (Hartigan 1969, JASA 64). But most of a gain may come from rare problems, which a
    problem set may lack. So a shift is rejected only if the share of patterns, times the chance
    that n problems contain no rare one, is at most LEVEL. With 5 problems or fewer, no shift is
    rejected. Raises ValueError for a value outside [0, 1], unequal lengths or no problems."""
    if len(a) != len(b) or not len(a):
        raise ValueError(
            f"a and b must belong to the same problems, but have {len(a)} and {len(b)}"
        )
    differences = _rates(b) - _rates(a)
    differences[np.abs(differences) < 1e-12] = 0.0  # a rounding error is no difference
    mean = float(differences.mean())
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    p, low, high = _sign_flips(differences)
    if p > LEVEL:
        low, high = min(low, 0.0), max(high, 0.0)
    elif mean > 0:
        low = max(low, 1e-6 * mean)  # just above 0
    else:
        high = min(high, 1e-6 * mean)
    ties = differences.size - wins - losses
    return Paired(mean, max(low, -1.0), min(high, 1.0), p, differences.size, wins, losses, ties)


def relative_change(a: Values, b: Values) -> Estimate | None:
    """Return mean(b) / mean(a) - 1, such as the change in cost, or None if a mean is 0 or missing.
    Amounts are >= 0. The interval is Student's t for the logarithm of the ratio, with the
    jackknife's standard error (Tukey 1958, Annals of Mathematical Statistics 29). The interval is
    nan if all problems except one are 0 in `a` or in `b`."""
    sides = np.array([b, a], dtype=np.float64)
    sums, n = sides.sum(axis=1), sides.shape[1]
    if not sums.all():  # or no problems
        return None
    ratio, left = float(sums[0] / sums[1]), sums[:, np.newaxis] - sides
    if not (left > 0).all():
        return Estimate(ratio - 1, math.nan, math.nan, n)
    moved = np.log(left[0] / left[1])
    error = math.sqrt((n - 1) / n * float(((moved - moved.mean()) ** 2).sum()))
    half = min(_t_quantile(n - 1) * error, 600.0)  # exp() overflows soon after
    return Estimate(ratio - 1, ratio * math.exp(-half) - 1, ratio * math.exp(half) - 1, n)


@lru_cache(maxsize=1)
def _drawn(n: int, samples: int) -> NDArray[np.int64]:
    """Return how often each of `n` problems is drawn, in this number of fixed bootstrap samples."""
    return np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), samples)


def of_sums(
    sums: Sequence[Sequence[float]], figure: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> Estimate:
    """Compute a figure from sums over all samples, such as a ratio or Cohen's kappa, with its 95%
    interval.

    `sums` has shape (problems, sums). `figure` maps an array of shape (…, sums) to shape (…), with
    nan if undefined. The interval is the percentile bootstrap's over problems (Efron and Tibshirani
    1993, An Introduction to the Bootstrap, chapter 13), with RESAMPLES fixed draws. It is too
    narrow for few problems, and nan for one."""
    table = np.array(sums, dtype=np.float64)
    n = len(sums)
    if not n:
        return Estimate(math.nan, math.nan, math.nan, 0)
    value = float(figure(table.sum(axis=0)))
    figures = figure(_drawn(n, RESAMPLES) @ table)
    figures = figures[~np.isnan(figures)]
    if n < 2 or not figures.size:
        return Estimate(value, math.nan, math.nan, n)
    low, high = np.quantile(figures, (LEVEL / 2, 1 - LEVEL / 2))
    return Estimate(value, min(float(low), value), max(float(high), value), n)


def holm(ps: Sequence[float], tests: int = 0) -> list[float]:
    """Correct p-values for multiple tests, in the given order (Holm 1979, Scandinavian Journal of
    Statistics 6). If `ps` were chosen from the p-values of more tests, `tests` counts all tests."""
    corrected, least, tests = [0.0] * len(ps), 0.0, max(tests, len(ps))
    for rank, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        least = max(least, min(1.0, (tests - rank) * ps[i]))
        corrected[i] = least
    return corrected


def auc(right: Sequence[float], wrong: Sequence[float]) -> float | None:
    """Return the chance that a right candidate scores above a wrong one. Pairs of equal scores
    count as half. The result is None if `right` or `wrong` is empty."""
    if not right or not wrong:
        return None
    ranked, sides = (
        np.sort(np.asarray(wrong, dtype=np.float64)),
        np.asarray(right, dtype=np.float64),
    )
    below, up_to = (np.searchsorted(ranked, sides, side=side) for side in ("left", "right"))
    return float((below + up_to).mean() / 2 / ranked.size)


def _rates(values: Values) -> NDArray[np.float64]:
    rates = np.asarray(values, dtype=np.float64)
    if not ((rates >= 0) & (rates <= 1)).all():  # false for nan too
        raise ValueError(f"a problem has a value outside [0, 1]: {rates.tolist()}")
    return rates


def _sign_flips(differences: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return p, and the lowest and the highest shift that the test in `paired` does not reject."""
    n, total = differences.size, float(differences.sum())
    differing = differences[differences != 0]
    sums, sizes, counted_in = _parts(differences)
    flipped, _, also = (
        _parts(differing) if differing.size <= EXACT_UP_TO < n else (sums, sizes, counted_in)
    )
    # sums that differ only by rounding are equal
    as_far = np.abs(2 * flipped - total) >= abs(total) - 1e-9
    p = float((also + as_far.sum()) / (also + flipped.size))
    patterns, splits = counted_in + sums.size, (sizes > 0) & (sizes < n)
    # patterns that flip no sign or all signs are as extreme at any shift
    whole = patterns - int(splits.sum())
    if whole > LEVEL * patterns:
        return p, -1.0, 1.0
    one = sums[splits] / sizes[splits]
    other = (total - sums[splits]) / (n - sizes[splits])
    # share of patterns as extreme, farthest mean first
    share = (whole + 1.0 + np.arange(one.size)) / patterns
    stays = share > LEVEL
    seen, largest = float((differences**2).sum()), float(np.abs(differences).max())
    # the possible difference of a rare problem, at most 1
    unseen = (largest * seen + FINE**2) / (seen + FINE**2)
    missing = unseen * (1 - (LEVEL / share[stays]) ** (1 / n))
    low = np.sort(np.minimum(one, other))[stays] - missing
    high = -np.sort(-np.maximum(one, other))[stays] + missing
    return p, float(low.min()), float(high.max())


def _parts(
    differences: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return the sum and the size of one part of each sign pattern, and 1 if patterns are drawn at
    random, else 0."""
    if not differences.size:
        return np.zeros(1), np.zeros(1), 0
    if differences.size <= EXACT_UP_TO:
        # opposite patterns have the same parts, so take those with problem 0
        sums, sizes = _subsets(differences[1:])
        return sums + differences[0], sizes + 1, 0
    rng, sums, sizes = np.random.default_rng(SEED), np.zeros(DRAWS), np.zeros(DRAWS)
    # one random number selects which of ten problems are in the part
    for begin in range(0, differences.size, 10):
        sums_of, sizes_of = _subsets(differences[begin : begin + 10])
        drawn = rng.integers(0, sums_of.size, DRAWS)
        sums, sizes = sums + sums_of[drawn], sizes + sizes_of[drawn]
    return sums, sizes, 1


def _subsets(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum and the size of each subset of `values`."""
    sums, sizes = np.zeros(1), np.zeros(1)
    for value in values:
        sums, sizes = np.concatenate([sums, sums + value]), np.concatenate([sizes, sizes + 1])
    return sums, sizes


@lru_cache(maxsize=4096)
def _beta_quantile(share: float, a: float, b: float) -> float:
    """Return the quantile of the distribution Beta(a, b) at `share`, by Newton's method with
    bisection."""
    low, high, x = 0.0, 1.0, a / (a + b)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    for _ in range(100):
        if not 0 < x < 1:
            break
        front = math.exp(scale + a * math.log(x) + b * math.log1p(-x))
        if x < (a + 1) / (a + b + 2):
            below = front * _beta_fraction(x, a, b) / a
        else:
            below = 1 - front * _beta_fraction(1 - x, b, a) / b
        low, high = (x, high) if below < share else (low, x)
        density = front / x / (1 - x)
        step = (below - share) / density if density else math.inf
        following = x - step if low < x - step < high else (low + high) / 2
        if abs(following - x) <= 1e-12:
            break
        x = following
    return x


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Evaluate the incomplete beta function's continued fraction by Lentz's method (Abramowitz and
    Stegun 26.5.8)."""
    tiny = 1e-300
    top, bottom = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    value = bottom
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for part in (even, odd):
            bottom = 1 / ((1 + part * bottom) or tiny)
            top = (1 + part / top) or tiny
            value *= top * bottom
        if abs(top * bottom - 1) < 1e-14:
            break
    return value


def _t_quantile(df: int) -> float:
    """Return the 1 - LEVEL / 2 quantile of Student's t, whose square over (square + df) is
    Beta(1/2, df/2)."""
    share = _beta_quantile(1 - LEVEL, 0.5, df / 2)
    return math.sqrt(df * share / (1 - share))
