"""A grader of proofs behind a real socket, which charges for what it says, and may throttle, refuse and fail."""

import hashlib
import json
import re
import threading
from collections.abc import Callable
from typing import Any

from core.base.prices import Prices
from tests.fakes.http import Answer, HttpFake, Request, answer, is_gone

PRICES = Prices(read=1.0, cached=0.1, written=10.0, on="2026-11-23")
PROOF = re.compile(r"^----- ([0-9a-f]{16}) begins -----\n(.*)\n----- \1 ends -----$", re.MULTILINE | re.DOTALL)


def points_of(proof: str) -> int:
    """What this grader gives a proof, whatever that says."""
    return hashlib.sha256(proof.encode("utf-8", "surrogatepass")).digest()[0] % 8


def quoting(prompt: str, seed: int) -> str:
    """A grader that repeats the whole proof before it says what it thinks."""
    found = PROOF.search(prompt)
    assert found, prompt
    return f"The proof says:\n{found[2]}\n\nPoints: {points_of(found[2])}"


class GradingServer(HttpFake):
    """`reply(prompt, seed)` is what it says; `fault(n)` what request number n meets in its place; `refused` are fields
    that it takes no request with. `answered`: the messages and seeds of the requests that were answered; `charged`:
    picodollars. `life` requests are answered and not one more, whatever comes at once: others get no answer, and
    `is_stuck` is set."""

    def __init__(self, port: int = 0) -> None:
        self.reply: Callable[[str, int], str] = quoting
        self.fault: Callable[[int], Answer | None] = lambda n: None
        self.refused: tuple[str, ...] = ()
        self.finish_reason = "stop"
        self.life = 10**9
        self.asked = self.charged = self._under_way = 0
        self.answered: list[tuple[str, int]] = []
        self.keys: set[str | None] = set()
        self.is_stuck, self._go_on = threading.Event(), threading.Event()
        super().__init__(port)

    def get(self, request: Request) -> None:
        answer(200, {"object": "list", "data": [{"id": "strict", "object": "model", "owned_by": "us"}]})(request)

    def post(self, request: Request, body: bytes) -> None:
        asked: dict[str, Any] = json.loads(body)
        if is_gone(request):  # killed before this was read, and answered by nobody
            request.close_connection = True
            return
        with self.lock:
            n, self.asked = self.asked, self.asked + 1
            self.keys.add(request.headers.get("Authorization"))
            fault = self.fault(n)
            if unknown := [name for name in self.refused if name in asked]:
                said = f"Unsupported parameter: '{unknown[0]}'"
                fault = answer(400, {"error": {"message": said, "param": unknown[0]}})
            is_dead = len(self.answered) + self._under_way >= self.life
            self._under_way += not (is_dead or fault)
        if is_dead:
            self.is_stuck.set()
            self._go_on.wait(120)
            request.close_connection = True
            return
        if fault:
            fault(request)
            return
        [message] = asked["messages"]
        said = self.reply(message["content"], asked.get("seed", 0))
        usage = {"prompt_tokens": len(message["content"]) // 4, "completion_tokens": len(said) // 4 + 1}
        with self.lock:
            self._under_way -= 1
            self.answered.append((message["content"], asked.get("seed", 0)))
            self.charged += PRICES.cost((usage["prompt_tokens"], 0, usage["completion_tokens"])) or 0
        choice = {"message": {"role": "assistant", "content": said}, "finish_reason": self.finish_reason}
        answer(200, {"model": "strict", "choices": [choice], "usage": usage})(request)

    def revive(self) -> None:
        self.life = 10**9
        self._go_on.set()
