"""Simulate races of entries, or replay recorded comparisons: how often a race drops the best entry,
and tokens saved.

    bash benchmarks/run.sh race [--runs 400] [--seed 1] bash benchmarks/run.sh race --replay FOLDER
    [--orders 200]   (FOLDER: results/15_compute_matched)

Simulated: on each problem, an entry's chance of a right answer comes from a Beta distribution (mean
0.4, intraclass correlation 0.4 or 0.8). All entries cost the same. One entry may be better by some
points on average. A table is wrong if an interval of a difference from the first entry excludes the
true difference. Further races run on a set that is sorted by difficulty: the best entry is better
on hard problems, and the others on easy ones.

A replay races the entries of a comparison over random orders of its problems, at each budget, with
the recorded tokens. Both look after each block of problems, and call the race of 27_race."""

import argparse
from pathlib import Path

import numpy as np

from core.base.errors import command
from core.base.stats import mean_by_problem
from harness.report.budgets import bought
from harness.report.equal_compute import compared_in
from harness.results import read
from harness.session.racing import Array, Standing, log_capital, pair_level, race

ALPHA, BLOCK = 0.05, 8
MEAN, CORRELATIONS = 0.4, (0.4, 0.8)
GAINS = (0.0, 0.02, 0.05, 0.1, 0.3)
SORTED, FIRST = 200, 60  # problems of a set sorted by difficulty, and the easy ones among them
SEEDS = 10  # orders of one set of scores


def simulated(
    rng: np.random.Generator, problems: int, entries: int, gain: float, alike: float
) -> Array:
    """Draw right (1) and wrong (0) answers of shape (problems, entries). The first entry is better
    by `gain`."""
    spread = 1 / alike - 1
    chances = np.repeat(
        rng.beta(MEAN * spread, (1 - MEAN) * spread, (problems, 1)), entries, axis=1
    )
    chances[:, 0] += gain * (1 - chances[:, 0]) / (1 - MEAN)
    return (rng.random(chances.shape) < chances).astype(float)


def by_difficulty(rng: np.random.Generator, entries: int) -> Array:
    """Draw answers to problems that become harder. The first entry is better by 11.5 points on each
    hard problem, and the others by 25 points on each easy one. So the first entry is the best, by
    half a point on average."""
    chances = np.repeat(np.linspace(0.7, 0.1, SORTED)[:, np.newaxis], entries, axis=1)
    chances[:FIRST, 1:] += 0.25
    chances[FIRST:, 0] += 0.115
    return (rng.random(chances.shape) < chances).astype(float)


