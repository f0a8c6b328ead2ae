"""Money: a limit that is never passed, whatever requests cost and however they end; and what is spent is remembered."""

import asyncio
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import UserError
from core.base.prices import PICO, Prices, picodollars
from core.engines.cards import Card
from core.engines.server import Server
from core.generate import budget as money
from core.generate import generator
from core.generate.budget import Budget, Most, Spent
from core.generate.generator import Generator
from core.generate.journal import Journal
from core.generate.reply import Lost, Malformed, Refused, Reply, Stalled, reply_from
from core.types import Sampling
from tests.conftest import run, start
from tests.fakes.http import Answer, HttpFake, Request, answer, reset
from tests.helpers.documents import SCHEMA
from tests.helpers.runs import load

PRICES = Prices(read=1.0, cached=0.1, written=10.0, on="2026-11-23")


def reply(prompt: int, cached: int, completion: int, text: str = "x") -> Reply:
    return Reply("m", text, "", "stop", prompt, cached, completion, {})


# The budget


def drawn(seed: int, can: Most) -> tuple[int, Callable[[], Reply]]:
    """How a request ends, and what its provider charges for it, in picodollars."""
    most = PRICES.most(can.read, can.written)
    written, read = seed % (can.written + 1), 1 + seed // 7 % can.read
    usage = (read, seed // 3 % (read + 1), written)
    cost = PRICES.cost(usage)
    assert cost is not None

    def fails(error: Exception, is_free: bool = False) -> Callable[[], Reply]:
        def fail() -> Reply:
            if isinstance(error, Lost):
                error.is_free = is_free
            raise error

        return fail

    return [
        (cost, lambda: reply(*usage, text="x" if written else "")),
        (most, lambda: reply(0, 0, 0)),  # without usage
        (0, fails(Refused(429, None, {}))),
        (cost, fails(Stalled())),
        (cost, fails(Lost("reset"))),
        (0, fails(Lost("refused"), is_free=True)),
        (cost, fails(Refused(502, None, {}, is_within=True))),
        (cost, fails(Malformed("torn"))),
        (most, fails(asyncio.CancelledError())),  # type: ignore[arg-type]
    ][seed // 11 % 9]


@given(
    limit=st.integers(0, 40_000).map(lambda n: n / 1e6),
    asked=st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 900), st.integers(1, 900), st.booleans())),
    killed=st.integers(0, 200),
    at_once=st.integers(1, 8),
)
def test_no_order_of_costs_failures_and_kills_passes_the_limit(
    tmp_path_factory: pytest.TempPathFactory, limit: float, asked: list[Any], killed: int, at_once: int
) -> None:
    path, charged, sends = tmp_path_factory.mktemp("budget") / "a.ledger", 0, 0

    async def one(budget: Budget, places: asyncio.Semaphore, seed: int, read: int, written: int, is_more: bool) -> None:
        nonlocal charged, sends
        first = Most(read, written)
        later = first.followed("so", 5, None) if is_more else None
        async with places:
            with suppress(Exception), budget.hold(PRICES) as hold:
                for part, can in enumerate([first, later] if later else [first]):

                    async def send(part: int = part, can: Any = can) -> Reply:
                        nonlocal charged, sends
                        sends += 1
                        if sends == killed:
                            raise KeyboardInterrupt  # nothing of ours runs any more
                        amount, end = drawn(seed + part, can)
                        charged += amount
                        assert charged <= picodollars(limit)
                        await asyncio.sleep(0)
                        return end()

                    for _ in range(3):
                        with suppress(Stalled, Lost, Malformed, Refused):
                            await hold.pay(send, can, None if part else later)
                            break

    async def all_of_them(budget: Budget) -> None:
        places = asyncio.Semaphore(at_once)
        await asyncio.gather(*(one(budget, places, *each) for each in asked), return_exceptions=True)

    if not limit:
        return
    before = 0.0
    for _ in range(2):  # the second goes on with the ledger of the first
        budget = Budget(path, "run", limit)
        with budget:
            assert budget.spent * PICO >= charged - 1 and budget.spent >= before
            kept = path.read_bytes() if path.exists() else b""
            with suppress(KeyboardInterrupt):
                asyncio.run(all_of_them(budget))
            assert killed <= sends or picodollars(budget.spent) >= charged
            assert len(path.read_bytes()) >= len(kept)
            before = charged / PICO
    with Budget(path, "run", limit) as budget, Budget(path, "another", limit) as other:
        assert charged <= picodollars(budget.spent) <= picodollars(limit) and other.spent == 0


