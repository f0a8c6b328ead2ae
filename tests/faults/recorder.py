"""A proxy of the engine that records each request, its run, and whether the answer was sent."""

import json
import time
from dataclasses import dataclass

from tests.fakes.http import HttpFake, Request, answer, forwarded


@dataclass
class Asked:
    """A chat request. `run`: its API key, which tells runs apart. No two requests of a run share `seed` and `tokens`
    (the cap)."""

    run: str
    seed: int
    tokens: int
    at: float  # time.monotonic()
    finish_reason: str | None = None  # of the answer, once all of it is sent


class Recorder(HttpFake):
    def __init__(self, target: str) -> None:
        self.requests: list[Asked] = []
        self._target = target.removesuffix("/v1")
        super().__init__()

    def get(self, request: Request) -> None:
        status, _, content = forwarded(self._target, request, None)
        answer(status, content)(request)

    def post(self, request: Request, body: bytes) -> None:
        asked = json.loads(body)
        run = request.headers["authorization"].removeprefix("Bearer ")
        noted = Asked(run, asked["seed"], asked["max_tokens"], time.monotonic())
        self.requests.append(noted)
        status, _, content = forwarded(self._target, request, body)
        answer(status, content)(request)
        noted.finish_reason = json.loads(content)["choices"][0]["finish_reason"]

    def of(self, run: str) -> list[Asked]:
        return [request for request in self.requests if request.run == run]
