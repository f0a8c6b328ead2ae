"""Decide in a race of entries, problem by problem, which entries can't be the best. Errors are
bounded over all looks.

The problems are regarded as independent draws from all problems of their kind, because their order
is random. Each test is a bet against its hypothesis. If the hypothesis is true, the capital is a
nonnegative supermartingale that begins at 1. By Ville's inequality it ever reaches 1 / alpha with a
chance of at most alpha (Howard et al. 2021, Annals of Statistics 49; Waudby-Smith and Ramdas 2024,
Journal of the Royal Statistical Society B 86). benchmarks/race.py simulates races."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Shares of the capital. The test's capital is the mean over them.
BETS = np.array([[0.1], [0.2], [0.4], [0.8]])
CLAIM = 0.2  # the part of alpha for `is_settled`
STEP = 0.005  # distance of the tested means


def log_capital(differences: Array, mean: float = 0.0) -> Array:
    """Return the log capital after each difference in [-1, 1], for the hypothesis that their mean
    is at most `mean`. `mean` is above -1."""
    stakes = BETS * (differences - mean) / (1 + mean)
    capital = np.cumsum(np.log1p(stakes), axis=1)
    return _log_mean(capital)


def lower_bounds(differences: Array, alpha: float) -> Array:
    """Return a lower bound for the mean after each difference in [-1, 1]. All bounds are right at
    the same time with a chance of at least 1 - alpha, so the race may look after each problem. A
    bound never falls."""
    bounds = np.full(differences.size, -1.0)
    threshold = -math.log(alpha)
    for mean in np.arange(-1 + STEP, 1, STEP):
        rejected = log_capital(differences, float(mean)) >= threshold
        if not rejected.any():  # nor is any higher mean, because the capital falls with the mean
            break
        first = int(rejected.argmax())
        bounds[first:] = mean
    return bounds


def intervals(differences: Array, alpha: float) -> tuple[Array, Array]:
    """Return the ends of the confidence sequence for the mean, after each of the differences in
    [-1, 1]."""
    lows = lower_bounds(differences, alpha / 2)
    highs = -lower_bounds(-differences, alpha / 2)
    return lows, highs


def pair_level(alpha: float, entries: int) -> float:
    """Divide `alpha` by the number of pairs of `entries` (Bonferroni). Intervals at this level are
    all right at once, with a chance of at least 1 - alpha. A table compares with the leader, so the
    scores choose which pairs it shows. Therefore all pairs count."""
    return alpha / math.comb(entries, 2)


@dataclass
class Standing:
    """The state of a race. `dropped` maps the dropped entries to the number of problems before each
    drop. `left` are the other entries, the best so far first. `is_settled` if no entry that is left
    is better than the first by more than the effect, or if only one is left. `looks` is the number
    of problems that decided this."""

    left: list[int]
    dropped: dict[int, int] = field(default_factory=dict)
    is_settled: bool = False
    looks: int = 0


def race(scores: Array, alpha: float = 0.05, effect: float = 0.0) -> Standing:
    """Compare the entries (columns) over the problems (rows, in random order), until the race is
    settled.

    With a chance of at least 1 - alpha, no drop concerns a best entry, and a race with an `effect`
    is settled rightly. `scores` are in [0, 1]. Scores of an entry after its drop are ignored, and
    may be nan.

    An entry bets on each problem that the leader among the others scores higher than the entry
    itself. The leader has the highest sum on earlier problems. The bet against a best entry loses
    on average with any leader, so a single test compares an entry with all others. As in Holm's
    method, a test's level is alpha / entries left: before the first wrong drop, all best entries
    are left. If `effect` is above 0, `is_settled` gets CLAIM of alpha. Its tests compare each entry
    with each fixed leader. Only the test with the true best entry can be wrong."""
    problems, entries = scores.shape
    standing = Standing(list(range(entries)), is_settled=entries == 1)
    if standing.is_settled:
        return standing
    share = CLAIM if effect else 0.0
    bets = _Bets(entries)
    for number in range(problems):
        bets.bet(scores[number])
        standing.looks = number + 1
        _drop(standing, bets, alpha * (1 - share))
        standing.left = bets.ranked()
        if len(standing.left) == 1:
            standing.is_settled = True
        elif effect:
            level = alpha * share / (entries - 1)
            rows = scores[: standing.looks]
            standing.is_settled = _is_first_best(rows, standing.left, effect, level)
        if standing.is_settled:
            break
    return standing


class _Bets:
    """The bets of all entries. `sums` has the entries' sums of scores, and `capital` the log
    capital of each entry with each share of BETS."""

    def __init__(self, entries: int) -> None:
        self.is_left = np.ones(entries, dtype=bool)
        self.sums = np.zeros(entries)
        self.capital = np.zeros((BETS.size, entries))
        self._is_other = ~np.eye(entries, dtype=bool)

    def bet(self, row: Array) -> None:
        """Let each entry bet on a problem, whose scores are `row`."""
        scores = np.where(self.is_left, row, 0.0)
        is_rival = self.is_left & self._is_other
        sums_of_rivals = np.where(is_rival, self.sums, -np.inf)
        highest = sums_of_rivals.max(axis=1, keepdims=True)
        leads = sums_of_rivals >= highest - 1e-9  # equal leaders share the bet
        leaders_score = (leads @ scores) / leads.sum(axis=1)
        stakes = BETS * (leaders_score - scores)
        self.capital += np.log1p(stakes)
        self.sums += scores

    def ranked(self) -> list[int]:
        """Return the entries that are left, the highest sum first."""
        entries = np.flatnonzero(self.is_left).tolist()
        return sorted(entries, key=lambda entry: -self.sums[entry])


def _drop(standing: Standing, bets: _Bets, alpha: float) -> None:
    """Remove the entries whose capital exceeds the level of their test."""
    capital = _log_mean(bets.capital)
    logs = np.where(bets.is_left, capital, -np.inf)
    while True:
        count = bets.is_left.sum()
        if count == 1 or logs.max() < math.log(count / alpha):
            return
        entry = int(logs.argmax())
        bets.is_left[entry] = False
        logs[entry] = -np.inf
        standing.dropped[entry] = standing.looks


def _is_first_best(rows: Array, left: Sequence[int], effect: float, level: float) -> bool:
    """Return whether no entry that is left is better than the first by more than the effect."""
    threshold = math.log(1 / level)
    best, *others = left
    for entry in others:
        differences = rows[:, best] - rows[:, entry]
        capital = log_capital(differences, -effect)
        if capital.max() < threshold:
            return False
    return True


def _log_mean(logs: Array) -> Array:
    """Return the logarithm of the mean of exp(`logs`) over the first axis."""
    total = np.logaddexp.reduce(logs, axis=0)
    return np.asarray(total - math.log(len(logs)))
