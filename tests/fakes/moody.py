"""A scripted server of chats, and its replies."""

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.fakes.http import Answer, HttpFake, Request, answer

MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "somebody"}]}
USAGE = {"prompt_tokens": 5, "completion_tokens": 7}


def chat(message: Any, **more: Any) -> dict[str, Any]:
    """Return a chat completion with a `message`, or a text; `more`: fields of its choice."""
    message = {"role": "assistant", "content": message} if isinstance(message, str) else message
    choice = {"index": 0, "finish_reason": "stop", "message": message} | more
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": USAGE,
    }


def replied(message: Any, prompt: int = 30, **more: Any) -> Answer:
    """Return the answer with a `message` of 12 tokens to a prompt of so many."""
    return answer(
        200, chat(message, **more) | {"usage": {"prompt_tokens": prompt, "completion_tokens": 12}}
    )


def events(chunks: Sequence[Any], end: bytes = b"\n", done: bool = True) -> bytes:
    """Return the stream of these chunks."""
    lines = [b"data: " + json.dumps(chunk).encode() for chunk in chunks] + [b"data: [DONE]"] * done
    return b"".join(line + 2 * end for line in lines)


def good(prompt: str) -> Answer:
    """Return an answer that follows from the prompt."""
    return answer(200, chat(f"\\boxed{{{hashlib.sha256(prompt.encode()).digest()[0]}}}"))


class Moody(HttpFake):
    """A server that answers request number `n` (from 0) by `choose(n, prompt)`."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.models: dict[str, Any] = MODELS
        self.choose: Callable[[int, str], Answer] = lambda n, prompt: good(prompt)
        super().__init__()

    def get(self, request: Request) -> None:
        answer(200 if request.path == "/v1/models" else 404, self.models)(request)

    def post(self, request: Request, body: bytes) -> None:
        asked = json.loads(body)
        prompt = asked["messages"][-1]["content"]
        with self.lock:
            n = len(self.prompts)
            self.prompts.append(prompt)
            self.bodies.append(asked)
        self.choose(n, prompt)(request)
