"""Pause all requests after a rate limit's refusal (status 429), and then keep fewer requests in
flight.

Each request calls `enter` before it is sent, and waits there if necessary. We measured aiolimiter
and do not use it: it ignores refusals, and lets twice the limit through in the first minute.
"""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress

# the lowest limit of requests in flight: one may take long, and another shows whether refusals have
# ended
LEAST = 2


class Rates:
    """The rate limit of one server. `pause(round, wait)` returns the seconds to pause after a
    refusal. `wait` is the server's Retry-After (or None), and `round` counts the pauses since the
    last reply, from 0.

    Refusals of requests sent before a pause form a wave. It lowers the limit to the requests in
    flight, and by one for each refusal, but at most by half and not below LEAST. Each reply raises
    the limit by one."""

    def __init__(self, pause: Callable[[int, float | None], float]) -> None:
        self._pause = pause
        self._in_flight = 0
        self._limit: float = math.inf  # the current limit of requests in flight
        self._least = LEAST  # this wave of refusals may not lower the limit below this number
        self._changed = asyncio.Event()
        self._line = asyncio.Lock()  # serves requests in order of arrival
        self._paused_at = -math.inf  # the beginning of the last pause
        self._until = -math.inf  # its end
        self._round = 0
        # the time of the first refusal since the last reply
        self.refused_since: float | None = None
        self.waiting = 0  # requests that wait in `enter`

    async def enter(self) -> float:
        """Wait until a request may be sent, and return the event loop's time. Call `leave` after
        the request."""
        self.waiting += 1
        try:
            async with self._line:
                while self._in_flight >= self._limit or self._until > _now():
                    self._changed.clear()
                    pause_end = self._until if self._until > _now() else None
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(pause_end):
                            await self._changed.wait()
                self._in_flight += 1
                return _now()
        finally:
            self.waiting -= 1

    def leave(self) -> None:
        self._in_flight -= 1
        self._changed.set()

    def answered(self) -> None:
        self._round = 0
        self.refused_since = None
        self._limit += 1

    def refused(self, entered: float, wait: float | None) -> None:
        """Pause all requests because one that was sent at `entered` was refused. `wait`: its
        Retry-After, or None."""
        now = _now()
        if self.refused_since is None:
            self.refused_since = now
        # otherwise the request was sent before the last pause, and belongs to its wave
        if entered > self._paused_at:
            self._round += 1
            self._paused_at = now
            self._limit = min(self._limit, self._in_flight)
            self._least = max(LEAST, self._in_flight // 2)
        self._limit = max(self._least, self._limit - 1)
        self._until = max(self._until, now + self._pause(max(0, self._round - 1), wait))

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._until - _now())


def _now() -> float:
    return asyncio.get_running_loop().time()
