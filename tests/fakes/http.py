"""A scripted HTTP server, whose subclasses define `get` and `post`."""

import json
import signal
import socket
import subprocess
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
    request_queue_size = 128  # with a queue of 5, some of many clients wait for a second

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients of tests leave, or are killed, while they wait."""


class HttpFake:
    """A server on 127.0.0.1, on a free port or on `port`. `root` is its address, and `url` its
    API's (/v1)."""

    def __init__(self, port: int = 0) -> None:
        fake = self
        self.lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # otherwise a body waits for 40 ms until the client has confirmed its head
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def handle(self) -> None:
                with suppress(ConnectionError):  # the client may leave
                    super().handle()

            def do_GET(self) -> None:
                fake.get(self)

            def do_POST(self) -> None:
                fake.post(self, self.rfile.read(int(self.headers.get("content-length", 0))))

            do_HEAD = do_GET

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


def answer(
    status: int, content: bytes | dict[str, Any], kind: str = "application/json", **headers: str
) -> Answer:
    """Return the function that sends this answer."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()

    def send(request: Request) -> None:
        request.send_response(status)
        for name, value in (
            {"content_type": kind, "content_length": str(len(body))} | headers
        ).items():
            request.send_header(name.replace("_", "-"), value)
        # as real servers do: otherwise clients would ask again on the closed connection
        if request.close_connection:
            request.send_header("connection", "close")
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)

    return send


def forwarded(target: str, request: Request, body: bytes | None) -> tuple[int, str, bytes]:
    """Send a request on to the server at `target`; return its answer: status, content type and
    body."""
    onward = urllib.request.Request(
        target + request.path, body, {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(onward, timeout=120) as reply:
            return reply.status, reply.headers.get("content-type", ""), reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("content-type", ""), error.read()


def is_gone(request: Request) -> bool:
    """Return whether the client has left."""
    with suppress(BlockingIOError):
        return not request.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    return False


def reset(request: Request) -> None:
    """End the connection in the middle of the body."""
    answer(200, b'{"choices": [', content_length="1000")(request)
    request.close_connection = True


def silence(seconds: float) -> Answer:
    """Return the function that sends nothing for `seconds` and ends the connection."""

    def wait(request: Request) -> None:
        time.sleep(seconds)
        request.close_connection = True

    return wait


class Mortal(HttpFake):
    """A server that answers `life` requests. Others get no answer, and `is_stuck` is set: time to
    kill the client."""

    def __init__(self, port: int = 0) -> None:
        self.life = 10**9
        self.is_stuck, self._go_on = threading.Event(), threading.Event()
        super().__init__(port)

    def leave_alone(self, request: Request) -> None:
        self.is_stuck.set()
        self._go_on.wait(120)
        request.close_connection = True

    def kill(self, process: "subprocess.Popen[str]") -> None:
        """Kill a client's process once it is stuck, and then answer again."""
        assert self.is_stuck.wait(120)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        self.revive()

    def revive(self) -> None:
        self.life = 10**9
        self._go_on.set()


class Proxy(Mortal):
    """A proxy of the engine at `target`. The next requests get the answers in `script` instead, one
    each."""

    def __init__(self, target: str, port: int = 0) -> None:
        self.script: list[Answer] = []
        self.bodies: list[dict[str, Any]] = []
        self.in_flight = 0
        self._target = target.removesuffix("/v1")
        super().__init__(port)

    def get(self, request: Request) -> None:
        self._forward(request, None)

    def post(self, request: Request, body: bytes) -> None:
        if request.path == "/apply-template":  # from a probe of the engine
            return self._forward(request, body)
        with self.lock:
            self.bodies.append(json.loads(body))
            self.in_flight += 1
            fault = self.script.pop(0) if self.script else None
            fault = self.leave_alone if len(self.bodies) > self.life else fault
        try:
            fault(request) if fault else self._forward(request, body)
        finally:
            with self.lock:
                self.in_flight -= 1

    def _forward(self, request: Request, body: bytes | None) -> None:
        status, _, content = forwarded(self._target, request, body)
        answer(status, content)(request)
