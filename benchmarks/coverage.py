"""Measure how often confidence intervals contain the true value, and how wide they are, on
simulated problems.

    bash benchmarks/run.sh coverage [--runs 400] [--seed 1]

Each problem is a cluster of 8 samples, or has one vote ("votes"). The intraclass correlation of
samples is 0 (they are independent) to 1 (all right or all wrong). Rates of success are 0.02 to
0.98. In further tables, only 5% of the problems can be solved (nearly) always, and problems have
scores between 0 and 1. The last table is about the AUC of scores. All methods get the same
draws."""

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from core.base import stats
from core.base.auc import pooled_auc
from core.base.quantiles import t_quantile

Array = NDArray[np.float64]
Bounds = tuple[float, float]

MEMBERS = 8
PROBLEMS = (5, 10, 30, 100)
SETTINGS = (  # a name, success rates, and intraclass correlations
    ("0.02, 0.05, 0.98, alike", (0.02, 0.05, 0.98), (0.0, 0.1)),
    ("0.02, 0.05, 0.98, unlike", (0.02, 0.05, 0.98), (0.3, 0.6, 1.0)),
    ("0.1, 0.3, 0.5, 0.9", (0.1, 0.3, 0.5, 0.9), (0.0, 0.1, 0.3, 0.6, 1.0)),
)
# share of the problems that the model can solve in the table of few solvable problems
SOLVABLE = 0.05
# scores of problems with partial credit, and their chances
SCORED = (
    ("0.01 or 1", (0.01, 1.0), ((0.97, 0.03), (0.9, 0.1), (0.5, 0.5), (0.03, 0.97))),
    ("0, 0.4 or 1", (0.0, 0.4, 1.0), ((0.3, 0.4, 0.3), (0.05, 0.9, 0.05))),
    ("0.4, rarely 0 or 1", (0.0, 0.4, 1.0), ((0.05, 0.95, 0.0), (0.0, 0.95, 0.05))),
    ("0.4", (0.4,), ((1.0,),)),
)
OFTEN = (0.9, 1.0)  # its chances of a right sample on these problems
ELSE = (0.0, 0.005, 0.02, 0.05)  # and its chances on all others
OF_AUCS = (10, 30, 60)  # problems in the table of AUCs
# Scores of candidates: a right one's score is higher by `gain` than a wrong one's, with a standard
# deviation of 1 in a problem, and of `spread` between problems. A score of `ease` only knows which
# problems are easy. (name, gain, spread, ease)
SCORES = (
    ("blind", 0.0, 0.0, 0.0),
    ("good", 1.0, 0.0, 0.0),
    ("good, problems differ", 1.0, 2.0, 0.0),
    ("nearly perfect", 4.0, 0.0, 0.0),
    ("knows easy problems", 0.0, 0.0, 1.0),
)
EASY = 0.9  # the chance of a right sample on an easy problem, and of a wrong one on a hard problem
# rates of success, and intraclass correlations of right samples, if `ease` is 0
RATES = ((0.1, 0.1), (0.1, 0.6), (0.5, 0.1), (0.5, 0.6))
# standard deviation of the logarithm of a problem's length (for its samples: half as much)
LONG = 0.8


# The other methods


def t_interval(values: Array, low: float, high: float) -> Bounds:
    mean = float(values.mean())
    quantile = t_quantile(stats.LEVEL, values.size - 1)
    half = quantile * float(values.std(ddof=1)) / math.sqrt(values.size)
    return max(low, mean - half), min(high, mean + half)


def earlier_mean(values: Array) -> Bounds:
    """Return an earlier version's interval: Student's t with two added problems, at 0 and at 1."""
    return t_interval(np.append(values, [0.0, 1.0]), 0.0, 1.0)


def wilson(values: Array) -> Bounds:
    """Return Wilson's score interval for the effective number of problems, computed from the
    observed variance."""
    mean, variance, z = float(values.mean()), float(values.var(ddof=1)), 1.96
    n = values.size * mean * (1 - mean) / variance if variance else float(values.size)
    middle = (mean + z * z / 2 / n) / (1 + z * z / n)
    half = z * math.sqrt(mean * (1 - mean) / n + z * z / 4 / n / n) / (1 + z * z / n)
    return middle - half, middle + half


