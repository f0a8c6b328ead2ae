"""Measure how busy a run keeps its server, with 02_rsa_basic on the embedded engine.

    python -m benchmarks.server_full [--slots 4 16 64] [--rounds 2] [--problems 8] [--quick]

Three contestants take turns, each on a fresh engine. They send the same prompts and seeds (unequal
work is reported):

- run: 02_rsa_basic as users run it, through harness.run, with our client, the journal and
  grading.
- generator: a bare aiohttp client sends the run's requests again, in the same order. It has as many
  requests in flight as the run, and waits for nothing else.
- barrier: the same aiohttp client sends the requests of one problem at a time. Each step waits for
  the previous step.

Tokens per second are completion tokens ÷ the seconds from the first request to the last reply, as
the client sees them. Imports at the start and the table and the plot at the end count only in the
whole run. Each ratio compares contestants of the same round. The table shows medians [lowest,
highest]."""

import argparse
import asyncio
import json
import os
import resource
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from benchmarks.embedded import ROOT, engine, environment
from core.base import seeds
from core.constants import read
from core.engines.dialects.llamacpp import release
from core.rsa import RSA, RsaConstants, rsa
from core.types import Ask, Completion, Message, Population, Problem
from harness.run import run

EXPERIMENT = ROOT / "experiments" / "02_rsa_basic.py"
CONTESTANTS = ("run", "generator", "barrier")
# the generator with one token per request, to time the reading of prompts (first_minute.py)
READER = "reader"
WAITING = 2  # requests in flight beyond the number of slots, as in core/engines/protocol.py


@dataclass(frozen=True)
class Turn:
    """The outcome of one contestant.

    `tokens` are completion tokens, and `seconds` is the time from the first request to the last
    reply. `empty` is the share of the slots' time without a request. `whole` is the time of the
    whole process in seconds. `client_cpu` and `engine_cpu` are CPU seconds. `load` is the machine's
    load average (1 minute) at the end."""

    requests: int
    tokens: int
    seconds: float
    empty: float
    whole: float
    client_cpu: float
    engine_cpu: float
    load: float

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds

    @property
    def ease(self) -> float:
        """The tokens per CPU second of the engine, which is its speed if it never waits for a
        client."""
        return self.tokens / self.engine_cpu


