"""The limiter: never more than its limit, the highest priority first, no slot lost to a cancelled
waiter."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.client.budget import RunExhausted
from core.client.queue import Slots


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_the_highest_priority_goes_first_and_equals_in_order_of_arrival() -> None:
    async def order() -> list[str]:
        slots, served = Slots(1), []

        async def work(name: str, priority: float) -> None:
            async with slots.slot(priority):
                served.append(name)
                await asyncio.sleep(0)

        await asyncio.gather(
            *(work(*each) for each in [("a", 0), ("b", -1), ("c", 2), ("d", -1), ("e", 2)])
        )
        return served

    assert asyncio.run(order()) == ["a", "c", "e", "b", "d"]


@given(
    limit=st.integers(1, 4),
    works=st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), max_size=25),
    cancels=st.lists(st.tuples(st.integers(0, 24), st.integers(0, 2)), max_size=12),
)
def test_cancelled_requests_cost_no_slot(limit: int, works: list[Any], cancels: list[Any]) -> None:
    async def play() -> None:
        slots, inside = Slots(limit), 0

        async def work(priority: int, rounds: int) -> None:
            nonlocal inside
            async with slots.slot(priority):
                inside += 1
                assert inside <= limit
                try:
                    await turns(rounds)
                finally:
                    inside -= 1

        tasks = [asyncio.create_task(work(*each)) for each in works]
        for which, wait in cancels:
            await turns(wait)
            if which < len(tasks):
                tasks[which].cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(each is None or isinstance(each, asyncio.CancelledError) for each in ended)
        async with asyncio.TaskGroup() as group:  # all slots are free again, at the same time
            together = asyncio.Barrier(limit)

            async def meet() -> None:
                async with slots.slot():
                    await together.wait()

            for _ in range(limit):
                group.create_task(meet())

    asyncio.run(asyncio.wait_for(play(), 60))


def test_after_an_over_no_slot_is_handed_out_and_the_queue_is_waited_for_until_it_is_empty() -> (
    None
):
    async def play() -> list[str]:
        slots, seen = Slots(2), list[str]()

        async def work(name: str) -> None:
            async with slots.slot():
                seen.append(name)
                await turns(1 if name == "a" else 3)
                if name == "a":
                    raise RunExhausted("a")
                seen.append(f"{name} ended")

        tasks = [asyncio.create_task(work(name)) for name in "abc"]
        with pytest.raises(RunExhausted):
            await tasks[0]
        await slots.empty()
        assert slots.held == 0 and not tasks[2].done()
        tasks[2].cancel()
        return seen

    assert asyncio.run(play()) == ["a", "b", "b ended"]


def test_a_queue_that_is_opened_again_serves_the_requests_that_wait() -> None:
    async def served() -> list[str]:
        slots, got = Slots(1), list[str]()

        async def work(name: str) -> None:
            async with slots.slot():
                got.append(name)
                await asyncio.sleep(0)
                if name == "unpaid":
                    raise RunExhausted("no credit")

        tasks = [asyncio.create_task(work(name)) for name in ("unpaid", "cancelled", "a", "b")]
        await turns(5)
        assert slots.is_closed and got == ["unpaid"]
        tasks[1].cancel()
        slots.reopen()
        await asyncio.wait(tasks)
        await slots.empty()
        assert not slots.held and isinstance(tasks[0].exception(), RunExhausted)
        return got

    assert asyncio.run(served()) == ["unpaid", "a", "b"]
