"""Measure which share of a run's prompt tokens comes from the server's cache, for each ORDER of
candidates.

    python -m benchmarks.prefix_reuse [--problems 10] [--rounds 1]

02_rsa_basic runs on a fresh embedded engine with each ORDER. ORDER = "random" shuffles the
candidates of every prompt. ORDER = "shared" shows the most used candidates of the step first.
Without a RAM cache, each slot keeps only its last prompt. With the RAM cache (a run's default), the
engine also keeps earlier prompts.

The cached share is cached_tokens ÷ prompt_tokens, as the engine counts them. The column "radix" is
computed from the prompts. It is the share of their characters in a prefix that an earlier answered
prompt also has. An unlimited cache for all requests, as in SGLang, would contain these characters.
In the first table, instructions are a large part of every prompt. The candidates of the second
table have LONG random characters, an assumed length of solutions."""

import argparse
import asyncio
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from bisect import bisect, insort
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.embedded import ROOT, engine, environment
from core import rsa
from core.base import seeds
from core.engines.dialects.llamacpp import CACHE_MIB
from core.types import Ask, Completion, Message, Population, Problem
from harness.run import run

SLOTS = 16
LONG = 4000  # characters of a candidate in the second table
EXPERIMENT = ROOT / "experiments" / "02_rsa_basic.py"
ORDERS = ("random", "shared")


def radix_share(prompts: Sequence[str]) -> float:
    """Return the share of the characters of `prompts` that belong to a prefix shared with an
    earlier prompt."""
    seen: list[str] = []
    found = 0
    for prompt in prompts:
        place = bisect(seen, prompt)  # a neighbour in sorted order shares the longest prefix
        near = seen[max(0, place - 1) : place + 1]
        found += max((shared(prompt, other) for other in near), default=0)
        insort(seen, prompt)
    return found / sum(map(len, prompts))


def shared(a: str, b: str) -> int:
    """Return the length of the common prefix of `a` and `b`."""
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def run_and_record(out: Path, overrides: Sequence[str]) -> None:
    """Run 02_rsa_basic in this process, and write its token counts, seconds and radix share to
    `out`."""
    answered: list[tuple[str, Completion]] = []
    first = 0.0

    async def recorded(
        problem: Problem, ask: Ask, config: rsa.RsaConstants
    ) -> AsyncIterator[Population]:
        async def noted(
            messages: Sequence[Message], *names: str | int, **changes: Any
        ) -> Completion:
            nonlocal first
            first = first or time.monotonic()
            completion = await ask(messages, *names, **changes)
            answered.append((messages[0]["content"], completion))
            return completion

        async for population in rsa.rsa(problem, noted, config):
            yield population

    sys.argv[1:] = overrides
    run(
        replace(rsa.RSA, run=recorded),
        runpy.run_path(str(EXPERIMENT)) | {"__file__": str(EXPERIMENT)},
    )
    figures = {
        "prompt": sum(completion.prompt_tokens for _, completion in answered),
        "cached": sum(completion.cached_tokens for _, completion in answered),
        "tokens": sum(completion.completion_tokens for _, completion in answered),
        "seconds": time.monotonic() - first,
        "radix": radix_share([prompt for prompt, _ in answered]),
    }
    out.write_text(json.dumps(figures), encoding="utf-8")


def measured(order: str, cache_mib: int, problems: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name, engine(SLOTS, cache_mib) as server:
        out = Path(name) / "figures.json"
        command = [
            sys.executable,
            "-m",
            "benchmarks.prefix_reuse",
            "--order",
            order,
            "--out",
            str(out),
        ]
        env = environment(BASE_URL=server.base_url, RESULTS_DIR=name)
        command += ["--problems", str(problems)]
        ended = subprocess.run(
            command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False
        )
        if ended.returncode:
            raise SystemExit(f"{order} failed: {ended.stderr}")
        figures: dict[str, float] = json.loads(out.read_text(encoding="utf-8"))
    return figures | {"cpu": server.cpu_seconds, "load": os.getloadavg()[0]}


def long_candidates(order: str, n: int, k: int) -> float:
    """Return `radix_share` for RSA with T=5 on 8 problems, with candidates of LONG random
    characters."""
    prompts: list[str] = []

    async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
        prompts.append(messages[0]["content"])
        return Completion("", 0, answer=seeds.rng(len(prompts), *names).bytes(LONG // 2).hex())

    async def collect() -> None:
        config = rsa.RsaConstants(N=n, K=k, T=5, ORDER=order)
        for number in range(8):
            async for _ in rsa.rsa(Problem(f"p{number}", "x" * 300, "0"), ask, config):
                pass

    asyncio.run(collect())
    return radix_share(prompts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--order", choices=ORDERS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.order:
        run_and_record(args.out, [f"LIMIT={args.problems}", f"ORDER={args.order}"])
        return
    print(f"02_rsa_basic on {args.problems} problems, {SLOTS} slots\n")
    print(
        "| order | engine's cache | cached share | radix, computed | tokens/s | tokens per CPU "
        "second | load |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for _ in range(args.rounds):
        for cache_mib in (0, CACHE_MIB):
            for order in ORDERS:
                figures = measured(order, cache_mib, args.problems)
                print(
                    f"| {order} | {'RAM cache' if cache_mib else 'no RAM cache'} | "
                    f"{figures['cached'] / figures['prompt']:.1%} | {figures['radix']:.1%} | "
                    f"{figures['tokens'] / figures['seconds']:,.0f} | "
                    f"{figures['tokens'] / figures['cpu']:,.0f} | {figures['load']:.1f} |",
                    flush=True,
                )
    print(
        f"\nradix, computed for candidates of {LONG:,} characters\n\n| N, K | {' | '.join(ORDERS)} "
        "|"
    )
    print("| --- | ---: | ---: |")
    for n, k in ((8, 3), (16, 4)):
        print(
            f"| {n}, {k} | {' | '.join(f'{long_candidates(order, n, k):.1%}' for order in ORDERS)} "
            "|"
        )


if __name__ == "__main__":
    main()
