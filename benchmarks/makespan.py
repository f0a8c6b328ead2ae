"""Makespan on modelled GPUs: how long RSA takes, against the least time of any schedule.

    python -m benchmarks.makespan [--quick]

The scaffold (core/scaffolds/rsa.py) and the client's limiter (core/generate/queue.py) are the real ones. They run in
virtual time against simulated servers; nothing here is measured on a GPU. A server is SGLang with continuous
batching, simplified:

- Time is the roofline's (core/plan/roofline.py). A decode step gives each running request one token. A whole prompt is
  read between steps (no prefix cache).
- A request holds its prompt and its output in the KV cache. The queue is first come, first served. Its head is admitted
  if the cache has room for its prompt and AHEAD new tokens. Each running request needs room for a share of AHEAD more,
  or less if it may write fewer. The share decays step by step.
- If the cache is full all the same, the request with the shortest output goes back to the end of the queue. Its prompt
  and tokens are read again at its next admission. The share rises to the output of the running requests.

A fleet's router sends each request to the server with the fewest, as the gateway does.

Lengths are assumed (core/plan/lengths.py: log-normal, cut at the cap); forced answers are left out. The bounds hold for
any schedule of the same requests on the same servers. The order of equal requests moves a ratio by up to 0.03, so each
cell is a mean over SEEDS, with its standard error.
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
from core.engines import gpus
from core.engines.dialects.sglang import CONSERVATIVENESS
from core.engines.shape import QED_NANO
from core.generate.queue import Slots
from core.plan import estimate
from core.plan.lengths import ANSWER_TOKENS, ASSUMED, PROMPT_TOKENS, Lengths, Sample
from core.plan.roofline import MIDDLE, Machine
from core.scaffolds.rsa import RsaConstants, rsa
from core.types import Completion, Message, Population, Problem

# SGLang's own defaults; the shares count --schedule-conservativeness in.
AHEAD = 4096  # new tokens of a request that count when another is admitted
RESERVED = 0.7 * CONSERVATIVENESS  # of these, for each running request: at first,
LEAST_RESERVED = 0.14 * RESERVED  # and after
DECAY_STEPS = 600  # without one put back
SPARE_STEPS = 20  # room for so many after one was put back
LOOK_STEPS = 32  # between two looks at the queue while the share decays; SGLang looks at every step
ALIKE = 0.5  # share of the variance of log-lengths that is between problems; an assumption

# Virtual time


class _Skipping(selectors.SelectSelector):
    """A selector that never waits: time jumps to the next timer."""

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
        """Run at once: the work of a thread takes no virtual time."""
        done = self.create_future()
        done.set_result(func(*args))
        return done


# Servers


@dataclass
class Request:
    prompt: int
    new: int
    done: asyncio.Future[None]
    written: int = 0  # at its last admission
    since: int = 0  # the server's step then

    @property
    def size(self) -> int:
        return self.prompt + self.written


class Engine:
    """A simulated server. `cap`: the new tokens that a request may ask for."""

    def __init__(self, machine: Machine, cap: int) -> None:
        self.machine, self.cap = machine, cap
        self.queue: deque[Request] = deque()
        self.running: list[tuple[int, int, Request]] = []  # a heap by the step that ends them
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
        assert prompt + new <= self.machine.kv_tokens and new <= self.cap, "the request does not fit"
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
        """Admit the requests that fit, and return the seconds to read their prompts."""
        reading = 0.0
        promised = sum(self.reserved * min(self.cap - self._written(each), AHEAD) for *_, each in self.running)
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
        """Decode until a request ends, the cache is full, or a new request may be admitted."""
        requests = len(self.running)
        room = (self.machine.kv_tokens - self.held) // requests
        if room == 0:
            return self._put_back()
        steps = min(self.running[0][0] - self.steps, room)
        if self.queue and self.reserved > LEAST_RESERVED:
            steps = min(steps, LOOK_STEPS)
        mean = self.held / requests

        def seconds(n: int) -> float:
            """Let contexts grow by a token a step, and a step's time linearly with them."""
            return n * sum(self.machine.step(requests, mean + (n - 1) / 2, MIDDLE))

        loop = asyncio.get_running_loop()
        began, passed = loop.time(), 0.0
        if not self.queue:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds(steps)):
                    await self._arrival.wait()
            passed = loop.time() - began
            steps = min(steps, max(1, bisect_left(range(steps + 1), passed - 1e-9, key=seconds)))  # ends the step
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
        """Make room for at least SPARE_STEPS."""
        while self.held + SPARE_STEPS * len(self.running) > self.machine.kv_tokens and len(self.running) > 1:
            last = min(self.running, key=lambda entry: (self._written(entry[-1]), -entry[-1].prompt))
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
    """A workload of `count` problems with the constants `config`. The length of a completion follows from its problem,
    step and member, whatever the schedule; completions of one problem have similar lengths (ALIKE)."""

    config: RsaConstants
    count: int
    solutions: tuple[Sample, ...]  # of each step, the last of all later ones
    prompt: float = PROMPT_TOKENS
    answer: float = ANSWER_TOKENS
    alike: float = ALIKE

    @classmethod
    def of(cls, config: RsaConstants, count: int, lengths: Lengths) -> "Workload":
        ordered = tuple(np.sort(np.minimum(sample, config.MAX_TOKENS)) for sample in lengths.solutions)
        return cls(config, count, ordered, lengths.prompt, lengths.answer)

    def problems(self) -> list[Problem]:
        return [Problem(f"p{p}", "A statement.", "0") for p in range(self.count)]

    def new(self, problem: Problem, t: int, i: int) -> int:
        """Return the tokens of a completion."""
        own, shared = (
            seeds.rng(self.config.SEED, *names).standard_normal() for names in ((problem.id, t, i), (problem.id,))
        )
        share = NormalDist().cdf(math.sqrt(1 - self.alike) * own + math.sqrt(self.alike) * shared)
        sample = self.solutions[min(t, len(self.solutions) - 1)]
        return max(1, round(float(sample[int(share * len(sample))])))

    def prompt_of(self, t: int) -> int:
        """Return the tokens of a prompt: the statement, and K answers from step 1 on."""
        return round(self.prompt + (self.config.K * self.answer if t else 0))


