"""Estimate the time that a run still takes, from the durations of its requests.

The requests that end first are the short ones, and those in flight have done a part of their work.
So the durations are estimated as lifetimes are (Kaplan and Meier, 1958): a request in flight takes
at least its time so far. Then all requests that are left get random durations, and start as soon as
a place is free."""

import heapq
from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]

SHARE = 0.2  # of the requests in flight must have ended before there is an estimate
RECENT = 1000  # ended requests that are used (in later steps, requests may take longer)
COUNTS = 60  # counts of the requests in flight that are used
DRAWS = 3  # simulations, whose mean is the estimate
SIMULATED = 2000  # requests. Of more, the first ones take the mean duration
LONGER = 1.25  # the longest duration over the longest time that was observed (assumed)


class TimeLeft:
    """The time left of a run. All times are in seconds. `sharing` says how much faster a server
    answers fewer requests (Dialect.sharing)."""

    def __init__(self) -> None:
        self.sharing = 0.0
        self._durations: deque[float] = deque(maxlen=RECENT)
        self._in_flight: deque[int] = deque(maxlen=COUNTS)

    def add(self, duration: float) -> None:
        """Note that a request has ended."""
        self._durations.append(duration)

    @property
    def used(self) -> int:
        """The number of ended requests that are used."""
        return len(self._durations)

    def seconds(self, ages: Sequence[float], waiting: int, growth: float = 1.0) -> float | None:
        """Estimate the time until the requests in flight, which began `ages` ago, and `waiting`
        others have ended. All of these take `growth` times as long as the ended ones. Return None
        if too few requests have ended."""
        if ages:
            self._in_flight.append(len(ages))
        if not self._in_flight or len(self._durations) < max(1, SHARE * len(ages)):
            return None
        places = max(1, round(np.mean(self._in_flight)))
        busy = max(self._in_flight)
        shrunk = np.array(ages) / growth  # as if requests did not grow
        lifetimes = Lifetimes(self._durations, shrunk)
        simulated = min(waiting, SIMULATED)
        ages_of_all = np.append(shrunk, np.zeros(simulated))
        ends = []
        for seed in range(DRAWS):
            rng = np.random.default_rng(seed)
            rest = lifetimes.rest(ages_of_all, rng)
            ends.append(self._end(rest, places, busy))
        earlier = (waiting - simulated) * lifetimes.mean / places
        return growth * (earlier + float(np.mean(ends)))

    def _end(self, durations: Seconds, places: int, busy: int) -> float:
        """Return when the last request ends, if each starts as soon as one of the `places` is free.
        The durations are those with `busy` requests in flight."""
        ends = np.zeros(places).tolist()
        for duration in durations.tolist():
            heapq.heapreplace(ends, ends[0] + duration)
        ends.sort()
        pieces = np.diff(ends, prepend=0.0)  # the times until the next request ends
        in_flight = np.arange(places, 0, -1)
        slowness = (in_flight / busy) ** self.sharing
        return float(pieces @ slowness)


class Lifetimes:
    """The distribution of durations, from durations of ended requests and ages of requests in
    flight."""

    def __init__(self, durations: Sequence[float], ages: Iterable[float]) -> None:
        ends = np.array(durations)
        times = np.array([*durations, *ages])
        order = np.argsort(times, kind="stable")
        has_ended = order < len(ends)
        at_risk = np.arange(len(times), 0, -1)
        surviving = np.cumprod(1 - has_ended / at_risk)
        # the chance of a duration up to each time. The last time gets all that is left
        self._times = np.append(np.sort(ends), LONGER * times.max())
        self._chances = np.append(1 - surviving[has_ended], 1.0)

    @property
    def mean(self) -> float:
        return float(np.diff(self._chances, prepend=0.0) @ self._times)

    def rest(self, ages: Seconds, rng: np.random.Generator) -> Seconds:
        """Draw a duration above each age, and return what is left of it."""
        chances = np.append(0.0, self._chances)
        passed = chances[np.searchsorted(self._times, ages, side="right")]
        drawn = passed + (1 - passed) * rng.random(len(ages))
        durations = self._times[np.searchsorted(self._chances, drawn)]
        return np.maximum(0.0, durations - ages)
