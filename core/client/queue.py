"""Limit the requests in flight, and send waiting requests in the order of their priority."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count

from core.client.budget import RunExhausted


class Slots:
    """A semaphore of `limit` slots, like asyncio.Semaphore, but its waiters have priorities. After
    a RunExhausted in a slot, no more slots are handed out until `reopen`, and waiting requests stay
    until they are cancelled."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free = limit  # while requests wait and the queue is open, this is 0
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._turns = count()
        self.is_closed = False
        self._empty = asyncio.Event()  # set after a RunExhausted, when the last slot is released

    @asynccontextmanager
    async def slot(self, priority: float = 0.0) -> AsyncIterator[None]:
        """Hold a slot while the block runs. Waiters are served by `priority` (the highest first),
        then by arrival."""
        if self._free and not self.is_closed:
            self._free -= 1
        else:
            turn = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (-priority, next(self._turns), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():  # the slot was handed over just before the cancellation
                    self._release()
                raise
        try:
            yield
        except RunExhausted:
            self.is_closed = True
            raise
        finally:
            self._release()

    def _release(self) -> None:
        """Hand the slot to the next waiter that was not cancelled. Without one, or after a
        RunExhausted, count it as free."""
        while self._waiting and not self.is_closed:
            *_, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
        if self.is_closed and not self.held:
            self._empty.set()

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return sum(not turn.done() for *_, turn in self._waiting)

    @property
    def held(self) -> int:
        return self._limit - self._free

    async def empty(self) -> None:
        """Wait until all slots are released, after a RunExhausted."""
        if self.held:
            await self._empty.wait()

    def reopen(self) -> None:
        """Hand out slots again after a RunExhausted, for requests that do not belong to the work
        that it ended."""
        self.is_closed = False
        self._empty.clear()
        while self._free and self._waiting:
            *_, turn = heappop(self._waiting)
            if not turn.done():
                self._free -= 1
                turn.set_result(None)
