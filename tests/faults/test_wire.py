"""Faults on the wire: the client against the real engine, a proxy that mistreats requests between
them."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.client import retry
from core.client.journal import Journal
from core.engines.process import free_port
from core.engines.protocol import Server
from core.types import Completion
from tests.conftest import ended, python, run, start
from tests.faults import proxy as wire
from tests.faults.conftest import SEED, records, wait_for_lines
from tests.faults.proxy import Fault, Proxy
from tests.helpers import asking
from tests.helpers.asking import SHORT
from tests.helpers.runs import load, timeless

LONG = pytest.mark.faults
pytestmark = pytest.mark.usefixtures("hurried")

# Passing faults: the request is sent again, and nothing of the broken answer is kept.
# tests/core/client/test_reply.py tests well-framed chats that make no sense.
PASSING = {
    "reset before headers": wire.raw(b"", reset=True),
    "closed before headers": wire.raw(b""),
    "closed in the headers": wire.raw(b"HTTP/1.1 200 OK\r\ncontent-ty"),
    "TLS": wire.raw(b"\x15\x03\x01\x00\x02\x02\x16"),
    "reset in mid body": wire.broken_off(0.5, reset=True),
    "body a byte short": wire.broken_off(0.9999),
    "chunks without an end": wire.broken_off(0.9, framing="chunks"),
    "429": wire.says(429, {"error": {"message": "slow down"}}, retry_after="0"),
    "408": wire.says(408, b""),
    "502": wire.says(502, b"<html>bad gateway</html>", "text/html"),
    "503": wire.says(503, {"error": {"message": "loading", "type": "unavailable_error"}}),
    "terminal escapes": wire.says(500, {"error": {"message": "\x1b[31m\x07\u202e red\n\n"}}),
    "an error of no known status": wire.says(200, {"error": {"message": "odd", "code": True}}),
    "empty body": wire.says(200, b""),
    "html": wire.says(200, b"<html>a proxy's page</html>", "text/html"),
    "no text": wire.says(200, b"\xff\xfe\x00\x80" * 300),
    "deep JSON": wire.says(200, b"[" * 100_000),
    "garbage labelled gzip": wire.passed(headers={"content-encoding": "gzip"}),
    "headers without an end": wire.raw(b"HTTP/1.1 200 OK\r\n" + b"x-pad: 12345678\r\n" * 40_000),
}

# Passing faults of streams only.
TORN = {
    "in mid line": wire.passed(change=lambda body: body[: len(body) * 6 // 10]),
    "in mid line, closed as HTTP/1.0": wire.broken_off(0.6, framing="end"),
    "a stream of done alone": wire.says(200, b"data: [DONE]\n\n", "text/event-stream"),
    "a stream of comments": wire.says(200, b": ping\n\n" * 9, "text/event-stream"),
}

# Harmless: one request, and the same completion.
HARMLESS = {
    "closed after the answer": wire.closed_after(reset=False),
    "reset when idle": wire.closed_after(reset=True),
    "connection: close": wire.passed(headers={"connection": "close"}),
    "100": wire.passed(before=b"HTTP/1.1 100 Continue\r\n\r\n"),
    "large headers": wire.passed(headers={f"x-{i}": "x" * 4000 for i in range(8)}),
    "a long comment": wire.passed(
        change=lambda body: (b":" + b"x" * 2**20) * (body[:1] != b"{") + b"\n\n" + body
    ),
    "a long line": wire.passed(
        change=lambda body: body.replace(b'{"', b'{"pad":"' + b"x" * 2**20 + b'","', 1)
    ),
}

# Tolerated: one request or several, and the same completion.
TOLERATED = {
    "JSON or SSE labelled html": wire.passed("text/html"),
    "JSON or SSE labelled with another charset": wire.passed("application/json; charset=utf-16"),
    "headers too large": wire.passed(headers={f"x-{i}": "x" * 5000 for i in range(60)}),
    "redirect": wire.raw(
        b"HTTP/1.1 307 Temporary\r\nlocation: /v1/chat/completions\r\ncontent-length: 0\r\n\r\n"
    ),
}


@pytest.fixture(params=["plain", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "streamed")


@pytest.fixture
def proxy(engine: Server) -> Iterator[Proxy]:
    with closing(Proxy(engine.base_url)) as proxy:
        yield proxy


def before(proxy: Proxy, engine: Server, stream: bool) -> Server:
    """Return the engine behind the proxy, with streams or without."""
    return replace(engine, base_url=proxy.url, card=replace(engine.card, streams=stream))


def ask(server: Server, folder: Path, seeds: Sequence[int] = (5,), **more: Any) -> list[Completion]:
    return asking.ask(server, folder, [(seed, SHORT) for seed in seeds], **more)


def figures(got: Completion) -> dict[str, Any]:
    """Return the fields that a disturbed completion shares with an undisturbed one."""
    return {
        name: value
        for name, value in asdict(got).items()
        if name not in ("seconds", "cached_tokens", "reused")
    }


def kept(folder: Path) -> list[dict[str, Any]]:
    """Read the journal, which is undamaged."""
    raw = (folder / "test.jsonl").read_bytes()
    assert not raw or raw.endswith(b"\n")
    with Journal(folder / "test.jsonl") as journal:
        assert not journal.damaged
    return [json.loads(line)["completion"] for line in raw.splitlines()]


@pytest.fixture(scope="module")
def calm(engine: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Completion]:
    """Return undisturbed completions by seed."""
    got = ask(engine, tmp_path_factory.mktemp("calm"), range(5, 9))
    assert all(c.finish_reason == "stop" and c.thinking and c.answer for c in got)
    return {c.seed: c for c in got}


def cases(*tables: dict[str, Fault]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "fault", [pytest.param(f, id=name) for table in tables for name, f in table.items()]
    )


Calm = dict[int, Completion]


@pytest.mark.parametrize(
    ("fault", "stream", "requests"),
    [
        pytest.param(fault, stream, requests, id=f"{name}, {'streamed' if stream else 'plain'}")
        for faults, requests in ((PASSING, 3), (TORN, 3), (HARMLESS, 1), (TOLERATED, None))
        for name, fault in faults.items()
        for stream in (False, True)
        if stream or faults is not TORN
    ],
)
def test_a_fault_leaves_no_trace(
    engine: Server,
    proxy: Proxy,
    tmp_path: Path,
    calm: Calm,
    fault: Fault,
    stream: bool,
    requests: int | None,
) -> None:
    """The fault comes twice. The completion and its record are the undisturbed ones."""
    proxy.script = [fault, fault]
    (got,) = ask(before(proxy, engine, stream), tmp_path)
    assert figures(got) == figures(calm[5])
    (record,) = kept(tmp_path)
    assert figures(Completion(key=got.key, **record)) == figures(calm[5])
    assert len(proxy.bodies) == (requests or len(proxy.bodies))


@cases(PASSING, TORN)
def test_a_fault_that_does_not_pass_ends_in_one_clear_line_and_is_owed(
    engine: Server,
    proxy: Proxy,
    tmp_path: Path,
    calm: Calm,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "RETRIES", 2)
    monkeypatch.setattr(retry, "THROTTLED_SECONDS", 0.2)
    proxy.choose = lambda: fault
    server = before(proxy, engine, True)
    try:
        (got,) = ask(server, tmp_path)
        line = got.error
        assert got.text == "" and got.completion_tokens == 0 and got.finish_reason is None
    except UserError as error:
        line = str(error)
    assert line and "\n" not in line and len(line) < 500 and line.isprintable()
    assert kept(tmp_path) == [], "a failure that may pass is not kept"
    proxy.choose = lambda: None
    assert figures(ask(server, tmp_path)[0]) == figures(calm[5])


STUCK = {
    "before headers": wire.stuck(None),
    "after headers": wire.stuck(0),
    "in mid body": wire.stuck(0.5),
}
TRICKLING = {
    "headers": wire.stuck(None, 0.2, b"HTTP/1.1 102 Processing\r\n\r\n"),
    "comments": wire.stuck(0.3, 0.2, b": ping\n\n"),
    "events": wire.stuck(
        0, 0.2, b'data: {"choices": [{"index": 0, "delta": {"content": "x"}}]}\n\n'
    ),
}


@LONG
@cases(STUCK)
def test_bytes_that_stop_end_a_request_long_before_its_timeout(
    engine: Server, proxy: Proxy, tmp_path: Path, calm: Calm, stream: bool, fault: Fault
) -> None:
    server = before(proxy, engine, stream)
    proxy.script = [fault]
    began = time.monotonic()
    (got,) = ask(server, tmp_path, timeout=1000, stall=1)
    assert figures(got) == figures(calm[5]) and len(proxy.bodies) == 2
    assert time.monotonic() - began < 20


@LONG
@cases(TRICKLING)
def test_bytes_that_trickle_for_ever_end_at_the_timeout(
    engine: Server, proxy: Proxy, tmp_path: Path, calm: Calm, stream: bool, fault: Fault
) -> None:
    server = before(proxy, engine, stream)
    proxy.choose = lambda: fault
    began = time.monotonic()
    (got,) = ask(server, tmp_path, timeout=1.5, stall=60)
    assert time.monotonic() - began < 20
    assert got.error and "\n" not in got.error and kept(tmp_path) == []
    proxy.choose = lambda: None
    assert figures(ask(server, tmp_path)[0]) == figures(calm[5])


SMALL = ("LIMIT=4", "T=2", "MAX_TOKENS=300", "PROBLEMS=sums")


def assert_equal_runs(disturbed: Path, undisturbed: Path) -> None:
    """Check that two runs have equal results, and equal journals without repeated keys."""
    found = []
    for folder in (disturbed, undisturbed):
        completions = {record["key"]: timeless(record["completion"]) for record in records(folder)}
        assert len(completions) == len(records(folder))
        found.append((completions, timeless(load(folder, "02_rsa_basic"))))
    assert found[0] == found[1] and found[0][1]["complete"]


@LONG
def test_a_run_under_a_mix_of_all_faults_equals_an_undisturbed_one(
    proxy: Proxy, tmp_path: Path
) -> None:
    constants, requests = (*SMALL, "STALL_SECONDS=8", "TIMEOUT=25"), []
    for folder in ("calm", "mixed"):
        status, out, err = run(
            "02_rsa_basic", *constants, BASE_URL=proxy.url, RESULTS_DIR=str(tmp_path / folder)
        )
        assert status == 0, f"{out}\n{err}"
        requests.append(len(proxy.bodies))
        rare = STUCK | {"trickling": TRICKLING["events"]}
        proxy.choose = wire.mix(SEED, 0.3, PASSING | HARMLESS | TOLERATED, rare)
    assert requests[1] - requests[0] > requests[0] + 10, "faults were met"
    assert_equal_runs(tmp_path / "mixed", tmp_path / "calm")


@contextmanager
def second_server(port: int) -> Iterator[None]:
    """Start the embedded engine in its own process, and kill it at the end."""
    process = python("-m", "core.server", ENGINE="embedded", PORT=str(port))
    try:
        assert process.stdout is not None
        assert "Ctrl-C" in process.stdout.readline(), process.communicate()
        yield
    finally:
        process.kill()
        process.communicate()


@LONG
def test_a_server_that_dies_and_comes_back_in_seconds_costs_nothing_but_time(
    engine: Server, tmp_path: Path
) -> None:
    undisturbed, disturbed, port = tmp_path / "undisturbed", tmp_path / "disturbed", free_port()
    status, _, err = run(
        "02_rsa_basic", *SMALL, BASE_URL=engine.base_url, RESULTS_DIR=str(undisturbed)
    )
    assert status == 0, err
    with second_server(port):
        process = start(
            "02_rsa_basic",
            *SMALL,
            BASE_URL=f"http://127.0.0.1:{port}/v1",
            RESULTS_DIR=str(disturbed),
        )
        wait_for_lines(process, disturbed, 20)
        assert process.poll() is None, process.communicate()
    time.sleep(4)
    with second_server(port):
        status, out, err = ended(process)
    assert status == 0, out + err
    assert_equal_runs(disturbed, undisturbed)
