"""Rates: the pauses that a server's limits ask for, kept for all requests to it at once.

A refusal for the rate (status 429) pauses all requests, and leaves fewer in flight. A request enters here before it is
sent, and waits for as long as it has to. aiolimiter was measured in place of this and not taken: its bucket lets twice
the limit through in the first minute, and knows no refusals.
"""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress

LEAST = 2  # requests that refusals leave in flight: one may take long, and another shows whether the limit has passed


class Rates:
    """`pause(round, wait)`: the seconds for which nothing is sent if the server refuses a request and asks for a `wait`
    (None: for none); `round` counts the pauses since the last reply, from 0.

    Each refusal takes one off the requests in flight, but those of one wave never more than half of them. Each reply
    adds one.
    """

    def __init__(self, pause: Callable[[int, float | None], float]) -> None:
        self._pause = pause
        self._in_flight = 0
        self._most: float = math.inf  # requests in flight
        self._least = LEAST  # what this wave of refusals leaves of them
        self._changed = asyncio.Event()
        self._line = asyncio.Lock()  # first come, first served
        self._paused_at, self._until = -math.inf, -math.inf  # the last pause
        self._round = 0
        self.refused_since: float | None = None  # since when nothing but refusals came
        self.waiting = 0  # requests that are not let in yet

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
        """Count a request as ended, however it ended."""
        self._in_flight -= 1
        self._changed.set()

    def answered(self) -> None:
        """Note that a request has been answered."""
        self._round, self.refused_since = 0, None
        self._most += 1

    def refused(self, entered: float, wait: float | None) -> None:
        """Pause: the server has refused a request for the rate, and wants all to `wait`."""
        now = _now()
        self.refused_since = now if self.refused_since is None else self.refused_since
        if entered > self._paused_at:  # else it belongs to the last wave: it was sent before that pause began
            self._round, self._paused_at = self._round + 1, now
            self._most, self._least = min(self._most, self._in_flight), max(LEAST, self._in_flight // 2)
        self._most = max(self._least, self._most - 1)
        self._until = max(self._until, now + self._pause(max(0, self._round - 1), wait))

    @property
    def seconds_left(self) -> float:
        """Return the seconds left of a pause."""
        return max(0.0, self._until - _now())


def _now() -> float:
    return asyncio.get_running_loop().time()
