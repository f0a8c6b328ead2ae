"""The limit on spending: no more than the requests in flight pass it, and it is remembered."""

import asyncio
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import UserError
from core.base.prices import Prices
from core.client.budget import ROUNDING, Budget, Reservation, RunExhausted
from core.client.failures import Failure, Lost, Malformed, Refused, Stalled
from core.client.journal import Journal
from core.client.reply import Reply
from core.engines.cards import Card
from core.engines.protocol import Server
from core.generate import Generator
from core.types import Sampling
from tests.conftest import run, start
from tests.fakes.http import Answer, Request, answer, reset
from tests.fakes.moody import Moody, chat
from tests.helpers.asking import read_bytes
from tests.helpers.documents import VALIDATOR
from tests.helpers.runs import load

PRICES = Prices(read=1.0, cached=0.1, written=10.0, on="2026-11-23")


def reply(prompt: int, cached: int, completion: int, text: str = "x") -> Reply:
    return Reply("m", text, "", "stop", prompt, cached, completion, {})


def lost(is_free: bool) -> Lost:
    error = Lost("lost")
    error.is_free = is_free
    return error


# The budget


def drawn(seed: int, read: int, written: int) -> tuple[float, Reply | BaseException]:
    """Return the charge for a request of at most so many tokens, and how it ends."""
    used = (1 + seed // 7 % read, seed // 3 % (seed // 7 % read + 2), seed % (written + 1))
    cost, most = PRICES.dollars(used) or 0.0, PRICES.max_dollars(read, written)
    ends: list[tuple[float, Reply | BaseException]] = [
        (cost, reply(*used, text="x" if used[2] else "")),
        (most, reply(0, 0, 0)),  # without usage
        (0, Refused(429, None, {})),
        (cost, Stalled()),
        (cost, lost(is_free=False)),
        (0, lost(is_free=True)),
        (cost, Refused(502, None, {}, is_within=True)),
        (cost, Malformed("torn")),
        (most, asyncio.CancelledError()),
    ]
    return ends[seed // 11 % len(ends)]


@given(
    limit=st.integers(1, 40_000).map(lambda n: n / 1e6),
    asked=st.lists(
        st.tuples(st.integers(0, 10**9), st.integers(1, 900), st.integers(1, 900), st.booleans())
    ),
    killed=st.lists(st.integers(0, 100), max_size=3),
    at_once=st.integers(1, 8),
)
def test_nothing_passes_the_limit(
    tmp_path_factory: Any, limit: float, asked: list[Any], killed: list[int], at_once: int
) -> None:
    path, charged, sends = tmp_path_factory.mktemp("budget") / "a.jsonl", 0.0, 0

    async def one(
        budget: Budget, places: asyncio.Semaphore, seed: int, read: int, written: int, is_more: bool
    ) -> None:
        nonlocal charged, sends
        sizes = [(read, written), (read + written, 5)] if is_more else [(read, written)]
        async with places:
            with suppress(Failure, RunExhausted), Reservation(budget, PRICES) as hold:
                for part, size in enumerate(sizes):
                    later = PRICES.max_dollars(*sizes[1]) if is_more and not part else 0.0

                    async def send(seed: int = seed + part, size: tuple[int, int] = size) -> Reply:
                        nonlocal charged, sends
                        sends += 1
                        if sends in stops:
                            raise KeyboardInterrupt  # nothing of ours runs any more
                        amount, end = drawn(seed, *size)
                        charged += amount
                        assert charged <= limit + ROUNDING
                        await asyncio.sleep(0)
                        if isinstance(end, BaseException):
                            raise end
                        return end

                    await hold.pay(send, PRICES.max_dollars(*size), later)

    async def all_of_them(budget: Budget) -> None:
        places = asyncio.Semaphore(at_once)
        await asyncio.gather(
            *(one(budget, places, *each) for each in asked), return_exceptions=True
        )

    stops = {sum(killed[: n + 1]) for n in range(len(killed))}
    for _ in range(len(killed) + 1):  # each goes on with the journal of the one before
        copy = path.read_bytes() if path.exists() else b""
        with Journal(path) as journal:
            with suppress(KeyboardInterrupt):
                asyncio.run(all_of_them(Budget(journal, limit)))
            assert path.read_bytes().startswith(copy)
        with Journal(path) as journal:
            assert charged - ROUNDING <= journal.paid <= limit + ROUNDING and not journal.damaged


def paid(journal: Journal, limit: float, most: tuple[int, int], *ends: Any) -> list[Any]:
    """Return the results of requests that end so, all in flight at once."""
    budget = Budget(journal, limit)

    async def one(end: Any) -> Any:
        async def send() -> Reply:
            await asyncio.sleep(0.01)
            if isinstance(end, Exception):
                raise end
            return end  # type: ignore[no-any-return]

        with Reservation(budget, PRICES) as hold:
            return await hold.pay(send, PRICES.max_dollars(*most))

    async def all_of_them() -> list[Any]:
        return list(await asyncio.gather(*map(one, ends), return_exceptions=True))

    return asyncio.run(all_of_them())


def test_requests_wait_for_others_to_cost_less_and_as_many_as_fit_are_sent(tmp_path: Path) -> None:
    # each 0.0011 dollars at most, and 0.00011 in truth
    with Journal(tmp_path / "a.jsonl") as journal:
        got = paid(journal, 0.0022, (100, 100), *[reply(10, 0, 10)] * 30)
    assert [isinstance(one, Reply) for one in got].count(True) == 11, (
        "the rest would not fit at its worst"
    )
    assert all(isinstance(one, RunExhausted) for one in got if not isinstance(one, Reply))


def test_a_limit_that_fits_exactly_is_used_to_the_end(tmp_path: Path) -> None:
    with Journal(tmp_path / "a.jsonl") as journal:
        got = paid(journal, 0.0033, (100, 100), *[reply(100, 0, 100)] * 3)
        assert all(isinstance(one, Reply) for one in got) and journal.paid == pytest.approx(0.0033)
        assert isinstance(paid(journal, 0.0033, (1, 0), reply(1, 0, 0))[0], RunExhausted)


@pytest.mark.parametrize(
    ("end", "cost"),
    [
        (Stalled(), 0.0011),
        (lost(is_free=True), 0),
        (Refused(503, None, {}), 0),
        (Refused(504, None, {}), 0.0011),
        (reply(0, 0, 0), 0.0011),
        (reply(200, 0, 200), 0.0022),  # a provider that counts more than we do
    ],
)
def test_what_failed_counts_with_the_most_unless_it_was_refused(
    tmp_path: Path, end: Any, cost: float
) -> None:
    with Journal(tmp_path / "a.jsonl") as journal:
        paid(journal, 1.0, (100, 100), end)
        assert journal.paid == pytest.approx(cost)


@given(st.lists(st.text(st.characters(exclude_categories=[]))))
def test_a_prompt_has_no_more_tokens_than_bytes(texts: list[str]) -> None:
    a_dollar_each = Prices(1e6, 0, 0)
    read = Reservation(None, a_dollar_each).max_cost(
        [{"role": "user", "content": text} for text in texts], 0
    )
    assert read >= sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    assert Reservation(None, a_dollar_each, 4000).max_cost([{"content": "x" * 5000}], 0) == 4000, (
        "the context holds no more"
    )


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}, (5, 0, 7)),
        # Google's thoughts
        ({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 112}, (5, 0, 107)),
        ({"prompt_tokens": 5, "total_tokens": 12}, (5, 0, 7)),
        ({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 3}, (5, 0, 7)),
        ({"completion_tokens": 7, "total_tokens": 112}, (None, 0, 7)),
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 4},
            },
            (5, 4, 7),
        ),
        (None, (None, 0, None)),
        ({"total_tokens": 12}, (None, 0, None)),
        ({"prompt_tokens": "9"}, (None, 0, None)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (None, 0, None)),
    ],
)
def test_tokens_are_counted_however_a_server_reports_them(usage: Any, counted: Any) -> None:
    choice = {"message": {"content": "42"}, "finish_reason": "stop"}
    assert read_bytes(json.dumps({"choices": [choice], "usage": usage}).encode()).counted == counted


