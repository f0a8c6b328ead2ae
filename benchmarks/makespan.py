"""Makespan on modelled GPUs: how long RSA takes beside the least time that any schedule would take.

python -m benchmarks.makespan [--results FOLDER]

The scaffold (core/scaffolds/rsa.py) and the client's limiter (core/generate/queue.py) are the real ones. They run in
virtual time against simulated servers; nothing here is measured on a GPU. A server is SGLang with continuous
batching, simplified:
- Time is the roofline's (core/plan/roofline.py). A decode step gives each running request one token; a prompt is read
  between steps, all of it (no prefix cache).
- A request holds its prompt and what it has written in the KV cache. The queue is first come, first served: its head
  is let in when the cache holds, besides what is there, its prompt, AHEAD new tokens, and a share of AHEAD more for
  each running request (less where that may write fewer). The share decays step by step.
- When the cache is full all the same, the request that has written least is put back to the end of the queue; its
  prompt and tokens are read again when it is let in again. The share rises to what running requests have written.
A fleet's router sends each request to the server with the fewest, as the gateway does.

Lengths are assumed (core/plan/lengths.py: log-normal, cut at the cap), or those of the embedded model's results; forced
answers are left out. The bounds hold for any schedule of the same requests on the same servers.
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
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from core.base import seeds
from core.engines import gpus
from core.engines.dialects.sglang import CONSERVATIVENESS
from core.engines.embedded_model import embedded_name
from core.engines.shape import QED_NANO
from core.generate.queue import Slots
from core.plan import estimate
from core.plan.lengths import ANSWER_TOKENS, ASSUMED, PROMPT_TOKENS, Lengths, Sample, measured
from core.plan.roofline import MIDDLE, Machine
from core.scaffolds.rsa import RsaConstants, rsa
from core.types import Completion, Message, Population, Problem

# SGLang's own defaults; the shares count --schedule-conservativeness in.
AHEAD = 4096  # new tokens of a request that are looked at when another is let in
RESERVED = 0.7 * CONSERVATIVENESS  # of these, for each running request: at first,
LEAST_RESERVED = 0.14 * RESERVED  # and after
DECAY_STEPS = 600  # without one put back
SPARE_STEPS = 20  # that there is room for after one was
LOOK_STEPS = 32  # between two looks at the queue while the share decays; SGLang looks at every step
PRIOR = 2  # completions that "like the others" counts as
ALIKE = 0.5  # share of the variance of log-lengths that lies between problems; an assumption

# Virtual time


class _Skipping(selectors.SelectSelector):
    """Waits for nothing: time jumps to the next timer."""

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
        """At once: what a thread does takes no virtual time."""
        done = self.create_future()
        done.set_result(func(*args))
        return done


# Servers


@dataclass
class Request:
    prompt: int
    new: int
    done: asyncio.Future[None]
    written: int = 0  # when it was let in last
    since: int = 0  # the server's step then

    @property
    def size(self) -> int:
        return self.prompt + self.written


class Engine:
    """One simulated server. `cap`: the new tokens that a request may ask for."""

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
        """Let in what fits; the seconds to read its prompts come back."""
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
        """Steps until one ends, the cache is full, or a newcomer may be let in."""
        requests = len(self.running)
        room = (self.machine.kv_tokens - self.held) // requests
        if room == 0:
            return self._put_back()
        steps = min(self.running[0][0] - self.steps, room)
        if self.queue and self.reserved > LEAST_RESERVED:
            steps = min(steps, LOOK_STEPS)
        mean = self.held / requests

        def seconds(n: int) -> float:
            """Contexts grow by a token a step, and a step's time linearly with them."""
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
        """Make room, at least for SPARE_STEPS."""
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
    """`count` problems with the constants `config`. The completion of member i of step t of a problem is as long as
    their names say, whoever asks and when; those of one problem resemble each other (ALIKE)."""

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
        """Tokens of a completion."""
        own, shared = (
            seeds.rng(self.config.SEED, *names).standard_normal() for names in ((problem.id, t, i), (problem.id,))
        )
        share = NormalDist().cdf(math.sqrt(1 - self.alike) * own + math.sqrt(self.alike) * shared)
        sample = self.solutions[min(t, len(self.solutions) - 1)]
        return max(1, round(float(sample[int(share * len(sample))])))

    def prompt_of(self, t: int) -> int:
        """Tokens of a prompt: the statement, and K answers from step 1 on."""
        return round(self.prompt + (self.config.K * self.answer if t else 0))


