"""A grader of proofs behind a real socket, which charges for its replies, and may throttle, refuse
and fail."""

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from core.base.prices import Prices
from tests.fakes.http import Answer, Mortal, Request, answer, is_gone

PRICES = Prices(read=1.0, cached=0.1, written=10.0, on="2026-11-23")
PROOF = re.compile(
    r"^----- ([0-9a-f]{16}) begins -----\n(.*)\n----- \1 ends -----$", re.MULTILINE | re.DOTALL
)


def points_of(proof: str) -> int:
    """Return this grader's points for a proof: they follow from its hash."""
    return hashlib.sha256(proof.encode("utf-8", "surrogatepass")).digest()[0] % 8


def quoting(prompt: str, seed: int) -> str:
    """Reply as a grader that quotes the whole proof before it states its points."""
    found = PROOF.search(prompt)
    assert found, prompt
    return f"The proof says:\n{found[2]}\n\nPoints: {points_of(found[2])}"


class GradingServer(Mortal):
    """A grader that answers `reply(prompt, seed)`, or request number n by `fault(n)`, or refuses
    requests with fields `refused`. `answered`: the messages and seeds of answered requests;
    `charged`: dollars."""

    def __init__(self, port: int = 0) -> None:
        self.reply: Callable[[str, int], str] = quoting
        self.fault: Callable[[int], Answer | None] = lambda n: None
        self.refused: tuple[str, ...] = ()
        self.finish_reason = "stop"
        self.asked = self._under_way = 0
        self.charged = 0.0
        self.answered: list[tuple[str, int]] = []
        self.keys: set[str | None] = set()
        super().__init__(port)

    def get(self, request: Request) -> None:
        status = 200 if request.path.endswith("/models") else 404
        answer(
            status,
            {"object": "list", "data": [{"id": "strict", "object": "model", "owned_by": "us"}]},
        )(request)

    def post(self, request: Request, body: bytes) -> None:
        # llama.cpp's pages, because it answers /props
        if not request.path.endswith("/chat/completions"):
            return answer(404, {})(request)
        asked: dict[str, Any] = json.loads(body)
        with self.lock:
            # first, because a test revives it after a kill
            is_dead = len(self.answered) + self._under_way >= self.life
            if is_gone(request):  # the client was killed before this was read
                request.close_connection = True
                return None
            n, self.asked = self.asked, self.asked + 1
            self.keys.add(request.headers.get("Authorization"))
            fault = self.fault(n)
            if unknown := [name for name in self.refused if name in asked]:
                error = {"message": f"Unsupported parameter: '{unknown[0]}'", "param": unknown[0]}
                fault = answer(400, {"error": error})
            self._under_way += not (is_dead or fault)
        if is_dead or fault:
            return fault(request) if fault and not is_dead else self.leave_alone(request)
        prompt, seed = asked["messages"][0]["content"], asked.get("seed", 0)
        text = self.reply(prompt, seed)
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4 + 1}
        with self.lock:
            self._under_way -= 1
            self.answered.append((prompt, seed))
            self.charged += (
                PRICES.dollars((usage["prompt_tokens"], 0, usage["completion_tokens"])) or 0
            )
        choice = {
            "message": {"role": "assistant", "content": text},
            "finish_reason": self.finish_reason,
        }
        answer(200, {"model": "strict", "choices": [choice], "usage": usage})(request)
