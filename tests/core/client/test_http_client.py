"""The openai client in front of scripted servers: connections, proxies, certificates, keys."""

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import RedirectRefused, UserError
from core.base.files import ROOT
from core.client import http_client
from core.client.failures import Failure, Lost, Malformed, Oversized, Refused
from core.client.http_client import HttpClient
from core.client.reply import Reply
from core.engines.protocol import Key, Server
from tests.fakes.http import Answer, HttpFake, Request, answer
from tests.fakes.moody import Moody, chat, events

CHAT = chat("forty-two")
BODY = {"model": "m", "messages": [{"role": "user", "content": "?"}], "max_tokens": 50}
KEY = Key("sk-the-key-of-this-test")
PROXIES = [f"{name}_proxy" for name in ("http", "https", "all", "no")]


def sent(server: Server) -> Reply | BaseException:
    """Return the reply to one request, or its error."""

    async def send() -> Reply:
        async with HttpClient(server, 1) as client:
            return await client.send(BODY, 30, 60)

    try:
        return asyncio.run(send())
    except (Failure, UserError) as error:
        return error


def at(url: str, **fields: Any) -> Server:
    return Server("other", url, "m", "x", **fields)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Recorder(HttpFake):
    """A server, or a proxy, that keeps the paths and headers of all requests."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Answer = answer(200, CHAT)
        super().__init__()

    def post(self, request: Request, body: bytes) -> None:
        self.paths.append(request.path)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.answer(request)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with closing(Recorder()) as recorder:
        yield recorder


# Addresses and connections


def exchanged(server: Server, n: int) -> list[Reply | BaseException]:
    """Return the replies to `n` simultaneous requests, then to one more."""

    async def all_of_them() -> list[Reply | BaseException]:
        async with HttpClient(server, n) as got:
            body = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
            at_once = [got.send(body, 30, 60) for _ in range(n)]
            found = await asyncio.gather(*at_once, return_exceptions=True)
            return [
                *found,
                *await asyncio.gather(got.send(body, 30, 60), return_exceptions=True),
            ]

    return asyncio.run(all_of_them())


def test_replicas_share_the_requests_and_redirect_none(moody: Moody) -> None:
    with closing(Moody()) as other:

        def wait(n: int, prompt: str) -> Answer:
            while len(moody.bodies) + len(other.bodies) < 8:  # until all are on their way
                time.sleep(0.01)
            return answer(200, CHAT)

        moody.choose = other.choose = wait
        server = Server("other", moody.url, "m", "x", replicas=(other.url,))
        assert all(isinstance(each, Reply) for each in exchanged(server, 8)[:8])
        assert len(moody.bodies) in (4, 5) and len(other.bodies) in (4, 5)
        for place in ("http://127.0.0.1:9/v1", other.url.replace("http:", "https:")):
            sends_on = answer(307, b"", Location=f"{place}/chat/completions")
            other.choose = lambda n, prompt, sends_on=sends_on: sends_on  # type: ignore[misc]
            elsewhere = [each for each in exchanged(server, 2) if not isinstance(each, Reply)]
            assert elsewhere and all(isinstance(each, RedirectRefused) for each in elsewhere), place


def test_a_request_right_after_a_stream_of_llama_cpp_is_not_lost(engine: Server) -> None:
    """llama.cpp closes a connection after a stream. Without a header against reuse, every second
    request is lost."""

    async def one_by_one() -> list[Reply]:
        async with HttpClient(engine, 1) as got:
            body = {
                "model": engine.model,
                "messages": [{"role": "user", "content": "1 + 1 ="}],
                "max_tokens": 1,
            }
            return [await got.send(body | {"stream": True}, 60, 600) for _ in range(20)]

    assert len(asyncio.run(one_by_one())) == 20


# Sizes


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("is_blank", [True, False])
def test_a_reply_far_beyond_its_cap_is_ended(
    moody: Moody, monkeypatch: Any, is_stream: bool, is_blank: bool
) -> None:
    monkeypatch.setattr(http_client, "ROOM", 2000)
    monkeypatch.setattr(http_client, "BYTES", 100)
    piece = (b" " if is_blank else b"x") * 100
    if is_stream and not is_blank:
        piece = events([{"choices": [{"delta": {"content": "x" * 100}}]}], done=False)
    sent = 0

    def send(request: Request) -> None:
        nonlocal sent
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b"" if is_stream else b'{"choices": ')
        request.close_connection = True
        while sent < 10**8:
            request.wfile.write(piece)
            sent += len(piece)

    moody.choose = lambda n, prompt: send
    body = {"model": "m", "messages": [{"role": "user", "content": "?"}], "max_tokens": 50}

    async def ask() -> None:
        async with HttpClient(Server("other", moody.url, "m", "x"), 1) as got:
            with pytest.raises(Oversized):
                await got.send(body, 30, 60)

    asyncio.run(ask())
    assert sent < 5 * 10**7


def test_an_endless_error_is_read_only_at_its_beginning(moody: Moody) -> None:
    sent_bytes = 0

    def send(request: Request) -> None:
        nonlocal sent_bytes
        request.send_response(400)
        request.end_headers()
        request.close_connection = True
        while sent_bytes < 10**8:
            request.wfile.write(b"too long " * 1000)
            sent_bytes += 9000

    moody.choose = lambda n, prompt: send
    error = sent(at(moody.url))
    assert isinstance(error, Refused) and str(error).startswith("too long too long")
    assert sent_bytes < 5 * 10**7


CHARSETS = ("utf-16", "utf-32", "idna", "punycode", "no-charset")


@pytest.mark.parametrize("charset", CHARSETS)
@pytest.mark.parametrize("body", [b'{"error": {"message": "too busy"}}', b"too busy", b"\xff" * 9])
def test_an_error_in_any_charset_is_a_refusal(moody: Moody, charset: str, body: bytes) -> None:
    error_answer = answer(400, body, kind=f"application/json; charset={charset}")
    moody.choose = lambda n, prompt: error_answer
    error = sent(at(moody.url))
    assert isinstance(error, Refused) and error.status == 400
    assert body[0] == 0xFF or "too busy" in str(error)


def test_a_redirect_is_not_read(moody: Moody) -> None:
    def send(request: Request) -> None:
        request.send_response(307)
        request.send_header("location", "/v2/chat/completions")
        request.send_header("content-length", "1000")
        request.end_headers()
        time.sleep(5)

    moody.choose = lambda n, prompt: send
    began = time.monotonic()
    error = sent(at(moody.url))
    assert isinstance(error, Malformed) and "redirects to another path" in str(error)
    assert time.monotonic() - began < 4


def test_a_switch_to_another_protocol_is_no_refusal(moody: Moody) -> None:
    def send(request: Request) -> None:
        request.send_response(101)
        request.send_header("upgrade", "h2c")
        request.end_headers()
        request.close_connection = True

    moody.choose = lambda n, prompt: send
    error = sent(at(moody.url))
    assert isinstance(error, Malformed) and "another protocol" in str(error)


def test_a_repeated_retry_after_is_read(moody: Moody) -> None:
    def send(request: Request) -> None:
        request.send_response(429)
        for _ in range(2):
            request.send_header("Retry-After", "9")
        request.send_header("content-length", "0")
        request.end_headers()

    moody.choose = lambda n, prompt: send
    error = sent(at(moody.url))
    assert isinstance(error, Refused) and error.wait == 9.0


# Proxies


def test_the_proxy_of_the_environment_is_used(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", recorder.root.replace("//", "//me:pass-word@"))
    assert isinstance(sent(at("http://model.example/v1")), Reply)
    assert recorder.paths == ["http://model.example/v1/chat/completions"]
    assert recorder.headers[0]["proxy-authorization"].startswith("Basic ")


@pytest.mark.parametrize("exception", ["model.example", ".example", "*", "a.b, model.example"])
def test_no_proxy_names_hosts_without_one(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, exception: str
) -> None:
    monkeypatch.setenv("http_proxy", recorder.root)
    monkeypatch.setenv("no_proxy", exception)
    assert isinstance(sent(at("http://model.example/v1")), Lost)
    assert not recorder.paths


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_on_this_machine_needs_no_proxy(
    moody: Moody, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    for name in PROXIES[:3]:
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert isinstance(sent(at(moody.url.replace("127.0.0.1", host))), Reply)


def test_a_proxy_for_all_protocols_is_ignored(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", f"socks5://127.0.0.1:{recorder.port}")
    assert isinstance(sent(at("http://model.example/v1")), Lost)
    assert not recorder.paths


def test_an_invalid_proxy_is_named(moody: Moody, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://a:b:c")
    error = sent(at(moody.url))
    assert isinstance(error, UserError) and "http_proxy" in str(error)


# Certificates


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")
def test_a_certificate_is_trusted_if_ssl_cert_file_names_it(
    moody: Moody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = tmp_path / "certificate.pem"
    key = tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    moody._listener.socket = context.wrap_socket(moody._listener.socket, server_side=True)
    server = at(moody.url.replace("http:", "https:"))
    error = sent(server)
    assert isinstance(error, Lost) and "certificate verify failed" in str(error)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert isinstance(sent(server), Reply)


# Keys


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_server_gets_neither_key_nor_prompt(
    recorder: Recorder, moody: Moody, status: int
) -> None:
    recorder.answer = answer(status, b"", Location=f"{moody.url}/chat/completions")
    for key in (KEY, Key(str(KEY), header="api-key")):
        error = sent(at(recorder.url, key=key))
        assert isinstance(error, RedirectRefused) and KEY not in str(error)
    assert not moody.prompts


def test_the_key_is_sent_in_its_own_header_alone(recorder: Recorder) -> None:
    for key in (KEY, Key(str(KEY), header="api-key"), Key()):
        assert isinstance(sent(at(recorder.url, key=key)), Reply)
    bearer, own, none = recorder.headers
    assert bearer["authorization"] == f"Bearer {KEY}"
    assert own["api-key"] == KEY and "authorization" not in own
    assert "authorization" not in none


def test_the_clients_own_key_is_not_sent_to_other_servers(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "sk-for-openai-alone")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert isinstance(sent(at(recorder.url)), Reply)
    assert "sk-for-openai-alone" not in str(recorder.headers)


OPENAI_VALUES = {
    "OPENAI_ORG_ID": "org-1",
    "OPENAI_PROJECT_ID": "proj-1",
    "OPENAI_CUSTOM_HEADERS": "X-Gateway: secret\nAuthorization: Bearer sk-of-another",
}


def test_the_users_openai_account_is_named_to_no_other_server(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in OPENAI_VALUES.items():
        monkeypatch.setenv(name, value)
    replica = f"{recorder.root}/replica"
    for key in (KEY, Key(str(KEY), header="api-key"), Key()):
        assert isinstance(sent(at(recorder.url, key=key, replicas=(replica,))), Reply)
    for headers in recorder.headers:
        for text in ("org-1", "proj-1", "secret", "sk-of-another"):
            assert text not in str(headers)
    assert recorder.headers[0]["authorization"] == f"Bearer {KEY}"
    assert all(os.environ[name] == value for name, value in OPENAI_VALUES.items())


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "API_KEY"])
def test_the_users_openai_account_goes_where_the_openai_key_goes(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, OPENAI_VALUES[name])
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: secret")
    if variable == "API_KEY":  # the same key, typed as API_KEY
        monkeypatch.setenv("OPENAI_API_KEY", str(KEY))
    assert isinstance(sent(at(recorder.url, key=Key(str(KEY), variable))), Reply)
    headers = recorder.headers[0]
    names = ("openai-organization", "openai-project", "x-gateway")
    assert [headers[name] for name in names] == ["org-1", "proj-1", "secret"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "model.example"])
def test_no_cookie_is_sent_back(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """A load balancer's cookie would send all requests to one replica."""
    recorder.answer = answer(200, CHAT, Set_Cookie="AWSALB=one; Path=/")
    monkeypatch.setenv("http_proxy", recorder.root)  # the way to model.example
    url = recorder.url.replace("127.0.0.1", host)
    assert all(isinstance(each, Reply) for each in exchanged(at(url), 1))
    assert len(recorder.headers) == 2 and "AWSALB" not in str(recorder.headers)


LOGGED = """
import asyncio, sys
from core.client.http_client import HttpClient
from core.engines.protocol import Key, Server

async def send(key):
    async with HttpClient(Server("other", sys.argv[1], "m", "x", key=key), 1) as client:
        await client.send({"model": "m", "messages": [{"role": "user", "content": "?"}]}, 30, 60)

for header in ("", "x-own-key"):
    asyncio.run(send(Key(sys.argv[2], header=header)))
"""


def test_openai_log_shows_requests_but_no_key(recorder: Recorder) -> None:
    env = os.environ | {"OPENAI_LOG": "debug", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOGGED, recorder.url, str(KEY)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert "openai._base_client" in done.stderr and "POST" in done.stderr
    assert KEY not in done.stderr + done.stdout
    assert [headers.get("x-own-key") for headers in recorder.headers] == [None, KEY]