def is_wrong(scores: Array, found: Standing, gain: float, level: float) -> bool:
    """Return whether a table of these scores has an interval of this `level` that excludes the true
    difference."""
    first, *rest = [*found.left, *found.dropped]
    for entry in rest:
        end = min(-(-found.dropped.get(entry, found.looks) // BLOCK) * BLOCK, len(scores))
        differences = scores[:end, entry] - scores[:end, first]
        truth = gain * ((entry == 0) - (first == 0))
        capital = max(
            log_capital(differences, truth).max(), log_capital(-differences, -truth).max()
        )
        if capital >= -np.log(level / 2):
            return True
    return False


def paid(dropped: dict[int, int], looks: int, costs: Array, block: int) -> float:
    """Return the race's share of the table's `costs` (problems, entries). An entry is paid for
    until a block ends."""
    ends = np.full(costs.shape[1], looks)
    for entry, at in dropped.items():
        ends[entry] = at
    ends = np.minimum(-(-ends // block) * block, len(costs))
    return float(sum(costs[:end, entry].sum() for entry, end in enumerate(ends)) / costs.sum())


def share(events: list[bool]) -> str:
    found = mean_by_problem([float(event) for event in events])
    return f"{100 * found.value:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def simulate(runs: int, seed: int) -> None:
    print(
        f"{runs} races for each row, ALPHA={ALPHA}, blocks of {BLOCK} problems. Brackets are 95% "
        "intervals\n"
    )
    print(
        "| entries | problems | gain | best dropped, % | any wrong drop, % | wrong tables, % | "
        "uncorrected, % | won, % | left | tokens, % |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for entries in (4, 17):
        for problems in (30, 100, 500):
            for gain in GAINS:
                rng, rows = np.random.default_rng([seed, entries, problems, round(100 * gain)]), []
                for run in range(runs):
                    scores = simulated(
                        rng, problems, entries, gain, CORRELATIONS[run % len(CORRELATIONS)]
                    )
                    found = race(scores, ALPHA)
                    cost = paid(found.dropped, found.looks, np.ones_like(scores), BLOCK)
                    wrong = bool(found.dropped) if not gain else 0 in found.dropped
                    levels = (pair_level(ALPHA, entries), ALPHA)
                    tables = [is_wrong(scores, found, gain, level) for level in levels]
                    rows.append(
                        (
                            0 in found.dropped,
                            wrong,
                            *tables,
                            found.left == [0],
                            len(found.left),
                            cost,
                        )
                    )
                *events, won, left, costs = zip(*rows, strict=True)
                shares = " | ".join(share(list(each)) for each in events)
                head = f"| {entries} | {problems} | {100 * gain:.0f} | {shares}"
                figures = (
                    f"{100 * np.mean(won):.0f} | {np.mean(left):.1f} | {100 * np.mean(costs):.0f}"
                )
                print(f"{head} | {figures} |", flush=True)


def simulate_sorted(runs: int, seed: int) -> None:
    """Print how often the best entry is dropped on a set that is sorted by difficulty."""
    print(f"\n{SORTED} problems sorted by difficulty. Best dropped, in % of {runs} races\n")
    print(
        f"| entries | random order (27_race) | any of {SEEDS} random orders | the easy {FIRST} "
        "first |"
    )
    print("|--:|--:|--:|--:|")
    for entries in (2, 4, 17):
        rng, rows = np.random.default_rng([seed, entries]), []
        for _ in range(runs):
            scores = by_difficulty(rng, entries)
            dropped = [
                0 in race(scores[rng.permutation(SORTED)], ALPHA).dropped for _ in range(SEEDS)
            ]
            easy_first = [*rng.permutation(FIRST), *(FIRST + rng.permutation(SORTED - FIRST))]
            rows.append((dropped[0], any(dropped), 0 in race(scores[easy_first], ALPHA).dropped))
        print(
            f"| {entries} | {' | '.join(share(list(each)) for each in zip(*rows, strict=True))} |",
            flush=True,
        )


def replay(folder: Path, orders: int, seed: int) -> None:
    """Print replays of the comparison in `folder`. The best entries are the entries with the
    table's highest mean."""
    matched = compared_in(folder)
    print(
        f"{matched.about}. {orders} orders of the problems, ALPHA={ALPHA}. Tokens are % of the "
        "table's tokens\n"
    )
    print(
        "| budget | best of the table | best left, % | a best first, % | left | tokens, block of 1 "
        "| of 4 | of 8 |"
    )
    print("|--:|---|--:|--:|--:|--:|--:|--:|")
    names = list(matched.paths())
    steps = [
        [[p.steps for p in read.read(path)[1]] for path in paths]
        for paths in matched.paths().values()
    ]
    for budget in matched.budgets:
        buys = [
            [[bought(each, budget, matched.meter) for each in run] for run in runs]
            for runs in steps
        ]
        scores = (
            np.array([[[b.score or 0.0 for b in run] for run in runs] for runs in buys])
            .mean(axis=1)
            .T
        )
        costs = (
            np.array(
                [
                    [[b.figures["tokens"] + b.figures["cut"] for b in run] for run in runs]
                    for runs in buys
                ]
            )
            .sum(axis=1)
            .T
        )
        means, rng = scores.mean(axis=0), np.random.default_rng(seed)
        best = set(np.flatnonzero(means >= means.max() - 1e-9).tolist())
        rows = []
        for _ in range(orders):
            order = rng.permutation(len(scores))
            found = race(scores[order], ALPHA)
            ratios = [paid(found.dropped, found.looks, costs[order], block) for block in (1, 4, 8)]
            rows.append(
                (not best.isdisjoint(found.left), found.left[0] in best, len(found.left), *ratios)
            )
        kept, won, *figures = zip(*rows, strict=True)
        left, *ratios = np.mean(figures, axis=1)
        cells = " | ".join(
            [
                share(list(kept)),
                share(list(won)),
                f"{left:.1f}",
                *(f"{100 * each:.0f}" for each in ratios),
            ]
        )
        print(
            (
                f"| {matched.meter.format(budget)} | {', '.join(names[i] for i in sorted(best))} | "
                f"{cells} |"
            ),
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="race", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=400, help="simulated races for each row (sorted set: 5 times)"
    )
    parser.add_argument("--replay", type=Path, help="the folder of a comparison")
    parser.add_argument(
        "--orders", type=int, default=200, help="orders of the problems in a replay"
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with command():
        if args.replay:
            replay(args.replay, args.orders, args.seed)
        else:
            simulate(args.runs, args.seed)
            simulate_sorted(5 * args.runs, args.seed)


if __name__ == "__main__":
    main()
