"""Compare the time that RSA takes on simulated GPUs with a lower bound for any schedule.

    python -m benchmarks.makespan [--quick]

The benchmark uses the real scaffold (core/rsa.py) and the client's real limiter
(core/client/queue.py). They run in virtual time against simulated servers, so nothing is measured
on a GPU. A simulated server is a simplified SGLang with continuous batching:

- The roofline (harness/plan/roofline.py) gives the times. A decode step writes one token for each
  running request. A whole prompt is read between two steps (no prefix cache).
- A request keeps its prompt and its output in the KV cache. The queue is first come, first served.
  An idle server admits the first request. Otherwise it needs a free slot, and room in the cache for
  its prompt and at most AHEAD new tokens. Each running request reserves a decaying share of AHEAD
  tokens (or of the tokens that it may still write).
- If the cache becomes full, requests with the shortest outputs return to the end of the queue. When
  they are admitted again, prompt and output are read again. The share becomes the mean output (plus
  SPARE_STEPS) ÷ the cap.

A fleet's router sends each request to the server that has the fewest requests, as the gateway does.

Completion lengths are assumed: they are log-normal and cut at the cap (harness/plan/lengths.py).
There are no forced answers. The bounds hold for any schedule of the same requests on the same
servers. The order of equal requests changes a ratio by up to 0.03. So each cell is a mean over
SEEDS runs, with its standard error.
"""

import argparse
import asyncio
import math
import selectors
import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from statistics import NormalDist, mean, stdev
from typing import Any

import numpy as np

from core.base import seeds
from core.client.queue import Slots
from core.engines import gpus
from core.engines.dialects.sglang import CONSERVATIVENESS
from core.engines.shape import QED_NANO
from core.rsa import RsaConstants, rsa
from core.types import Completion, Message, Population, Problem
from harness.plan.lengths import ANSWER_TOKENS, ASSUMED, PROMPT_TOKENS, Lengths, Sample
from harness.plan.roofline import MIDDLE, Machine

# SGLang's defaults. The shares are multiplied by --schedule-conservativeness.
AHEAD = 4096  # new tokens for which the cache must have room when a request is admitted
# share of AHEAD that is reserved for each running request at first
RESERVED = 0.7 * CONSERVATIVENESS
LEAST_RESERVED = 0.14 * RESERVED  # the share after DECAY_STEPS
DECAY_STEPS = 600  # steps until the share has decayed, if no request returns to the queue
SPARE_STEPS = 20  # steps for which the cache has room after a request returned to the queue
# steps between two looks at the queue while the share decays (SGLang looks at every step)
LOOK_STEPS = 32
ALIKE = 0.5  # assumed share of the variance of log-lengths that is between problems

# Virtual time


class _Skipping(selectors.SelectSelector):
    """A selector that never waits, so that time jumps to the next timer."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("deadlock: everything waits, and no timer is set")
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Skipping()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run `func` at once, because a thread's work takes no virtual time."""
        done = self.create_future()
        done.set_result(func(*args))
        return done


# Servers


@dataclass
class Request:
    prompt: int
    new: int
    done: asyncio.Future[None]
    written: int = 0  # tokens at its last admission
    since: int = 0  # the server's step at that admission

    @property
    def size(self) -> int:
        return self.prompt + self.written