def earlier_paired(differences: Array) -> Bounds:
    """Return an earlier version's interval: Student's t with two added problems at ± the largest
    difference."""
    largest = float(np.abs(differences).max()) or 1.0
    return t_interval(np.append(differences, [-largest, largest]), -1.0, 1.0)


def inverted(differences: Array) -> Bounds:
    """Return the interval of all shifts that the sign-flip test accepts, and of no other shifts."""
    n, total = differences.size, differences.sum()
    sums, sizes, more = stats.sign_patterns(differences)
    split = (sizes > 0) & (sizes < n)
    one, other = sums[split] / sizes[split], (total - sums[split]) / (n - sizes[split])
    # of the first accepted shift
    rank = math.floor(stats.LEVEL * (more + sums.size)) - (more + sums.size - one.size)
    if rank < 0:
        return -1.0, 1.0
    return float(np.sort(np.minimum(one, other))[rank]), float(
        -np.sort(-np.maximum(one, other))[rank]
    )


# Problems


def chances(rng: np.random.Generator, n: int, rate: float, alike: float) -> Array:
    """Draw each problem's chance of a right sample, with mean `rate`. `alike` is the intraclass
    correlation."""
    if alike == 0:
        return np.full(n, rate)
    if alike == 1:
        return (rng.random(n) < rate).astype(float)
    spread = 1 / alike - 1
    return rng.beta(rate * spread, (1 - rate) * spread, n)


def sampled(rng: np.random.Generator, chance: Array) -> Array:
    return rng.binomial(MEMBERS, chance) / MEMBERS


def pairs(
    rng: np.random.Generator, kind: str, n: int, rate: float, alike: float
) -> tuple[Array, Array, float]:
    """Draw the results of a and b on each problem. Returns both, and the true mean difference."""
    a = chances(rng, n, rate, alike)
    if kind == "the same":
        return sampled(rng, a), sampled(rng, a), 0.0
    if kind == "a gain on all":
        return sampled(rng, a), sampled(rng, a + 0.3 * (1 - a)), 0.3 * (1 - rate)
    if kind == "unrelated":
        other = min(0.98, rate + 0.1)
        return sampled(rng, a), sampled(rng, chances(rng, n, other, alike)), other - rate
    # a tenth of the wrong votes become right, then a twentieth of all votes become wrong
    if kind == "votes":
        first = rng.random(n) < a
        then = (first | (rng.random(n) < 0.1)) & (rng.random(n) >= 0.05)
        return first.astype(float), then.astype(float), (rate + 0.1 * (1 - rate)) * 0.95 - rate
    assert kind == "all on a tenth"
    solved = rng.random(n) < 0.1
    return sampled(rng, a), sampled(rng, np.where(solved, 1.0, a)), 0.1 * (1 - rate)


KINDS = ("the same", "a gain on all", "unrelated", "votes", "all on a tenth")


# Tables


class Tally:
    """The coverage and the width of each method's intervals in the settings of a table row."""

    def __init__(self) -> None:
        self._cells: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def add(self, method: str, found: Sequence[Bounds], truth: float) -> None:
        covered = np.mean([low - 1e-9 <= truth <= high + 1e-9 for low, high in found])
        self._cells[method].append(
            (float(covered), float(np.mean([high - low for low, high in found])))
        )

    def cells(self, methods: Iterable[str]) -> str:
        """Return the mean coverage, the lowest coverage and the mean width of each method, as table
        cells."""
        texts = []
        for method in methods:
            covered, width = np.array(self._cells[method]).T
            texts.append(
                f"{100 * covered.mean():.1f} ({100 * covered.min():.1f}), {width.mean():.3f}"
            )
        return " | ".join(texts)


def head(first: Sequence[str], methods: Iterable[str]) -> None:
    methods = list(methods)
    print(f"\n| {' | '.join([*first, *methods])} |\n|{'---|' * len(first)}{'--:|' * len(methods)}")


def ours(values: Array) -> Bounds:
    interval = stats.mean_by_problem(values)
    return interval.low, interval.high


def means(rng: np.random.Generator, runs: int) -> None:
    methods: dict[str, Callable[[Array], Bounds]] = {
        "**ours**": ours,
        "earlier": earlier_mean,
        "Student's t": lambda values: t_interval(values, 0.0, 1.0),
        "Wilson": wilson,
    }
    head(("problems", "rates"), methods)
    for n in PROBLEMS:
        for name, rates, correlations in SETTINGS:
            tally = Tally()
            for rate in rates:
                for alike in correlations:
                    drawn = [sampled(rng, chances(rng, n, rate, alike)) for _ in range(runs)]
                    for method, func in methods.items():
                        tally.add(method, [func(values) for values in drawn], rate)
            print(f"| {n} | {name} | {tally.cells(methods)} |", flush=True)


