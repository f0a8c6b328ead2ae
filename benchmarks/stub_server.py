"""Serve a chat API that answers at once with the same reply, to measure a client's own cost.

    python benchmarks/stub_server.py --port 0 [--thinking-chars 1500] [--answer-chars 500] [--pieces
    1] [--delay 0]

The server prints its port on 127.0.0.1 and runs until it is stopped. It has no model and checks
nothing. All POSTs get the same chat completion, encoded once at the start. If the body contains
"stream": true, the completion is sent as server-sent events. They are role, `--pieces` of thinking,
`--pieces` of the answer, end, usage and [DONE]. The server writes all events at once. A real server
sends an event for every few tokens, and `--pieces` measures the cost of reading them. GET
/v1/models returns one model, "stub". It has no owner, so the harness treats the server as kind
"other". With `--delay`, each completion is sent after that many seconds, so that many requests are
in flight."""

import argparse
import asyncio
import json
from typing import Any

MODEL = "stub"
ANSWER_END = " The answer is \\boxed{42}."
CHARS_PER_TOKEN = 4  # for the reported usage, because nothing is tokenized
PROMPT_TOKENS = 200


def text(word: str, chars: int) -> str:
    return (word * (chars // len(word) + 1))[:chars]


def cut(whole: str, pieces: int) -> list[str]:
    """Cut `whole` into `pieces` parts, equal except for rounding."""
    return [whole[len(whole) * i // pieces : len(whole) * (i + 1) // pieces] for i in range(pieces)]


class Replies:
    """The encoded replies: the completion whole and as a stream, the list of models, and a 404."""

    def __init__(self, thinking_chars: int, answer_chars: int, pieces: int) -> None:
        thinking = text("think ", thinking_chars)
        answer = text("word ", answer_chars - len(ANSWER_END)) + ANSWER_END
        tokens = (thinking_chars + answer_chars) // CHARS_PER_TOKEN
        head = {"id": "stub-1", "created": 1, "model": MODEL}
        usage = {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": tokens,
            "total_tokens": PROMPT_TOKENS + tokens,
        }
        message = {"role": "assistant", "content": answer, "reasoning_content": thinking}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = head | {"object": "chat.completion", "choices": [choice], "usage": usage}
        self.whole = _response("application/json", json.dumps(whole).encode())

        head |= {"object": "chat.completion.chunk"}

        def event(delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
            return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

        events = [
            event({"role": "assistant", "content": ""}),
            *(event({"reasoning_content": piece}) for piece in cut(thinking, pieces)),
            *(event({"content": piece}) for piece in cut(answer, pieces)),
            event({}, "stop"),
            head | {"choices": [], "usage": usage},
        ]
        lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self.stream = _response("text/event-stream", lines.encode())

        listed = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1}]}
        self.models = _response("application/json", json.dumps(listed).encode())
        self.missing = _response("application/json", b"{}", "404 Not Found")


def _response(kind: str, body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Stub(asyncio.Protocol):
    """A connection that is kept alive. Requests come one after another, and a body needs a content
    length."""

    def __init__(self, replies: Replies, delay: float) -> None:
        self.replies, self.delay = replies, delay
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            after = end + 4 + length
            if len(self.buffer) < after:
                return
            body, self.buffer = self.buffer[end + 4 : after], self.buffer[after:]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"get"):
            self.transport.write(
                self.replies.models if b"/v1/models " in head[:80] else self.replies.missing
            )
            return
        is_stream = b'"stream":true' in body or b'"stream": true' in body
        reply = self.replies.stream if is_stream else self.replies.whole
        if self.delay:
            asyncio.get_running_loop().call_later(self.delay, self.transport.write, reply)
        else:
            self.transport.write(reply)


async def serve(args: argparse.Namespace) -> None:
    replies = Replies(args.thinking_chars, args.answer_chars, args.pieces)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Stub(replies, args.delay), "127.0.0.1", args.port, backlog=20_000
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Serve a chat API that answers at once with the same reply."
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port to listen on (default: 0, a free port)"
    )
    parser.add_argument("--thinking-chars", type=int, default=1500)
    parser.add_argument("--answer-chars", type=int, default=500)
    parser.add_argument("--pieces", type=int, default=1, help="number of events per streamed text")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each completion")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
