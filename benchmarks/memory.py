"""Measure the memory of runs with journals of several sizes. 02_rsa_basic resumes from synthetic
completions.

    bash benchmarks/run.sh memory [--n 1000 10000 100000]

The result is a Markdown table. The benchmark fills the journals with Journal.put, under the run's
own keys. Each run is its own process with benchmarks/stub_server.py as its server. The run requests
no completion."""

import argparse
import asyncio
import json
import os
import random
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from core import constants
from core.base import seeds
from core.client.journal import Journal
from core.engines.attach import probe
from core.engines.protocol import Server
from core.generate import Generator
from core.rsa import RSA, RsaConstants, rsa
from core.types import Completion, Message, Sampling
from harness.problems import sets

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENT = ROOT / "experiments" / "02_rsa_basic.py"
SIZES = (1_000, 10_000, 100_000)


@contextmanager
def stub_server() -> Iterator[Server]:
    """Start benchmarks/stub_server.py in its own process, and yield it as a server."""
    command = [sys.executable, str(Path(__file__).with_name("stub_server.py"))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        found = probe(
            f"http://127.0.0.1:{int(process.stdout.readline())}/v1", "the benchmark's stub"
        )
        assert found is not None
        yield found
    finally:
        process.kill()
        process.wait()


def many_sums(folder: Path, count: int) -> Path:
    """Write a problem file of `count` sums, and return its path."""
    rng = random.Random(4)
    rows = []
    for _ in range(count):
        a, b, c, d = (rng.randint(2, 20) for _ in range(4))
        rows.append(json.dumps({"problem": f"What is {a}*{b} + {c}*{d}?", "answer": a * b + c * d}))
    path = folder / "many_sums.jsonl"
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


async def fill(
    journal: Journal, chosen: sets.ProblemSet, server: Server, config: RsaConstants
) -> None:
    """Store all completions (about 600 characters each) that RSA will request. About half of the
    answers are right."""
    rng, sampling = random.Random(5), Sampling.from_config(config)
    thoughts = [
        " ".join(f"{rng.randint(2, 400)} + {rng.randint(2, 400)}" for _ in range(60))
        for _ in range(1000)
    ]
    generator = Generator(server, journal, 1, 60)
    for problem in chosen.problems:

        async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
            seed = seeds.derive(config.SEED, problem.id, *names)  # noqa: B023 (called only within this iteration)
            key = generator.key(messages, seed, replace(sampling, **changes))
            answer = problem.answer if rng.random() < 0.5 else rng.randint(0, 999)  # noqa: B023
            completion = Completion(
                key,
                seed,
                rng.choice(thoughts),
                f"The sum is \\boxed{{{answer}}}.",
                None,
                "stop",
                60,
                0,
                300,
            )
            journal.put(completion, messages)
            return completion

        async for _ in rsa(problem, ask, config):
            pass


def resumed(folder: Path, server: Server) -> tuple[float, float, float]:
    """Run the experiment from its journal. Returns the peak memory in MB, CPU seconds and wall
    seconds."""
    changes = {"BASE_URL": server.base_url, "RESULTS_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(EXPERIMENT), f"PROBLEMS={folder / 'many_sums.jsonl'}"],
        env=os.environ | changes,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0 and (folder / "02_rsa_basic.json").exists()
    return used.ru_maxrss / 1024, used.ru_utime + used.ru_stime, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.memory", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--n",
        type=int,
        nargs="+",
        default=SIZES,
        help="numbers of completions (for whole problems)",
    )
    sizes = parser.parse_args().n
    config = constants.read(RsaConstants, runpy.run_path(str(EXPERIMENT)), [])
    print("| completions | journal MB | peak MB | CPU s | wall s |\n|---:|---:|---:|---:|---:|")
    with stub_server() as server:
        for size in sizes:
            with tempfile.TemporaryDirectory(prefix="memory-") as name:
                folder = Path(name)
                chosen = sets.load(
                    str(many_sums(folder, max(1, size // RSA.max_completions(config))))
                )
                path = folder / "journal" / "02_rsa_basic.jsonl"
                with Journal(path) as journal:
                    asyncio.run(fill(journal, chosen, server, config))
                    count = len(journal)
                peak, cpu, wall = resumed(folder, server)
                kept = path.stat().st_size / 1e6
                print(
                    f"| {count:,} | {kept:,.1f} | {peak:,.0f} | {cpu:,.1f} | {wall:,.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
