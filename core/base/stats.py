"""Numbers with intervals. Problems are the clusters: samples of one problem are no independent evidence about others
(Miller 2024, "Adding Error Bars to Evals", arXiv 2411.00640), so every interval is over problems. How often each covers
the truth, and how wide it is, is simulated in benchmarks/coverage.py.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.05  # of tests; intervals contain the values that are not rejected at it (reports name 95% in words)
EXACT_UP_TO = 18  # problems: all 2**18 sign patterns are looked at, beyond that they are drawn
DRAWS = 40_000
RESAMPLES = 10_000  # of problems
SEED = 2025
# Of mean_by_problem: how many problems that are all right or all wrong are imagined beside those seen, and how much of
# one more. They decide where the problems seen show little of how problems differ. These and FINE were chosen by what
# they cover, and how narrowly, in benchmarks/coverage.py.
IMAGINED, PART = 2.0, 0.05
FINE = 0.05  # differences that are few and smaller than this say little of how large a difference may be


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` problems with its 95% interval. With n = 0, `value` is nan and the interval all there is."""

    value: float
    low: float
    high: float
    n: int

    def to_json(self) -> dict[str, float | int | None]:
        """The object of the results JSON; null for the value over no problems, and for ends that nothing bounds."""
        told = {"value": self.value, "low": self.low, "high": self.high}
        return {name: None if math.isnan(number) else number for name, number in told.items()} | {"n": self.n}


@dataclass(frozen=True)
class Paired:
    """`difference`: mean over `n` problems of b - a, with its 95% interval low..high. `p`: two-sided sign-flip
    permutation test; 0 is outside the interval exactly where p <= LEVEL. `wins`, `losses`, `ties`: problems where b is
    above, below, equal to a."""

    difference: float
    low: float
    high: float
    p: float
    n: int
    wins: int
    losses: int
    ties: int


Values = Sequence[Sequence[float]] | Sequence[float] | NDArray[np.float64]  # by problem: of its samples, or one each

Amounts = Sequence[float] | NDArray[np.float64]  # one of each problem


def mean_by_problem(values: Values) -> Estimate:
    """Mean over problems of each problem's mean, with a 95% interval.

    `values`: for each problem its value, or the values of its samples; all in [0, 1], and samples may differ in number.
    The interval is Clopper and Pearson's for as many independent yes-no problems as the values are worth (the effective
    sample size of Korn and Graubard 1998, Survey Methodology 24): n where problems are all right or all wrong, more the
    more they are alike. What n problems say of that is tempered by IMAGINED. Where all are right, or none, only the
    other end is open and has the whole 5%: 0.05**(1/n), the rule of three, 0.905..1 for 30 of 30. One problem says
    nothing of others: 0..1. `value` is the plain mean, which always lies inside.

    Raises ValueError for a value outside [0, 1], nan, or a problem without values.
    """
    means = _problem_means(values)
    n, mean = means.size, float(means.mean()) if means.size else math.nan
    if n < 2:
        return Estimate(mean, 0.0, 1.0, n)
    most = mean * (1 - mean)  # the variance of problems that are all right or all wrong
    alike = IMAGINED * most + PART
    worth = n * (n * most + alike) / (float(((means - mean) ** 2).sum()) + alike)
    right, wrong = mean * worth, (1 - mean) * worth
    low = _beta_quantile(LEVEL if not wrong else LEVEL / 2, right, wrong + 1) if right else 0.0
    high = _beta_quantile(1 - (LEVEL if not right else LEVEL / 2), right + 1, wrong) if wrong else 1.0
    return Estimate(mean, min(low, mean), max(high, mean), n)


def paired(a: Values, b: Values) -> Paired:
    """What b changes against a, problem by problem; a[i] and b[i] belong to one problem, shaped as in mean_by_problem.

    p: the share of sign patterns of the differences whose mean is as far from 0. Were a and b the same, each difference
    would be as likely with either sign: the test of 0 is exact, whatever the differences are. p is computed over all
    patterns up to EXACT_UP_TO problems that differ. Beyond, patterns are drawn with a fixed seed, and the observed one
    is counted in (Phipson and Smyth 2010), so that p is never 0. Equal input, equal output.

    The interval: the shifts that the same test does not reject, put to the differences less the shift. A pattern that
    splits the problems in two is as far out as the one observed where the shift lies between the means of the two
    parts (Hartigan 1969, JASA 64: subsample values as typical values), so the shifts are one interval around the mean
    difference. A shift other than 0 gives no symmetry: most of a gain may lie in few problems, and a sample may hold
    none of them. So a shift also stays if the problems seen explain a part of it, and the rest is a kind of problem
    that differs as much as any seen and is rare enough to be missing in n: (share of patterns) * (chance of that) must
    not exceed LEVEL to reject. 0 itself needs no such excuse; what p rejects there, and all shifts beyond, stays out.
    With 5 problems or fewer no pattern is rare, and every shift stays.

    Raises ValueError as mean_by_problem does, and for different or zero numbers of problems.
    """
    differences = _differences(a, b)
    mean = float(differences.mean())
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    p, low, high = _sign_flips(differences)
    if p > LEVEL:
        low, high = min(low, 0.0), max(high, 0.0)
    elif mean > 0:
        low = max(low, 1e-6 * mean)  # the end nearest to 0 that does not hold it
    else:
        high = min(high, 1e-6 * mean)
    ties = differences.size - wins - losses
    return Paired(mean, max(low, -1.0), min(high, 1.0), p, differences.size, wins, losses, ties)


