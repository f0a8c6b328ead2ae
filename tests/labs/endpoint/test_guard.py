"""What clients may do to the endpoint, over real sockets: how much, by which names, how slowly; and what it leaves."""

import asyncio
import json
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx2
import openai
import pytest

from core.base.hosts import Names
from core.engines.server import Server
from core.generate import wire
from core.types import Completion
from labs.endpoint import app, chat, guard
from labs.endpoint.guard import Refusal
from tests.conftest import ROOT, environment
from tests.fakes.http import Proxy, answer
from tests.labs.endpoint.test_app import ASKED, DEFAULTS, Running, Start, command, reply


@pytest.fixture
def start(tmp_path: Path, endpoints: list[app.Endpoint]) -> Iterator[Start]:
    """As in test_endpoint; it answers by then."""
    with ExitStack() as running:

        def begin(server: Server, **changes: Any) -> Running:
            made = Running(server, tmp_path, **changes)
            running.callback(made.close)
            assert httpx2.get(f"{made.url}/models", timeout=None).status_code in (200, 401)
            return made

        yield begin


@pytest.fixture
def endpoints(monkeypatch: pytest.MonkeyPatch) -> list[app.Endpoint]:
    """Those that were made."""
    made: list[app.Endpoint] = []

    class Noted(app.Endpoint):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(app, "Endpoint", Noted)
    return made


def connected(running: Running) -> socket.socket:
    return socket.create_connection(running._place.getsockname(), timeout=60)


def request(running: Running, path: str = "/v1/chat/completions", length: int | None = None, **fields: Any) -> bytes:
    """The bytes of a request; `length`: said of the body, where it is another."""
    body = json.dumps({"model": running.model, "messages": ASKED, "seed": 1} | fields).encode()
    size = len(body) if length is None else length
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    )
    return head.encode() + body


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def nothing_is_left(running: Running, proxy: Proxy | None = None) -> bool:
    """Whether nothing of any request is at work, here or at the server behind."""

    async def look() -> bool:
        names = {getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()}
        return not names & {"solve", "_member", "Generator.__call__"}

    return not (proxy and proxy.in_flight) and asyncio.run_coroutine_threadsafe(look(), running._loop).result(60)


# How much


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rsa": {"N": 1024, "T": 1000}}, "1,025,024, and a request may take 4,096"),
        ({"rsa": {"N": 1, "K": 1, "T": 1000}, "max_tokens": 10**6}, ""),
        ({"rsa": {"N": 5, "T": 1000}}, "Lower N or T"),
        ({"N": 1024, "K": 5, "T": 0}, "N·K = 1024·5 candidates"),
        ({"rsa": {"N": 1024, "T": 1}, "messages": [{"role": "user", "content": "x" * 17_000}]}, "shorten the conv"),
        ({"stop": ["x"] * (chat.MOST_STOPS + 1)}, "stop may hold 64 texts"),
        ({"messages": ASKED * (chat.MOST_MESSAGES + 1)}, "1,000 messages"),
        ({"rsa": {"N": 10**5}}, "out of range"),
    ],
)
def test_a_request_that_takes_too_much_is_refused_at_once(fields: dict[str, Any], words: str) -> None:
    body = {"model": "rsa/m", "messages": ASKED} | fields

    def read() -> None:
        asked = chat.read(body, "rsa/m", DEFAULTS)
        app.Most().check(asked.config, len(json.dumps(body)))

    if words:
        with pytest.raises(Refusal, match=words.replace("·", ".")) as refused:
            read()
        assert refused.value.status == 400
    else:
        read()


def test_the_largest_request_asks_for_nothing_and_takes_nothing(engine: Server, proxy: Proxy, start: Start) -> None:
    running = start(replace(engine, base_url=proxy.url))
    refused = running.post({"rsa": {"N": 1024, "T": 1000}})
    assert refused.status_code == 400 and refused.json()["error"]["type"] == "invalid_request_error"
    assert not proxy.bodies and nothing_is_left(running, proxy)


