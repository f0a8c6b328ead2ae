"""The time left: closer than tqdm's on runs whose steps differ, and not flattered by the journal."""

import heapq
import io
import random
from typing import Any

import pytest
from tqdm import tqdm

from core.plan.progress import Expected, Forecast, Kind, kind

PROBLEMS, N, SLOTS = 30, 8, 16


def arrivals(means: list[float], seed: int) -> list[tuple[float, Kind, int]]:
    """(time, kind, tokens) of a run: SLOTS requests at a time, a token a second each, and every problem's step waiting
    for all of its last one. Lengths spread as those of a reasoning model."""
    rng = random.Random(seed)
    waiting = [(0, problem) for problem in range(PROBLEMS) for _ in range(N)]
    running: list[tuple[float, int, int, int]] = []
    owed = dict.fromkeys(range(PROBLEMS), N)
    now = 0.0
    done: list[tuple[float, Kind, int]] = []
    while waiting or running:
        while waiting and len(running) < SLOTS:
            t, problem = heapq.heappop(waiting)
            tokens = max(1, round(means[t] * rng.lognormvariate(-0.18, 0.6)))
            heapq.heappush(running, (now + tokens, t, problem, tokens))
        now, t, problem, tokens = heapq.heappop(running)
        done.append((now, (t,), tokens))
        owed[problem] -= 1
        if owed[problem] == 0 and t + 1 < len(means):
            owed[problem] = N
            for _ in range(N):
                heapq.heappush(waiting, (t + 1, problem))
    return done


def tqdms(bar: "tqdm[Any]") -> float:
    """The seconds left that tqdm shows, by its own smoothed rate."""
    state = bar.format_dict
    rate = state["rate"] or (state["n"] - state["initial"]) / state["elapsed"]
    return float((state["total"] - state["n"]) / rate)


def errors(means: list[float], expected: dict[Kind, Expected], seed: int) -> tuple[float, float]:
    """Mean absolute errors of the forecast and of tqdm, over all arrivals, as shares of the whole run."""
    events = arrivals(means, seed)
    end = events[-1][0]
    forecast, now = Forecast(expected), 0.0
    bar = tqdm(total=len(events), file=io.StringIO(), mininterval=0, miniters=1)
    bar._time = lambda: now
    bar.start_t = bar.last_print_t = 0.0
    ours = theirs = 0.0
    for now, what, tokens in events:
        forecast.arrived(what, tokens)
        bar.update()
        left = forecast.seconds_left(now)
        assert left is not None
        ours += abs(left - (end - now))
        theirs += abs(tqdms(bar) - (end - now))
    return ours / len(events) / end, theirs / len(events) / end


def plan_of(tokens: list[float]) -> dict[Kind, Expected]:
    return {(t,): Expected(PROBLEMS * N, each, PROBLEMS * N * each) for t, each in enumerate(tokens)}


@pytest.mark.parametrize("seed", range(5))
def test_on_a_run_with_longer_later_steps_the_forecast_is_much_closer_than_tqdm(seed: int) -> None:
    means = [100.0, 200.0, 300.0, 400.0]
    ours, theirs = errors(means, plan_of(means), seed)
    assert ours < theirs / 2 and ours < 0.1


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_that_is_wrong_altogether_is_corrected_by_what_arrives(seed: int) -> None:
    means = [100.0, 200.0, 300.0, 400.0]
    ours, theirs = errors(means, plan_of([30 * mean for mean in means]), seed)
    assert ours < theirs / 2


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_that_takes_all_steps_for_alike_is_about_as_good_as_tqdm_and_better_where_they_are(seed: int) -> None:
    ours, theirs = errors([100.0, 200.0, 300.0, 400.0], plan_of([5000.0] * 4), seed)
    assert ours < 1.1 * theirs, "nobody can know in step 0 how long step 3 will be"
    ours, theirs = errors([200.0] * 4, plan_of([5000.0] * 4), seed)
    assert ours < theirs / 1.5


def test_what_comes_from_the_journal_teaches_lengths_but_no_speed() -> None:
    events = arrivals([100.0, 300.0], seed=3)
    half = len(events) // 2
    resumed, fresh = Forecast(plan_of([100.0, 300.0])), Forecast(plan_of([100.0, 300.0]))
    for _, what, tokens in events[:half]:
        resumed.arrived(what, tokens, is_new=False)
        fresh.arrived(what, tokens)
    assert resumed.seconds_left(1.0) is None, "a second of reading the journal is no speed"
    began, end = events[half][0], events[-1][0]
    for now, what, tokens in events[half + 1 : half + 100]:
        resumed.arrived(what, tokens)
        left = resumed.seconds_left(now - began)
    assert left == pytest.approx(end - now, rel=0.2)


def test_kinds_differ_in_what_a_token_costs() -> None:
    forecast = Forecast({(0,): Expected(10, 100, 10), (1,): Expected(10, 100, 30)})  # long prompts: thrice the time
    for _ in range(10):
        forecast.arrived((0,), 100)
    assert forecast.seconds_left(20.0) == pytest.approx(60.0)
    for _ in range(10):
        forecast.arrived((1,), 100)
    assert forecast.seconds_left(80.0) == 0


def test_what_was_not_planned_is_no_error() -> None:
    assert Forecast({}).seconds_left(5.0) is None
    forecast = Forecast({(0,): Expected(2, 10, 1)})
    forecast.arrived(("refine", 3), 10)
    forecast.arrived((0,), 0)  # failed: no tokens
    assert forecast.seconds_left(5.0) is None
    for _ in range(5):
        forecast.arrived((0,), 10)
    assert forecast.seconds_left(5.0) == 0


def test_the_kind_of_a_request_is_its_name_up_to_the_step() -> None:
    assert kind((0, 5)) == (0,) and kind(("verify", 2, 1, 0)) == ("verify", 2) and kind(("x",)) == ("x",)
