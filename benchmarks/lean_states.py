"""Measure how many proof states are embedded per second, in batches (labs/training/embeddings.py)
and one by one.

    python -m benchmarks.lean_states [--states 256] [--rounds 11] [--model FILE.gguf]

The states are made-up texts. Both ways use the same server, in this process, and take turns to run
first."""

import argparse
import asyncio
import json
import os
import time
from pathlib import Path
from statistics import median

from core.base.errors import command
from core.base.files import DATA, read_json
from core.engines.protocol import Server
from labs.lean.burnqed import POLICY
from labs.training.embeddings import CONCURRENCY, ONE_BY_ONE, Embedder
from labs.training.served import Weights, embedding


def states(count: int) -> list[str]:
    """Return `count` different texts, each about as long as a proof state."""
    rows = read_json(
        DATA / "lean" / "lemmas_train.json",
        "the lemmas",
        "Run python -m labs.demo lean-lemmas",
    )
    statements = [row["statement"].replace(") : ", ")\n⊢ ") for row in rows["theorems"]]
    return [f"case h{number}\n{statements[number % len(statements)]}" for number in range(count)]


async def rate(server: Server, texts: list[str], batch: int, concurrency: int) -> float:
    """Return the number of states embedded per second."""
    async with Embedder(server, batch, concurrency) as embedder:
        await embedder(texts[:1])
        began = time.monotonic()
        await embedder(texts)
        return len(texts) / (time.monotonic() - began)


def measured(model: Path, count: int, rounds: int) -> dict[str, object]:
    texts = states(count)
    ways = {"batches": (ONE_BY_ONE, CONCURRENCY), "one": (1, 1)}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    with embedding(Weights(model), model.parent) as server:
        for turn in range(rounds):
            for name in list(ways)[:: 1 if turn % 2 else -1]:
                rates[name].append(asyncio.run(rate(server, texts, *ways[name])))
    ratios = [a / b for a, b in zip(rates["batches"], rates["one"], strict=True)]
    return {
        "model": model.name,
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "states": count,
        "batches_per_s": [round(each, 1) for each in rates["batches"]],
        "one_per_s": [round(each, 1) for each in rates["one"]],
        "ratios": [round(each, 2) for each in ratios],
        "ratio_median": round(median(ratios), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measure states embedded per second, in batches and one by one."
    )
    parser.add_argument("--states", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--model", type=Path, default=POLICY)
    args = parser.parse_args()
    print(json.dumps(measured(args.model, args.states, args.rounds)))


if __name__ == "__main__":
    with command():
        main()