def relative_change(a: Amounts, b: Amounts) -> Estimate | None:
    """The mean of b over the mean of a, less 1: the change in what problems cost, as a share of a's. a[i] and b[i] are
    amounts, 0 or more, of one problem. None where a mean is 0.

    The interval is Student's t for the logarithm of the ratio, whose error is the jackknife's: how far the ratio moves
    as each problem is left out (Tukey 1958, Annals of Mathematical Statistics 29). Long problems are long on both
    sides, and that cancels out. Where one problem alone has all that a side spent, there is no interval: nan.
    """
    sides = np.array([b, a], dtype=np.float64)
    sums, n = sides.sum(axis=1), sides.shape[1]
    if not sums.all():  # of no problems, too
        return None
    ratio, left = float(sums[0] / sums[1]), sums[:, np.newaxis] - sides
    if not (left > 0).all():
        return Estimate(ratio - 1, math.nan, math.nan, n)
    moved = np.log(left[0] / left[1])
    error = math.sqrt((n - 1) / n * float(((moved - moved.mean()) ** 2).sum()))
    half = min(_t_quantile(n - 1) * error, 600.0)  # exp() ends soon after
    return Estimate(ratio - 1, ratio * math.exp(-half) - 1, ratio * math.exp(half) - 1, n)


def of_sums(sums: Sequence[Sequence[float]], figure: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Estimate:
    """A figure that follows from sums over all samples, such as a ratio or Cohen's kappa, with its 95% interval.

    `sums`: for each problem as many sums over its samples; `figure` makes an array (…, sums) into one (…), nan where it
    is not defined. The interval is the bootstrap's over problems, by percentiles (Efron and Tibshirani 1993, An
    Introduction to the Bootstrap, chapter 13), with RESAMPLES fixed draws: equal input, equal output. It knows nothing
    of what no problem shows, and is too narrow for few problems. nan where there is one problem, or nothing to see."""
    table = np.array(sums, dtype=np.float64)
    n = len(sums)
    if not n:
        return Estimate(math.nan, math.nan, math.nan, 0)
    value = float(figure(table.sum(axis=0)))
    drawn = np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    found = figure(drawn @ table)
    found = found[~np.isnan(found)]
    if n < 2 or not found.size:
        return Estimate(value, math.nan, math.nan, n)
    low, high = np.quantile(found, (LEVEL / 2, 1 - LEVEL / 2))
    return Estimate(value, min(float(low), value), max(float(high), value), n)


def holm(ps: Sequence[float]) -> list[float]:
    """`ps` corrected for their number (Holm 1979, Scandinavian Journal of Statistics 6): the chance that any of those
    at or below a level is there by chance alone is at most that level."""
    corrected, least = [0.0] * len(ps), 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        least = max(least, min(1.0, (len(ps) - rank) * ps[i]))
        corrected[i] = least
    return corrected


def auc(right: Sequence[float], wrong: Sequence[float]) -> float | None:
    """How well scores tell right from wrong: the chance that a right candidate's score is above a wrong one's, ties
    counting half (Mann-Whitney; 0.5 is chance, 1 perfect). None when either side is empty."""
    if not right or not wrong:
        return None
    ranked, sides = np.sort(np.asarray(wrong, dtype=np.float64)), np.asarray(right, dtype=np.float64)
    below, up_to = (np.searchsorted(ranked, sides, side=side) for side in ("left", "right"))
    return float((below + up_to).mean() / 2 / ranked.size)


def _problem_means(values: Values) -> NDArray[np.float64]:
    if isinstance(values, np.ndarray) and bool(np.all((values >= 0) & (values <= 1))):
        return values
    samples = [np.atleast_1d(np.asarray(value, dtype=np.float64)) for value in values]
    for problem, sample in enumerate(samples):
        if sample.size == 0:
            raise ValueError(f"problem {problem} has no values")
        if not bool(np.all((sample >= 0) & (sample <= 1))):  # false for nan too
            raise ValueError(f"problem {problem} has a value outside [0, 1]: {sample.tolist()}")
    return np.array([sample.mean() for sample in samples], dtype=np.float64)


def _differences(a: Values, b: Values) -> NDArray[np.float64]:
    means_a, means_b = _problem_means(a), _problem_means(b)
    if means_a.size != means_b.size or means_a.size == 0:
        raise ValueError(f"paired needs the same problems on both sides, not {means_a.size} and {means_b.size}")
    differences = means_b - means_a
    differences[np.abs(differences) < 1e-12] = 0.0  # rounding is no win
    return differences


def _sign_flips(differences: NDArray[np.float64]) -> tuple[float, float, float]:
    """p at 0, and the lowest and the highest shift that stays, as `paired` returns them."""
    n, total = differences.size, float(differences.sum())
    differing = differences[differences != 0]
    sums, sizes, counted_in = _parts(differences)
    flipped, _, also = _parts(differing) if differing.size <= EXACT_UP_TO < n else (sums, sizes, counted_in)
    as_far = np.abs(2 * flipped - total) >= abs(total) - 1e-9  # sums that are equal but for rounding are as far out
    p = float((also + as_far.sum()) / (also + flipped.size))
    patterns, splits = counted_in + sums.size, (sizes > 0) & (sizes < n)
    whole = patterns - int(splits.sum())  # with no or every sign flipped: as far out as observed, at any shift
    if whole > LEVEL * patterns:
        return p, -1.0, 1.0
    one = sums[splits] / sizes[splits]
    other = (total - sums[splits]) / (n - sizes[splits])
    share = (whole + 1.0 + np.arange(one.size)) / patterns  # of patterns as far out, from the farthest mean inwards
    stays = share > LEVEL
    seen, largest = float((differences**2).sum()), float(np.abs(differences).max())
    unseen = (largest * seen + FINE**2) / (seen + FINE**2)  # 1 where nothing differs
    missing = unseen * (1 - (LEVEL / share[stays]) ** (1 / n))
    low = np.sort(np.minimum(one, other))[stays] - missing
    high = -np.sort(-np.maximum(one, other))[stays] + missing
    return p, float(low.min()), float(high.max())


def _parts(differences: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Sums and sizes of one of the two parts of each sign pattern, and how many patterns are to be counted in besides:
    none where all are there, the one observed where patterns are drawn."""
    if not differences.size:
        return np.zeros(1), np.zeros(1), 0
    if differences.size <= EXACT_UP_TO:
        sums, sizes = _subsets(differences[1:])  # opposite patterns have the same parts: those with the first will do
        return sums + differences[0], sizes + 1, 0
    rng, sums, sizes = np.random.default_rng(SEED), np.zeros(DRAWS), np.zeros(DRAWS)
    for begin in range(0, differences.size, 10):  # of ten at once one look shows which are in the part
        sums_of, sizes_of = _subsets(differences[begin : begin + 10])
        drawn = rng.integers(0, sums_of.size, DRAWS)
        sums, sizes = sums + sums_of[drawn], sizes + sizes_of[drawn]
    return sums, sizes, 1


def _subsets(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums and sizes of all subsets."""
    sums, sizes = np.zeros(1), np.zeros(1)
    for value in values:
        sums, sizes = np.concatenate([sums, sums + value]), np.concatenate([sizes, sizes + 1])
    return sums, sizes


@lru_cache(maxsize=4096)
def _beta_quantile(share: float, a: float, b: float) -> float:
    """The quantile of Beta(a, b), by Newton's steps inside an interval that is halved where they leave it."""
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
    """The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz's method."""
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
    """Return the quantile 1 - LEVEL / 2 of Student's t for df >= 1, to 1% at df = 2 and 0.1% beyond.

    It is the expansion around the normal quantile, Abramowitz and Stegun 26.7.5.
    """
    if df == 1:
        return math.tan((1 - LEVEL) / 2 * math.pi)
    z = NormalDist().inv_cdf(1 - LEVEL / 2)
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    g4 = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + g1 / df + g2 / df**2 + g3 / df**3 + g4 / df**4


def pass_at_k(n: int, c: int, k: int) -> float:
    """The unbiased estimate of pass@k (Chen et al. 2021, arXiv 2107.03374): the chance that `k` draws without
    replacement from `n` samples, `c` of them correct, hold a correct one. Exact in integers, rounded once.

    Raises ValueError unless 0 <= c <= n and 1 <= k <= n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, not n={n} c={c} k={k}")
    few, many = min(c, k), max(c, k)  # C(n-c, k) / C(n, k) is symmetric in c and k, and shorter this way round
    everything = comb(n, few)
    return (everything - comb(n - many, few)) / everything
