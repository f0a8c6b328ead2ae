"""Slots: at most `limit` requests in flight, and the most urgent of those that wait goes next. It knows no server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count


class Slots:
    """An asyncio.Semaphore whose waiters have priorities."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free = limit  # nobody waits while this is above 0
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._turns = count()
        self.is_closed = False
        self._empty = asyncio.Event()  # set when the last slot was given back after closing

    @asynccontextmanager
    async def slot(self, priority: float = 0.0) -> AsyncIterator[None]:
        """Hold a slot. Among those that wait for one the highest priority is first, and among equals the first."""
        if self._free and not self.is_closed:
            self._free -= 1
        else:
            await self._turn(priority)
        try:
            yield
        finally:
            self._release()

    async def _turn(self, priority: float) -> None:
        turn = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (-priority, next(self._turns), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the slot was handed over just before
                self._release()
            raise

    def _release(self) -> None:
        """Hand the slot to the next that still waits."""
        while self._waiting and not self.is_closed:
            *_, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
        if self.is_closed and not self.held:
            self._empty.set()

    @property
    def held(self) -> int:
        """How many slots are held."""
        return self._limit - self._free

    def close(self) -> None:
        """Hand out no slot any more: who waits for one waits until it is cancelled."""
        self.is_closed = True

    async def empty(self) -> None:
        """Wait until the last slot of a closed queue is given back."""
        if self.held:
            await self._empty.wait()
