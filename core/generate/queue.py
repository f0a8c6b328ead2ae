"""Limit the requests in flight; the most urgent waiting request is sent next."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count


class Slots:
    """An asyncio.Semaphore whose waiters have priorities."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free = limit  # above 0 only if no request waits
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._turns = count()
        self.is_closed = False
        self._empty = asyncio.Event()  # set when the last slot is given back after closing

    @asynccontextmanager
    async def slot(self, priority: float = 0.0) -> AsyncIterator[None]:
        """Hold a slot. The highest priority is served first, and equals in order of arrival."""
        if self._free and not self.is_closed:
            self._free -= 1
        else:
            turn = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (-priority, next(self._turns), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():  # it had just been given the slot
                    self._release()
                raise
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        """Hand the slot to the next waiter that was not cancelled."""
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
        return self._limit - self._free

    def close(self) -> None:
        """Hand out no further slot: a waiter waits until it is cancelled."""
        self.is_closed = True

    async def empty(self) -> None:
        """Wait until the last slot of a closed queue is given back."""
        if self.held:
            await self._empty.wait()
