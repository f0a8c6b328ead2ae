"""Fixtures: the real embedded engine, a proxy that injects faults before it, and experiments run as a user does."""

import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from core.engines import start as engines
from core.engines.server import Server
from tests.helpers import leftovers

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in jobs in the background, where CI may run us
# Machines that run tests are busy, all of the time or for a moment: no test of properties has a deadline.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
# Servers of tests are knocked at by many at once: with a queue of 5, the system lets some of them wait for a second.
socketserver.TCPServer.request_queue_size = 128
ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Have what the tests start end with them (leftovers.py). Workers of xdist carry the mark of the process that
    started them."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    os.environ[leftovers.NAME] = uuid.uuid4().hex
    config.stash[WATCH] = subprocess.Popen(
        [sys.executable, leftovers.__file__, os.environ[leftovers.NAME]],
        stdin=subprocess.PIPE,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != leftovers.NAME},
    )


WATCH = pytest.StashKey["subprocess.Popen[bytes]"]()  # held until this process ends, and its end of the pipe with it


@pytest.fixture(scope="session")
def engine() -> Iterator[Server]:
    """The embedded model on the embedded engine, shared by all tests."""
    with engines.embedded() as server:
        yield server


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setenv("RESULTS_DIR", str(folder))
    return folder


class Proxy:
    """Passes requests on to the engine, after the faults in `script` (one a request) are used up."""

    def __init__(self, target: str) -> None:
        self.script: list[Callable[[BaseHTTPRequestHandler], None]] = []
        self.bodies: list[dict[str, Any]] = []
        self.in_flight = self.most_in_flight = 0
        lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._forward(None)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                with lock:
                    proxy.bodies.append(json.loads(body))
                    proxy.in_flight += 1
                    proxy.most_in_flight = max(proxy.most_in_flight, proxy.in_flight)
                    fault = proxy.script.pop(0) if proxy.script else None
                try:
                    if fault:
                        fault(self)
                    else:
                        self._forward(body)
                finally:
                    with lock:
                        proxy.in_flight -= 1

            def _forward(self, body: bytes | None) -> None:
                root = target.removesuffix("/v1")
                request = urllib.request.Request(root + self.path, body, {"content-type": "application/json"})
                try:
                    with urllib.request.urlopen(request, timeout=120) as reply:
                        status, content = reply.status, reply.read()
                except urllib.error.HTTPError as error:
                    status, content = error.code, error.read()
                answer(status, content)(self)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def answer(
    status: int, content: bytes | dict[str, Any], kind: str = "application/json", **headers: str
) -> Callable[[BaseHTTPRequestHandler], None]:
    """A fault: this answer instead of the engine's."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()

    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("content-type", kind)
        handler.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return send


def reset(handler: BaseHTTPRequestHandler) -> None:
    """A fault: the connection ends in the middle of the body."""
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def silence(seconds: float) -> Callable[[BaseHTTPRequestHandler], None]:
    """A fault: nothing comes for `seconds`, then the connection ends."""

    def wait(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(seconds)
        handler.close_connection = True

    return wait


@pytest.fixture
def proxy(engine: Server) -> Iterator[Proxy]:
    made = Proxy(engine.base_url)
    yield made
    made.close()


def environment(**changes: str) -> dict[str, str]:
    """The environment of an experiment started by a user: no server chosen, and port 30000 left alone. The ports of
    tests lie below those that the system gives to whoever asks for any."""
    left_out = ("BASE_URL", "API_KEY", "MODEL", "PROBLEMS")
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    return inherited | {"PYTHONPATH": str(ROOT), "PORT": "29871"} | changes


def heed_signals() -> None:
    """As in a terminal: a job in the background (CI's, perhaps) ignores Ctrl-C, and its children inherit that."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_DFL)


def start(experiment: str, *overrides: str, **changes: str) -> "subprocess.Popen[str]":
    return python(str(ROOT / "experiments" / f"{experiment}.py"), *overrides, **changes)


def python(*args: str, **changes: str) -> "subprocess.Popen[str]":
    """A program of this project, as a user starts it."""
    return subprocess.Popen(
        [sys.executable, *args],
        env=environment(**changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        preexec_fn=heed_signals,
    )


def run(experiment: str, *overrides: str, **changes: str) -> tuple[int, str, str]:
    """Run an experiment to its end: status, standard output, standard error."""
    process = start(experiment, *overrides, **changes)
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    return process.returncode, out, err
