"""Measure how fast llama.cpp writes with a GGUF file: exact or fast, by threads and slots.

    python -m benchmarks.gguf_speed MODEL.gguf [--rounds 5] [--requests 16] [--tokens 12] [--slots 2
    8 16]

All settings get the same requests with the same number of tokens. As many requests are in flight as
there are slots. All servers run in this process, and take turns in short rounds, so that other work
on the machine slows all of them. A row has the medians of the rounds: tokens/s and tokens per CPU
second. Each is followed by its ratio to the first row of the same round, as median (lowest to
highest). Other work hardly changes the tokens per CPU second."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import median

from core.base.errors import command
from core.engines import environment, in_process
from core.engines import queries as client
from core.engines.dialects import llamacpp
from core.engines.in_process import Launch

CONTEXT = 256  # tokens of a slot
Setting = tuple[bool, int, int]  # exact, threads, slots


def rate(address: str, slots: int, requests: int, tokens: int) -> tuple[float, float]:
    """Return the tokens/s and the tokens per CPU second that a server writes."""

    def ask(number: int) -> None:
        body = {
            "prompt": f"Ann has {number} apples and buys",
            "n_predict": tokens,
            "ignore_eos": True,
        }
        client.send(f"{address}/completion", body=body | {"cache_prompt": False}, seconds=600)

    began, cpu = time.monotonic(), time.process_time()
    with ThreadPoolExecutor(slots) as pool:
        list(pool.map(ask, range(requests)))
    written = requests * tokens
    return written / (time.monotonic() - began), written / (time.process_time() - cpu)


def cells(values: Sequence[float], first: Sequence[float]) -> str:
    ratios = sorted(a / b for a, b in zip(values, first, strict=True))
    return f"{median(values):.0f} | {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="a .gguf file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--requests", type=int, default=16, help="number of requests for each setting and round"
    )
    parser.add_argument(
        "--tokens", type=int, default=12, help="number of tokens that each request writes"
    )
    parser.add_argument("--slots", type=int, nargs="+", default=[2, 8, 16])
    args = parser.parse_args()
    cores = llamacpp.physical_cores()
    settings = list(product((True, False), sorted({1, cores}), args.slots))
    rates: dict[Setting, list[tuple[float, float]]] = {setting: [] for setting in settings}
    with ExitStack() as running:
        addresses = {}
        for exact, threads, slots in settings:
            size = llamacpp.Size(slots, CONTEXT, threads)
            launch = Launch(args.model, "benchmark", size, exact)
            server = in_process.serving(launch, environment.wanted())
            addresses[exact, threads, slots] = running.enter_context(server)
        for turn in range(args.rounds):
            for setting in settings[:: -1 if turn % 2 else 1]:
                rates[setting].append(
                    rate(addresses[setting], setting[2], args.requests, args.tokens)
                )
            print(
                f"round {turn + 1} of {args.rounds}, load {os.getloadavg()[0]:.1f}",
                file=sys.stderr,
                flush=True,
            )
    print(
        f"{llamacpp.release()}, {args.model.name}, {cores} cores, load {os.getloadavg()[0]:.1f}\n"
    )
    print(
        "| attention | threads | slots | tokens/s | ratio | tokens/CPU s | ratio "
        "|\n|---|--:|--:|--:|--:|--:|--:|"
    )
    for (exact, threads, slots), each in rates.items():
        columns = " | ".join(
            map(cells, zip(*each, strict=True), zip(*rates[settings[0]], strict=True))
        )
        print(f"| {'exact' if exact else 'fast'} | {threads} | {slots} | {columns} |")


if __name__ == "__main__":
    with command():
        main()
