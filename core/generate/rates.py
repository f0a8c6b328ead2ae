"""Rates: how many requests and tokens a minute may take, and the pauses that a server asks for, kept for all requests
to a server at once.

A request enters here before it is sent, and waits for as long as it has to. The minute is a sliding one: in no minute,
whichever second it begins with, are more sent than the card says. A request counts with the most tokens that it can
take, as providers count what they admit, and with its true ones when they are known.
"""

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

MINUTE = 61.0  # seconds: what is sent a minute apart may arrive a little closer together
LEAST = 2  # requests that refusals leave in flight: one may take long, and another shows whether the limit has passed
LONGEST_SPREAD = 10.0  # seconds over which those who waited for the end of a pause are sent


@dataclass(eq=False)
class Entry:
    """A request that was let in: when (the event loop's time), and the tokens that it is counted with."""

    at: float
    tokens: int
    is_of_minute: bool = False  # it is among those of the last one


class Rates:
    """At most so many `requests` and `tokens` a minute (None: as many as there are). `pause(round, wait)`: the seconds
    for which nothing is sent if the server refuses a request and asks for a `wait` (None: for none); `round` counts the
    pauses since the last reply, from 0. Without it, nothing is held back.

    Refusals also leave fewer requests in flight. Each takes one off, but those of one wave never more than half of
    them. Each reply adds one.
    """

    def __init__(
        self,
        requests: int | None = None,
        tokens: int | None = None,
        pause: Callable[[int, float | None], float] = lambda round, wait: 0.0,
    ) -> None:
        self._requests, self._tokens, self._pause = requests or math.inf, tokens or math.inf, pause
        self._is_limited = bool(requests or tokens)
        self._minute: deque[Entry] = deque()
        self._taken = 0  # tokens of these
        self._line = asyncio.Lock()  # first come, first served
        self._next_at = 0.0  # when the first in the line goes, if it waits for a time
        self._in_flight = 0
        self._most: float = math.inf  # requests in flight
        self._least = LEAST  # what this wave of refusals leaves of them
        self._one_left = asyncio.Event()
        self._paused_at, self._until = -math.inf, 0.0  # the last pause
        self._spread = 0.0  # seconds over which those who wait for its end are sent, one by one
        self._spaced_until = 0.0
        self._round = 0
        self.refused_since: float | None = None  # since when nothing but refusals came
        self.waiting = 0  # requests that are not let in yet

    async def enter(self, tokens: int) -> Entry:
        """Wait until a request of at most so many tokens may be sent. `leave` must follow."""
        self.waiting += 1
        try:
            async with self._line:
                while (at := self._opens_at(tokens)) > _now():
                    self._next_at = at
                    self._one_left.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(at if at < math.inf else None):
                            await self._one_left.wait()
                return self._let_in(tokens)
        finally:
            self.waiting -= 1

    def leave(self) -> None:
        """Count a request as ended, however it ended."""
        self._in_flight -= 1
        self._one_left.set()

    def took(self, entry: Entry, tokens: int | None) -> None:
        """Note that a request has been answered, and took so many tokens (None: nobody counted them)."""
        if tokens is not None:
            self.correct(entry, tokens)
        self._round, self.refused_since = 0, None
        self._most += 1

    def correct(self, entry: Entry, tokens: int) -> None:
        """It took so many tokens in truth."""
        if entry.is_of_minute:
            self._taken += tokens - entry.tokens
        entry.tokens = tokens

    def refused(self, entry: Entry, wait: float | None) -> None:
        """Pause: the server has refused a request for the rate, and wants all to `wait`."""
        now = _now()
        self.refused_since = now if self.refused_since is None else self.refused_since
        if entry.at > self._paused_at:  # else it belongs to the last wave: it was sent before that pause began
            self._round, self._paused_at = self._round + 1, now
            self._most, self._least = min(self._most, self._in_flight), max(LEAST, self._in_flight // 2)
        self._most = max(self._least, self._most - 1)
        seconds = self._pause(max(0, self._round - 1), wait)
        if now + seconds > self._until:
            self._until, self._spread = now + seconds, min(LONGEST_SPREAD, seconds / 2)

    @property
    def seconds_left(self) -> float:
        """Until the next of those that wait may be sent, about; 0: when another one has ended."""
        next_at = self._next_at if self._line.locked() and self._next_at < math.inf else 0.0
        return max(0.0, max(self._until, next_at) - _now())

    def _opens_at(self, tokens: int) -> float:
        """When a request of so many tokens may be sent; inf: when another one has ended."""
        if self._in_flight >= self._most:
            return math.inf
        return max(self._until, self._spaced_until, self._fits_at(tokens))

    def _let_in(self, tokens: int) -> Entry:
        now = _now()
        if (left := self._until + self._spread - now) > 0:  # in step, those who waited would be refused again
            self._spaced_until = now + random.uniform(0, 2) * left / self.waiting
        entry = Entry(now, tokens, is_of_minute=self._is_limited)
        if self._is_limited:
            self._minute.append(entry)
            self._taken += tokens
        self._in_flight += 1
        return entry

    def _fits_at(self, tokens: int) -> float:
        """When a request of so many tokens fits into the minute. One that is larger than all of it goes alone."""
        now = _now()
        while self._minute and self._minute[0].at + MINUTE <= now:
            gone = self._minute.popleft()
            gone.is_of_minute = False
            self._taken -= gone.tokens
        at, count, taken = 0.0, len(self._minute), self._taken
        for entry in self._minute:  # has to leave, unless there is room
            if count < self._requests and taken + tokens <= self._tokens:
                break
            at, count, taken = entry.at + MINUTE, count - 1, taken - entry.tokens
        return at


def _now() -> float:
    return asyncio.get_running_loop().time()