def paid(budget: Budget, can: Most, *ends: Any) -> list[Any]:
    """What requests that end so come to, all in flight at once."""

    async def one(end: Any) -> Any:
        async def send() -> Reply:
            await asyncio.sleep(0.01)
            if isinstance(end, Exception):
                raise end
            return end  # type: ignore[no-any-return]

        with budget.hold(PRICES) as hold:
            return await hold.pay(send, can)

    async def all_of_them() -> list[Any]:
        return list(await asyncio.gather(*map(one, ends), return_exceptions=True))

    return asyncio.run(all_of_them())


def test_requests_wait_for_others_to_cost_less_and_as_many_as_fit_are_sent(tmp_path: Path) -> None:
    can = Most(100, 100)  # 0.0011 dollars at most, and 0.00011 in truth
    with Budget(tmp_path / "a.ledger", "r", 0.0022) as budget:
        made = paid(budget, can, *[reply(10, 0, 10)] * 30)
    assert [isinstance(one, Reply) for one in made].count(True) == 11, "the rest would not fit at its worst"
    assert all(isinstance(one, Spent) for one in made if not isinstance(one, Reply))
    assert "MAX_DOLLARS=0.0022 has no room for another request: $0.00121 is spent, and the next may cost" in str(
        made[-1]
    )


def test_a_limit_that_fits_exactly_is_used_to_the_end(tmp_path: Path) -> None:
    with Budget(tmp_path / "a.ledger", "r", 0.0033) as budget:
        assert all(isinstance(one, Reply) for one in paid(budget, Most(100, 100), *[reply(100, 0, 100)] * 3))
        assert budget.spent == 0.0033 and isinstance(paid(budget, Most(1, 0), reply(1, 0, 0))[0], Spent)


def test_what_failed_counts_with_the_most_unless_it_was_refused_or_counted(tmp_path: Path) -> None:
    counted = Malformed("no end")
    counted.counted = (10, 0, 10)
    with Budget(tmp_path / "a.ledger", "r", 1.0) as budget:
        for error, cost in (
            (Stalled(), 0.0011),
            (counted, 0.00011),
            (Refused(503, None, {}), 0),
            (Refused(504, None, {}), 0.0011),
        ):
            before = budget.spent
            paid(budget, Most(100, 100), error)
            assert budget.spent - before == pytest.approx(cost)


def test_a_provider_that_counts_more_than_we_do_is_noticed_and_held_to_that(tmp_path: Path) -> None:
    lines: list[str] = []
    with Budget(tmp_path / "a.ledger", "r", 0.01) as budget:
        budget.say = lines.append
        made = [paid(budget, Most(100, 100), reply(200, 0, 200))[0] for _ in range(10)]
        assert sum(isinstance(one, Reply) for one in made) == 4 and budget.spent <= 0.01 and len(lines) == 1
    assert "a reply cost $0.0022, and $0.0011 is the most" in lines[0]


def test_a_damaged_ledger_is_refused_and_a_torn_line_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    with Budget(path, "r", 1.0) as budget:
        paid(budget, Most(100, 100), reply(10, 0, 10))
    with path.open("ab") as file:
        file.write(b'{"run": "r", "hold": 9')
    with Budget(path, "r", 1.0) as budget:
        assert budget.spent == 0.00011
    for damage in (b"what\n", b'{"run": "r", "hold": 1, "picodollars": -1.5}\n', b"[1]\n"):
        path.write_bytes(damage)
        with pytest.raises(UserError, match="line 1 of the ledger .* is damaged"), Budget(path, "r", 1.0):
            pass


@given(st.lists(st.text(st.characters(exclude_categories=[]))))
def test_a_prompt_has_no_more_tokens_than_bytes(texts: list[str]) -> None:
    can = money.most([{"role": "user", "content": text} for text in texts], 7, None)
    assert can.read >= sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) and can.written == 7
    assert money.most([{"content": "x" * 5000}], 7, 4000).read == 4000, "the context holds no more"


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}, (5, 0, 7)),
        ({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 112}, (5, 0, 107)),  # Google's thoughts
        ({"prompt_tokens": 5, "total_tokens": 12}, (5, 0, 7)),
        ({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 3}, (5, 0, 7)),
        ({"completion_tokens": 7, "total_tokens": 112}, (None, 0, 7)),
        ({"prompt_tokens": 5, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}, (5, 4, 7)),
        (None, (None, 0, None)),
    ],
)
def test_thinking_is_counted_whichever_way_it_is_told(usage: Any, counted: Any) -> None:
    choice = {"message": {"content": "42"}, "finish_reason": "stop"}
    assert reply_from({"choices": [choice], "usage": usage}).counted == counted


# The generator


