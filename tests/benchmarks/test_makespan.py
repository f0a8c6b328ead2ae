"""The simulator of benchmarks/makespan.py: against the roofline, against sums, and against the
bounds."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.makespan import (
    CONFIG,
    OURS,
    POLICIES,
    Engine,
    Schedule,
    VirtualLoop,
    Workload,
    alone,
    critical_path_bound,
    gpu,
    simulate,
    work_bound,
)
from harness.plan.lengths import ASSUMED
from harness.plan.roofline import MIDDLE


def served(engine: Engine, requests: list[tuple[int, int]]) -> float:
    """Virtual seconds until all requests, sent at once, are answered."""

    async def play() -> float:
        serving = asyncio.create_task(engine.serve())
        await asyncio.gather(*(engine.generate(*request) for request in requests))
        serving.cancel()
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(play())


def test_a_request_alone_takes_what_the_roofline_says_token_by_token() -> None:
    steps = sum(gpu().step(1, 300 + n, MIDDLE) for n in range(5000))
    expected = pytest.approx(gpu().prefill(300, MIDDLE) + steps)
    assert served(Engine(gpu(), 16384), [(300, 5000)]) == expected
    assert alone(gpu(), 300, 5000) == expected


def test_two_requests_share_every_step_until_the_shorter_ends() -> None:
    together = sum(gpu().step(2, 100 + n, MIDDLE) for n in range(40))
    then = sum(gpu().step(1, 140 + n, MIDDLE) for n in range(60))
    expected = 2 * gpu().prefill(100, MIDDLE) + together + then
    assert served(Engine(gpu(), 16384), [(100, 40), (100, 100)]) == pytest.approx(expected)


@given(
    requests=st.lists(st.tuples(st.integers(1, 300), st.integers(1, 500)), min_size=1, max_size=30),
    room=st.integers(800, 4000),
    limit=st.integers(1, 12),
)
@settings(deadline=None)
def test_every_token_is_made_once_and_the_cache_never_overflows(
    requests: list[tuple[int, int]], room: int, limit: int
) -> None:
    engine = Engine(replace(gpu(), kv_tokens=room, limit=limit), 500)
    served(engine, requests)
    assert engine.tokens == sum(new for _, new in requests)
    assert engine.most_held <= room and engine.held == 0
    assert not engine.queue and not engine.running


@given(
    problems=st.integers(1, 6),
    servers=st.integers(1, 3),
    t=st.integers(0, 3),
    limit=st.integers(1, 40),
    window=st.integers(0, 6),
    policy=st.sampled_from(sorted(POLICIES)),
    wait=st.sampled_from(["nothing", "population"]),
    room=st.integers(20_000, 60_000),
)
@settings(deadline=None, max_examples=40)
def test_no_schedule_is_faster_than_the_bounds(
    problems: int, servers: int, t: int, limit: int, window: int, policy: str, wait: str, room: int
) -> None:
    work = Workload.of(replace(CONFIG, N=4, T=t), problems, ASSUMED)
    machine = replace(gpu(), kv_tokens=room)
    outcome = simulate(work, machine, servers, Schedule(policy, limit, window, wait))
    assert outcome.seconds >= critical_path_bound(work, machine, outcome.populations) * (1 - 1e-9)
    assert outcome.seconds >= work_bound(work, machine, outcome.populations) / servers * (1 - 1e-9)
    assert all(len(steps) == t + 1 for steps in outcome.populations.values())


def test_one_problem_on_idle_servers_takes_its_critical_path() -> None:
    work = Workload.of(CONFIG, 1, ASSUMED)
    outcome = simulate(work, gpu(), 200, Schedule())
    assert outcome.seconds == pytest.approx(
        critical_path_bound(work, gpu(), outcome.populations), rel=1e-6
    )


def test_the_order_of_work_changes_no_result() -> None:
    work = Workload.of(CONFIG, 3, ASSUMED)
    populations = [
        simulate(work, gpu(), 1, Schedule(policy, 10)).populations
        for policy in (OURS, "depth first, by problem")
    ]
    assert populations[0] == populations[1]