# Schedules


class Progress:
    """What the client knows of a problem when it asks: its place in the set, and how long its completions are so far,
    beside those of all problems."""

    def __init__(self, place: int, everywhere: "Progress | None" = None) -> None:
        self.place, self.everywhere = place, everywhere
        self.count = self.tokens = 0

    def arrived(self, tokens: int) -> None:
        self.count, self.tokens = self.count + 1, self.tokens + tokens
        if self.everywhere:
            self.everywhere.arrived(tokens)

    @property
    def relative(self) -> float:
        """Length against that of all problems: 1 with nothing known, and drawn to it while little is."""
        if not self.everywhere or not self.everywhere.tokens:
            return 1.0
        mean = self.everywhere.tokens / self.everywhere.count
        return (self.tokens / mean + PRIOR) / (self.count + PRIOR)


Priority = Callable[[Progress, int, int], float]  # (problem, t, T): higher goes first

OURS = "breadth first"  # core/session/experiment.py
POLICIES: dict[str, Priority] = {
    OURS: lambda problem, t, last: -t,
    "first come, first served": lambda problem, t, last: 0,
    "longest remaining path": lambda problem, t, last: (last - t + 1) * problem.relative,
    "longest expected": lambda problem, t, last: problem.relative,
    "depth first (by problem)": lambda problem, t, last: -problem.place,
    "depth first (latest step)": lambda problem, t, last: t,
}


@dataclass
class Schedule:
    """How the client orders the work. `limit` and `window`: requests, and problems, in flight (0: all). `wait`: what
    waits for what besides a member for its parents: "nothing", a "population" for the whole one before it, or a
    "step" of all problems for the step before."""

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
    everywhere = Progress(0)

    async def solve(problem: Problem, progress: Progress) -> None:
        async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
            t, i = names
            assert isinstance(t, int) and isinstance(i, int)
            new = work.new(problem, t, i)
            async with slots.slot(priority(progress, t, config.T)):
                chosen = min(range(servers), key=sent.__getitem__)
                sent[chosen] += 1
                await engines[chosen].generate(work.prompt_of(t), new)
                sent[chosen] -= 1
            progress.arrived(new)
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
            await solve(problem, Progress(place, everywhere))

    await asyncio.gather(*(in_turn(problem, place) for place, problem in enumerate(work.problems())))
    outcome.seconds = asyncio.get_running_loop().time()
    for task in serving:
        task.cancel()
    return outcome


# Bounds


def alone(machine: Machine, prompt: int, new: int) -> float:
    """Seconds that a request takes on an idle server; with others beside it, it takes no less."""
    return machine.prefill(prompt, MIDDLE) + new * sum(machine.step(1, prompt + (new - 1) / 2, MIDDLE))


def critical_path_bound(work: Workload, machine: Machine, populations: dict[str, list[Population]]) -> float:
    """Seconds of the longest chain of requests, each made from the one before and each alone on its server."""
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
    """Seconds of all work on one server that is always full, and not slower than so many seconds ÷ servers on several.

    A step gives a token to at most `limit` requests, and those hold at most `kv_tokens`: so of the tokens, and of the
    contexts summed over all tokens, follows the least number of steps, each of which reads the weights. Every context
    is read for every token, and every prompt once, whatever the order.
    """
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
ONE_BY_ONE = Schedule(window=1, wait="population")


