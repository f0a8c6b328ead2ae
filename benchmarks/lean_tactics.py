"""Measure how many tactics Lean checks per second with one worker and with several workers, and the
ratio.

    python -m benchmarks.lean_tactics [--workers 2] [--tactics 400]

As in a search, each state gets several tactics: the proof's tactic and all CANDIDATES. The states
come from proofs in data/lean/lemmas_train.json. All processes are warm before the clock starts."""

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

# checked in each state, besides the proof's tactic
CANDIDATES = ("assumption", "constructor", "intro h9", "rfl")

Request = tuple[str, list[str]]


def requests() -> Iterator[list[Request]]:
    """Yield the requests for one state after another, without end."""
    rows = read_json(
        DATA / "lean" / "lemmas_train.json",
        "the lemmas",
        "Run python -m labs.demo lean-lemmas",
    )
    for row in itertools.cycle(rows["theorems"][::7]):
        for count, tactic in enumerate(row["proof"]):
            yield [
                (row["statement"], [*row["proof"][:count], one]) for one in (tactic, *CANDIDATES)
            ]


async def rate(lean: Toolchain, count: int, tactics: int) -> float:
    """Return how many tactics `count` workers check per second. The tactics of a state are checked
    one by one."""
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
    parser = argparse.ArgumentParser(
        description="Measure tactics checked per second, by several workers and by one."
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tactics", type=int, default=400)
    args = parser.parse_args()
    print(json.dumps(asyncio.run(both(args.workers, args.tactics))))


if __name__ == "__main__":
    with command():
        main()