class Record:
    """A client's requests in order, with their number of tokens, their time and the idle time of
    the slots."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.requests: list[dict[str, Any]] = []
        self.tokens = self.owed = 0
        self.first = self.last = 0.0
        self.empty = 0.0  # slot-seconds without a request

    def asked(self, **request: Any) -> None:
        self._changed(+1)
        self.first = self.first or self.last
        self.requests.append(request)

    def answered(self, tokens: int) -> None:
        self._changed(-1)
        self.tokens += tokens

    def _changed(self, by: int) -> None:
        now = time.monotonic()
        if self.first:
            self.empty += max(0, self.slots - self.owed) * (now - self.last)
        self.last = now
        self.owed += by

    def figures(self) -> dict[str, Any]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "requests": len(self.requests),
            "tokens": self.tokens,
            "seconds": self.last - self.first,
            "empty": self.empty / self.slots / (self.last - self.first),
            "client_cpu": used.ru_utime + used.ru_stime,
        }


def run_and_record(folder: Path, slots: int, overrides: Sequence[str]) -> None:
    """Run the contestant "run" in this process, and write its requests and its figures to
    `folder`."""
    record = Record(slots)

    async def recorded(
        problem: Problem, ask: Ask, config: RsaConstants
    ) -> AsyncIterator[Population]:
        async def noted(
            messages: Sequence[Message], *names: str | int, **changes: Any
        ) -> Completion:
            seed = seeds.derive(config.SEED, problem.id, *names)
            record.asked(problem=problem.id, step=names[0], seed=seed, messages=messages)
            completion = await ask(messages, *names, **changes)
            record.answered(completion.completion_tokens)
            return completion

        async for population in rsa(problem, noted, config):
            yield population

    constants = runpy.run_path(str(EXPERIMENT))
    sys.argv[1:] = overrides
    run(replace(RSA, run=recorded), constants | {"__file__": str(EXPERIMENT)})
    used = read(RsaConstants, constants, overrides)
    sampling = {
        name.lower(): getattr(used, name)
        for name in ("TEMPERATURE", "TOP_P", "MIN_P", "MAX_TOKENS")
    }
    sampling["top_k"] = used.TOP_K or -1
    (folder / "requests.json").write_text(json.dumps([sampling, record.requests]), encoding="utf-8")
    (folder / "run.json").write_text(json.dumps(record.figures()), encoding="utf-8")


def replay(name: str, folder: Path, slots: int) -> None:
    """Send the requests in `folder` from a bare client, as the contestant "generator", "reader" or
    "barrier"."""
    sampling, requests = json.loads((folder / "requests.json").read_text(encoding="utf-8"))
    if name == READER:
        sampling["max_tokens"] = 1
    groups: dict[Any, list[dict[str, Any]]] = {}
    for request in requests:
        groups.setdefault(
            (request["problem"], request["step"]) if name == "barrier" else None, []
        ).append(request)
    if name == "barrier":
        order = list(dict.fromkeys(problem for problem, _ in groups))
        groups = {
            group: groups[group]
            for group in sorted(groups, key=lambda g: (order.index(g[0]), g[1]))
        }
    record = asyncio.run(_sent(list(groups.values()), slots, sampling))
    (folder / f"{name}.json").write_text(json.dumps(record.figures()), encoding="utf-8")


async def _sent(
    groups: Sequence[Sequence[dict[str, Any]]], slots: int, sampling: dict[str, Any]
) -> Record:
    """Send one group of requests after another. Each group has as many requests in flight as a
    run."""
    record, semaphore = Record(slots), asyncio.Semaphore(slots + WAITING)
    url = f"{os.environ['BASE_URL']}/chat/completions"
    unlimited = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=unlimited, timeout=aiohttp.ClientTimeout(total=3600)
    ) as session:

        async def send(request: dict[str, Any]) -> None:
            async with semaphore:
                record.asked(seed=request["seed"])
                body = sampling | {"messages": request["messages"], "seed": request["seed"]}
                async with session.post(url, json=body) as reply:
                    record.answered((await reply.json())["usage"]["completion_tokens"])

        for group in groups:
            await asyncio.gather(*(send(request) for request in group))
    return record


def take_turn(name: str, slots: int, problems: int, folder: Path) -> Turn:
    """Run one contestant on a fresh engine, and return its outcome."""
    (folder / "results").mkdir()
    with engine(slots) as server:
        command = [
            sys.executable,
            "-m",
            "benchmarks.server_full",
            "--contestant",
            name,
            "--slots",
            str(slots),
        ]
        command += ["--problems", str(problems), "--folder", str(folder)]
        env = environment(BASE_URL=server.base_url, RESULTS_DIR=str(folder / "results"))
        began = time.monotonic()
        ended = subprocess.run(
            command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False
        )
        whole = time.monotonic() - began
        if ended.returncode:
            raise SystemExit(f"{name} failed: {ended.stderr}")
    for path in sorted((folder / "results").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (folder / "results").rmdir()
    figures = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return Turn(**figures, whole=whole, engine_cpu=server.cpu_seconds, load=os.getloadavg()[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slots", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--problems", type=int, default=8)
    parser.add_argument(
        "--quick", action="store_true", help="run one round of 4 problems at 16 slots"
    )
    parser.add_argument("--contestant", choices=(*CONTESTANTS, READER), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contestant == "run":
        run_and_record(args.folder, args.slots[0], [f"LIMIT={args.problems}"])
    elif args.contestant:
        replay(args.contestant, args.folder, args.slots[0])
    else:
        if args.quick:
            args.slots, args.rounds, args.problems = [16], 1, 4
        measure(args.slots, args.rounds, args.problems)


def measure(all_slots: Sequence[int], rounds: int, problems: int) -> None:
    began = time.monotonic()
    turns: dict[int, list[dict[str, Turn]]] = {slots: [] for slots in all_slots}
    for _ in range(rounds):
        for slots in all_slots:
            with tempfile.TemporaryDirectory() as name:
                turn = {each: take_turn(each, slots, problems, Path(name)) for each in CONTESTANTS}
            turns[slots].append(turn)
            same = {(each.requests, each.tokens) for each in turn.values()}
            figures = ", ".join(f"{each} {t.speed:,.0f} tok/s" for each, t in turn.items())
            print(
                f"{slots} slots: {figures}{'' if len(same) == 1 else f', unequal work: {same}'}",
                file=sys.stderr,
            )
    print(
        f"02_rsa_basic on {problems} problems, {release()}, {os.cpu_count()} cores, {rounds} "
        "rounds\n"
    )
    print(table(turns))
    print(f"\n{time.monotonic() - began:.0f} s")


def table(turns: dict[int, list[dict[str, Turn]]]) -> str:
    """Return a Markdown table of medians over rounds, with their ranges."""
    heads = [
        "slots",
        "run tok/s",
        "generator tok/s",
        "barrier tok/s",
        "run ÷ generator",
        "run ÷ barrier",
    ]
    heads += [
        "slot-time without a request, %: run, generator, barrier",
        "generator's whole time ÷ run's",
    ]
    heads += [
        "CPU ms/request of run's process",
        "tokens per CPU second of the engine: run, generator, barrier",
        "load",
    ]
    rows = [heads, ["---:"] * len(heads)]
    for slots, rounds in turns.items():
        against = {
            other: [r["run"].speed / r[other].speed for r in rounds]
            for other in ("generator", "barrier")
        }
        rows.append(
            [
                str(slots),
                *(spread([r[each].speed for r in rounds], ",.0f") for each in CONTESTANTS),
                spread(against["generator"], ".3f"),
                spread(against["barrier"], ".2f"),
                ", ".join(
                    spread([100 * r[each].empty for r in rounds], ".1f") for each in CONTESTANTS
                ),
                spread([r["generator"].whole / r["run"].whole for r in rounds], ".3f"),
                spread([1000 * r["run"].client_cpu / r["run"].requests for r in rounds], ".1f"),
                ", ".join(spread([r[each].ease for r in rounds], ",.0f") for each in CONTESTANTS),
                spread([turn.load for r in rounds for turn in r.values()], ".1f"),
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def spread(values: Sequence[float], form: str) -> str:
    low, middle, high = (
        format(value, form) for value in (min(values), median(values), max(values))
    )
    return middle if len(values) == 1 else f"{middle} [{low}, {high}]"


if __name__ == "__main__":
    main()
