"""A scripted model behind a real socket, for runs of scaffolds end to end.

A reply follows from the prompt's role and a hash of the request, so that a repeated request gets
the same reply. Most replies can be read, and some can't.
"""

import hashlib
import json
import re

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


def reply(prompt: str, number: int) -> str:
    """Return the reply to a request with the hash `number`."""
    if '"Verdict: True"' in prompt:
        return (
            f"Looked.\nVerdict: {('True', 'True', 'True', 'False', 'False', 'perhaps')[number % 6]}"
        )
    if '"yes" or "no"' in prompt:
        return ("Yes.", "yes", "I would say yes", "No", "no, it has flaws", "perhaps")[number % 6]
    if '"Better: 1"' in prompt:
        return f"Better: {number % 3 + 1}"
    if '"Summary:"' in prompt:
        return f"Summary: I tried {number % 1000}."
    if "You direct the work" in prompt:
        return PLANS[number % len(PLANS)]
    if '"Approach 1:"' in prompt:
        return f"Approach 1: try {number}\nApproach 2: carefully"
    if '"Keep: "' in prompt:
        return f"Keep: 1, {number % 4 + 1}"
    if '"Best: 2"' in prompt:
        return f"Best: {number % 5}"
    if "and the points" in prompt:
        return f"Score: {number % 9}"
    if '"Score: 0.5"' in prompt:
        score = f"Score: {('0', '0.5', '1', '1/2', 'high')[number % 5]}"
        return (
            f"It is \\boxed{{{number % 3}}}\nSelf-assessment:\n{score}"
            if "Self-assessment" in prompt
            else score
        )
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
                _completion(asked["messages"][-1]["content"], number, text),
                "text/event-stream",
            )(request)

    def reply(self, messages: list[dict[str, str]], number: int) -> str:
        """Return the reply to a request with the hash `number`."""
        return reply(messages[-1]["content"], number)


def _completion(prompt: str, number: int, text: str) -> bytes:
    """A streamed chat completion, in one write."""
    delta = {"role": "assistant", "reasoning_content": f"I think {number}.", "content": text}
    usage = {
        "prompt_tokens": len(prompt) // 4,
        "completion_tokens": 20,
        "total_tokens": len(prompt) // 4 + 20,
    }
    head = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    choice = {"index": 0, "delta": delta, "finish_reason": "stop"}
    return events([head | {"choices": [choice]}, head | {"choices": [], "usage": usage}])
