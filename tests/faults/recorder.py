"""A proxy before the engine that writes down who asked for what, and whether the answer was handed over."""

import http.client
import json
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Request:
    """A chat request. `run`: the API key it came with, by which tests tell runs apart. `seed` and `tokens` (its cap)
    name it: no two requests of an undisturbed run share both."""

    run: str
    seed: int
    tokens: int
    at: float  # time.monotonic()
    finish_reason: str | None = None  # of the answer, once all of it went into the connection


class Recorder:
    def __init__(self, target: str) -> None:
        self.requests: list[Request] = []
        address = urlsplit(target).netloc
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._send(*self._forward(None))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                asked = json.loads(body)
                run = self.headers["authorization"].removeprefix("Bearer ")
                request = Request(run, asked["seed"], asked["max_tokens"], time.monotonic())
                recorder.requests.append(request)
                status, content = self._forward(body)
                self._send(status, content)
                request.finish_reason = json.loads(content)["choices"][0]["finish_reason"]

            def _forward(self, body: bytes | None) -> tuple[int, bytes]:
                connection = http.client.HTTPConnection(address, timeout=120)
                connection.request(self.command, self.path, body, {"content-type": "application/json"})
                reply = connection.getresponse()
                content = reply.read()
                connection.close()
                return reply.status, content

            def _send(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        class Listener(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """Clients here are killed while they wait for an answer."""

        self._listener = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._listener.server_port}/v1"
        threading.Thread(target=self._listener.serve_forever, daemon=True).start()

    def of(self, run: str) -> list[Request]:
        return [request for request in self.requests if request.run == run]

    def close(self) -> None:
        self._listener.shutdown()
        self._listener.server_close()
