"""Measure the CPU time of a request in our generator, in bare aiohttp and openai clients, and in
lm_eval. The bare openai client is `AsyncOpenAI().chat.completions.create(…)`, as people use it.

    bash benchmarks/run.sh client_cost [--rounds 5] [--sizes 500 2500] [--pieces 1] [--only NAME …]

All clients ask benchmarks/stub_server.py, which answers at once. They send one prompt n times, with
64 requests in flight, and check every reply. Two clients also store the replies. Each measurement
runs in a fresh process, whose CPU time the system counts (user and system, with threads and
children). The cost of a request is the slope between runs of two sizes, (CPU2 - CPU1) / (n2 - n1).
The slope leaves out imports and set-up, and needs no hook into any client. Rounds are interleaved,
so that other work on the machine affects all clients. The column "whole run" shows all CPU time of
the larger run."""

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.stub_server import MODEL, Replies

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(sys.executable)
PEERS = ROOT / ".venv-peers/bin/python"
IN_FLIGHT = 64
QUESTION = (
    "Find the remainder when 7*43 + 6*58 + 9*27 + 4*81 is divided by 1000. Think, then answer in a "
    "box. "
)
PROMPT = QUESTION * 8
MESSAGES = [{"role": "user", "content": PROMPT}]
SETTINGS: dict[str, Any] = {"temperature": 0.7, "max_tokens": 512}
GOAL_HARNESS = 3.0  # at least: our requests/s per core ÷ lm_eval's
GOAL_OPENAI = 0.7  # at most: our CPU time per request ÷ the bare openai client's
DEADLINE = 600  # seconds for one process

Ask = Callable[[int], Awaitable[str]]  # seed -> the text of the answer


# The clients. Each sends `n` requests to `url` in its own process.


async def drive(n: int, ask: Ask) -> None:
    """Send `n` requests, IN_FLIGHT at a time, and check every answer."""
    seeds = iter(range(n))

    async def work() -> None:
        for seed in seeds:
            check(await ask(seed))

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


def check(answer: str) -> None:
    if not answer.endswith("\\boxed{42}."):
        raise SystemExit(f"the reply is not the stub server's: {answer[-80:]!r}")


def body(seed: int) -> dict[str, Any]:
    return {"model": MODEL, "messages": MESSAGES, "seed": seed, **SETTINGS}


async def bare_aiohttp(url: str, n: int) -> None:
    import aiohttp

    async with aiohttp.ClientSession() as session:

        async def ask(seed: int) -> str:
            async with session.post(f"{url}/chat/completions", json=body(seed)) as reply:
                return str((await reply.json())["choices"][0]["message"]["content"])

        await drive(n, ask)


async def bare_openai(url: str, n: int, streamed: bool = False) -> None:
    import openai

    http_client = openai.DefaultAioHttpClient() if streamed else None
    async with openai.AsyncOpenAI(base_url=url, api_key="none", http_client=http_client) as client:
        create: Any = client.chat.completions.create

        async def ask(seed: int) -> str:
            reply = await create(**body(seed))
            return str(reply.choices[0].message.content)

        async def listen(seed: int) -> str:
            options = {"include_usage": True}
            stream = await create(**body(seed), stream=True, stream_options=options)
            pieces = [event.choices[0].delta.content async for event in stream if event.choices]
            return "".join(piece or "" for piece in pieces)

        await drive(n, listen if streamed else ask)


async def ours(url: str, n: int) -> None:
    from core.client.journal import Journal
    from core.engines.attach import probe
    from core.generate import Generator
    from core.types import Sampling

    server = probe(url, "the benchmark's")
    assert server is not None
    sampling = Sampling(**SETTINGS)
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "cost.jsonl") as journal:
        async with Generator(server, journal, IN_FLIGHT, 600.0) as generator:

            async def ask(seed: int) -> str:
                return (await generator(MESSAGES, seed, sampling)).answer

            await drive(n, ask)
        if len(journal) != n:
            raise SystemExit(f"the journal contains {len(journal)} of {n} completions")


