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

from core.base.quantiles import beta_quantile, t_quantile

LEVEL = 0.05  # significance level of the tests. All intervals are 95% confidence intervals
# problems (for p: that differ). With more, DRAWS random sign patterns replace all 2**n patterns
EXACT_UP_TO = 18
DRAWS = 40_000
RESAMPLES = 10_000  # bootstrap samples of the problems
SEED = 2025
# mean_by_problem adds IMAGINED problems (all right or all wrong) and a PART of one more to the
# variance. They matter only if there are few problems, or if problems hardly differ.
# benchmarks/coverage.py chose these numbers and FINE.
IMAGINED = 2.0
PART = 0.05
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
        fields: dict[str, float | int | None] = dict(vars(self))
        for name, number in vars(self).items():
            if math.isnan(number):
                fields[name] = None
        return fields


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


Array = NDArray[np.float64]
Values = Sequence[float] | Array  # one number per problem, such as the mean over its samples


def mean_by_problem(values: Values, samples: Values | None = None) -> Estimate:
    """Average the problems' means, with a 95% interval.

    If `samples` has the number of samples (above 0) of each problem, the average is over all
    samples. Otherwise all problems have equal weights.

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
    n = means.size
    weights = _weights(samples, n)
    mean = _weighted_mean(means, weights) if n else math.nan
    if n < 2:
        return Estimate(mean, 0.0, 1.0, n)
    low, high = interval_of_effective_number(means, weights)
    if 0 < mean < 1:  # otherwise the rule of three has given the interval
        unseen = 1 - LEVEL ** (1 / _equally_weighted(weights))
        lowest = float(means.min())
        highest = float(means.max())
        unseen_wrong = unseen * lowest
        unseen_right = unseen * (1 - highest)
        low = min(low, mean - unseen_wrong)
        high = max(high, mean + unseen_right)
    return Estimate(mean, low, high, n)


def interval_of_effective_number(
    means: Array, samples: Values | None = None
) -> tuple[float, float]:
    """Return Clopper and Pearson's interval for the effective number of yes-no problems. There are
    at least two."""
    weights = _weights(samples, means.size)
    mean = _weighted_mean(means, weights)
    max_variance = mean * (1 - mean)  # if each problem is all right or all wrong
    added = IMAGINED * max_variance + PART
    shares = weights / weights.mean()
    squares = _squares(shares * (means - mean))
    expected_squares = _squares(shares) * max_variance + added
    effective_n = _equally_weighted(weights) * expected_squares / (squares + added)
    right = mean * effective_n
    wrong = (1 - mean) * effective_n
    tail = LEVEL / 2 if right and wrong else LEVEL
    low = 0.0
    high = 1.0
    if right:
        low = beta_quantile(tail, right, wrong + 1)
    if wrong:
        high = beta_quantile(1 - tail, right + 1, wrong)
    return min(low, mean), max(high, mean)


def _weights(samples: Values | None, n: int) -> Array:
    return np.ones(n) if samples is None else np.asarray(samples, dtype=np.float64)


def _weighted_mean(means: Array, weights: Array) -> float:
    return float((means * weights).sum() / weights.sum())


def _equally_weighted(weights: Array) -> float:
    """Return the number of equally weighted problems whose mean is as exact (Kish 1965, Survey
    Sampling)."""
    return float(weights.sum() ** 2 / _squares(weights))


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
    is_rounding_error = np.abs(differences) < 1e-12
    differences[is_rounding_error] = 0.0
    mean = float(differences.mean())
    p, low, high = _sign_flips(differences)
    if p > LEVEL:
        low = min(low, 0.0)
        high = max(high, 0.0)
    elif mean > 0:
        low = max(low, 1e-6 * mean)  # just above 0
    else:
        high = min(high, 1e-6 * mean)
    wins = int(np.count_nonzero(differences > 0))
    losses = int(np.count_nonzero(differences < 0))
    return Paired(
        difference=mean,
        low=max(low, -1.0),
        high=min(high, 1.0),
        p=p,
        n=differences.size,
        wins=wins,
        losses=losses,
        ties=differences.size - wins - losses,
    )


def relative_change(a: Values, b: Values) -> Estimate | None:
    """Return mean(b) / mean(a) - 1, such as the change in cost, or None if a mean is 0 or missing.
    Amounts are >= 0. The interval is Student's t for the logarithm of the ratio, with the
    jackknife's standard error (Tukey 1958, Annals of Mathematical Statistics 29). The interval is
    nan if all problems except one are 0 in `a` or in `b`."""
    amounts = np.array([b, a], dtype=np.float64)
    n = amounts.shape[1]
    sums = amounts.sum(axis=1)
    if not sums.all():  # or no problems
        return None
    ratio = float(sums[0] / sums[1])
    sums_without = sums[:, np.newaxis] - amounts  # one problem
    if not (sums_without > 0).all():
        return Estimate(ratio - 1, math.nan, math.nan, n)
    b_without, a_without = sums_without
    logs = np.log(b_without / a_without)
    squares = _squares(logs - logs.mean())
    degrees = n - 1
    error = math.sqrt(degrees / n * squares)
    half = t_quantile(LEVEL, degrees) * error
    half = min(half, 600.0)  # exp() overflows soon after
    low = ratio * math.exp(-half) - 1
    high = ratio * math.exp(half) - 1
    return Estimate(ratio - 1, low, high, n)


@lru_cache(maxsize=1)
def _drawn(n: int, samples: int) -> NDArray[np.int64]:
    """Return how often each of `n` problems is drawn, in this number of fixed bootstrap samples."""
    rng = np.random.default_rng(SEED)
    shares = np.full(n, 1 / n)
    return rng.multinomial(n, shares, samples)


def estimate_from_sums(
    sums: Sequence[Sequence[float]], figure: Callable[[Array], Array]
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
    resamples = _drawn(n, RESAMPLES) @ table
    figures = figure(resamples)
    figures = figures[~np.isnan(figures)]
    if n < 2 or not figures.size:
        return Estimate(value, math.nan, math.nan, n)
    low, high = np.quantile(figures, (LEVEL / 2, 1 - LEVEL / 2)).tolist()
    low = min(low, value)
    high = max(high, value)
    return Estimate(value, low, high, n)


def holm(ps: Sequence[float], tests: int = 0) -> list[float]:
    """Correct p-values for multiple tests, in the given order (Holm 1979, Scandinavian Journal of
    Statistics 6). If `ps` were chosen from the p-values of more tests, `tests` counts all tests."""
    tests = max(tests, len(ps))
    order = sorted(range(len(ps)), key=ps.__getitem__)
    corrected = [0.0] * len(ps)
    highest = 0.0  # of the smaller p-values, because the order must stay
    for rank, i in enumerate(order):
        p = (tests - rank) * ps[i]
        highest = max(highest, min(1.0, p))
        corrected[i] = highest
    return corrected


def auc(right: Values, wrong: Values) -> float | None:
    """Return the chance that a right candidate scores above a wrong one. Pairs of equal scores
    count as half. The result is None if `right` or `wrong` is empty."""
    if not len(right) or not len(wrong):
        return None
    right_scores = np.asarray(right, dtype=np.float64)
    wrong_scores = np.asarray(wrong, dtype=np.float64)
    wrong_scores = np.sort(wrong_scores)
    lower = np.searchsorted(wrong_scores, right_scores, side="left")
    lower_or_equal = np.searchsorted(wrong_scores, right_scores, side="right")
    mean_rank = (lower + lower_or_equal).mean() / 2
    return float(mean_rank / len(wrong))


def _squares(values: Array) -> float:
    return float((values**2).sum())


def _rates(values: Values) -> Array:
    rates = np.asarray(values, dtype=np.float64)
    is_rate = (rates >= 0) & (rates <= 1)
    if not is_rate.all():  # nan is no rate
        raise ValueError(f"a problem has a value outside [0, 1]: {rates.tolist()}")
    return rates


def _sign_flips(differences: Array) -> tuple[float, float, float]:
    """Return p, and the lowest and the highest shift that the test in `paired` does not reject."""
    sums, sizes, is_drawn = sign_patterns(differences)
    p = _p_value(differences, sums, is_drawn)
    low, high = _accepted_shifts(differences, sums, sizes, is_drawn)
    return p, low, high


def _p_value(differences: Array, sums: Array, is_drawn: int) -> float:
    """Return the share of sign patterns whose mean is at least as far from 0 as the observed
    mean."""
    differing = differences[differences != 0]
    if differing.size <= EXACT_UP_TO < differences.size:
        sums, _, is_drawn = sign_patterns(differing)
    total = float(differences.sum())
    flipped = np.abs(2 * sums - total)
    is_extreme = flipped >= abs(total) - 1e-9  # sums that differ only by rounding are equal
    extreme = is_drawn + is_extreme.sum()
    return float(extreme / (is_drawn + sums.size))


def _accepted_shifts(
    differences: Array, sums: Array, sizes: Array, is_drawn: int
) -> tuple[float, float]:
    """Return the lowest and the highest shift that the test does not reject. `sums` and `sizes`
    describe one part of each sign pattern."""
    n = differences.size
    total = float(differences.sum())
    patterns = is_drawn + sums.size
    splits = (sizes > 0) & (sizes < n)
    # patterns that flip no sign or all signs are as extreme at any shift
    unsplit = patterns - int(splits.sum())
    if unsplit > LEVEL * patterns:
        return -1.0, 1.0
    sums = sums[splits]
    sizes = sizes[splits]
    part_means = sums / sizes
    rest_means = (total - sums) / (n - sizes)
    # share of patterns as extreme, farthest mean first
    ranks = np.arange(sums.size)
    shares = (unsplit + 1.0 + ranks) / patterns
    is_accepted = shares > LEVEL
    chances = (LEVEL / shares[is_accepted]) ** (1 / n)
    margins = _unseen_difference(differences) * (1 - chances)
    lower_means = np.minimum(part_means, rest_means)
    upper_means = np.maximum(part_means, rest_means)
    lower_means.sort()
    upper_means[::-1].sort()  # descending
    lows = lower_means[is_accepted] - margins
    highs = upper_means[is_accepted] + margins
    return float(lows.min()), float(highs.max())


def _unseen_difference(differences: Array) -> float:
    """Return the possible difference of a rare problem, which is at most 1."""
    squares = _squares(differences)
    largest = float(np.abs(differences).max())
    prior = FINE**2
    weighted = largest * squares + prior
    return weighted / (squares + prior)


def sign_patterns(differences: Array) -> tuple[Array, Array, int]:
    """Return the sum and the size of one part of each sign pattern, and 1 if patterns are drawn at
    random, else 0."""
    if not differences.size:
        return np.zeros(1), np.zeros(1), 0
    if differences.size <= EXACT_UP_TO:
        # opposite patterns have the same parts, so take those with problem 0
        sums, sizes = _subsets(differences[1:])
        return sums + differences[0], sizes + 1, 0
    rng = np.random.default_rng(SEED)
    sums = np.zeros(DRAWS)
    sizes = np.zeros(DRAWS)
    # one random number selects which of ten problems are in the part
    for begin in range(0, differences.size, 10):
        ten = differences[begin : begin + 10]
        ten_sums, ten_sizes = _subsets(ten)
        drawn = rng.integers(0, ten_sums.size, size=DRAWS)
        sums += ten_sums[drawn]
        sizes += ten_sizes[drawn]
    return sums, sizes, 1


def _subsets(values: Array) -> tuple[Array, Array]:
    """Return the sum and the size of each subset of `values`."""
    sums = np.zeros(1)
    sizes = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums, sums + value])
        sizes = np.concatenate([sizes, sizes + 1])
    return sums, sizes
