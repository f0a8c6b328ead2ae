"""A proxy before the engine that writes down who asked for what, and whether the answer was handed over."""

import http.client
import json
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.fakes.http import HttpFake, Request, answer


@dataclass
class Asked:
    """A chat request. `run`: the API key it came with, by which tests tell runs apart. `seed` and `tokens` (its cap)
    name it: no two requests of an undisturbed run share both."""

    run: str
    seed: int
    tokens: int
    at: float  # time.monotonic()
    finish_reason: str | None = None  # of the answer, once all of it went into the connection


class Recorder(HttpFake):
    def __init__(self, target: str) -> None:
        self.requests: list[Asked] = []
        self._address = urlsplit(target).netloc
        super().__init__()

    def get(self, request: Request) -> None:
        status, content = self._forward(request, None)
        answer(status, content)(request)

    def post(self, request: Request, body: bytes) -> None:
        asked = json.loads(body)
        run = request.headers["authorization"].removeprefix("Bearer ")
        noted = Asked(run, asked["seed"], asked["max_tokens"], time.monotonic())
        self.requests.append(noted)
        status, content = self._forward(request, body)
        answer(status, content)(request)
        noted.finish_reason = json.loads(content)["choices"][0]["finish_reason"]

    def _forward(self, request: Request, body: bytes | None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._address, timeout=120)
        connection.request(request.command, request.path, body, {"content-type": "application/json"})
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        return reply.status, content

    def of(self, run: str) -> list[Asked]:
        return [request for request in self.requests if request.run == run]