@dataclass(frozen=True)
class Row:
    """One simulation, and what it is beside the bounds."""

    seconds: float
    path: float
    work: float
    put_back: int

    @property
    def ratio(self) -> float:
        return self.seconds / max(self.path, self.work)


def row(count: int, servers: int, schedule: Schedule, lengths: Lengths = ASSUMED) -> Row:
    work = Workload.of(CONFIG, count, lengths)
    on = gpu()
    outcome = simulate(work, on, servers, schedule)
    return Row(
        outcome.seconds,
        critical_path_bound(work, on, outcome.populations),
        work_bound(work, on, outcome.populations) / servers,
        sum(engine.put_back for engine in outcome.engines),
    )


def gpu() -> Machine:
    """QED-Nano on an RTX 4090 as start_server.sh launches it."""
    return estimate.machine(QED_NANO, gpus.DEFAULT, "fp8", CONFIG)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.makespan", description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, help="results of the embedded model, for the table with its lengths")
    folder = parser.parse_args(argv).results
    slots = gpu().limit
    limit = slots + 2  # what core/engines/attach.py finds for it
    machines, fewer = [(30, 1), (30, 64), (480, 64)], [(30, 1), (30, 64), (120, 16)]
    tables: list[tuple[str, list[tuple[int, int]], dict[str, Schedule], Lengths]] = [
        ("order", machines, {name: Schedule(name) for name in POLICIES}, ASSUMED),
        (
            "what waits",
            fewer,
            {
                "a member for its parents (ours)": Schedule(),
                "a population for the one before": Schedule(wait="population"),
                "a step of all problems for the one before": Schedule(wait="step"),
                "as above, and a problem for the one before": ONE_BY_ONE,
            },
            ASSUMED,
        ),
        (
            "requests in flight per server",
            [(30, 1), (120, 16)],
            {
                f"{name} ({n or 'all'})": Schedule(limit=n or -1)
                for name, n in {
                    "slots - 5": slots - 5,
                    "slots + 2 (ours)": limit,
                    "1.25 slots": round(1.25 * slots),
                    "2 slots": 2 * slots,
                    "no limit": 0,
                }.items()
            },
            ASSUMED,
        ),
        (
            "problems in flight",
            [(480, 16)],
            {
                f"{times or 'all'}{' requests per slot' if times else ''}": Schedule(window=times)
                for times in (1, 2, 4, 8, 0)
            },
            ASSUMED,
        ),
        ("problems, 64 servers", [(2000, 64)], {"breadth first": Schedule()}, ASSUMED),
    ]
    if folder:
        lengths = measured(folder, embedded_name())
        assert lengths, f"no results of {embedded_name()} in {folder}"
        tables.append((f"order; lengths {lengths.source}", fewer, tables[0][2], lengths))
    with ProcessPoolExecutor() as pool:
        for title, on, schedules, lengths in tables:
            made = {
                (name, *where): pool.submit(row, *where, scaled(schedule, limit, where[1]), lengths)
                for name, schedule in schedules.items()
                for where in on
            }
            print(f"\n| {title} | " + " | ".join(f"{count} problems, {n} GPU" for count, n in on) + " |")
            print("|---|" + "--:|" * len(on))
            for name in schedules:
                rows = [made[name, *where].result() for where in on]
                print(f"| {name} | " + " | ".join(cell(each) for each in rows) + " |", flush=True)


def scaled(schedule: Schedule, limit: int, servers: int) -> Schedule:
    """With the limit of a fleet (`limit` each where none is told, -1: none), and as many problems in flight as give
    `window` requests per slot where it is more than one problem."""
    each = schedule.limit or limit
    window = schedule.window
    if schedule.wait == "nothing":
        window = math.ceil(window * limit * servers / CONFIG.N)
    return replace(schedule, limit=max(0, each) * servers, window=window)


def cell(made: Row) -> str:
    bound = "path" if made.path > made.work else "work"
    return f"{made.ratio:.3f} ({made.seconds / 3600:.2f} h, {bound}, {made.put_back} put back)"


if __name__ == "__main__":
    main(sys.argv[1:])