# The generator


class Till(Moody):
    """A server that charges `charged` dollars so far, and always writes as many tokens as it may.
    Request number `n` (from 0) is answered by `instead(n)` if this is not None."""

    def __init__(self) -> None:
        self.charged = 0.0
        self.instead: Callable[[int], Answer | None] = lambda n: None
        super().__init__()
        self.choose = self._charge

    def _charge(self, n: int, prompt: str) -> Answer:
        asked = self.bodies[n]
        read = sum(len(message["content"]) // 3 for message in asked["messages"])
        with self.lock:
            self.charged += PRICES.dollars((read, 0, asked["max_tokens"])) or 0.0
        time.sleep(0.002 * (n % 7))
        usage = {"prompt_tokens": read, "completion_tokens": asked["max_tokens"]}
        return self.instead(n) or answer(200, chat(f"\\boxed{{{n % 5}}}") | {"usage": usage})


@pytest.fixture
def till() -> Iterator[Till]:
    with closing(Till()) as till:
        yield till


def ask(
    till: Till, folder: Path, limit: float, count: int, at_once: int = 64, **sampling: Any
) -> tuple[list[Any], float]:
    """Return the completions or errors of simultaneous requests, and the dollars spent."""
    card = Card("priced", model="m", base_url=till.url, price=PRICES)
    server = Server("other", till.url, "m", "x", card=card)

    async def all_of_them() -> tuple[list[Any], float]:
        with Journal(folder / "a.jsonl") as journal:
            async with Generator(
                server, journal, at_once, 60.0, stall=30.0, budget=Budget(journal, limit)
            ) as got:
                message = {"role": "user", "content": "How much is 6*7? " * 5}
                drawn = Sampling(**{"max_tokens": 50} | sampling)
                asked = [asyncio.ensure_future(got([message], n, drawn)) for n in range(count)]
                _, waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_EXCEPTION)
                for task in waiting:
                    task.cancel()
                done = await asyncio.gather(*asked, return_exceptions=True)
            return list(done), journal.paid

    return asyncio.run(all_of_them())


