"""Compare the time left that a run's bar shows with the truth, in simulated runs.

    python -m benchmarks.time_left [--quick] [--replay results/02_rsa_basic.json]

The benchmark uses the real estimate and the real bar (harness/session/time_left.py and bar.py), the
client's real limiter, and RSA's real loop. They run in virtual time, so they take no real time. The
server is simulated. It answers a request after a random duration, whatever else it does. With a
rate limit, it starts RATE requests a second. A moment counts if the bar shows a time, up to nine
tenths of the run. A replay takes the durations, tokens and parents of RSA's completions from
results whose journal is next to them.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any, cast

import numpy as np

from benchmarks.makespan import VirtualLoop
from core.base import seeds
from core.client.queue import Slots
from core.engines.protocol import dialects
from core.generate import Generator
from core.rsa import RSA as RSA_SCAFFOLD
from core.rsa import RsaConstants, rsa
from core.types import Completion, Message, Problem
from harness.plan.work import loads_of
from harness.report.data import Results
from harness.results.model import ProblemResult
from harness.session.bar import SECONDS, Bar
from harness.session.growth import Growth
from harness.session.time_left import SHARE

SEEDS = 3
NEAR = 0.2  # relative error of a time that is near the truth
COUNTED = 0.9  # of the run, after which moments do not count
RATE = 1.0  # requests that a server with a rate limit starts in a second
Rng = np.random.Generator
Draw = Callable[[Rng], float]  # returns a duration in seconds


def short(rng: Rng) -> float:
    return float(rng.uniform(0.9, 5.1))


def long(rng: Rng) -> float:
    return float(rng.uniform(18, 102))


def capped(rng: Rng) -> float:
    return float(min(100.0, 40 * rng.lognormal()))


def skewed(rng: Rng) -> float:
    return float(20 * rng.lognormal(0, 0.7))


@dataclass(frozen=True)
class Kind:
    """A kind of run. RSA's `chains` are one for each problem, of `requests` in all."""

    name: str
    draw: Draw
    requests: int
    limit: int  # of requests in flight
    reused: int = 0  # of the requests, which the journal answers
    rate: float = 0.0  # requests that the server starts in a second (0: any number)
    chains: int = 0


RSA = RsaConstants(N=8, K=3, T=5, ANSWER_TOKENS=0)
KINDS = (
    Kind("short replies, few in flight", short, 480, 4),
    Kind("long replies, many in flight", long, 1440, 160),
    Kind("replies up to a token cap", capped, 640, 32),
    Kind("log-normal replies", skewed, 640, 32),
    Kind("resumed after three quarters", short, 1920, 8, reused=1440),
    Kind("rate limit", short, 480, 40, rate=RATE),
    Kind("RSA, 30 problems, 18 in flight", short, 1440, 18, chains=30),
    Kind("RSA, 30 problems, all in flight", long, 1440, 240, chains=30),
    Kind("RSA, 8 problems, log-normal replies, all in flight", skewed, 384, 64, chains=8),
)


