"""A proxy of the engine that records each request and its run."""

import json
import time
from dataclasses import dataclass

from tests.fakes.http import Proxy, Request


@dataclass
class Asked:
    """A chat request. `run`: its API key, which tells runs apart."""

    run: str
    seed: int
    at: float  # time.monotonic()


class Recorder(Proxy):
    def __init__(self, target: str) -> None:
        self.requests: list[Asked] = []
        super().__init__(target)

    def post(self, request: Request, body: bytes) -> None:
        run = request.headers["authorization"].removeprefix("Bearer ")
        self.requests.append(Asked(run, json.loads(body)["seed"], time.monotonic()))
        super().post(request, body)

    def of(self, run: str) -> list[Asked]:
        return [request for request in self.requests if request.run == run]