def few_solvable(rng: np.random.Generator, runs: int) -> None:
    """Measure the coverage if a draw may contain no problem that the model can solve."""
    methods: dict[str, Callable[[Array], Bounds]] = {
        "**ours**": ours,
        "without the allowance": stats.interval_of_effective_number,
        "earlier": earlier_mean,
        "Student's t": lambda values: t_interval(values, 0.0, 1.0),
        "Wilson": wilson,
    }
    head(("problems", "rate elsewhere"), methods)
    for n in PROBLEMS:
        for other in ELSE:
            tally = Tally()
            for often in OFTEN:
                truth = SOLVABLE * often + (1 - SOLVABLE) * other
                drawn = [
                    sampled(rng, np.where(rng.random(n) < SOLVABLE, often, other))
                    for _ in range(runs)
                ]
                for method, func in methods.items():
                    tally.add(method, [func(values) for values in drawn], truth)
            print(f"| {n} | {other:g} | {tally.cells(methods)} |", flush=True)


def of_scores(rng: np.random.Generator, runs: int) -> None:
    """Measure the coverage for scores between 0 and 1. A problem has one score."""
    methods: dict[str, Callable[[Array], Bounds]] = {
        "**ours**": ours,
        "earlier": earlier_mean,
        "Student's t": lambda values: t_interval(values, 0.0, 1.0),
        "Wilson": wilson,
    }
    head(("problems", "scores"), methods)
    for n in PROBLEMS:
        for name, scores, settings in SCORED:
            tally = Tally()
            for shares in settings:
                truth = float(np.dot(scores, shares))
                drawn = [rng.choice(scores, n, p=shares) for _ in range(runs)]
                for method, func in methods.items():
                    tally.add(method, [func(values) for values in drawn], truth)
            print(f"| {n} | {name} | {tally.cells(methods)} |", flush=True)


def differences(rng: np.random.Generator, runs: int) -> None:
    methods: dict[str, Callable[[Array], Bounds]] = {
        "earlier": earlier_paired,
        "Student's t": lambda values: t_interval(values, -1.0, 1.0),
        "sign flips inverted": inverted,
    }
    head(
        ("problems", "what b changes"),
        ["**ours**", *methods, "p ≤ 0.05", "0 outside: ours, earlier"],
    )
    for n in PROBLEMS:
        for kind in KINDS:
            tally, rejected, outside, before = Tally(), [], [], []
            for rate in (0.02, 0.1, 0.5, 0.9):
                for alike in (0.0, 0.3, 1.0):
                    drawn = [pairs(rng, kind, n, rate, alike) for _ in range(runs)]
                    truth = drawn[0][2]
                    results = [stats.paired(a, b) for a, b, _ in drawn]
                    tally.add("**ours**", [(each.low, each.high) for each in results], truth)
                    rejected += [each.p <= stats.LEVEL for each in results]
                    outside += [each.low > 0 or each.high < 0 for each in results]
                    for method, func in methods.items():
                        found = [func(b - a) for a, b, _ in drawn]
                        tally.add(method, found, truth)
                        if method == "earlier":
                            before += [low > 0 or high < 0 for low, high in found]
            assert rejected == outside, "p and the interval must agree"
            shares = f"{np.mean(rejected):.1%} | {np.mean(outside):.1%}, {np.mean(before):.1%}"
            print(
                f"| {n} | {kind} | {tally.cells(['**ours**', *methods])} | {shares} |", flush=True
            )


