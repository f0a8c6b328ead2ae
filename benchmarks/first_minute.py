"""Where the first run's seconds go: 02_rsa_basic on the embedded engine part by part, beside what arithmetic takes.

    python -m benchmarks.first_minute [--problems 8] [--quick]

Two measurements. The default run whole, as users start it (set up already): seconds from the command to its table, and
CPU seconds of all of it. And its first problems on one engine with the slots that an engine of a run has, twice over
with the same requests: the run itself, and a bare client that asks for one token of each. From the CPU seconds of
engines and clients follow the parts:

- reading: the engine with one token a request;
- writing: the engine of the run, less reading;
- client: the run's own process, imports, journal and grading included.

The bound is the work's floating-point operations (core/engines/shape.py, from the tokens that the engine counted) at
the speed of a large float32 matrix product on one core, on all cores.
"""

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

SIZE = 2048  # of the matrices whose product tells the core's speed
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
    """The default run: seconds from the command to its end, CPU seconds, and what its results say of its tokens."""

    seconds: float
    cpu: float
    completions: int
    written: int
    read: int
    flops: float


def core_speed() -> float:
    """Floating-point operations a second of one core in a large matrix product."""
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
    made: list[dict[str, Any]] = [json.loads(line)["completion"] for line in journal]
    size = Gguf.read(EMBEDDED_GGUF).shape
    return Whole(
        seconds,
        cpu,
        len(made),
        sum(c["completion_tokens"] for c in made),
        sum(c["prompt_tokens"] - c["cached_tokens"] for c in made),
        sum(size.flops(c["prompt_tokens"], c["cached_tokens"], c["completion_tokens"]) for c in made),
    )


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def turns(problems: int) -> dict[str, Turn]:
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("run", READER):
            made[name] = take_turn(name, EMBEDDED_SLOTS // EMBEDDED_ENGINES, problems, Path(folder))
    return made


def shares(made: dict[str, Turn]) -> str:
    """The parts of the CPU seconds, as Markdown."""
    run, read = made["run"], made[READER].engine_cpu
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
    made = whole_run(overrides)
    load = os.getloadavg()[0]
    speed = core_speed()
    bound = made.flops / speed / CORES
    print(
        f"02_rsa_basic {' '.join(overrides)}\n"
        f"{release()}, {EMBEDDED_ENGINES} engines, {CORES} cores, load {load:.1f}\n\n"
        f"whole: {made.seconds:.1f} s by the clock, {made.cpu:.1f} CPU s, {made.completions} completions\n"
        f"{made.written:,} tokens written, {made.read:,} read: {made.written / made.seconds:,.0f} written a second, "
        f"{made.written / made.cpu:,.0f} a CPU second\n"
        f"bound: {made.flops / 1e9:,.0f} GFLOP at {speed / 1e9:.0f} GFLOP/s a core, {bound:.1f} s; the run takes "
        f"{made.seconds / bound:.0f} times that\n"
    )
    print(shares(turns(2 if args.quick else args.problems)))


if __name__ == "__main__":
    main()
