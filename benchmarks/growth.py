"""What a run costs as it grows: time to resume, memory, bytes on disk, time to save and report.

    python -m benchmarks.growth [--n 10000 100000 1000000] [--set N=48 T=0]   a run resumed wholly from its journal
    python -m benchmarks.growth --in-flight 100 1000 10000   requests in flight at once: memory and CPU of the client
    python -m benchmarks.growth --compression JOURNAL        bytes a completion, as they are and compressed

Prints Markdown tables. The journals are filled by Journal.put under the keys that the Generator makes, with made-up
completions; the runs are experiments/02_rsa_basic.py itself, in a process of its own. The server is a stub: it lists a
model, and answers every request after --delay seconds with a few words.
"""

import argparse
import asyncio
import base64
import json
import os
import pydoc_data.topics
import random
import resource
import runpy
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from core import constants
from core.base import seeds
from core.engines.attach import probe
from core.engines.server import Server
from core.generate.generator import Generator
from core.generate.journal import Journal, content_key
from core.plan.lengths import measured
from core.problems import sets
from core.report import compare
from core.results import read
from core.scaffolds.rsa import RSA, RsaConstants, rsa
from core.session import experiment
from core.types import Completion, Message, Problem, Sampling

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENT = ROOT / "experiments" / "02_rsa_basic.py"
IN_FLIGHT_DELAY = 20.0  # seconds that the stub lets requests wait, so that all of them are in flight at once
SAMPLES = 300  # records, and texts of prose, that compression is measured on
PROSE_CHARS = 25_000  # a completion of QED-Nano: some 7,600 tokens


# The stub


async def stub(delay: float) -> None:
    """Serve until standard input ends. The port goes to standard output. Answers tell, as their prompt tokens, the most
    requests so far that were in flight at once."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    in_flight = most = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal in_flight, most
        while head := await reader.readuntil(b"\r\n\r\n"):
            if head.startswith(b"GET"):
                answer: dict[str, Any] = {"data": [{"id": "stub", "object": "model"}]}
            else:
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length[15:]))
                in_flight += 1
                most = max(most, in_flight)
                await asyncio.sleep(delay)
                in_flight -= 1
                message = {"role": "assistant", "content": "The answer is \\boxed{4}."}
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                usage = {"prompt_tokens": most, "completion_tokens": 8, "total_tokens": most + 8}
                answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "stub"}
                answer |= {"choices": [choice], "usage": usage}
            body = json.dumps(answer).encode()
            kind = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            writer.write(kind % len(body) + body)

    async def survive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    listening = await asyncio.start_server(survive, "127.0.0.1", 0, backlog=4096)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


def _leave_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


@contextmanager
def stub_server(delay: float) -> Iterator[Server]:
    """The stub in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth", "--stub", str(delay)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        found = probe(f"http://127.0.0.1:{int(process.stdout.readline())}/v1", "the benchmark's stub")
        assert found is not None
        yield found
    finally:
        process.kill()
        process.wait()


# A run of many completions, resumed


def many_sums(folder: Path, count: int) -> Path:
    """A file of `count` sums."""
    rng = random.Random(4)
    path = folder / "many_sums.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            a, b, c, d = (rng.randint(2, 20) for _ in range(4))
            row = {"problem": f"What is {a}*{b} + {c}*{d}?", "answer": a * b + c * d}
            file.write(json.dumps(row) + "\n")
    return path


async def fill(journal: Journal, chosen: sets.ProblemSet, on: Server, constants: RsaConstants) -> None:
    """Put every completion that RSA will ask for: 600 characters of thinking, half of the answers right."""
    sampling = Sampling(
        constants.TEMPERATURE, constants.TOP_P, max_tokens=constants.MAX_TOKENS, answer_tokens=constants.ANSWER_TOKENS
    )
    rng = random.Random(5)
    thoughts = [" ".join(f"{rng.randint(2, 400)} + {rng.randint(2, 400)}" for _ in range(60)) for _ in range(1000)]
    async with Generator(on, journal, 1, 60) as generator:

        def asker(problem: Problem) -> Callable[..., Any]:
            async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
                seed = seeds.derive(constants.SEED, problem.id, *names)
                key = generator.key(messages, seed, replace(sampling, **changes))
                answer = f"The sum is \\boxed{{{problem.answer if rng.random() < 0.5 else rng.randint(0, 999)}}}."
                made = Completion(key, seed, rng.choice(thoughts), answer, None, "stop", 60, 0, 300, rng.random())
                kept = asdict(made)
                del kept["key"], kept["reused"]
                journal.put(key, kept, messages)
                return made

            return ask

        for problem in chosen.problems:
            async for _ in rsa(problem, asker(problem), constants):
                pass


