"""Rates: how many requests and tokens a minute may take, and the pauses that a server asks for; kept for all requests
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
from dataclasses import dataclass

MINUTE = 61.0  # seconds: what is sent a minute apart may arrive a little closer together
LONGEST_SPREAD = 10.0  # seconds over which those who waited for the end of a pause are sent


@dataclass(eq=False)
class Entry:
    """A request that was let in: when (the event loop's time), and the tokens that it is counted with."""

    at: float
    tokens: int
    is_of_minute: bool = False  # it is among those of the last one


class Rates:
    """At most so many `requests` and `tokens` a minute (None: as many as there are). `pause(round, wait)`: the seconds
    for which nothing is sent when the server refuses requests and asks for a `wait` (None: for none), for the first
    time (0), or for another time after the pause; without it, nothing is held back."""

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
        self._line = asyncio.Lock()  # before the minute: first come, first served
        self._free_at = 0.0  # when the first in the line goes
        self._paused_at, self._until = -math.inf, 0.0  # the last pause
        self._spread = 0.0  # seconds over which those who wait for its end are sent
        self._round = 0
        self.refused_since: float | None = None  # since when nothing but refusals came
        self.waiting = 0  # requests that are not let in yet

    async def enter(self, tokens: int) -> Entry:
        """Wait until a request of at most so many tokens may be sent."""
        if not self._is_limited and not self._is_paused():
            return Entry(_now(), tokens)
        self.waiting += 1
        try:
            while True:
                await self._pause_over()
                if not self._is_limited:
                    return Entry(_now(), tokens)
                async with self._line:
                    while not self._is_paused() and (left := self._seconds_full(tokens)) > 0:
                        self._free_at = _now() + left
                        await asyncio.sleep(left)
                    if not self._is_paused():
                        return self._let_in(tokens)
        finally:
            self.waiting -= 1

    def took(self, entry: Entry, tokens: int | None) -> None:
        """A request has ended well, and took so many tokens (None: nobody counted them)."""
        if tokens is not None:
            self.correct(entry, tokens)
        if entry.at > self._paused_at:
            self._round, self.refused_since = 0, None

    def correct(self, entry: Entry, tokens: int) -> None:
        """It took so many tokens in truth."""
        if entry.is_of_minute:
            self._taken += tokens - entry.tokens
        entry.tokens = tokens

    def refused(self, entry: Entry, wait: float | None) -> None:
        """The server has refused it for the rate, and wants all to `wait`."""
        now = _now()
        self.refused_since = now if self.refused_since is None else self.refused_since
        if entry.at > self._paused_at:  # else it was on its way when nobody knew
            self._round, self._paused_at = self._round + 1, now
        seconds = self._pause(self._round - 1, wait)
        if now + seconds > self._until:
            self._until, self._spread = now + seconds, min(LONGEST_SPREAD, seconds / 2)

    @property
    def seconds_left(self) -> float:
        """Until the next of those that wait may be sent, about."""
        return max(0.0, max(self._until, self._free_at if self._line.locked() else 0.0) - _now())

    def _is_paused(self) -> bool:
        return self._until > _now()

    async def _pause_over(self) -> None:
        """Until no pause is on. All who wait for the end of one are spread over a time behind it: in step, they would
        be refused again."""
        while (left := self._until - _now()) > 0:
            late = random.uniform(0, self._spread)
            await asyncio.sleep(left + late)

    def _let_in(self, tokens: int) -> Entry:
        entry = Entry(_now(), tokens, is_of_minute=True)
        self._minute.append(entry)
        self._taken += tokens
        return entry

    def _seconds_full(self, tokens: int) -> float:
        """Until a request of so many tokens fits into the minute. One that is larger than all of it goes alone."""
        now = _now()
        while self._minute and self._minute[0].at + MINUTE <= now:
            gone = self._minute.popleft()
            gone.is_of_minute = False
            self._taken -= gone.tokens
        left, count, taken = 0.0, len(self._minute), self._taken
        for entry in self._minute:  # has to leave, unless there is room
            if count < self._requests and taken + tokens <= self._tokens:
                break
            left, count, taken = entry.at + MINUTE - now, count - 1, taken - entry.tokens
        return left


def _now() -> float:
    return asyncio.get_running_loop().time()