def test_the_operators_own_constants_are_allowed_and_made_as_they_are_reached(
    engine: Server, proxy: Proxy, start: Start
) -> None:
    """N·(T+1) of a million, as the command line may say: the endpoint stays as quick as it was, and one who leaves
    takes all of it along."""
    running = start(replace(engine, base_url=proxy.url), N=1024, K=2, T=1000, CONCURRENCY=2)
    with closing(connected(running)) as client:
        client.sendall(request(running))
        until(lambda: len(proxy.bodies) > 1)

        async def tasks() -> int:
            return len(asyncio.all_tasks())

        assert asyncio.run_coroutine_threadsafe(tasks(), running._loop).result(60) < 3 * 1024
        assert httpx2.get(f"{running.url}/models", timeout=None).status_code == 200
    until(lambda: nothing_is_left(running, proxy))
    assert running.post({"rsa": {"N": 1024, "T": 1001}}).status_code == 400


def test_what_a_client_has_in_progress_is_bounded_over_its_requests(
    engine: Server, proxy: Proxy, start: Start, endpoints: list[app.Endpoint]
) -> None:
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=1)
    large: dict[str, Any] = {"rsa": {"N": 64, "T": 63}}
    with ExitStack() as clients:
        for seed in range(app.AT_A_TIME):
            client = clients.enter_context(closing(connected(running)))
            client.sendall(request(running, seed=seed, stream=bool(seed % 2), **large))
        until(lambda: endpoints[0].allowance.by["127.0.0.1"]["completions"] == 4 * 4096)
        refused = running.post({"seed": 9} | large)
        assert refused.status_code == 429 and refused.headers["retry-after"] == str(app.RETRY_SECONDS)
        error = refused.json()["error"]
        assert error["type"] == "rate_limit_error" and error["code"] == "rate_limit_exceeded"
        assert "16,384 completions of one client" in error["message"]
        with running.client() as another, pytest.raises(openai.RateLimitError):
            another.with_options(max_retries=0).chat.completions.create(
                model=running.model, messages=ASKED, extra_body=large
            )
    until(lambda: nothing_is_left(running, proxy) and not endpoints[0].allowance.by)
    assert running.ask().choices[0].message.content, "what was given back can be taken"


@pytest.mark.parametrize("what", ["requests", "bytes"])
def test_many_small_requests_and_bodies_that_never_end_are_bounded_too(
    engine: Server, start: Start, endpoints: list[app.Endpoint], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "MOST_REQUESTS", 8)
    running = start(engine)
    endpoints[0].allowance.most |= {"requests": 8, "bytes": 10_000}
    with ExitStack() as clients:
        for _ in range(8):
            client = clients.enter_context(closing(connected(running)))
            client.sendall(request(running, length=10**6))
        until(lambda: endpoints[0].allowance.by["127.0.0.1"]["requests"] == 8)
        if what == "requests":
            refused = running.post({})
        else:
            clients.enter_context(closing(connected(running)))
            endpoints[0].allowance.most["requests"] = 100
            refused = running.post({"metadata": "x" * 9000})
        assert refused.status_code == 429 and f"{what} of one client" in refused.json()["error"]["message"]
    until(lambda: not endpoints[0].allowance.by)
    assert running.post({}).status_code == 200


def test_all_clients_together_are_bounded_and_each_is_known_by_its_network() -> None:
    allowance = guard.Allowance({"requests": 2})
    with ExitStack() as held:
        for n in range(2 * guard.CLIENTS):
            held.enter_context(allowance.share(f"10.0.0.{n // 2}")).take("requests", 1)
        with pytest.raises(Refusal, match="of all clients") as refused:
            held.enter_context(allowance.share("10.9.9.9")).take("requests", 1)
        assert refused.value.status == 429
    assert not allowance.by
    for host, name in (
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:9::9%eth0", "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ):
        assert guard.client({"client": (host, 5)}) == name
    assert guard.client({"client": None}) == ""


def test_a_header_does_not_make_another_client(engine: Server, start: Start, endpoints: list[app.Endpoint]) -> None:
    running = start(engine)
    with closing(connected(running)) as client:
        head, _, body = request(running, length=10**6).partition(b"\r\n\r\n")
        client.sendall(head + b"\r\nX-Forwarded-For: 10.1.1.1\r\nForwarded: for=10.1.1.1\r\n\r\n" + body)
        until(lambda: bool(endpoints[0].allowance.by))
        assert list(endpoints[0].allowance.by) == ["127.0.0.1"]