@dataclass
class Simulated:
    """A run in virtual time. `shown` has the moments at which the bar showed a time left, and this
    time, in seconds. Its other public attributes are the generator's that a bar reads."""

    kind: Kind
    rng: Rng
    trouble: str = ""
    shown: list[tuple[float, float]] = field(default_factory=list)
    too_early: int = 0  # times that were shown before SHARE of the requests in flight had ended

    def __post_init__(self) -> None:
        self.bar = Bar("simulated", self.kind.requests)
        self._slots = Slots(self.kind.limit)
        self._begun: dict[int, float] = {}
        self._free_at = 0.0  # the next start of a request under a rate limit
        self._numbers = 0
        self._ended = 0

    @property
    def ages(self) -> list[float]:
        now = asyncio.get_running_loop().time()
        return [now - begun for begun in self._begun.values()]

    async def run(self) -> float:
        """Return the seconds that the run takes."""
        for _ in range(self.kind.reused):
            self.bar.arrived(Completion("", 0), is_new=False)
        watching = asyncio.create_task(self._watch())
        await self._send()
        watching.cancel()
        return asyncio.get_running_loop().time()

    async def _send(self) -> None:
        """Send all requests."""
        if self.kind.chains:
            problems = [Problem(f"p{number}", "?", "0") for number in range(self.kind.chains)]
            await asyncio.gather(*map(self._solve, problems))
        else:
            new = self.kind.requests - self.kind.reused
            await asyncio.gather(*(self._request() for _ in range(new)))

    async def _solve(self, problem: Problem) -> None:
        async def ask(messages: Sequence[Message], *names: str | int, **_: Any) -> Completion:
            step = names[0]
            assert isinstance(step, int)
            await self._request(priority=-step)
            return Completion("", 0, answer="An answer.")

        async for _ in rsa(problem, ask, RSA):
            pass

    async def _request(self, priority: float = 0.0, reply: Completion | None = None) -> None:
        """Send a request. Its duration is drawn, unless the `reply` is known."""
        loop = asyncio.get_running_loop()
        async with self._slots.slot(priority):
            self._numbers += 1
            number = self._numbers
            begun = self._begun[number] = loop.time()
            if self.kind.rate:
                self._free_at = max(begun, self._free_at + 1 / self.kind.rate)
                await asyncio.sleep(self._free_at - begun)
            await asyncio.sleep(reply.seconds if reply else self.kind.draw(self.rng))
            del self._begun[number]
            self._ended += 1
            if reply:
                self.bar.arrived(reply, is_new=True)
            else:
                self.bar.ended(loop.time() - begun)

    async def _watch(self) -> None:
        """Note what the bar shows, as often as it is drawn."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SECONDS)
            left = self.bar.seconds_left(cast(Generator, self))
            if left is not None:
                self.shown.append((loop.time(), left))
                self.too_early += self._ended < SHARE * len(self._begun)


class Replay(Simulated):
    """A run of RSA with the durations and tokens of stored completions. The limit of requests in
    flight is the stored run's."""

    def __init__(self, results: Results) -> None:
        head = results.head
        names = ("N", "K", "T", "MAX_TOKENS", "ANSWER_TOKENS", "CARRY")
        config = RsaConstants(**{name: head.config[name] for name in names if name in head.config})
        count = len(results.problems) * RSA_SCAFFOLD.max_completions(config)
        name = f"{results.name} of {head.model['name']}"
        kind = Kind(name, short, count, int(head.engine["concurrency"]))
        super().__init__(kind, seeds.rng(0))
        self._results = results
        [dialect] = [one for one in dialects() if one.kind == head.engine["kind"]]
        self.bar.time_left.sharing = dialect.sharing
        self.bar.growth = Growth(
            lambda lengths: loads_of(config, 1, lengths, RSA_SCAFFOLD), dialect.reading
        )

    async def _send(self) -> None:
        await asyncio.gather(*map(self._send_again, self._results.problems))

    async def _send_again(self, problem: ProblemResult) -> None:
        """Send the requests of a problem, each when its parents' replies have arrived."""
        sent: list[asyncio.Task[None]] = []
        before: list[asyncio.Task[None]] = []
        for step in problem.steps:
            current = []
            for member in step.members:
                reply = self._results.completion(member)
                parents = [before[parent] for parent in member.parents]
                replying = self._reply(-step.step, reply, parents)
                current.append(asyncio.create_task(replying))
            before = current
            sent += current
        await asyncio.gather(*sent)

    async def _reply(
        self, priority: float, reply: Completion, parents: Sequence[asyncio.Task[None]]
    ) -> None:
        await asyncio.gather(*parents)
        await self._request(priority, reply)


@dataclass(frozen=True)
class Figures:
    """The figures of one run: the times that were shown over the true times."""

    ratios: list[float]
    first: float  # the share of the run before the first time was shown
    too_early: int


def simulate(kind: Kind, seed: int) -> Figures:
    """Run a `kind` of run once."""
    return figures(lambda: Simulated(kind, seeds.rng(seed, kind.name)))


def figures(create: Callable[[], Simulated]) -> Figures:
    """Run the simulated run that `create` returns."""

    async def play() -> Figures:
        run = create()
        end = await run.run()
        counted = [(now, left) for now, left in run.shown if now <= COUNTED * end]
        ratios = [left / (end - now) for now, left in counted]
        return Figures(ratios, run.shown[0][0] / end, run.too_early)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(play())


def row(name: str, runs: Sequence[Figures]) -> str:
    """Return the row of the table for `runs` of one kind."""
    ratios = [ratio for run in runs for ratio in run.ratios]
    near = mean(abs(ratio - 1) <= NEAR for ratio in ratios)
    early = sum(run.too_early for run in runs)
    first = mean(run.first for run in runs)
    return f"| {name} | {near:.0%} | {median(ratios):.2f} | {first:.0%} | {early} |"


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.time_left", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="simulate each kind of run only once")
    parser.add_argument("--replay", nargs="+", type=Path, help="results files of RSA to replay")
    args = parser.parse_args(argv)
    count = 1 if args.quick else SEEDS
    print("| run | within 20% | median ratio | first shown after | shown too early |")
    print("|---|--:|--:|--:|--:|")
    if args.replay:
        for path in args.replay:
            results = Results(path)
            print(row(results.name, [figures(lambda: Replay(results))]), flush=True)  # noqa: B023
        return
    for kind in KINDS:
        print(row(kind.name, [simulate(kind, seed) for seed in range(count)]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