class Engine:
    """A simulated server. A request may ask for at most `cap` new tokens."""

    def __init__(self, machine: Machine, cap: int) -> None:
        self.machine, self.cap = machine, cap
        self.queue: deque[Request] = deque()
        self.running: list[tuple[int, int, Request]] = []  # a heap by the step that ends a request
        self.held = 0  # tokens in the KV cache
        self.most_held = 0
        self.steps = self.tokens = self.put_back = 0
        self.busy = 0.0  # seconds
        self.reserved = RESERVED
        self._arrival = asyncio.Event()
        self._numbers = 0

    @property
    def load(self) -> int:
        return len(self.queue) + len(self.running)

    async def generate(self, prompt: int, new: int) -> None:
        assert prompt + new <= self.machine.kv_tokens and new <= self.cap, (
            "the request does not fit"
        )
        request = Request(prompt, new, asyncio.get_running_loop().create_future())
        self.queue.append(request)
        self._arrival.set()
        await request.done

    async def serve(self) -> None:
        while True:
            self._arrival.clear()
            if reading := self._admit():
                self.busy += reading
                await asyncio.sleep(reading)
            elif self.running:
                await self._decode()
            else:
                await self._arrival.wait()

    def _admit(self) -> float:
        """Admit the requests that fit, and return the seconds that reading their prompts takes."""
        reading = 0.0
        promised = sum(
            self.reserved * min(self.cap - self._written(each), AHEAD) for *_, each in self.running
        )
        while self.queue and len(self.running) < self.machine.limit:
            first = self.queue[0]
            ahead = min(self.cap - first.written, AHEAD)
            if self.running and self.held + promised + first.size + ahead > self.machine.kv_tokens:
                break
            self.queue.popleft()
            first.since = self.steps
            self._numbers += 1
            heappush(self.running, (self.steps + first.new - first.written, self._numbers, first))
            self.held += first.size
            promised += self.reserved * ahead
            reading += self.machine.prefill(first.size, MIDDLE)
        return reading

    async def _decode(self) -> None:
        """Decode until a request ends, the cache is full, a request arrives, or it is time to look
        at the queue."""
        requests = len(self.running)
        room = (self.machine.kv_tokens - self.held) // requests
        if room == 0:
            return self._put_back()
        steps = min(self.running[0][0] - self.steps, room)
        if self.queue and self.reserved > LEAST_RESERVED:
            steps = min(steps, LOOK_STEPS)
        mean = self.held / requests

        def seconds(n: int) -> float:
            """Return the seconds of `n` steps. Contexts grow by one token per step, and times grow
            linearly."""
            return n * self.machine.step(requests, mean + (n - 1) / 2, MIDDLE)

        loop = asyncio.get_running_loop()
        began, passed = loop.time(), 0.0
        if not self.queue:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds(steps)):
                    await self._arrival.wait()
            passed = loop.time() - began
            # ends this step
            steps = min(steps, max(1, bisect_left(range(steps + 1), passed - 1e-9, key=seconds)))
        await asyncio.sleep(max(0.0, seconds(steps) - passed))
        self.busy += seconds(steps)
        self.steps += steps
        decayed = self.reserved - steps * (RESERVED - LEAST_RESERVED) / DECAY_STEPS
        self.reserved = max(LEAST_RESERVED, decayed)
        self.tokens += steps * requests
        self.held += steps * requests
        self.most_held = max(self.most_held, self.held)
        while self.running and self.running[0][0] == self.steps:
            *_, request = heappop(self.running)
            self.held -= request.prompt + request.new
            request.done.set_result(None)

    def _written(self, request: Request) -> int:
        return request.written + self.steps - request.since

    def _put_back(self) -> None:
        """Return requests to the queue until the cache has room for SPARE_STEPS steps, or one
        request is left."""
        while (
            self.held + SPARE_STEPS * len(self.running) > self.machine.kv_tokens
            and len(self.running) > 1
        ):
            last = min(
                self.running, key=lambda entry: (self._written(entry[-1]), -entry[-1].prompt)
            )
            self.running.remove(last)
            request = last[-1]
            request.written = self._written(request)
            self.held -= request.size
            self.put_back += 1
            self.queue.append(request)
        heapify(self.running)
        written = sum(self._written(each) for *_, each in self.running)
        self.reserved = min(1.0, (written / len(self.running) + SPARE_STEPS) / self.cap)


# Work