# Schedules


Priority = Callable[[int, int], float]  # (place of the problem in its set, t): higher goes first

OURS = "breadth first"  # core/session/experiment.py
POLICIES: dict[str, Priority] = {
    OURS: lambda place, t: -t,
    "first come, first served": lambda place, t: 0,
    "depth first, by problem": lambda place, t: -place,
    "depth first, latest step": lambda place, t: t,
}


@dataclass
class Schedule:
    """The client's order of work. `limit` and `window`: requests, and problems, in flight (0: all). `wait`: a
    member waits for its parents ("nothing"), for the whole previous "population", or for the previous "step" of all
    problems."""

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

        async def together(problem: Problem, population: Population, t: int, ask: Any, config: RsaConstants) -> None:
            await barrier.wait()

        ways: dict[str, dict[str, Any]] = {
            "nothing": {},
            "population": {"stop": lambda problem, population, config: False},
            "step": {"score": together},
        }
        outcome.populations[problem.id] = [each async for each in rsa(problem, ask, config, **ways[schedule.wait])]

    async def in_turn(problem: Problem, place: int) -> None:
        async with window:
            await solve(problem, place)

    await asyncio.gather(*(in_turn(problem, place) for place, problem in enumerate(work.problems())))
    outcome.seconds = asyncio.get_running_loop().time()
    for task in serving:
        task.cancel()
    return outcome


# Bounds


def alone(machine: Machine, prompt: int, new: int) -> float:
    """Return the seconds of a request on an idle server, a lower bound on a busy one."""
    return machine.prefill(prompt, MIDDLE) + new * sum(machine.step(1, prompt + (new - 1) / 2, MIDDLE))


def critical_path_bound(work: Workload, machine: Machine, populations: dict[str, list[Population]]) -> float:
    """Return the seconds of the longest chain of requests, each after the previous one and alone on its server."""
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
    """Return the seconds of all work on one full server; several take no less than this ÷ servers.

    A step gives a token to at most `limit` requests, which hold at most `kv_tokens`. This gives the least number of
    steps, from the tokens and from the contexts summed over all tokens. Each step reads the weights. Every context is
    read for every token, and every prompt once, whatever the order."""
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
    return reading + steps_needed * sum(machine.step(requests, contexts / tokens, MIDDLE))


# The tables


CONFIG = RsaConstants(ANSWER_TOKENS=0)
SEEDS = 8
MACHINES = [(30, 1), (30, 64), (120, 16)]  # problems and GPUs
TABLES: dict[str, dict[str, Schedule]] = {
    "what waits": {
        "a member for its parents (ours)": Schedule(),
        "a population for the one before": Schedule(wait="population"),
        "a step of all problems for the one before": Schedule(wait="step"),
        "a population, and a problem for the one before": Schedule(wait="population", window=1),
    },
    "order": {name: Schedule(name) for name in POLICIES},
}


def gpu() -> Machine:
    """Return QED-Nano on an RTX 4090 as start_server.sh launches it."""
    return estimate.machine(QED_NANO, gpus.DEFAULT, "fp8", CONFIG)


def ratio(count: int, servers: int, schedule: Schedule, seed: int) -> float:
    """Return the makespan over the larger lower bound, with the requests in flight of core/engines/attach.py."""
    on, work = gpu(), Workload.of(replace(CONFIG, SEED=seed), count, ASSUMED)
    outcome = simulate(work, on, servers, replace(schedule, limit=(on.limit + 2) * servers))
    path = critical_path_bound(work, on, outcome.populations)
    return outcome.seconds / max(path, work_bound(work, on, outcome.populations) / servers)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.makespan", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="what waits for what alone, with two seeds")
    is_quick = parser.parse_args(argv).quick
    seeds_used = range(2 if is_quick else SEEDS)
    with ProcessPoolExecutor() as pool:
        for title, schedules in list(TABLES.items())[: 1 if is_quick else None]:
            print(f"\n| {title} | " + " | ".join(f"{count} problems, {n} GPU" for count, n in MACHINES) + " |")
            print("|---|" + "--:|" * len(MACHINES))
            for name, schedule in schedules.items():
                jobs = [[pool.submit(ratio, *on, schedule, seed) for seed in seeds_used] for on in MACHINES]
                cells = [[each.result() for each in row] for row in jobs]
                shown = (f"{mean(row):.3f} ± {stdev(row) / len(row) ** 0.5:.3f}" for row in cells)
                print(f"| {name} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