def test_an_answer_that_has_to_be_forced_is_paid_for_before_the_first_request(
    till: Till, tmp_path: Path
) -> None:
    usage = {"usage": {"prompt_tokens": 28, "completion_tokens": 50}}
    cut = chat({"content": "", "reasoning": "so " * 50}, finish_reason="length") | usage
    rest = chat("42}.") | usage
    till.instead = lambda n: answer(200, cut if till.bodies[n]["max_tokens"] == 50 else rest)
    done, _ = ask(till, tmp_path, 0.0045, 20, answer_tokens=20)
    forced = [one for one in done if not isinstance(one, BaseException)]
    assert forced and all(one.forced for one in forced), "none was cut off for want of money"
    assert len(till.bodies) == 2 * len(forced) and till.charged <= 0.0045


def test_a_refused_request_does_not_wait_for_requests_that_wait_for_its_money(
    till: Till, tmp_path: Path
) -> None:
    till.instead = lambda n: answer(400, {"error": {"message": "unknown field"}})
    done, spent = ask(till, tmp_path, 0.0012, 4)
    assert len(till.bodies) == 4 and spent == pytest.approx(0)
    assert [isinstance(one, UserError) for one in done].count(True) == 1, (
        "the last one, when none is left"
    )


def test_elicited_answers_are_paid_for_too(till: Till, tmp_path: Path) -> None:
    def said(text: str) -> Answer:
        return answer(200, chat(text) | {"usage": {"prompt_tokens": 28, "completion_tokens": 50}})

    till.instead = lambda n: said(
        "42}." if till.bodies[n]["messages"][-1]["role"] == "assistant" else "It is so."
    )
    done, spent = ask(till, tmp_path, 0.0, 4, elicit="math")
    assert [one.text.partition("{")[2] for one in done] == ["42}."] * 4 and len(till.bodies) == 8
    assert spent == pytest.approx(8 * (28 * 1.0 + 50 * 10.0) / 1e6)
    done, spent = ask(till, tmp_path / "less", 0.004, 20, elicit="math")
    assert spent <= 0.004 and any(isinstance(one, RunExhausted) for one in done)


