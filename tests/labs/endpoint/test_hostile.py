"""Hostile clients of the endpoint, over real sockets: foreign names, no key, too much, and
disconnects."""

import http.client
import json
import socket
import struct
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import pytest

from core.engines.protocol import Key, Server
from labs.endpoint import app, connection
from labs.endpoint.hosts import Names
from tests.fakes.http import Proxy
from tests.helpers.processes import eventually
from tests.labs.endpoint.conftest import ASKED, Running, Start


def connected(running: Running) -> socket.socket:
    return socket.create_connection(running.address, timeout=60)


def request(running: Running, length: int | None = None, **fields: Any) -> bytes:
    """Return the bytes of a request; `length`: a wrong length of the body to announce."""
    body = json.dumps({"model": running.model, "messages": ASKED, "seed": 1} | fields).encode()
    size = len(body) if length is None else length
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/json\r\n"
    )
    return f"{head}Content-Length: {size}\r\n\r\n".encode() + body


def status(running: Running, *heads: str, version: str = "1.1") -> int:
    """Return the status of a request with these header lines and no others."""
    lines = "".join(f"{head}\r\n" for head in heads)
    with closing(connected(running)) as client:
        client.sendall(f"GET /v1/models HTTP/{version}\r\n{lines}\r\n".encode())
        return int(client.recv(65536).split()[1])


FOREIGN = [
    "evil.example", "evil.example:30100", "localhost.evil.example", "127.0.0.1.evil.example",
    "evil.example.", "10.1.2.3", "[2001:db8::1]:80", "localhost@evil.example", "localhost:80:80",
    "localhost:http", "", "[::1", "127.1", "2130706433", "0.0.0.0",
]  # fmt: skip
OURS = [  # with port 8080, the endpoint is forwarded, as by ssh -L
    "127.0.0.1", "127.0.0.1:30100", "localhost:30100", "localhost:8080", "LocalHost.",
    "[::1]:30100", "[0:0:0:0:0:0:0:1]", "[::FFFF:127.0.0.1]", "  127.0.0.1  ",
]  # fmt: skip


@pytest.mark.parametrize(
    ("bound", "named", "hosts", "known"),
    [
        ("127.0.0.1", [], FOREIGN, False),
        ("127.0.0.1", [], OURS, True),
        ("127.0.0.1", ["rsa.example.org"], ["RSA.Example.org.:443"], True),
        ("127.0.1.1", ["gpu-box"], ["gpu-box:30100"], True),
        ("::1", [], ["[::1]:30100"], True),
        (
            "0.0.0.0",
            [],
            ["10.1.2.3:30100", "[2001:db8::1]:30100", f"{socket.gethostname()}:30100"],
            True,
        ),
        ("0.0.0.0", [], ["evil.example:30100"], False),
        ("10.1.2.3", ["gpu-box.lan"], ["gpu-box.lan"], True),
        ("10.1.2.3", [], ["evil.example"], False),
    ],
)
def test_only_names_of_this_machine_and_of_the_operator_are_known(
    bound: str, named: list[str], hosts: list[str], known: bool
) -> None:
    for host in hosts:
        assert Names(bound, named).hold(host) is known, host


def test_a_client_that_asks_by_a_foreign_name_gets_nothing(shared: Running) -> None:
    assert status(shared, "Host: localhost") == 200 and status(shared, "Host: evil.example") == 403
    assert status(shared, "Host: localhost", "Host: evil.example") in (400, 403)
    assert status(shared, version="1.0") == 403 and status(shared) == 400, "no host at all"
    refused = shared.post({}, host="evil.example:30100")
    assert refused.status_code == 403 and refused.json()["error"]["code"] == "unknown_host"


def test_a_page_of_another_origin_can_send_nothing(shared: Running) -> None:
    """Of the content types that a page may send without asking first, none is taken, and no origin
    is allowed."""
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    ):
        assert shared.post({}, content_type=kind, origin="http://evil.example").status_code == 415
    made = shared.post({"rsa": {"T": 0}}, origin="http://evil.example")
    assert made.status_code == 200 and not [
        name for name in made.headers if name.startswith("access-control")
    ]


def test_if_there_is_a_key_requests_need_it(
    openai: Any, engine: Server, start: Start, capfd: pytest.CaptureFixture[str]
) -> None:
    running, key = start(replace(engine, key=Key("sk-secret"))), "sk-secret"
    for given, expected in (
        (f"Bearer {key}", 200),
        (f"bearer {key}", 200),
        (f"BEARER   {key}", 200),
        (f"Basic {key}", 401),
        (key, 401),
        ("Bearer sk-secre", 401),
        ("Bearer sk-Secret", 401),
        ("Bearer sk-sécret", 401),
        ("Bearer", 401),
    ):
        assert status(running, "Host: rsa.example.org", f"Authorization: {given}") == expected, (
            given
        )
    refused = running.post({})
    assert refused.status_code == 401 and refused.json()["error"]["code"] == "invalid_api_key"
    assert key not in refused.text
    with pytest.raises(openai.AuthenticationError), running.client() as client:
        client.models.list()
    with running.client(api_key=key) as client:
        made = client.chat.completions.create(
            model=running.model, messages=ASKED, extra_body={"rsa": {"T": 0}}
        )
    assert made.choices[0].message.content
    running.close()
    assert key not in "".join(capfd.readouterr()) + running.journal.read_text()