def test_requests_to_the_server_are_made_up_one_at_a_time_and_wait_in_small_numbers() -> None:
    """Hashing and writing a prompt takes a while where it is long: whatever else is to be done is done in between."""
    asked = chat.read({"model": "rsa/m", "messages": ASKED, "rsa": {"N": 64, "K": 2, "T": 2}}, "rsa/m", DEFAULTS)
    turn, at_work, most, made = 0, 0, 0, list[int]()

    async def generator(*_: Any) -> Completion:
        nonlocal at_work, most
        made.append(turn)
        at_work += 1
        most = max(most, at_work)
        if len(made) % 3:  # the others come from the journal
            await asyncio.sleep(0.001)
        at_work -= 1
        return Completion("0" * 32, 1, answer="\\boxed{1}", finish_reason="stop")

    async def turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def run() -> app.Solved:
        beside = asyncio.create_task(turns())
        try:
            return await app.solve(asked, cast(Any, generator), 5, asyncio.Lock(), lambda line: None)
        finally:
            beside.cancel()

    solved = asyncio.run(run())
    assert len(set(made)) == len(made) == 64 * 3 and most <= 5
    assert len(solved.spent) == 64 * 3 and not any(completion.text for completion in solved.spent)


# Names


def status(running: Running, *heads: str, path: str = "/v1/models", version: str = "1.1") -> int:
    """Of a request with these header lines and no others."""
    lines = "".join(f"{head}\r\n" for head in heads)
    with closing(connected(running)) as client:
        client.sendall(f"GET {path} HTTP/{version}\r\n{lines}\r\n".encode())
        return int(client.recv(65536).split()[1])


FOREIGN = [
    ["Host: evil.example"],
    ["Host: evil.example:30100"],
    ["Host: localhost.evil.example"],
    ["Host: 127.0.0.1.evil.example"],
    ["Host: evil.example."],
    ["Host: 10.1.2.3"],
    ["Host: [2001:db8::1]:80"],
    ["Host: localhost@evil.example"],
    ["Host: localhost:80:80"],
    ["Host: localhost:http"],
    ["Host: "],
    ["Host: [::1"],
    ["Host: 127.1"],
    ["Host: 2130706433"],
    ["Host: 0.0.0.0"],
]
OURS = [
    ["Host: 127.0.0.1"],
    ["Host: 127.0.0.1:30100"],
    ["Host: localhost:30100"],
    ["Host: localhost:8080"],  # forwarded, as by ssh -L
    ["Host: LocalHost."],
    ["Host: [::1]:30100"],
    ["Host: [0:0:0:0:0:0:0:1]"],
    ["Host: [::FFFF:127.0.0.1]"],
    ["Host:   127.0.0.1  "],
]


def test_who_asks_by_a_foreign_name_gets_nothing(engine: Server, start: Start) -> None:
    running = start(engine)
    for heads in FOREIGN:
        for path in ("/v1/models", "/health", "/v1/chat/completions", "/nowhere"):
            assert status(running, *heads, path=path) in (400, 403), heads
    assert status(running, "Host: evil.example") == 403
    assert status(running, "Host: localhost", "Host: evil.example") in (400, 403)
    assert status(running, version="1.0") == 403 and status(running) == 400, "no host at all"
    for heads in OURS:
        assert status(running, *heads) == 200, heads
    refused = running.post({}, host="evil.example:30100")
    assert refused.status_code == 403 and "--allow-host" in refused.json()["error"]["message"]


def test_with_a_key_the_key_is_what_counts(engine: Server, start: Start) -> None:
    running = start(replace(engine, api_key="sk-secret"))
    assert status(running, "Host: rsa.example.org") == 401
    for given, expected in (
        ("Bearer sk-secret", 200),
        ("bearer sk-secret", 200),
        ("BEARER   sk-secret", 200),
        ("Basic sk-secret", 401),
        ("sk-secret", 401),
        ("Bearer sk-Secret", 401),
        ("Bearer", 401),
    ):
        assert status(running, "Host: rsa.example.org", f"Authorization: {given}") == expected, given


@pytest.mark.parametrize(
    ("bound", "named", "host", "known"),
    [
        ("127.0.0.1", ["rsa.example.org"], "RSA.Example.org.:443", True),
        ("127.0.0.1", [], socket.gethostname(), False),
        ("127.0.1.1", ["gpu-box"], "gpu-box:30100", True),
        ("::1", [], "[::1]:30100", True),
        ("::1", [], "10.1.2.3", False),
        ("0.0.0.0", ["0.0.0.0"], "0.0.0.0:30100", True),
        ("0.0.0.0", [], "10.1.2.3:30100", True),
        ("0.0.0.0", [], "[2001:db8::1]:30100", True),
        ("0.0.0.0", [], f"{socket.gethostname()}:30100", True),
        ("0.0.0.0", [], "evil.example:30100", False),
        ("::", [], "evil.example", False),
        ("10.1.2.3", ["gpu-box.lan"], "gpu-box.lan", True),
        ("10.1.2.3", [], "evil.example", False),
    ],
)
def test_what_the_operator_asked_for_is_known(bound: str, named: list[str], host: str, known: bool) -> None:
    assert Names(bound, named).hold([(b"host", host.encode())]) is known


