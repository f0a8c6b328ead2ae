"""A scripted model behind a real socket, for runs of scaffolds end to end.

A reply follows from the prompt's role and a hash of the request, so that a repeated request gets
the same reply. Most replies can be read, and some can't.
"""

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from tests.fakes.http import Mortal, Request, answer, is_gone
from tests.fakes.moody import events

PLANS = (  # replies of an agent that directs the work by tool calls
    'CALL approaches {"count": 2}\nCALL solve {"approach": 1}',
    "CALL solve {}\nCALL solve {}",
    'CALL verify {"solution": 1}\nCALL improve {"report": 1}',
    'CALL merge {"solutions": [1, 2]}\nCALL select {"solutions": [1, 2]}',
    "Let me think.",
    'CALL submit {"solution": 2}',
)


def stated(prompt: str) -> list[str]:
    """List the lines like "Rank: 2" that a prompt suggests to end with."""
    return re.findall(r'"([A-Z]\w*: [^"\n]+)"', prompt)


VERDICTS = ("True", "True", "True", "False", "False", "perhaps")
OPINIONS = ("Yes.", "yes", "I would say yes", "No", "no, it has flaws", "perhaps")
SCORES = ("0", "0.5", "1", "1/2", "high")


def _assessed(prompt: str, number: int) -> str:
    score = f"Score: {SCORES[number % len(SCORES)]}"
    if "Self-assessment" not in prompt:
        return score
    return f"It is \\boxed{{{number % 3}}}\nSelf-assessment:\n{score}"


# Words of a prompt, and the reply to a prompt with these words
REPLIES: tuple[tuple[str, Callable[[str, int], str]], ...] = (
    ('"Verdict: True"', lambda _, n: f"Looked.\nVerdict: {VERDICTS[n % len(VERDICTS)]}"),
    ('"yes" or "no"', lambda _, n: OPINIONS[n % len(OPINIONS)]),
    ('"Better: 1"', lambda _, n: f"Better: {n % 3 + 1}"),
    ('"Summary:"', lambda _, n: f"Summary: I tried {n % 1000}."),
    ("You direct the work", lambda _, n: PLANS[n % len(PLANS)]),
    ('"Approach 1:"', lambda _, n: f"Approach 1: try {n}\nApproach 2: carefully"),
    ('"Keep: "', lambda _, n: f"Keep: 1, {n % 4 + 1}"),
    ('"Best: 2"', lambda _, n: f"Best: {n % 5}"),
    ("and the points", lambda _, n: f"Score: {n % 9}"),
    ('"Score: 0.5"', _assessed),
)


def reply(prompt: str, number: int) -> str:
    """Return the reply to a request with the hash `number`."""
    for words, reply_to in REPLIES:
        if words in prompt:
            return reply_to(prompt, number)
    if lines := stated(prompt):  # in a scaffold that is unknown here
        return (*lines, "I wonder")[number % (len(lines) + 1)]
    return f"It is \\boxed{{{number % 3}}}"


class ScriptedServer(Mortal):
    """The server of the scripted model. `asked`: the body of every chat request."""

    def __init__(self, port: int = 0) -> None:
        self.asked: list[str] = []
        super().__init__(port)

    def get(self, request: Request) -> None:
        answer(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})(request)

    def post(self, request: Request, body: bytes) -> None:
        # llama.cpp's pages, because it answers /props
        if not request.path.endswith("/chat/completions"):
            return answer(404, {})(request)
        with self.lock:
            if is_gone(request):  # the client was killed before this was read
                request.close_connection = True
                return None
            self.asked.append(body.decode())
            is_dead = len(self.asked) > self.life
        if is_dead:
            self.leave_alone(request)
        else:
            asked = json.loads(body)
            number = int.from_bytes(
                hashlib.sha256(
                    f"{asked['messages'][-1]['content']} {asked['seed']}".encode()
                ).digest()[:4],
                "big",
            )
            text = self.reply(asked["messages"], number)
            answer(
                200,
                _completion(asked, number, text),
                "text/event-stream",
            )(request)

    def reply(self, messages: list[dict[str, str]], number: int) -> str:
        """Return the reply to a request with the hash `number`."""
        return reply(messages[-1]["content"], number)


def _completion(asked: dict[str, Any], number: int, text: str) -> bytes:
    """A streamed chat completion, in one write. If they are asked for, it lists the probabilities
    of three tokens."""
    prompt = asked["messages"][-1]["content"]
    delta = {"role": "assistant", "reasoning_content": f"I think {number}.", "content": text}
    usage = {
        "prompt_tokens": len(prompt) // 4,
        "completion_tokens": 20,
        "total_tokens": len(prompt) // 4 + 20,
    }
    head = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    choice = {"index": 0, "delta": delta, "finish_reason": "stop"}
    first: list[dict[str, Any]] = []
    if asked.get("logprobs"):
        tokens = [_token(number + i) for i in range(3)]
        listing = {"index": 0, "delta": {"content": ""}, "logprobs": {"content": tokens}}
        first = [head | {"choices": [listing]}]
    return events([*first, head | {"choices": [choice]}, head | {"choices": [], "usage": usage}])


def _token(number: int) -> dict[str, Any]:
    alternatives = [{"token": word, "logprob": -float(number % 97) / 7} for word in "ab"]
    return {"token": "a", "logprob": -1.0, "top_logprobs": alternatives}