def memory_mb(name: str) -> float:
    """Of this process: "VmRSS" now, or "VmHWM", its peak so far."""
    line = next(line for line in open("/proc/self/status", encoding="ascii") if line.startswith(name))  # noqa: SIM115
    return int(line.split()[1]) / 1024


def resumed(arguments: Sequence[str]) -> None:
    """Run the experiment in this process, timed from outside; figures go to the last line of standard output."""
    figures: dict[str, float] = {"imported": memory_mb("VmRSS")}

    def timed(owner: Any, name: str, label: str) -> None:
        inner = getattr(owner, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            began = time.monotonic()
            try:
                return inner(*args, **kwargs)
            finally:
                figures[label] = time.monotonic() - began
                figures[f"{label} MB"] = memory_mb("VmHWM")

        setattr(owner, name, wrapper)

    timed(Journal, "__enter__", "scan")
    timed(experiment.Experiment, "save", "save")
    timed(experiment.Experiment, "show", "report")
    began, cpu = time.monotonic(), time.process_time()
    sys.argv = [str(EXPERIMENT), *arguments]
    runpy.run_path(str(EXPERIMENT), run_name="__main__")
    print(json.dumps(figures | {"run": time.monotonic() - began, "cpu": time.process_time() - cpu}))


def compared(path: str) -> None:
    began = time.monotonic()
    print(compare.table([compare.read(path, ROOT)] * 2), file=sys.stderr)
    print(json.dumps({"compare": time.monotonic() - began, "compare MB": memory_mb("VmHWM")}))


def told(*args: str, **environment: str) -> dict[str, float]:
    """The figures that this program prints when it is run with `args` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth", *args],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def growth(sizes: Sequence[int], overrides: Sequence[str]) -> None:
    print(
        "| completions | problems | journal B each | put µs | scan s | run s | CPU s | peak MB running | save s "
        "| results MB | report s | peak MB | compare s | compare MB | plan s |\n" + "|---:" * 15 + "|",
        flush=True,
    )
    config = constants.read(RsaConstants, runpy.run_path(str(EXPERIMENT)), overrides)
    with stub_server(0) as on:
        for size in sizes:
            with tempfile.TemporaryDirectory(prefix="growth-") as name:
                folder = Path(name)
                count = max(1, size // RSA.max_completions(config))
                chosen = sets.load(str(many_sums(folder, count)))
                path = folder / "journal" / "02_rsa_basic.jsonl"
                began = time.process_time()
                with Journal(path) as journal:
                    asyncio.run(fill(journal, chosen, on, config))
                    made = len(journal)
                put = (time.process_time() - began) / made * 1e6
                changes = {"BASE_URL": on.base_url, "RESULTS_DIR": name, "PROBLEMS": str(folder / "many_sums.jsonl")}
                run = told("--resumed", "--set", *overrides, **changes)
                results = folder / "02_rsa_basic.json"
                assert read.read(results)[0].metrics.steps[-1].problems == count
                again = told("--compared", str(results))
                began = time.monotonic()
                measured(folder, on.model, "02_rsa_basic")  # as a plan does
                start = time.monotonic() - began
                print(
                    f"| {made:,} | {count:,} | {path.stat().st_size / made:,.0f} | {put:,.0f} | {run['scan']:.2f} "
                    f"| {run['run']:.1f} | {run['cpu']:.1f} | {run['save MB']:.0f} | {run['save']:.2f} "
                    f"| {results.stat().st_size / 1e6:,.1f} | {run['report']:.2f} | {run['report MB']:.0f} "
                    f"| {again['compare']:.1f} | {again['compare MB']:.0f} | {start:.2f} |",
                    flush=True,
                )


# Requests in flight


def in_flight(count: int, base_url: str) -> None:
    """Ask for `count` completions at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 1000)), hard))
    on = probe(base_url, "the benchmark's stub")
    assert on is not None

    async def ask(generator: Generator) -> int:
        messages: list[Message] = [{"role": "user", "content": "What is 2 + 2?"}]
        made = await asyncio.gather(*(generator(messages, seed, Sampling()) for seed in range(count)))
        assert not any(completion.error for completion in made)
        return max(completion.prompt_tokens for completion in made)  # where the stub tells what it saw

    async def measure() -> dict[str, float]:
        with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "a.jsonl") as journal:
            async with Generator(on, journal, count, 3600) as generator:
                before, cpu, began = memory_mb("VmRSS"), time.process_time(), time.monotonic()
                most = await ask(generator)
                return {
                    "most": most,
                    "kB": (memory_mb("VmHWM") - before) * 1024 / count,
                    "ms": (time.process_time() - cpu) / count * 1000,
                    "MB": memory_mb("VmHWM"),
                    "s": time.monotonic() - began,
                }

    print(json.dumps(asyncio.run(measure())))