def test_the_command_knows_its_host_and_those_it_is_told(results: Path) -> None:
    process = command("--port", "0", "--host", "localhost", "--allow-host", "rsa.example.org", "--most-requests", "0")
    assert "--most-requests 0 is not a number" in process.communicate(timeout=60)[1] and process.returncode == 2
    process = command(
        "--port", "0", "--host", "localhost", "--allow-host", "rsa.example.org", "--most-completions", "9"
    )
    assert process.stdout is not None
    url = process.stdout.readline().split(" on ")[1].split(": N=")[0]
    try:
        for host, expected in (("rsa.example.org", 200), ("localhost:1", 200), ("evil.example", 403)):
            assert httpx2.get(f"{url}/models", headers={"host": host}, timeout=None).status_code == expected
        model = httpx2.get(f"{url}/models", timeout=None).json()["data"][0]["id"]
        body = {"model": model, "messages": ASKED, "rsa": {"N": 8, "T": 6}}
        refused = httpx2.post(f"{url}/chat/completions", json=body, timeout=None)
        assert refused.status_code == 400 and "may take 48 here" in refused.text, "as many as its own N, K, T take"
    finally:
        process.terminate()
        process.communicate(timeout=60)


# Patience


def test_slow_clients_that_leave_are_no_word_in_the_log(
    engine: Server, start: Start, capfd: pytest.CaptureFixture[str], endpoints: list[app.Endpoint]
) -> None:
    running = start(engine, CONCURRENCY=2, T=500)
    whole = request(running)
    for number in range(200):
        client = connected(running)
        if number % 4 == 0:
            client.sendall(request(running, length=10_000))
        elif number % 4 == 1:
            client.sendall(whole[: number + 1])
        else:
            client.sendall(request(running, seed=number, stream=number % 4 == 2))
        if number % 3 == 0:  # a reset instead of an end
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if number % 5 == 0:
            time.sleep(0.02)
        client.close()
    until(lambda: nothing_is_left(running) and not endpoints[0].allowance.by)
    assert httpx2.get(f"{running.url}/models", timeout=None).status_code == 200
    running.close()
    assert not capfd.readouterr().err


@pytest.mark.parametrize("moment", ["waiting", "streaming", "ahead"])
def test_who_leaves_takes_the_work_along_wherever_it_is(
    engine: Server, proxy: Proxy, start: Start, endpoints: list[app.Endpoint], moment: str
) -> None:
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=1, T=500)
    with closing(connected(running)) as other, closing(connected(running)) as client:
        if moment == "waiting":  # for the server, which has another request's members before it
            other.sendall(request(running, seed=2))
            until(lambda: len(proxy.bodies) > 0)
        client.sendall(request(running, stream=moment == "streaming"))
        until(lambda: len(endpoints[0]._jobs) == 1 + (moment == "waiting"))
        if moment == "streaming":
            said = b""
            while b"step 0" not in said:
                said += client.recv(65536)
        if moment == "ahead":  # a second request, sent behind the first, stops uvicorn's reading
            client.sendall(request(running, seed=3) * 3)
            until(lambda: len(proxy.bodies) > 2)
        client.close()
        until(lambda: len(endpoints[0]._jobs) == (moment == "waiting"))
    until(lambda: nothing_is_left(running, proxy) and not endpoints[0].allowance.by)


def test_a_client_that_never_reads_is_let_go(
    engine: Server, proxy: Proxy, start: Start, monkeypatch: pytest.MonkeyPatch, endpoints: list[app.Endpoint]
) -> None:
    monkeypatch.setattr(guard, "PATIENCE", 0.5)
    running = start(replace(engine, base_url=proxy.url), N=1, K=1, T=0)
    proxy.script = [answer(200, reply("long " * 1_500_000))] * 2
    with closing(connected(running)) as slow, closing(connected(running)) as client:
        for each, stream in ((slow, False), (client, True)):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.sendall(request(running, seed=5, stream=stream))
        until(lambda: len(proxy.bodies) > 0)
        until(lambda: not endpoints[0].allowance.by and not endpoints[0]._jobs)