@pytest.mark.parametrize(
    ("own", "rsa", "status"),
    [
        ({}, {"N": 64, "T": 63}, 200),
        ({}, {"N": 64, "T": 64}, 400),
        ({}, {"N": 1024, "K": 5, "T": 0}, 400),
        ({"N": 64, "T": 100}, {"T": 100}, 200),
        ({"N": 64, "T": 100}, {"T": 101}, 400),
    ],
)
def test_a_request_may_ask_for_so_much_or_as_much_as_the_operators_own(
    own: dict[str, int],
    rsa: dict[str, int],
    status: int,
    engine: Server,
    proxy: Proxy,
    start: Start,
) -> None:
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=1, **own)
    with closing(connected(running)) as client:
        client.sendall(request(running, rsa=rsa, stream=True))
        assert int(client.recv(65536).split()[1]) == status
        assert bool(running.work()) == (status == 200)
    assert eventually(lambda: not running.work() and not proxy.in_flight)


def test_a_body_that_is_too_large_is_refused(shared: Running) -> None:
    assert shared.post(b"x" * (app.MAX_BODY + 1)).status_code == 413


def test_clients_that_leave_anywhere_are_no_word_in_the_log(
    engine: Server, start: Start, capfd: pytest.CaptureFixture[str]
) -> None:
    running = start(engine, CONCURRENCY=2, T=500)
    whole = request(running)
    for number in range(100):
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
    assert eventually(lambda: not running.work())
    assert status(running, "Host: localhost") == 200
    running.close()
    assert not capfd.readouterr().err


HALF = [  # beginnings of a request, after which a client says nothing
    b"", b"P", b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 100\r\n\r\n{",
]  # fmt: skip


def test_silent_connections_do_not_shut_the_endpoint(
    engine: Server, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(app, "MOST_CONNECTIONS", 40)
    running = start(engine)
    with ExitStack() as clients:
        for number in range(40):
            clients.enter_context(closing(connected(running))).sendall(HALF[number % len(HALF)])
        assert status(running, "Host: localhost") == 503
        assert eventually(lambda: status(running, "Host: localhost") == 200, 30)


def test_a_connection_that_drips_its_head_is_closed(
    engine: Server, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.5)
    with closing(connected(start(engine))) as client, pytest.raises(ConnectionError):
        for _ in range(600):
            client.sendall(b"G")
            time.sleep(0.1)


@pytest.mark.parametrize("stream", [False, True])
def test_a_connection_between_requests_and_one_whose_request_takes_long_stay_open(
    stream: bool, engine: Server, proxy: Proxy, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = proxy._forward

    def slowly(request: Any, body: bytes | None) -> None:
        time.sleep(0.8)
        forward(request, body)

    monkeypatch.setattr(proxy, "_forward", slowly)
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.2)
    running = start(replace(engine, base_url=proxy.url))
    with closing(http.client.HTTPConnection("127.0.0.1", running.address[1], timeout=60)) as client:
        for _ in range(2):
            body = json.dumps(
                {"model": running.model, "messages": ASKED, "stream": stream, "rsa": {"T": 0}}
            )
            client.request(
                "POST", "/v1/chat/completions", body, {"content-type": "application/json"}
            )
            reply = client.getresponse()
            text = reply.read().decode()
            assert reply.status == 200 and '"stop"' in text
            assert client.sock is not None, "the endpoint keeps the connection"
            time.sleep(0.6)


def test_a_body_may_take_longer_than_the_limit_of_its_pauses(
    engine: Server, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 1.0)
    running = start(engine)
    whole = request(running, rsa={"T": 0})
    with closing(connected(running)) as client:
        for place in range(0, len(whole), len(whole) // 8):
            client.sendall(whole[place : place + len(whole) // 8])
            time.sleep(0.3)
        assert int(client.recv(65536).split()[1]) == 200


@pytest.mark.parametrize("moment", ["waiting", "streaming", "whole"])
def test_a_client_that_leaves_takes_its_work_along(
    engine: Server, proxy: Proxy, start: Start, moment: str
) -> None:
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=1, T=500)
    with closing(connected(running)) as other, closing(connected(running)) as client:
        if moment == "waiting":  # for the server, which has another request's members before it
            other.sendall(request(running, seed=2))
            assert eventually(lambda: len(proxy.bodies) > 0)
        client.sendall(request(running, stream=moment == "streaming"))
        received = b""
        while moment == "streaming" and b"step 0" not in received:
            received += client.recv(65536)
        assert eventually(lambda: bool(running.work()) and len(proxy.bodies) > 1)
    assert eventually(lambda: not running.work() and not proxy.in_flight)
    assert 0 < len(proxy.bodies) < 4 * 501 / 2
    assert running.ask(extra_body={"rsa": {"T": 0}}).choices[0].message.content, (
        "its place is free again"
    )