def ratios(rng: np.random.Generator, runs: int) -> None:
    """Measure the change in tokens if b needs 0.7 times a's tokens on average. Lengths are
    log-normal (LONG)."""

    def lengths(n: int) -> tuple[Array, Array]:
        hard = rng.lognormal(8, LONG, n)
        one, other = (
            np.mean([hard * rng.lognormal(0, LONG / 2, n) for _ in range(MEMBERS)], axis=0)
            for _ in range(2)
        )
        return one, 0.7 * other

    def ours(a: Array, b: Array) -> Bounds:
        interval = stats.relative_change(a, b)
        assert interval is not None
        return interval.low, interval.high

    def earlier(a: Array, b: Array) -> Bounds:
        low, high = earlier_paired((b - a) / max(a.max(), b.max()))
        scale = max(a.max(), b.max()) / a.mean()
        return low * scale, high * scale

    def student(a: Array, b: Array) -> Bounds:
        return t_interval((b - a) / a.mean(), -math.inf, math.inf)

    methods = {"**ours, a ratio**": ours, "earlier": earlier, "Student's t of b - a": student}
    head(("problems",), methods)
    for n in PROBLEMS:
        tally, drawn = Tally(), [lengths(n) for _ in range(5 * runs)]
        for method, func in methods.items():
            tally.add(method, [func(a, b) for a, b in drawn], -0.3)
        print(f"| {n} | {tally.cells(methods)} |", flush=True)


Scored = tuple[list[Array], list[Array]]  # each problem's scores of right and of wrong candidates


def scored(
    rng: np.random.Generator, chance: Array, gain: float, spread: float, ease: float
) -> Scored:
    """Draw the candidates' scores of problems with these chances of a right sample."""
    size = (chance.size, MEMBERS)
    is_right = rng.random(size) < chance[:, np.newaxis]
    level = spread * rng.normal(size=chance.size) + ease * np.sign(chance - 0.5)
    scores = level[:, np.newaxis] + gain * is_right + rng.normal(size=size)
    right = [row[mask] for row, mask in zip(scores, is_right, strict=True)]
    wrong = [row[~mask] for row, mask in zip(scores, is_right, strict=True)]
    return right, wrong


def normal_share(value: float) -> float:
    """Return the standard normal distribution's share below `value`."""
    return (1 + math.erf(value / math.sqrt(2))) / 2


def true_aucs(gain: float, spread: float, ease: float) -> tuple[float, float]:
    """Return the AUC within problems and the pooled one, of infinitely many problems."""
    within = normal_share(gain / math.sqrt(2))
    if not ease:
        return within, normal_share(gain / math.sqrt(2 + 2 * spread**2))
    above = normal_share(2 * ease / math.sqrt(2))  # right and easy, against wrong and hard
    of_same_kind = 2 * EASY * (1 - EASY)
    return within, EASY**2 * above + of_same_kind / 2 + (1 - EASY) ** 2 * (1 - above)


def aucs(rng: np.random.Generator, runs: int) -> None:
    def within(right: list[Array], wrong: list[Array]) -> Bounds:
        areas = [stats.auc(*scores) for scores in zip(right, wrong, strict=True)]
        return ours(np.array([area for area in areas if area is not None]))

    def pooled(right: list[Array], wrong: list[Array]) -> Bounds:
        interval = pooled_auc(right, wrong)
        return (interval.low, interval.high) if interval else (0.0, 1.0)

    methods = {"**within problems**": within, "**pooled**": pooled}
    head(("problems", "scores"), methods)
    for n in OF_AUCS:
        for name, gain, spread, ease in SCORES:
            tally = Tally()
            truths = dict(zip(methods, true_aucs(gain, spread, ease), strict=True))
            for rate, alike in RATES[:1] if ease else RATES:
                drawn = []
                for _ in range(runs):
                    chance = chances(rng, n, rate, alike)
                    if ease:
                        chance = rng.choice((1 - EASY, EASY), n)
                    drawn.append(scored(rng, chance, gain, spread, ease))
                for method, func in methods.items():
                    tally.add(method, [func(*draw) for draw in drawn], truths[method])
            print(f"| {n} | {name} | {tally.cells(methods)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="coverage", description="Measure the coverage and width of intervals."
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=400,
        help="draws per setting (pairs: half, few solvable, scores and tokens: 5 times)",
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    print(
        "Cells: mean (lowest) % of draws whose interval contains the true value, then the mean "
        "width of intervals"
    )
    means(rng, args.runs)
    few_solvable(np.random.default_rng([args.seed, 1]), 5 * args.runs)
    of_scores(np.random.default_rng([args.seed, 2]), 5 * args.runs)
    differences(rng, max(1, args.runs // 2))
    ratios(rng, args.runs)
    aucs(np.random.default_rng([args.seed, 3]), args.runs)


if __name__ == "__main__":
    main()