@dataclass(frozen=True)
class Workload:
    """A workload of `count` problems with the constants `config`.

    A completion's length depends on SEED, problem, step and member, but not on the schedule.
    Completions of one problem have similar lengths (ALIKE)."""

    config: RsaConstants
    count: int
    # sorted lengths for each step (the last sample also for later steps)
    solutions: tuple[Sample, ...]
    prompt: float = PROMPT_TOKENS
    answer: float = ANSWER_TOKENS
    alike: float = ALIKE

    @classmethod
    def of(cls, config: RsaConstants, count: int, lengths: Lengths) -> "Workload":
        ordered = tuple(
            np.sort(np.minimum(sample, config.MAX_TOKENS)) for sample in lengths.solutions
        )
        return cls(config, count, ordered, lengths.prompt, lengths.answer)

    def problems(self) -> list[Problem]:
        return [Problem(f"p{p}", "A statement.", "0") for p in range(self.count)]

    def new(self, problem: Problem, t: int, i: int) -> int:
        """Return the number of tokens of the completion of member `i` at step `t`."""
        own, shared = (
            seeds.rng(self.config.SEED, *names).standard_normal()
            for names in ((problem.id, t, i), (problem.id,))
        )
        share = NormalDist().cdf(math.sqrt(1 - self.alike) * own + math.sqrt(self.alike) * shared)
        sample = self.solutions[min(t, len(self.solutions) - 1)]
        return max(1, round(float(sample[int(share * len(sample))])))

    def prompt_of(self, t: int) -> int:
        """Return the number of tokens of a prompt: the statement, plus K answers from step 1 on."""
        return round(self.prompt + (self.config.K * self.answer if t else 0))


# Schedules


# from a problem's index and a step (the highest priority goes first)
Priority = Callable[[int, int], float]

OURS = "breadth first"  # harness/session/experiment.py
POLICIES: dict[str, Priority] = {
    OURS: lambda place, t: -t,
    "first come, first served": lambda place, t: 0,
    "depth first, by problem": lambda place, t: -place,
    "depth first, latest step": lambda place, t: t,
}


@dataclass
class Schedule:
    """The client's order of work. At most `limit` requests and `window` problems are in flight (0:
    all).

    A member waits for its parents only (`wait` is "nothing"), for the whole previous "population",
    or for the previous "step" of all problems."""

    policy: str = OURS
    limit: int = 0
    window: int = 0
    wait: str = "nothing"


@dataclass
class Outcome:
    seconds: float
    engines: list[Engine]
    populations: dict[str, list[Population]] = field(default_factory=dict)


def simulate(work: Workload, machine: Machine, servers: int, schedule: Schedule) -> Outcome:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_simulate(work, machine, servers, schedule))


async def _simulate(work: Workload, machine: Machine, servers: int, schedule: Schedule) -> Outcome:
    config = work.config
    engines = [Engine(machine, config.MAX_TOKENS) for _ in range(servers)]
    outcome = Outcome(0.0, engines)
    serving = [asyncio.create_task(engine.serve()) for engine in engines]
    requests = work.count * config.N * (config.T + 1)
    slots = Slots(schedule.limit or requests)
    window = asyncio.Semaphore(schedule.window or work.count)
    barrier = asyncio.Barrier(work.count)
    priority = POLICIES[schedule.policy]
    sent = [0] * servers

    async def solve(problem: Problem, place: int) -> None:
        async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
            t, i = names
            assert isinstance(t, int) and isinstance(i, int)
            new = work.new(problem, t, i)
            async with slots.slot(priority(place, t)):
                chosen = min(range(servers), key=sent.__getitem__)
                sent[chosen] += 1
                await engines[chosen].generate(work.prompt_of(t), new)
                sent[chosen] -= 1
            return Completion("", 0, answer="An answer.", completion_tokens=new)

        async def together(
            problem: Problem, population: Population, t: int, ask: Any, config: RsaConstants
        ) -> None:
            await barrier.wait()

        ways: dict[str, dict[str, Any]] = {
            "nothing": {},
            "population": {"stop": lambda problem, population, config: False},
            "step": {"score": together},
        }
        outcome.populations[problem.id] = [
            each async for each in rsa(problem, ask, config, **ways[schedule.wait])
        ]

    async def in_turn(problem: Problem, place: int) -> None:
        async with window:
            await solve(problem, place)

    await asyncio.gather(
        *(in_turn(problem, place) for place, problem in enumerate(work.problems()))
    )
    outcome.seconds = asyncio.get_running_loop().time()
    for task in serving:
        task.cancel()
    return outcome


# Bounds