def lm_eval(url: str, n: int, keep: bool = False) -> None:
    """Run lm_eval's command line. With `keep`, its cache and its log store every answer, as our
    journal does."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": name, "OPENAI_API_KEY": "none"}
        answer = json.loads(Replies(1500, 500, 1).whole.partition(b"\r\n\r\n")[2])["choices"][0][
            "message"
        ]["content"]
        line = json.dumps({"question": PROMPT, "answer": answer}) + "\n"
        (folder / "docs.jsonl").write_text(line * n)
        task = {
            "task": "client_cost",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(folder / "docs.jsonl")}},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "{{question}}",
            "doc_to_target": "{{answer}}",
            "generation_kwargs": {
                "until": ["</s>"],
                "max_gen_toks": SETTINGS["max_tokens"],
                "temperature": 0.7,
            },
            "metric_list": [{"metric": "exact_match"}],
        }
        (folder / "client_cost.yaml").write_text(json.dumps(task))  # JSON is YAML
        server = f"model={MODEL},base_url={url}/chat/completions"
        model = f"{server},num_concurrent={IN_FLIGHT},tokenizer_backend=none"
        sys.argv = ["lm_eval", "run", "--model", "local-chat-completions", "--model_args", model]
        sys.argv += ["--tasks", "client_cost", "--include_path", name, "--apply_chat_template"]
        sys.argv += ["--output_path", f"{name}/out"]
        sys.argv += ["--log_samples", "--use_cache", f"{name}/cache"] if keep else []
        from lm_eval.__main__ import cli_evaluate  # type: ignore[import-not-found, unused-ignore]

        cli_evaluate()
        results = json.loads(next((folder / "out").rglob("results_*.json")).read_text())
        if results["results"]["client_cost"]["exact_match,none"] != 1.0 or results["n-samples"][
            "client_cost"
        ] != {
            "original": n,
            "effective": n,
        }:
            raise SystemExit(
                f"lm_eval has missing or wrong answers: {results['results']}, "
                f"{results['n-samples']}"
            )


class Client(NamedTuple):
    python: Path
    run: Callable[[str, int], Any]
    packages: Sequence[str]  # packages whose versions the table shows


CLIENTS = {
    "aiohttp, bare": Client(HERE, bare_aiohttp, ["aiohttp"]),
    "openai, bare": Client(HERE, bare_openai, ["openai"]),
    "openai on aiohttp, streamed": Client(
        HERE, partial(bare_openai, streamed=True), ["openai", "aiohttp"]
    ),
    "**ours, journal on**": Client(HERE, ours, []),
    "lm_eval": Client(PEERS, lm_eval, ["lm_eval"]),
    "lm_eval, answers kept": Client(PEERS, partial(lm_eval, keep=True), ["lm_eval"]),
}
OURS = "**ours, journal on**"
OPENAI = "openai, bare"
LM_EVAL = "lm_eval"


def child(name: str, url: str, n: int) -> None:
    """Run the client `name` in this process. Its package versions are the first line of standard
    error."""
    client = CLIENTS[name]
    print(
        ", ".join(f"{package} {version(package)}" for package in client.packages), file=sys.stderr
    )
    work = client.run(url, n)
    if asyncio.iscoroutine(work):
        asyncio.run(work)


# Measuring them


class Cost(NamedTuple):
    cpu: float  # seconds, user and system
    wall: float  # seconds
    peak: float  # MB of memory


def measure(name: str, url: str, n: int) -> tuple[Cost, str]:
    """Measure a fresh process in which the client `name` sends `n` requests. Returns its cost and
    package versions."""
    command = [str(CLIENTS[name].python), __file__, "--child", name, url, str(n)]
    with tempfile.TemporaryFile() as output:
        began = time.monotonic()
        process = subprocess.Popen(
            ["timeout", str(DEADLINE), *command], stdout=subprocess.DEVNULL, stderr=output
        )
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:  # the benchmark was stopped, and `timeout` also ends its child
            process.terminate()
            raise
        wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        words = output.read().decode(errors="replace")
    if process.returncode:
        raise SystemExit(
            f"error: {name} with n={n} ended with status {process.returncode}:\n{words[-2000:]}"
        )
    return Cost(used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024), words.partition("\n")[
        0
    ]


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return a text with the median of `values`, and the lowest and highest value in brackets."""
    lowest, highest = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({lowest:.{digits}f} to {highest:.{digits}f})"


Rounds = dict[str, list[tuple[Cost, Cost]]]  # client -> the costs of its smaller and larger runs


