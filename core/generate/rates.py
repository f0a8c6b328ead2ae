"""Pause all requests to a server that refuses them for the rate (status 429), and keep fewer in flight.

A request enters here before it is sent, and waits as long as it must. aiolimiter was measured and not used: its bucket
lets twice the limit through in the first minute, and it ignores refusals.
"""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress

LEAST = 2  # requests that refusals leave in flight: one may take long, another shows whether the limit has passed


class Rates:
    """The pauses of one server. `pause(round, wait)` returns the seconds to pause after a refusal: `wait` is the time
    that the server asks for (or None), `round` counts the pauses since the last reply, from 0.

    Each refusal takes one off the limit of requests in flight, a wave of refusals at most half of it. A reply adds one.
    """

    def __init__(self, pause: Callable[[int, float | None], float]) -> None:
        self._pause = pause
        self._in_flight = 0
        self._most: float = math.inf  # requests in flight
        self._least = LEAST  # the lowest limit of this wave of refusals
        self._changed = asyncio.Event()
        self._line = asyncio.Lock()  # first come, first served
        self._paused_at, self._until = -math.inf, -math.inf  # the last pause
        self._round = 0
        self.refused_since: float | None = None  # the first refusal since the last reply
        self.waiting = 0  # requests that have not entered yet

    async def enter(self) -> float:
        """Wait until a request may be sent, and return the event loop's time. `leave` must follow."""
        self.waiting += 1
        try:
            async with self._line:
                while self._in_flight >= self._most or self._until > _now():
                    self._changed.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(self._until if self._until > _now() else None):
                            await self._changed.wait()
                self._in_flight += 1
                return _now()
        finally:
            self.waiting -= 1

    def leave(self) -> None:
        self._in_flight -= 1
        self._changed.set()

    def answered(self) -> None:
        self._round, self.refused_since = 0, None
        self._most += 1

    def refused(self, entered: float, wait: float | None) -> None:
        """Pause all requests: the server has refused one for the rate and asks to `wait`."""
        now = _now()
        self.refused_since = now if self.refused_since is None else self.refused_since
        if entered > self._paused_at:  # else it was sent before that pause began, and belongs to the last wave
            self._round, self._paused_at = self._round + 1, now
            self._most, self._least = min(self._most, self._in_flight), max(LEAST, self._in_flight // 2)
        self._most = max(self._least, self._most - 1)
        self._until = max(self._until, now + self._pause(max(0, self._round - 1), wait))

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._until - _now())


def _now() -> float:
    return asyncio.get_running_loop().time()