def alone(machine: Machine, prompt: int, new: int) -> float:
    """Return the seconds of a request on an idle server. A busy server takes at least as long."""
    return machine.prefill(prompt, MIDDLE) + new * machine.step(1, prompt + (new - 1) / 2, MIDDLE)


def critical_path_bound(
    work: Workload, machine: Machine, populations: dict[str, list[Population]]
) -> float:
    """Return the seconds of the longest chain of dependent requests, if each request is alone on
    its server."""
    longest = 0.0
    for steps in populations.values():
        ends: list[float] = []
        for t, step in enumerate(steps):
            ends = [
                max((ends[j] for j in member.parents), default=0.0)
                + alone(machine, work.prompt_of(t), member.completion.completion_tokens)
                for member in step
            ]
        longest = max(longest, *ends)
    return longest


def work_bound(work: Workload, machine: Machine, populations: dict[str, list[Population]]) -> float:
    """Return the seconds of all work on one full server. Several servers take at least this time ÷
    their number.

    A step gives one token each to at most `limit` requests, which hold at most `kv_tokens` tokens.
    These limits give the least number of steps, from the number of tokens and from the sum of all
    tokens' contexts. Each step reads the weights. In any order, every token reads its context, and
    every prompt is read at least once."""
    tokens = contexts = reading = 0.0
    for steps in populations.values():
        for t, step in enumerate(steps):
            prompt = work.prompt_of(t)
            for member in step:
                new = member.completion.completion_tokens
                tokens += new
                contexts += new * (prompt + (new - 1) / 2)
                reading += machine.prefill(prompt, MIDDLE)
    steps_needed = max(contexts / machine.kv_tokens, tokens / machine.limit)
    requests = tokens / steps_needed  # in each step, on average
    return reading + steps_needed * machine.step(requests, contexts / tokens, MIDDLE)


# The tables


CONFIG = RsaConstants(ANSWER_TOKENS=0)
SEEDS = 8
MACHINES = [(30, 1), (30, 64), (120, 16)]  # problems and GPUs
TABLES: dict[str, dict[str, Schedule]] = {
    "rule for waiting": {
        "a member waits for its parents (ours)": Schedule(),
        "a population waits for the previous population": Schedule(wait="population"),
        "a step of all problems waits for the previous step": Schedule(wait="step"),
        "as the second row, but problem by problem": Schedule(wait="population", window=1),
    },
    "order": {name: Schedule(name) for name in POLICIES},
}


def gpu() -> Machine:
    """Return the modelled server: an RTX 4090 with QED-Nano, as start_server.sh starts it."""
    return Machine.of(QED_NANO, gpus.DEFAULT, "fp8", CONFIG)


def ratio(count: int, servers: int, schedule: Schedule, seed: int) -> float:
    """Return the simulated time ÷ the larger lower bound. Requests are limited as by
    core/engines/protocol.py."""
    on, work = gpu(), Workload.of(replace(CONFIG, SEED=seed), count, ASSUMED)
    outcome = simulate(work, on, servers, replace(schedule, limit=(on.limit + 2) * servers))
    path = critical_path_bound(work, on, outcome.populations)
    return outcome.seconds / max(path, work_bound(work, on, outcome.populations) / servers)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.makespan", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--quick", action="store_true", help="print only the first table, from two seeds"
    )
    is_quick = parser.parse_args(argv).quick
    seeds_used = range(2 if is_quick else SEEDS)
    with ProcessPoolExecutor() as pool:
        for title, schedules in list(TABLES.items())[: 1 if is_quick else None]:
            print(
                f"\n| {title} | "
                + " | ".join(f"{count} problems, {n} GPU" for count, n in MACHINES)
                + " |"
            )
            print("|---|" + "--:|" * len(MACHINES))
            for name, schedule in schedules.items():
                jobs = [
                    [pool.submit(ratio, *on, schedule, seed) for seed in seeds_used]
                    for on in MACHINES
                ]
                cells = [[each.result() for each in row] for row in jobs]
                shown = (f"{mean(row):.3f} ± {stdev(row) / len(row) ** 0.5:.3f}" for row in cells)
                print(f"| {name} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