def measure_all(args: argparse.Namespace) -> tuple[Rounds, dict[str, str], list[float]]:
    """Measure the clients in interleaved rounds. Returns the costs, the versions of the clients'
    packages, and the machine's loads."""
    small, large = args.sizes
    costs: Rounds = {name: [] for name in args.only}
    versions: dict[str, str] = {}
    loads = [os.getloadavg()[0]]
    stub_file = Path(__file__).with_name("stub_server.py")
    command = [sys.executable, str(stub_file), "--pieces", str(args.pieces)]
    stub = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert stub.stdout is not None
        url = f"http://127.0.0.1:{int(stub.stdout.readline())}/v1"
        for number in range(1, args.rounds + 1):
            for name in args.only:
                low, _ = measure(name, url, small)
                high, versions[name] = measure(name, url, large)
                costs[name].append((low, high))
                milliseconds = (high.cpu - low.cpu) / (large - small) * 1e3
                line = f"round {number}: {name}: {milliseconds:.3f} CPU-ms/request"
                print(line, file=sys.stderr, flush=True)
            loads.append(os.getloadavg()[0])
    finally:
        stub.terminate()
        stub.wait()
    return costs, versions, loads


def print_table(costs: Rounds, versions: dict[str, str], requests: int) -> None:
    """Print a row for each client. `requests` is the difference of the two sizes."""
    print(
        "| client | CPU-ms per request | requests/s per core | wall ms per request | whole run, "
        "CPU s | peak MB |"
    )
    print("|---|---|---|---|---|---|")
    for name, pairs in costs.items():
        cpu = [(high.cpu - low.cpu) / requests * 1e3 for low, high in pairs]
        wall = [(high.wall - low.wall) / requests * 1e3 for low, high in pairs]
        whole = statistics.median(high.cpu for _, high in pairs)
        peak = max(high.peak for _, high in pairs)
        label = f"{name} ({versions[name]})" if versions[name] else name
        rate = 1e3 / statistics.median(cpu)
        cells = [label, spread(cpu), f"{rate:,.0f}", spread(wall), f"{whole:.1f}", f"{peak:.0f}"]
        print(f"| {' | '.join(cells)} |")


def print_ratios(costs: Rounds, requests: int) -> None:
    """Print our ratios to the other clients. In each round, the clients ran one after another."""
    cpu = {
        name: [(high.cpu - low.cpu) / requests * 1e3 for low, high in pairs]
        for name, pairs in costs.items()
    }
    if OURS not in cpu:
        return
    if OPENAI in cpu:
        ratios = [ours / bare for ours, bare in zip(cpu[OURS], cpu[OPENAI], strict=True)]
        print(
            f"Our client needs {spread(ratios)} times the CPU time of the bare openai client "
            f"(goal: at most {GOAL_OPENAI}). n={len(ratios)} rounds."
        )
    for name in cpu:
        if name.startswith(LM_EVAL):
            ratio = statistics.median(cpu[name]) / statistics.median(cpu[OURS])
            print(
                f"Our client sends {ratio:.1f} times as many requests/s per core as {name} (goal: "
                f"at least {GOAL_HARNESS:.0f})."
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measure CPU time per request in our and bare clients and lm_eval."
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--sizes",
        type=int,
        nargs=2,
        default=[500, 2500],
        metavar="N",
        help="requests of the smaller and the larger run",
    )
    parser.add_argument("--pieces", type=int, default=1, help="number of events per streamed text")
    parser.add_argument(
        "--only", nargs="+", default=list(CLIENTS), choices=list(CLIENTS), metavar="NAME"
    )
    args = parser.parse_args()
    # ends the started processes, as Ctrl-C does
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    costs, versions, loads = measure_all(args)
    small, large = args.sizes
    print_table(costs, versions, large - small)
    print(
        "\n"
        f"Median (lowest to highest) of {args.rounds} interleaved rounds. Slope between n={small} "
        f"and n={large}, {IN_FLIGHT} requests in flight, {2 * args.pieces + 3} events per streamed "
        f"reply. {os.cpu_count()} cores, Python {platform.python_version()}, load {min(loads):.1f} "
        f"to {max(loads):.1f}, {time.strftime('%Y-%m-%d')}."
    )
    print_ratios(costs, large - small)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
