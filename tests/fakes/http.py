"""One scripted HTTP server, for all that stand in for something: what it does follows from `get` and `post`."""

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Request = BaseHTTPRequestHandler
Answer = Callable[[Request], None]


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = (
        128  # many may knock at once: with a queue of 5, the system lets some of them wait for a second
    )

    def handle_error(self, *_: object) -> None:
        """Clients of tests leave, or are killed, while they wait."""


class HttpFake:
    """A server on 127.0.0.1, on a free port or on `port`. `root` is its address, `url` that of its API (/v1)."""

    protocol = "HTTP/1.1"

    def __init__(self, port: int = 0) -> None:
        fake = self
        self.lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = fake.protocol

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def handle(self) -> None:
                with suppress(ConnectionError):  # a client that is done may leave
                    super().handle()

            def do_GET(self) -> None:
                fake.get(self)

            def do_POST(self) -> None:
                fake.post(self, self.rfile.read(int(self.headers.get("content-length", 0))))

            do_HEAD = do_GET
            do_DELETE = do_POST

        self._listener = _Listener(("127.0.0.1", port), Handler)
        self.port = self._listener.server_port
        self.root = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.root}/v1"
        threading.Thread(target=partial(self._listener.serve_forever, 0.05), daemon=True).start()

    def get(self, request: Request) -> None:
        answer(404, {"error": {"message": "no such page"}})(request)

    def post(self, request: Request, body: bytes) -> None:
        answer(404, {"error": {"message": "no such page"}})(request)

    def close(self) -> None:
        self._listener.shutdown()
        self._listener.server_close()


def answer(status: int, content: bytes | dict[str, Any], kind: str = "application/json", **headers: str) -> Answer:
    """This answer, or instead of the engine's."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()

    def send(request: Request) -> None:
        request.send_response(status)
        request.send_header("content-type", kind)
        request.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)

    return send


def is_gone(request: Request) -> bool:
    """Whether the client has left, and nobody hears what it would be answered."""
    with suppress(BlockingIOError):
        return not request.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    return False


def reset(request: Request) -> None:
    """A fault: the connection ends in the middle of the body."""
    request.send_response(200)
    request.send_header("content-type", "application/json")
    request.send_header("content-length", "1000")
    request.end_headers()
    request.wfile.write(b'{"choices": [')
    request.close_connection = True


def silence(seconds: float) -> Answer:
    """A fault: nothing comes for `seconds`, then the connection ends."""

    def wait(request: Request) -> None:
        time.sleep(seconds)
        request.close_connection = True

    return wait


class Proxy(HttpFake):
    """Passes requests on to the engine at `target`, after the faults in `script` (one a request) are used up."""

    def __init__(self, target: str) -> None:
        self.script: list[Answer] = []
        self.bodies: list[dict[str, Any]] = []
        self.in_flight = self.most_in_flight = 0
        self._target = target.removesuffix("/v1")
        super().__init__()

    def get(self, request: Request) -> None:
        self._forward(request, None)

    def post(self, request: Request, body: bytes) -> None:
        with self.lock:
            self.bodies.append(json.loads(body))
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            fault = self.script.pop(0) if self.script else None
        try:
            if fault:
                fault(request)
            else:
                self._forward(request, body)
        finally:
            with self.lock:
                self.in_flight -= 1

    def _forward(self, request: Request, body: bytes | None) -> None:
        onward = urllib.request.Request(self._target + request.path, body, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(onward, timeout=120) as reply:
                status, content = reply.status, reply.read()
        except urllib.error.HTTPError as error:
            status, content = error.code, error.read()
        answer(status, content)(request)
