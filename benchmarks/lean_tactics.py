"""Measure the tactics a second that Lean checks, with one worker and with several: one run, and their ratio.

    python -m benchmarks.lean_tactics [--workers 2] [--tactics 400]

Tactics come as from a search: CANDIDATES of each state at a time, for the states along the proofs of
data/lean/lemmas_train.json, right and wrong ones. Processes are started and warm before the clock runs."""

import argparse
import asyncio
import itertools
import json
import os
import time
from collections.abc import Iterator

from core.base.errors import command
from core.base.files import DATA, read_json
from labs.lean import toolchain
from labs.lean.session import Workers
from labs.lean.toolchain import Toolchain

CANDIDATES = ("assumption", "constructor", "intro h9", "rfl")  # of each state, and the right one

Request = tuple[str, list[str]]


def requests() -> Iterator[list[Request]]:
    """Yield the requests of one state after the other, endlessly."""
    rows = read_json(DATA / "lean" / "lemmas_train.json", "the lemmas", "python -m scripts.lean.make_lemmas makes them")
    for row in itertools.cycle(rows["theorems"][::7]):
        for count, tactic in enumerate(row["proof"]):
            yield [(row["statement"], [*row["proof"][:count], one]) for one in (tactic, *CANDIDATES)]


async def rate(lean: Toolchain, count: int, tactics: int) -> float:
    """Return the tactics a second of `count` workers, each of which works through states of its own."""
    states = requests()
    left, done = tactics, 0
    async with Workers(lean, count) as workers:
        await asyncio.gather(*(workers.run(f": {number} = {number}") for number in range(count)))

        async def one() -> None:
            nonlocal left, done
            while left > 0:
                asked = next(states)
                left -= len(asked)
                for request in asked:
                    await workers.run(*request)
                    done += 1

        began = time.monotonic()
        await asyncio.gather(*(one() for _ in range(count)))
        return done / (time.monotonic() - began)


async def both(count: int, tactics: int) -> dict[str, object]:
    lean = toolchain.find()
    alone = await rate(lean, 1, tactics)
    beside = await rate(lean, count, tactics)
    return {
        "lean": lean.name,
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "tactics": tactics,
        "one_worker_per_s": round(alone, 1),
        "workers": count,
        "workers_per_s": round(beside, 1),
        "ratio": round(beside / alone, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure tactics a second, several workers against one.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tactics", type=int, default=400)
    args = parser.parse_args()
    print(json.dumps(asyncio.run(both(args.workers, args.tactics))))


if __name__ == "__main__":
    with command():
        main()