class Till(HttpFake):
    """A server that charges: `charged` picodollars so far, for what `choose(n)` answers; it does not count tokens that
    it was not asked for. `most`: requests that were in flight at once."""

    def __init__(self) -> None:
        self.charged, self.asked, self.in_flight, self.most = 0, 0, 0, 0
        self.bodies: list[dict[str, Any]] = []
        self.choose: Callable[[int], Answer | None] = lambda n: None
        self.written: Callable[[int, int], int] = lambda n, cap: cap
        self.together, self.are_together = 0, threading.Event()  # the first so many are answered when 64 are there
        super().__init__()

    def get(self, request: Request) -> None:
        answer(200, {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "us"}]})(request)

    def post(self, request: Request, body: bytes) -> None:
        asked = json.loads(body)
        with self.lock:
            n, self.asked = self.asked, self.asked + 1
            self.bodies.append(asked)
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            prompt = sum(len(message["content"]) // 3 for message in asked["messages"])
            written = self.written(n, asked["max_tokens"])
            fault = self.choose(n)
            self.charged += 0 if fault and fault in FREE else PRICES.cost((prompt, 0, written)) or 0
        chat = {
            "model": "m",
            "choices": [{"message": {"role": "assistant", "content": f"\\boxed{{{n % 5}}}"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written},
        }
        if n == 64:  # the first was alone
            self.are_together.set()
        if 0 < n <= self.together:
            self.are_together.wait(300)
        time.sleep(0.002 * (n % 7))
        try:
            (fault or answer(200, chat))(request)
        finally:
            with self.lock:
                self.in_flight -= 1


FREE = [answer(503, {"error": "busy"}), answer(400, {"error": "exceeds the context length"})]
BROKEN = [reset, answer(200, b"<html>"), answer(200, {"error": {"code": 502, "message": "upstream"}})]


@pytest.fixture
def till() -> Iterator[Till]:
    made = Till()
    yield made
    made.close()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "_backoff", lambda attempt: 0.001)


def ask(
    till: Till, folder: Path, limit: float, count: int, at_once: int = 64, **sampling: Any
) -> tuple[list[Any], Any]:
    card = Card("priced", model="m", base_url=till.url, price=PRICES)
    server = Server("other", till.url, "m", "x", card=card)

    async def all_of_them() -> list[Any]:
        with Journal(folder / "a.jsonl") as journal, Budget(folder / "a.ledger", "r", limit) as budget:
            async with Generator(server, journal, at_once, 60.0, stall=30.0, budget=budget) as made:
                message = {"role": "user", "content": "How much is 6*7? " * 5}
                drawn = Sampling(**{"max_tokens": 50} | sampling)
                asked = [asyncio.ensure_future(made([message], n, drawn)) for n in range(count)]
                _, waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_EXCEPTION)
                for task in waiting:
                    task.cancel()
                done = await asyncio.gather(*asked, return_exceptions=True)
            return [*done, budget.spent]

    *done, spent = asyncio.run(all_of_them())
    return done, spent


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("faulty", [False, True])
def test_64_in_flight_never_pass_the_limit_and_it_goes_on_with_a_higher_one(
    till: Till, tmp_path: Path, faulty: bool
) -> None:
    till.written = lambda n, cap: n * 7919 % (cap + 1)
    if faulty:
        faults = [*FREE[:1], *BROKEN]
        till.choose = lambda n: faults[n // 5 % len(faults)] if n % 5 == 3 else None
    till.together = 64
    for limit in (0.06, 0.09):
        done, spent = ask(till, tmp_path, limit, 400)
        assert till.charged <= picodollars(spent) + 300 and till.charged <= picodollars(limit), "it has charged no more"
        assert any(isinstance(one, Spent) for one in done)
        assert spent > limit - 0.002, "and there was no room for one more"
    assert till.most == 64
    asked = till.asked
    done, spent = ask(till, tmp_path, 10.0, 400)
    assert not any(isinstance(one, BaseException) for one in done) and till.asked > asked


@pytest.mark.usefixtures("hurried")
def test_the_first_request_is_alone_until_its_bill_has_come(till: Till, tmp_path: Path) -> None:
    till.written = lambda n, cap: 3 * cap
    done, spent = ask(till, tmp_path, 0.06, 200)
    assert till.charged == picodollars(spent) and spent <= 0.06, "bills of three times the cap are known by the first"
    assert till.most > 8 and any(isinstance(one, Spent) for one in done)


def test_an_answer_that_has_to_be_forced_is_paid_for_before_the_first_request(till: Till, tmp_path: Path) -> None:
    cut = {
        "model": "m",
        "choices": [{"message": {"content": "", "reasoning": "so " * 50}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 28, "completion_tokens": 50},
    }
    rest = cut | {"choices": [{"message": {"content": "42}."}, "finish_reason": "stop"}]}
    till.choose = lambda n: answer(200, cut if till.bodies[n]["max_tokens"] == 50 else rest)
    done, _ = ask(till, tmp_path, 0.0045, 20, answer_tokens=20)
    forced = [one for one in done if not isinstance(one, BaseException)]
    assert forced and all(one.forced for one in forced), "none was cut off for want of money"
    assert till.asked == 2 * len(forced) and till.charged <= picodollars(0.0045)


# Runs as a user starts them

SMALL = ("PROBLEMS=sums", "LIMIT=8", "N=8", "MAX_TOKENS=60", "ANSWER_TOKENS=0", "CONCURRENCY=64")


def card(folder: Path, url: str, price: bool = True, more: str = "") -> str:
    path = folder / "till.toml"
    table = '[price]\nread = 1.0\ncached = 0.1\nwritten = 10.0\non = "2026-11-23"\n' if price else ""
    path.write_text(f'base_url = "{url}"\nmodel = "m"\n{more}{table}')
    return str(path)


def test_a_run_ends_saved_at_its_limit_and_goes_on_with_a_higher_one(till: Till, results: Path, tmp_path: Path) -> None:
    named = card(tmp_path, till.url)
    status, _, err = run("01_baseline", *SMALL, "MAX_DOLLARS=0.02", MODEL=named)
    assert status == 1 and "MAX_DOLLARS=0.02 has no room for another request: $0.0" in err, err
    assert "Traceback" not in err and "Run the same command with a higher MAX_DOLLARS" in err and "partial.json" in err
    assert till.charged <= picodollars(0.02)
    kept = (results / "journal" / "01_baseline.jsonl").read_text().count("\n")
    assert kept == till.asked and 0 < kept < 64
    status, out, err = run("01_baseline", *SMALL, "MAX_DOLLARS=0.02", MODEL=named)
    assert status == 1 and till.asked == kept and "is spent already" in out, "the same limit sends nothing"
    status, out, err = run("01_baseline", *SMALL, "MAX_DOLLARS=5", MODEL=named)
    assert status == 0 and till.asked == 64, err
    document = load(results, "01_baseline")
    jsonschema.validate(document, SCHEMA)
    assert document["prices"] == {"read": 1.0, "cached": 0.1, "written": 10.0, "on": "2026-11-23"}
    figures = document["metrics"]
    assert figures["cost"] == pytest.approx(till.charged / PICO) == pytest.approx(figures["spent"])
    assert sum(row["cost"] for row in document["problems"]) == pytest.approx(figures["cost"])
    assert sum(step["cost"] for step in figures["steps"]) == pytest.approx(figures["cost"])
    assert f"${figures['cost']:.4f}" in out.splitlines()[-1]


def test_what_was_in_flight_at_a_kill_counts_as_spent(till: Till, results: Path, tmp_path: Path) -> None:
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

    till.choose = choose
    process = start("01_baseline", *SMALL, f"MAX_DOLLARS={limit}", MODEL=named)
    assert reached.wait(300)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    gate.set()
    till.choose = lambda n: None
    before = till.charged
    assert 0 < before <= picodollars(limit)
    status, out, err = run("01_baseline", *SMALL, f"MAX_DOLLARS={limit}", MODEL=named)
    assert status == 1 and "is spent already" in out and "no room for another" in err, (out, err)
    assert before <= till.charged <= picodollars(limit), "what the killed run was charged for is in it"


@pytest.mark.parametrize("more", [(), ("MODEL",)])
def test_a_limit_without_prices_is_refused_before_anything_is_sent(
    till: Till, results: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    named = {"MODEL": card(tmp_path, till.url, price=False)} if more else {"BASE_URL": till.url}
    status, _, err = run("01_baseline", *SMALL, "MAX_DOLLARS=1", **named)
    which = r"the card till of m has no table [price]" if more else "no card of m says it"
    assert status == 2 and which in err and "Traceback" not in err and till.asked == 0
    assert run("01_baseline", *SMALL, "LIMIT=1", **named)[0] == 0
    assert "cost" not in load(results, "01_baseline")["metrics"] and not list(results.rglob("*.ledger"))


def test_a_card_without_prices_is_refused_before_its_server_is_looked_for(results: Path, tmp_path: Path) -> None:
    away = card(tmp_path, "http://127.0.0.1:9/v1", price=False)  # where nothing answers
    status, _, err = run("01_baseline", *SMALL, "MAX_DOLLARS=1", MODEL=away)
    assert status == 2 and "has no table [price]" in err, err
