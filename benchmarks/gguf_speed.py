"""Measure how fast llama.cpp writes with a GGUF file: exact or fast, with 1 thread or one per core, and by slots.

    python -m benchmarks.gguf_speed MODEL.gguf [--rounds 5] [--requests 16] [--tokens 16] [--slots 2 4 8 16]

All settings get the same requests with the same number of tokens, and as many requests are in flight as there are
slots. The settings take turns in each round, so that other work on the machine meets all of them. A row has the median
tokens/s of its rounds, and the median ratio to the first setting of the same round, with its lowest and highest."""

import argparse
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from statistics import median

from core.base.errors import command
from core.engines import client
from core.engines.dialects import llamacpp

CONTEXT = 512  # tokens of a slot
PROMPT = "Ann has {} apples and buys {} bags of 6 apples. She gives 5 apples to her brother. How many apples are left?"
Setting = tuple[bool, int, int]  # exact, threads, slots


def rate(gguf: Path, setting: Setting, requests: int, tokens: int) -> float:
    """Return the tokens/s that a fresh server writes, from the first request to the last reply."""
    exact, threads, slots = setting
    size = llamacpp.Size(slots, CONTEXT, threads)
    with llamacpp.serving(gguf, "benchmark", "127.0.0.1", 0, size, "", exact) as address:

        def ask(number: int) -> int:
            prompt = PROMPT.format(number + 12, number + 2)
            body = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "seed": number, "cache_prompt": False}
            reply = json.loads(client.send(f"{address}/completion", "", body, seconds=600))
            return int(reply["tokens_predicted"])

        began = time.monotonic()
        with ThreadPoolExecutor(slots) as pool:
            written = sum(pool.map(ask, range(requests)))
        return written / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a .gguf file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=16, help="number of requests for each setting and round")
    parser.add_argument("--tokens", type=int, default=16, help="number of tokens that each request writes")
    parser.add_argument("--slots", type=int, nargs="+", default=[2, 4, 8, 16])
    args = parser.parse_args()
    cores = llamacpp.physical_cores()
    settings = list(product((True, False), sorted({1, cores}), args.slots))
    rates: dict[Setting, list[float]] = {setting: [] for setting in settings}
    for turn in range(args.rounds):
        for setting in settings[:: -1 if turn % 2 else 1]:
            rates[setting].append(rate(args.model, setting, args.requests, args.tokens))
        print(f"round {turn + 1} of {args.rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    print(f"{llamacpp.release()}, {args.model.name}, {cores} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| attention | threads | slots | tokens/s | ratio (lowest to highest) |\n|---|--:|--:|--:|--:|")
    for (exact, threads, slots), each in rates.items():
        ratios = sorted(a / b for a, b in zip(each, rates[settings[0]], strict=True))
        print(
            f"| {'exact' if exact else 'fast'} | {threads} | {slots} | {median(each):.0f} | {median(ratios):.2f} "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f}) |"
        )


if __name__ == "__main__":
    with command():
        main()
