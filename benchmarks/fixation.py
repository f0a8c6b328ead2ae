"""Simulate how soon a whole population descends from one solution of step 0, for each ORDER of
candidates.

    python -m benchmarks.fixation [--problems 200]

core/rsa.py runs unchanged (N=8, K=3) with a simulated model. The model ignores the text
of candidates, and copies one candidate in its prompt at random. It may prefer the first or the last
candidate, which then has a higher weight than the others (MODELS). So each solution is a copy of
one solution of step 0, its founder. The table shows the share of populations with one founder left,
and the mean number of founders. No founder is better than another. So founders are lost only by
chance, or by their places in prompts."""

import argparse
import asyncio
import re
from collections.abc import Sequence
from typing import Any

from core.base import seeds
from core.rsa import RsaConstants, rsa
from core.types import Completion, Message, Problem

N, K, STEPS = 8, 3, (5, 10)
# name, weight of the first candidate, weight of the last candidate (all other weights are 1)
MODELS = (
    ("no candidate", 1, 1),
    ("the first, 3 times", 3, 1),
    ("the first, 10 times", 10, 1),
    ("the first, always", 10**9, 1),
    ("the last, 10 times", 1, 10),
)


def founders(
    order: str, first: float, last: float, seed: int, steps: int = max(STEPS)
) -> list[int]:
    """Count the founders left in each population of one problem."""
    problem = Problem(f"p{seed}", "?", "0")
    config = RsaConstants(N=N, K=K, T=steps, ORDER=order)

    async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
        shown = re.findall(r"^founder \d+$", messages[0]["content"], re.MULTILINE)
        if not shown:
            return Completion("", 0, answer=f"founder {names[1]}")
        weights = [first] + [1.0] * (len(shown) - 2) + [last]
        chosen = seeds.rng(seed, *names).choice(
            len(shown), p=[weight / sum(weights) for weight in weights]
        )
        return Completion("", 0, answer=shown[chosen])

    async def counted() -> list[int]:
        return [
            len({m.completion.text for m in population})
            async for population in rsa(problem, ask, config)
        ]

    return asyncio.run(counted())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=200)
    args = parser.parse_args()
    print(
        f"N={N}, K={K}, {args.problems} problems. Cells: share with one founder left (mean number "
        "of founders)\n"
    )
    columns = [f"{order}, t={t}" for t in STEPS for order in ("random", "shared")]
    print(f"| the model prefers | {' | '.join(columns)} |")
    print(f"| --- |{' ---: |' * len(columns)}")
    for name, first, last in MODELS:
        counted = {
            order: [founders(order, first, last, seed) for seed in range(args.problems)]
            for order in ("random", "shared")
        }
        cells = []
        for t in STEPS:
            for runs in counted.values():
                left = [counts[t] for counts in runs]
                cells.append(f"{left.count(1) / len(left):.0%} ({sum(left) / len(left):.1f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