def test_a_client_that_reads_slowly_gets_all(
    engine: Server, proxy: Proxy, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "PATIENCE", 1.0)
    monkeypatch.setattr(wire, "ROOM", 2**24)
    running = start(replace(engine, base_url=proxy.url), N=1, K=1, T=0)
    proxy.script = [answer(200, reply("long " * 2_000_000))]
    with closing(socket.socket()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.connect(running._place.getsockname())
        client.sendall(request(running, stream=True))
        got = 0
        said = b""
        while b"[DONE]" not in said:
            part = client.recv(400_000)
            assert part, got
            got, said = got + len(part), said[-10:] + part
            time.sleep(0.02)
    assert got > 10_000_000


@pytest.mark.parametrize("sent", [b"", b"GET /v1/mod", b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\nGET"])
def test_a_request_that_is_never_whole_is_given_up(
    engine: Server, start: Start, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(guard, "PATIENCE", 0.3)
    running = start(engine)
    with closing(connected(running)) as client:
        client.sendall(sent)
        with suppress(ConnectionError):
            while client.recv(65536):
                pass


def test_a_body_that_never_comes_is_given_up_in_words(
    engine: Server, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "PATIENCE", 0.3)
    running = start(engine)
    with closing(connected(running)) as client:
        client.sendall(request(running, length=10_000))
        assert client.recv(65536).startswith(b"HTTP/1.1 408")


def test_idle_connections_make_room_and_those_with_a_request_do_not(
    engine: Server, proxy: Proxy, start: Start, monkeypatch: pytest.MonkeyPatch, endpoints: list[app.Endpoint]
) -> None:
    monkeypatch.setattr(guard, "MOST_CONNECTIONS", 10)
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=1, T=300)
    with ExitStack() as clients:

        def opened(sent: bytes) -> socket.socket:
            made = clients.enter_context(closing(connected(running)))
            made.sendall(sent)
            return made

        working = [opened(request(running, seed=seed)) for seed in range(2)]
        until(lambda: len(endpoints[0]._jobs) == 2)
        idle = [opened(sent) for sent in (b"", b"GET /v1/mod") * 10]
        for _ in range(20):
            assert httpx2.get(f"{running.url}/models", timeout=None).status_code == 200
        assert len(endpoints[0]._jobs) == 2, "a request in progress is not ended for others"
        with suppress(ConnectionError):
            assert idle[0].recv(1) == b"", "the oldest went first"
        working += [opened(request(running, seed=seed)) for seed in range(2, 10)]
        until(lambda: len(endpoints[0]._jobs) == 10)
        late = opened(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with suppress(ConnectionError):
            assert late.recv(1) == b"", "nobody is idle"
    until(lambda: httpx2.get(f"{running.url}/models", timeout=None).status_code == 200)


def test_stopped_beside_a_client_that_does_not_read_it_ends_without_a_word(
    engine: Server, proxy: Proxy, start: Start, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "GRACE_SECONDS", 1)
    running = start(replace(engine, base_url=proxy.url), N=1, K=1, T=0)
    proxy.script = [answer(200, reply("long " * 1_500_000))]
    with closing(connected(running)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(request(running, stream=True))
        until(lambda: len(proxy.bodies) == 1 and not proxy.in_flight)
        time.sleep(0.5)
        running.close()
    assert not capfd.readouterr().err


def test_few_open_files_are_told_with_what_fits(results: Path) -> None:
    def served(*args: str) -> str:
        line = f"ulimit -n 64; exec {sys.executable} -m labs.endpoint.app --port 0 " + " ".join(args)
        with subprocess.Popen(
            ["bash", "-c", line], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            said = process.stdout.readline()
            url = said.split(" on ")[1].split(": N=")[0] if said else ""
            try:
                while url and process.poll() is None:
                    with suppress(httpx2.TransportError):
                        assert httpx2.get(f"{url}/models", timeout=None).status_code == 200
                        return ""
                    time.sleep(0.05)
            finally:
                process.terminate()
            return process.stderr.read()

    told = served()
    advice = re.search(r"error: the system allows too few open files for clients.* (CONCURRENCY=\d+), or", told)
    assert advice and "Traceback" not in told and told.count("\n") == 1, told
    assert served(advice[1]) == ""
