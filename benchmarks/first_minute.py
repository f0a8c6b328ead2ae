"""Split the time of the first run (02_rsa_basic on the embedded engine) into parts, and compare it
with a bound.

    python -m benchmarks.first_minute [--problems 8] [--quick]

The first measurement is the whole run, as users start it after set-up. It gives the seconds from
the command to its end, and all CPU seconds. The second measurement sends the requests of the first
problems twice, each time to a fresh engine. First the run itself sends them, and then a bare client
sends them and asks for one token each. The CPU seconds of engines and clients give the parts:

- reading: the engine's time if it writes one token per request.
- writing: the engine's time in the run, minus reading.
- client: the time of the run's own process, including imports, journal and grading.

The bound is the time that the run's floating-point operations take at full speed on all cores. The
operations follow from the tokens that the engine counted (core/engines/shape.py). Full speed is a
core's speed in a large float32 matrix product, times the number of cores."""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.embedded import ROOT, environment
from benchmarks.server_full import EXPERIMENT, READER, Turn, take_turn
from core.engines.dialects.llamacpp import (
    CORES,
    EMBEDDED_ENGINES,
    EMBEDDED_GGUF,
    EMBEDDED_SLOTS,
    release,
)
from core.engines.gguf_header import Gguf

SIZE = 2048  # rows and columns of the matrices whose product measures a core's speed
PRODUCTS = 5

SPEED = f"""
import time
import numpy
a = numpy.ones(({SIZE}, {SIZE}), numpy.float32)
a @ a
began = time.process_time()
for _ in range({PRODUCTS}):
    a @ a
print({PRODUCTS} * 2 * {SIZE}**3 / (time.process_time() - began))
"""


@dataclass(frozen=True)
class Whole:
    """The whole run: seconds from the command to its end, CPU seconds, and the counts of its
    journal."""

    seconds: float
    cpu: float
    completions: int
    written: int
    read: int
    flops: float


def core_speed() -> float:
    """Return how many floating-point operations per second one core does in a large matrix
    product."""
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return float(
        subprocess.run(
            [sys.executable, "-c", SPEED], env=env, capture_output=True, text=True, check=True
        ).stdout
    )


def whole_run(overrides: list[str]) -> Whole:
    with tempfile.TemporaryDirectory() as folder:
        env = environment(RESULTS_DIR=folder, ENGINE="embedded")
        before, began = _children(), time.monotonic()
        command = [sys.executable, str(EXPERIMENT), *overrides]
        ended = subprocess.run(
            command, env=env, cwd=ROOT, capture_output=True, text=True, check=False
        )
        seconds, cpu = time.monotonic() - began, _children() - before
        if ended.returncode:
            raise SystemExit(ended.stderr)
        journal = (
            (Path(folder) / "journal" / "02_rsa_basic.jsonl")
            .read_text(encoding="utf-8")
            .splitlines()
        )
    completions: list[dict[str, Any]] = [json.loads(line)["completion"] for line in journal]
    size = Gguf.read(EMBEDDED_GGUF).shape
    return Whole(
        seconds,
        cpu,
        len(completions),
        sum(c["completion_tokens"] for c in completions),
        sum(c["prompt_tokens"] - c["cached_tokens"] for c in completions),
        sum(
            size.flops(c["prompt_tokens"], c["cached_tokens"], c["completion_tokens"])
            for c in completions
        ),
    )


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def turns(problems: int) -> dict[str, Turn]:
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("run", READER):
            results[name] = take_turn(
                name, EMBEDDED_SLOTS // EMBEDDED_ENGINES, problems, Path(folder)
            )
    return results


def shares(turns: dict[str, Turn]) -> str:
    """Return a Markdown table with the parts of the CPU seconds."""
    run, read = turns["run"], turns[READER].engine_cpu
    parts = {
        "reading prompts": read,
        "writing tokens": run.engine_cpu - read,
        "the client: imports, requests, journal, grading": run.client_cpu,
    }
    total = sum(parts.values())
    rows = [
        f"| {name} | {seconds:.1f} | {100 * seconds / total:.0f}% |"
        for name, seconds in parts.items()
    ]
    return "\n".join(
        ["| part | CPU s | share |", "|---|---:|---:|", *rows, f"| all | {total:.1f} | |"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=8, help="number of problems for the parts")
    parser.add_argument(
        "--quick", action="store_true", help="use two problems in both measurements"
    )
    args = parser.parse_args()
    overrides = ["LIMIT=2"] if args.quick else []
    whole = whole_run(overrides)
    load = os.getloadavg()[0]
    speed = core_speed()
    bound = whole.flops / speed / CORES
    print(
        f"02_rsa_basic {' '.join(overrides)}\n"
        f"{release()}, {EMBEDDED_ENGINES} engines, {CORES} cores, load {load:.1f}\n"
        "\n"
        f"whole: {whole.seconds:.1f} s by the clock, {whole.cpu:.1f} CPU s, {whole.completions} "
        "completions\n"
        f"{whole.written:,} tokens written, {whole.read:,} read, "
        f"{whole.written / whole.seconds:,.0f} written per second, "
        f"{whole.written / whole.cpu:,.0f} per CPU second\n"
        f"bound: {bound:.1f} s ({whole.flops / 1e9:,.0f} GFLOP, {CORES} cores of {speed / 1e9:.0f} "
        f"GFLOP/s). The run takes {whole.seconds / bound:.0f} times as long\n"
    )
    print(shares(turns(2 if args.quick else args.problems)))


if __name__ == "__main__":
    main()
