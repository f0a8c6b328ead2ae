"""The requests in flight, and a watchdog that ends those without data for too long.

A request may queue longer while other replies arrive, unless it is overtaken.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(eq=False)
class Flight:
    """A request in flight to the server at `address`. Times are in seconds of the event loop's
    clock. The request ends after `patience` seconds without data, or after `seconds` at its
    `deadline`."""

    address: str
    sent: float
    patience: float
    seconds: float
    deadline: asyncio.Timeout
    last_data: float | None = None
    events: int = 0  # events of its stream so far. Most servers send one event per token
    is_stalled: bool = False


class Flights:
    """All requests in flight to a server and its replicas, at the given `addresses`."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._flights: set[Flight] = set()
        self._last_data = 0.0  # when the last data of any reply came
        self._newest_served = 0.0  # when the newest request that has received data was sent

    def __len__(self) -> int:
        return len(self._flights)

    @contextmanager
    def begin(self, patience: float, seconds: float) -> Iterator[Flight]:
        """Yield a new flight to the least busy address. It lasts as long as the block, at most
        `seconds`."""
        sent = asyncio.get_running_loop().time()
        deadline = asyncio.timeout_at(sent + seconds)
        flight = Flight(self._least_busy(), sent, patience, seconds, deadline)
        self._flights.add(flight)
        try:
            yield flight
        finally:
            self._flights.discard(flight)

    def _least_busy(self) -> str:
        if len(self._addresses) == 1:
            return self._addresses[0]
        busy = Counter(flight.address for flight in self._flights)
        return min(self._addresses, key=busy.__getitem__)

    def note_data(self, flight: Flight, part: bytes) -> None:
        """Note that a `part` of the reply has arrived."""
        now = asyncio.get_running_loop().time()
        flight.last_data = now
        flight.events += part.count(b"data:")
        self._last_data = now
        self._newest_served = max(self._newest_served, flight.sent)

    @property
    def events(self) -> int:
        """The events received in unfinished replies."""
        return sum(flight.events for flight in self._flights)

    @property
    def ages(self) -> list[float]:
        """The seconds since each request was sent."""
        now = time.monotonic()  # the clock of event loops. No loop runs when a bar is closed
        return [now - flight.sent for flight in self._flights]

    def is_at_work(self, since: float) -> bool:
        """Return whether the server is working: it has begun and not ended a reply, or it holds a
        request that was sent before `since` (in the event loop's time)."""
        return any(flight.last_data is not None or flight.sent <= since for flight in self._flights)

    async def watch(self) -> None:
        """End each request that receives no data for too long. Runs until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            shortest = min((flight.patience for flight in self._flights), default=1.0)
            await asyncio.sleep(min(1.0, shortest / 10))
            now = loop.time()
            for flight in self._flights:
                if self._is_silent(flight, now) and not flight.deadline.expired():
                    flight.is_stalled = True
                    flight.deadline.reschedule(now)

    def _is_silent(self, flight: Flight, now: float) -> bool:
        if flight.last_data is not None:
            return now - flight.last_data > flight.patience
        # a server that answers newer requests has forgotten this one
        is_overtaken = self._newest_served - flight.sent > flight.patience
        return is_overtaken or now - max(flight.sent, self._last_data) > flight.patience
