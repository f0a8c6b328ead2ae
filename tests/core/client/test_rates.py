"""Rate limits: one pause for all requests, and no limit starves a run."""

import asyncio
import heapq
import math
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core import generate
from core.base.errors import RunFailed
from core.client import retry
from core.client.failures import Refused
from core.client.http_client import HttpClient
from core.client.journal import Journal
from core.client.rates import Rates
from core.client.reply import Reply
from core.engines.protocol import Server
from core.generate import Generator
from core.types import Sampling
from tests.fakes.http import answer
from tests.fakes.moody import Moody, good
from tests.helpers.asking import ask_each


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time jumps ahead when nothing else is left to do."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        waiting: list[Any] = self._scheduled  # type: ignore[attr-defined]
        while waiting and waiting[0]._cancelled:
            heapq.heappop(waiting)._scheduled = False
        if waiting and not self._ready:  # type: ignore[attr-defined]
            self.now = max(self.now, waiting[0].when())
        super()._run_once()  # type: ignore[misc]


def passed(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    with asyncio.Runner(loop_factory=Clock) as runner:
        return runner.run(work())


def test_a_wave_of_refusals_pauses_all_and_leaves_half_of_them_in_flight() -> None:
    async def work() -> None:
        kept = Rates(lambda round, wait: (wait or 1.0) * 2**round)
        early = [await kept.enter() for _ in range(100)]
        for at in early:
            # one round: the requests were sent before the first refusal came
            kept.refused(at, 20.0)
            kept.leave()
        assert kept.seconds_left == 20
        gone: list[float] = []

        async def ask() -> None:
            gone.append(await kept.enter())

        asked = [asyncio.create_task(ask()) for _ in range(60)]
        await asyncio.sleep(100)
        assert gone == [20.0] * 50 and kept.waiting == 10
        for _ in range(50):
            kept.leave()
        await asyncio.gather(*asked)
        for _ in range(10):
            kept.leave()
        kept.refused(await kept.enter(), 20.0)
        kept.leave()
        assert kept.seconds_left == pytest.approx(40), "longer where that was not enough"
        await asyncio.sleep(1)
        kept.answered()
        assert kept.refused_since is None
        await asyncio.sleep(40)
        kept.refused(await kept.enter(), 20.0)
        assert kept.seconds_left == pytest.approx(20), (
            "a reply came since, whenever its request was sent"
        )
        assert kept.refused_since == asyncio.get_running_loop().time()

    passed(work)


# Through the generator, on a clock of its own


class Provider429:
    """A provider in this process. `wants(now)` returns the headers of a refusal, or None to accept;
    a reply takes `seconds`. `refused` counts the refusals."""

    def __init__(self, wants: Callable[[float], dict[str, str] | None], seconds: float) -> None:
        self.wants, self.seconds = wants, seconds
        self.refused = 0

    async def __call__(self) -> Reply:
        headers = self.wants(asyncio.get_running_loop().time())
        await asyncio.sleep(0.05 if headers is not None else self.seconds)
        if headers is None:
            return Reply("m", "42", "", "stop", 5, 0, 1, {})
        self.refused += 1
        raise Refused(429, {"error": {"message": "slow down."}}, headers)


def seconds_of(provider: Provider429, monkeypatch: Any, folder: Path, count: int) -> float:
    """Ask the provider for `count` completions, and return the seconds that all of them took."""

    async def send(
        self: HttpClient, body: dict[str, Any], patience: float, seconds: float
    ) -> Reply:
        async with asyncio.timeout(seconds):
            return await provider()

    clock = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time())
    monkeypatch.setattr(HttpClient, "send", send)
    monkeypatch.setattr(generate, "time", clock)
    monkeypatch.setattr(retry, "time", clock)
    random.seed(1)

    async def all_of_them() -> float:
        with Journal(folder / "a.jsonl") as journal:
            server = Server("other", "http://127.0.0.1:9/v1", "m", "x")
            async with Generator(server, journal, 64, 900, stall=900) as ask:
                monkeypatch.setattr(ask.client, "_check_server", lambda: asyncio.sleep(0))
                asked = (
                    ask([{"role": "user", "content": f"{n}"}], n, Sampling()) for n in range(count)
                )
                assert all(one.error is None for one in await asyncio.gather(*asked))
                return asyncio.get_running_loop().time()

    seconds: float = passed(all_of_them)
    return seconds


def window(most: int, seconds: float, says: bool = True, slides: bool = False) -> Callable[[], Any]:
    """Return a limit of so many requests in so many seconds, which states its end (2 s at least) or
    not."""

    def limit() -> Callable[[float], dict[str, str] | None]:
        taken: list[float] = []

        def wants(now: float) -> dict[str, str] | None:
            begin = now - seconds if slides else now // seconds * seconds
            recent = [at for at in taken if at > begin or (at == begin and not slides)]
            if len(recent) < most:
                taken.append(now)
                return None
            end = recent[0] + seconds if slides else begin + seconds
            return {"retry-after": f"{max(2, math.ceil(end - now))}"} if says else {}

        return wants

    return limit


@pytest.mark.parametrize(
    ("limit", "seconds", "count", "ideal"),
    [
        (window(12, 5, slides=True), 4, 132, 55),
        (window(12, 5), 20, 132, 75),
        (window(10, 60, says=False), 4, 50, 250),
        (window(30, 10), 300, 256, 1210),
    ],
)
def test_a_rate_limit_starves_no_run(
    tmp_path: Path, monkeypatch: Any, limit: Any, seconds: float, count: int, ideal: float
) -> None:
    provider = Provider429(limit(), seconds)
    took = seconds_of(provider, monkeypatch, tmp_path, count)
    assert took <= 1.6 * ideal and provider.refused <= 64 + 3 * count


# Over the wire


@pytest.mark.usefixtures("hurried")
def test_a_limit_of_rates_counts_as_no_try_of_a_request(tmp_path: Path, moody: Moody) -> None:
    moody.choose = lambda n, prompt: answer(429, {}, retry_after="0.01") if n < 40 else good(prompt)
    got = ask_each(moody.url, tmp_path, ["a", "b"])
    assert all(one.error is None for one in got)


@pytest.mark.usefixtures("hurried")
def test_a_rate_limit_without_end_ends_the_run(
    tmp_path: Path, moody: Moody, monkeypatch: Any
) -> None:
    monkeypatch.setattr(retry, "THROTTLED_SECONDS", 0.3)
    moody.choose = lambda n, prompt: answer(429, {"error": "slow down"}, retry_after="0.05")
    with pytest.raises(RunFailed, match="slow down"):
        ask_each(moody.url, tmp_path, [f"{n}" for n in range(20)])