# Runs as a user starts them

# Greedy, so that no trial of seeds is paid for.
SMALL = (
    *("PROBLEMS=sums", "LIMIT=8", "N=8", "MAX_TOKENS=60", "ANSWER_TOKENS=0"),
    *("CONCURRENCY=64", "TEMPERATURE=0"),
)


def card(folder: Path, url: str, price: bool = True) -> str:
    path = folder / "till.toml"
    table = (
        '[price]\nread = 1.0\ncached = 0.1\nwritten = 10.0\non = "2026-11-23"\n' if price else ""
    )
    path.write_text(f'base_url = "{url}"\nmodel = "m"\n{table}')
    return str(path)


def test_a_run_ends_saved_at_its_limit_and_goes_on_with_a_higher_one(
    till: Till, results: Path, tmp_path: Path
) -> None:
    named = card(tmp_path, till.url)
    status, _, err = run("01_baseline", *SMALL, "MAX_DOLLARS=0.02", MODEL=named)
    assert (
        status == 1
        and "MAX_DOLLARS=0.02" in err
        and "Traceback" not in err
        and "partial.json" in err
    )
    assert till.charged <= 0.02
    kept = (results / "journal" / "01_baseline.jsonl").read_text().count('"completion":')
    assert kept == len(till.bodies) and 0 < kept < 64
    status, out, err = run("01_baseline", *SMALL, "MAX_DOLLARS=0.02", MODEL=named)
    assert status == 1 and len(till.bodies) == kept and "MAX_DOLLARS=0.02: $0.0" in out, (
        "the same limit sends nothing"
    )
    status, out, err = run("01_baseline", *SMALL, "MAX_DOLLARS=5", MODEL=named)
    assert status == 0 and len(till.bodies) == 64, err
    document = load(results, "01_baseline")
    VALIDATOR.validate(document)
    assert document["prices"] == {"read": 1.0, "cached": 0.1, "written": 10.0, "on": "2026-11-23"}
    figures = document["metrics"]
    assert figures["cost"] == pytest.approx(till.charged) == pytest.approx(figures["spent"])
    assert sum(step["cost"] for step in figures["steps"]) == pytest.approx(figures["cost"])
    assert f"${figures['cost']:.4f}" in out.splitlines()[-1]


def test_what_was_in_flight_at_a_kill_counts_as_spent(
    till: Till, results: Path, tmp_path: Path
) -> None:
    named, limit = card(tmp_path, till.url), 0.03
    reached, gate = threading.Event(), threading.Event()

    def choose(n: int) -> Answer | None:
        if n < 12:
            return None
        if n == 15:
            reached.set()

        def late(request: Request) -> None:
            gate.wait(300)
            reset(request)

        return late

    till.instead = choose
    process = start("01_baseline", *SMALL, f"MAX_DOLLARS={limit}", MODEL=named)
    assert reached.wait(300)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    gate.set()
    till.instead = lambda n: None
    before = till.charged
    assert 0 < before <= limit
    status, out, err = run("01_baseline", *SMALL, f"MAX_DOLLARS={limit}", MODEL=named)
    assert status == 1 and "MAX_DOLLARS=0.03: $0.0" in out, (out, err)
    assert before <= till.charged <= limit, "what the killed run was charged for is in it"


def test_a_limit_without_prices_is_refused_before_the_server_is_looked_for(
    results: Path, tmp_path: Path
) -> None:
    away = card(tmp_path, "http://127.0.0.1:9/v1", price=False)  # where nothing answers
    status, _, err = run("01_baseline", *SMALL, "MAX_DOLLARS=1", MODEL=away)
    assert status == 2 and "[price]" in err and "Traceback" not in err, err