def flights(sizes: Sequence[int], delay: float) -> None:
    print(
        "| asked at once | most in flight at the stub | kB each | CPU ms each | peak MB | seconds |\n"
        + "|---:" * 6
        + "|"
    )
    with stub_server(delay) as on:
        for size in sizes:
            f = told("--asking", str(size), "--url", on.base_url)
            print(
                f"| {size:,} | {f['most']:,.0f} | {f['kB']:.1f} | {f['ms']:.2f} | {f['MB']:.0f} | {f['s']:.1f} |",
                flush=True,
            )


# Compression


def compression(journal: Path) -> None:
    """Each record on its own, as a line that can be read alone must be; and the whole journal as one stream."""
    records = list(journal.read_bytes().splitlines(keepends=True))[:SAMPLES]
    prose = "\n".join(pydoc_data.topics.topics.values())
    starts = random.Random(6).sample(range(len(prose) - PROSE_CHARS), SAMPLES)
    texts = [
        json.dumps({"key": content_key(i), "completion": {"thinking": prose[i : i + PROSE_CHARS]}}).encode()
        for i in starts
    ]
    print(
        "| records | B each | zlib 1 | µs | zlib 6 | µs | zlib 6 as base64 | unpack µs |\n" + "|---|" + "---:|" * 7,
    )
    for name, lines in ((f"journal {journal.name}", records), ("prose of 25,000 characters", texts)):
        whole = sum(map(len, lines))
        cells = [f"{whole / len(lines):,.0f}"]
        for level in (1, 6):
            began = time.process_time()
            packed = [zlib.compress(line, level) for line in lines]
            took = time.process_time() - began
            cells += [f"{sum(map(len, packed)) / whole:.0%}", f"{took / len(lines) * 1e6:,.0f}"]
        cells.append(f"{sum(len(base64.b64encode(each)) for each in packed) / whole:.0%}")
        began = time.process_time()
        for each in packed:
            zlib.decompress(each)
        cells.append(f"{(time.process_time() - began) / len(lines) * 1e6:,.0f}")
        print(f"| {len(lines)} of {name} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.growth", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--n", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="completions of a run")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=value", help="constants of the run")
    parser.add_argument("--in-flight", type=int, nargs="+", metavar="N", help="requests in flight at once")
    parser.add_argument("--delay", type=float, default=IN_FLIGHT_DELAY, help="seconds that the stub lets those wait")
    parser.add_argument("--compression", type=Path, metavar="JOURNAL")
    for hidden in ("--stub", "--compared", "--asking", "--url"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--resumed", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stub:
        asyncio.run(stub(float(args.stub)))
    elif args.resumed:
        resumed(args.set)
    elif args.compared:
        compared(args.compared)
    elif args.asking:
        in_flight(int(args.asking), args.url)
    elif args.compression:
        compression(args.compression)
    elif args.in_flight:
        flights(args.in_flight, args.delay)
    else:
        growth(args.n, args.set)


if __name__ == "__main__":
    main()
