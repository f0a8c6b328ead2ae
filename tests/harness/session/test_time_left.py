"""The time left: from a fifth of the requests in flight on, it is near the truth."""

import heapq

import numpy as np
import pytest

from harness.session.time_left import Lifetimes, TimeLeft


def simulated(durations: np.ndarray, places: int) -> list[tuple[float, float]]:
    """Return when each request begins and ends if `places` requests are in flight."""
    free = [0.0] * places
    spans = []
    for duration in durations.tolist():
        begin = heapq.heappop(free)
        spans.append((begin, begin + duration))
        heapq.heappush(free, begin + duration)
    return spans


def ratios(spans: list[tuple[float, float]]) -> list[float]:
    """Return the estimate over the truth, at forty moments up to nine tenths of the run."""
    end = max(ended for _, ended in spans)
    by_end = sorted(spans, key=lambda span: span[1])
    time_left, ended, result = TimeLeft(), 0, []
    for now in np.linspace(0.02, 0.9, 40) * end:
        while by_end[ended][1] <= now:
            time_left.add(by_end[ended][1] - by_end[ended][0])
            ended += 1
        ages = [now - begin for begin, stop in spans if begin <= now < stop]
        seconds = time_left.seconds(ages, len(spans) - ended - len(ages))
        if seconds is not None:
            result.append(seconds / (end - now))
    return result


@pytest.mark.parametrize(
    ("durations", "places"),
    [
        (np.random.default_rng(1).uniform(18, 102, 1440), 160),  # the stub of the tour
        (np.random.default_rng(2).uniform(0.9, 5.1, 480), 40),
        (np.random.default_rng(3).uniform(5, 15, 80), 4),
        (np.minimum(100, 40 * np.random.default_rng(4).lognormal(0, 1, 640)), 32),  # a token cap
        (np.full(300, 3.0), 3),  # a rate limit
    ],
)
def test_it_is_within_a_fifth_nearly_always(durations: np.ndarray, places: int) -> None:
    shown = ratios(simulated(durations, places))
    near = [0.8 <= ratio <= 1.25 for ratio in shown]
    assert len(shown) > 30 and np.mean(near) >= 0.9, shown


def test_nothing_is_said_before_a_fifth_of_those_in_flight_have_ended() -> None:
    time_left = TimeLeft()
    for _ in range(31):
        time_left.add(1.0)
    assert time_left.seconds([1.0] * 160, 1000) is None
    time_left.add(1.0)
    assert time_left.seconds([1.0] * 160, 1000) is not None


def test_requests_in_flight_lengthen_the_mean() -> None:
    assert Lifetimes([1.0, 2.0, 3.0], []).mean == pytest.approx(2.0)
    assert Lifetimes([1.0, 2.0, 3.0], [2.5] * 3).mean > 2.2


def test_a_server_that_shares_its_speed_ends_its_last_requests_sooner() -> None:
    alone, shared = TimeLeft(), TimeLeft()
    shared.sharing = 1.0
    for time_left in (alone, shared):
        for duration in np.linspace(8, 12, 40):
            time_left.add(float(duration))
        assert time_left.seconds([1.0] * 8, 0) is not None
    ages = [1.0, 5.0]
    assert (shared.seconds(ages, 0) or 0) < 0.5 * (alone.seconds(ages, 0) or 0)


def test_requests_that_grow_take_longer() -> None:
    time_left = TimeLeft()
    for duration in np.linspace(8, 12, 40):
        time_left.add(float(duration))
    same = time_left.seconds([0.0] * 4, 16)
    assert same and time_left.seconds([0.0] * 4, 16, growth=2.0) == pytest.approx(2 * same)
