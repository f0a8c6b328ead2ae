"""Split the seconds of the first run: 02_rsa_basic on the embedded engine, part by part, against the arithmetic.

    python -m benchmarks.first_minute [--problems 8] [--quick]

Two measurements. The first is the whole default run, as users start it after set-up: seconds from the command to its
table, and all its CPU seconds. The second sends the requests of its first problems twice to one engine with the slots
of a run's engine: by the run itself, and by a bare client that asks for one token of each. The CPU seconds of engines
and clients give the parts:

- reading: the engine with one token a request;
- writing: the engine of the run, less reading;
- client: the run's own process, imports, journal and grading included.

The bound is the work's floating-point operations (core/engines/shape.py, from the tokens that the engine counted) at
the speed of a large float32 matrix product on one core, on all cores."""

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
from core.engines.dialects.llamacpp import release
from core.engines.embedded_model import CORES, EMBEDDED_ENGINES, EMBEDDED_GGUF, EMBEDDED_SLOTS
from core.engines.gguf_header import Gguf

SIZE = 2048  # of the matrices whose product measures the core's speed
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
    """The default run: seconds from the command to its end, CPU seconds, and the token counts of its results."""

    seconds: float
    cpu: float
    completions: int
    written: int
    read: int
    flops: float


def core_speed() -> float:
    """Return the floating-point operations a second of one core in a large matrix product."""
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return float(
        subprocess.run([sys.executable, "-c", SPEED], env=env, capture_output=True, text=True, check=True).stdout
    )


def whole_run(overrides: list[str]) -> Whole:
    with tempfile.TemporaryDirectory() as folder:
        env = environment(RESULTS_DIR=folder, ENGINE="embedded")
        before, began = _children(), time.monotonic()
        command = [sys.executable, str(EXPERIMENT), *overrides]
        ended = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
        seconds, cpu = time.monotonic() - began, _children() - before
        if ended.returncode:
            raise SystemExit(ended.stderr)
        journal = (Path(folder) / "journal" / "02_rsa_basic.jsonl").read_text(encoding="utf-8").splitlines()
    completions: list[dict[str, Any]] = [json.loads(line)["completion"] for line in journal]
    size = Gguf.read(EMBEDDED_GGUF).shape
    return Whole(
        seconds,
        cpu,
        len(completions),
        sum(c["completion_tokens"] for c in completions),
        sum(c["prompt_tokens"] - c["cached_tokens"] for c in completions),
        sum(size.flops(c["prompt_tokens"], c["cached_tokens"], c["completion_tokens"]) for c in completions),
    )


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def turns(problems: int) -> dict[str, Turn]:
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("run", READER):
            results[name] = take_turn(name, EMBEDDED_SLOTS // EMBEDDED_ENGINES, problems, Path(folder))
    return results


def shares(turns: dict[str, Turn]) -> str:
    """Format the parts of the CPU seconds as Markdown."""
    run, read = turns["run"], turns[READER].engine_cpu
    parts = {
        "reading prompts": read,
        "writing tokens": run.engine_cpu - read,
        "the client: imports, requests, journal, grading": run.client_cpu,
    }
    total = sum(parts.values())
    rows = [f"| {name} | {seconds:.1f} | {100 * seconds / total:.0f}% |" for name, seconds in parts.items()]
    return "\n".join(["| part | CPU s | share |", "|---|---:|---:|", *rows, f"| all | {total:.1f} | |"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=8, help="for the parts")
    parser.add_argument("--quick", action="store_true", help="two problems for everything")
    args = parser.parse_args()
    overrides = ["LIMIT=2"] if args.quick else []
    whole = whole_run(overrides)
    load = os.getloadavg()[0]
    speed = core_speed()
    bound = whole.flops / speed / CORES
    print(
        f"02_rsa_basic {' '.join(overrides)}\n"
        f"{release()}, {EMBEDDED_ENGINES} engines, {CORES} cores, load {load:.1f}\n\n"
        f"whole: {whole.seconds:.1f} s by the clock, {whole.cpu:.1f} CPU s, {whole.completions} completions\n"
        f"{whole.written:,} tokens written, {whole.read:,} read: "
        f"{whole.written / whole.seconds:,.0f} written a second, {whole.written / whole.cpu:,.0f} a CPU second\n"
        f"bound: {whole.flops / 1e9:,.0f} GFLOP at {speed / 1e9:.0f} GFLOP/s a core, {bound:.1f} s; the run takes "
        f"{whole.seconds / bound:.0f} times that\n"
    )
    print(shares(turns(2 if args.quick else args.problems)))


if __name__ == "__main__":
    main()
