"""The wire, over sockets: servers that will not stream, streams in all forms of the format, errors in all of theirs."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from core.base.errors import Elsewhere
from core.engines.server import Server
from core.generate import reply, wire
from core.generate.reply import Oversized, Refused, Reply, compared
from core.generate.wire import Wire
from core.types import CUT, FILTERED, Completion
from tests.fakes.http import HttpFake, Request, answer

Answer = Callable[[BaseHTTPRequestHandler], None]
CHAT: dict[str, Any] = {
    "model": "m",
    "choices": [{"message": {"content": "forty-two"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 7},
}
CHUNKS: list[dict[str, Any]] = [
    {"model": "m", "choices": [{"delta": {"role": "assistant", "content": "forty"}}]},
    {"choices": [{"delta": {"content": "-two"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}},
]


class Chat(HttpFake):
    """A server that answers a chat request with what `choose(body)` gives."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.choose: Callable[[dict[str, Any]], Answer] = lambda body: answer(200, CHAT)
        super().__init__()
        self.server = Server("other", self.url, "m", "x")

    def post(self, request: Request, body: bytes) -> None:
        self.bodies.append(json.loads(body))
        self.choose(self.bodies[-1])(request)


@pytest.fixture
def chat() -> Iterator[Chat]:
    made = Chat()
    yield made
    made.close()


def exchanged(server: Server, n: int = 1) -> list[Reply | BaseException]:
    """The replies to `n` requests sent at once, then to one more."""

    async def all_of_them() -> list[Reply | BaseException]:
        async with Wire(server, n) as made:
            body = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
            at_once = [made.exchange(body, 30, 60) for _ in range(n)]
            found = await asyncio.gather(*at_once, return_exceptions=True)
            return [*found, *await asyncio.gather(made.exchange(body, 30, 60), return_exceptions=True)]

    return asyncio.run(all_of_them())


def one(server: Server) -> Reply:
    reply = exchanged(server)[0]
    assert isinstance(reply, Reply), reply
    return reply


# Servers that will not stream

REFUSALS: dict[str, tuple[int, Any]] = {
    "words": (400, {"error": {"message": "stream_options is not supported"}}),
    "parameter": (400, {"error": {"message": "Unsupported value", "param": "stream", "code": "unsupported_value"}}),
    "text": (400, {"error": "streaming is disabled here"}),
    "no JSON": (400, b"cannot stream"),
    "list": (
        422,
        {
            "detail": [
                {"type": "x", "loc": ["body", "user"], "msg": "Extra inputs are not permitted. " * 20},
                {"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"},
            ]
        },
    ),
    "detail": (422, {"detail": "stream=True is not allowed"}),
    "two places": (400, {"error": "Bad Request", "message": "streaming replies cannot be had", "statusCode": 400}),
    "501": (501, {"error": {"message": "streaming is not implemented"}}),
    "500": (500, {"detail": "NotImplementedError: stream is not supported"}),
    "forbidden": (403, {"error": {"message": "your organisation may not stream this model"}}),
    "within 200": (200, {"error": {"message": "stream is not supported", "code": 400}}),
}


@pytest.mark.parametrize("refused", ["stream", "stream_options"])
@pytest.mark.parametrize("kind", REFUSALS)
def test_refused_streams_end_no_request_however_many_are_on_their_way(chat: Chat, kind: str, refused: str) -> None:
    status, told = REFUSALS[kind]
    n = 12
    together = threading.Barrier(n)

    def choose(body: dict[str, Any]) -> Answer:
        if refused not in body:
            return answer(200, CHAT)
        if together.n_waiting < n and len(chat.bodies) <= n:
            together.wait(60)  # all are refused after all were sent
        return answer(status, told)

    chat.choose = choose
    found = exchanged(chat.server, n)
    assert [reply.content if isinstance(reply, Reply) else reply for reply in found] == ["forty-two"] * (n + 1)
    assert all(isinstance(reply, Reply) and reply.completion_tokens == 7 for reply in found)
    assert len(chat.bodies) == 2 * n + 1, "what was found holds for the next"


def test_a_server_that_only_streams_and_refuses_its_options_is_asked_so(chat: Chat) -> None:
    def choose(body: dict[str, Any]) -> Answer:
        if "stream_options" in body:
            return answer(400, {"error": {"message": "unknown field stream_options"}})
        if not body.get("stream"):
            return answer(400, {"error": {"message": "only stream=true is supported"}})
        return answer(200, events(CHUNKS[:2]), "text/event-stream")

    chat.choose = choose
    reply = one(chat.server)
    assert (reply.content, reply.completion_tokens) == ("forty-two", 0)
    assert [sorted(body.keys() - {"model", "messages"}) for body in chat.bodies] == [
        ["stream", "stream_options"],
        [],
        ["stream"],
        ["stream"],
    ]


@pytest.mark.parametrize(
    ("status", "words"), [(429, "too many concurrent streams"), (502, "upstream stream was reset"), (400, "min_p?")]
)
def test_other_refusals_that_speak_of_streams_change_nothing(chat: Chat, status: int, words: str) -> None:
    chat.choose = lambda body: answer(status, {"error": {"message": words}})
    for refusal in exchanged(chat.server):
        assert isinstance(refusal, Refused) and refusal.status == status and refusal.said == words
    assert all(body["stream"] for body in chat.bodies) and len(chat.bodies) == 2


# Streams


def test_replicas_share_what_is_on_its_way_and_send_nobody_on(chat: Chat) -> None:
    other = Chat()

    def wait(body: dict[str, Any]) -> Answer:
        while len(chat.bodies) + len(other.bodies) < 8:  # until all are on their way
            time.sleep(0.01)
        return answer(200, CHAT)

    chat.choose = other.choose = wait
    server = replace(chat.server, replicas=(f"{other.url}",))
    try:
        found = exchanged(server, 8)[:8]
        assert all(isinstance(each, Reply) for each in found)
        assert len(chat.bodies) in (4, 5) and len(other.bodies) in (4, 5)
        for place in ("http://127.0.0.1:9/v1", other.url.replace("http:", "https:")):
            other.choose = sending_on(f"{place}/chat/completions")
            elsewhere = [each for each in exchanged(server, 2) if not isinstance(each, Reply)]
            assert elsewhere and all(isinstance(each, Elsewhere) for each in elsewhere), place
    finally:
        other.close()


def sending_on(place: str) -> Callable[[Any], Answer]:
    return lambda body: answer(307, b"", Location=place)


def events(chunks: Sequence[Any], end: bytes = b"\n", done: bool = True) -> bytes:
    lines = [b"data: " + json.dumps(chunk).encode() for chunk in chunks] + [b"data: [DONE]"] * done
    return b"".join(line + 2 * end for line in lines)


def in_pieces(body: bytes, cuts: Sequence[int]) -> Answer:
    """A chunked answer whose chunks end at `cuts`."""

    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
            if part := body[start:end]:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                handler.wfile.flush()
        handler.wfile.write(b"0\r\n\r\n")

    return send


BOM = b"\xef\xbb\xbf"
PRETTY = b"".join(
    b"".join(b"data: " + line + b"\n" for line in json.dumps(chunk, indent=1).encode().splitlines()) + b"\n"
    for chunk in CHUNKS
)
STREAMS = {
    "LF": events(CHUNKS),
    "CR": events(CHUNKS, b"\r"),
    "CRLF": events(CHUNKS, b"\r\n"),
    "mixed": events(CHUNKS[:1], b"\r", done=False) + events(CHUNKS[1:2], b"\r\n", done=False) + events(CHUNKS[2:]),
    "BOM": BOM + events(CHUNKS),
    "BOM and CR": BOM + events(CHUNKS, b"\r"),
    "BOM, then a comment": BOM + b": hello\r\r" + events(CHUNKS, b"\r"),
    "no blank lines": events(CHUNKS).replace(b"\n\n", b"\n"),
    "no blank lines, CR": events(CHUNKS, b"\r").replace(b"\r\r", b"\r"),
    "no space": events(CHUNKS).replace(b"data: ", b"data:"),
    "other fields": b"retry: 5\r\nid: 1\revent: message\n" + events(CHUNKS, b"\r"),
    "JSON over lines": PRETTY + b"data: [DONE]\n\n",
    "JSON over lines, CRLF": (PRETTY + b"data: [DONE]\n\n").replace(b"\n", b"\r\n"),
    "no end of line": events(CHUNKS, b"\r").rstrip(b"\r"),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_is_read_wherever_its_lines_and_chunks_end(chat: Chat, kind: str) -> None:
    body = STREAMS[kind]
    line_ends = [at + 1 for at, byte in enumerate(body) if byte in b"\r\n"]
    for cuts in ([], [1], [1, 2, 3, 4], range(1, len(body)), line_ends, range(7, len(body), 7)):
        chat.choose = lambda _, cuts=cuts: in_pieces(body, list(cuts))  # type: ignore[misc]
        reply = one(chat.server)
        assert (reply.content, reply.finish_reason, reply.completion_tokens) == ("forty-two", "stop", 7), cuts


def test_a_whole_reply_may_begin_with_a_mark(chat: Chat) -> None:
    chat.choose = lambda _: answer(200, BOM + json.dumps(CHAT).encode())
    assert one(chat.server).content == "forty-two"


@pytest.mark.parametrize("kind", ["CR", "CRLF", "JSON over lines"])
def test_a_stream_that_is_cut_off_passes_for_no_reply(chat: Chat, kind: str) -> None:
    body = STREAMS[kind]
    for end in range(0, body.index(b"usage"), 9):
        chat.choose = lambda _, end=end: answer(200, body[:end], "text/event-stream")  # type: ignore[misc]
        assert isinstance(exchanged(chat.server)[0], reply.Malformed), body[:end]


# What a reply holds


def both(chat: Chat, message: dict[str, Any], finish: str = "stop", usage: Any = None) -> Reply:
    """The reply that holds `message`, which is the same whole and streamed, with other choices before and after it."""
    other = {"index": 1, "message": {"content": "no"}, "delta": {"content": "no"}, "finish_reason": "stop"}
    mine = {"index": 0, "message": message, "delta": message, "finish_reason": finish}
    found = {"model": "m", "choices": [other, mine, other], "usage": usage or CHAT["usage"]}
    replies = []
    for body, kind in ((json.dumps(found).encode(), "application/json"), (events([found]), "text/event-stream")):
        chat.choose = lambda _, body=body, kind=kind: answer(200, body, kind)  # type: ignore[misc]
        replies.append(one(chat.server))
    assert replies[0] == replies[1]
    return replies[0]


@pytest.mark.parametrize(
    ("finish", "kept", "end"),
    [
        ("stop", "stop", ""),
        ("length", "length", CUT),
        ("max_tokens", "length", CUT),
        ("MAX_TOKENS", "length", CUT),
        ("model_length", "length", CUT),
        ("pause_turn", "length", CUT),
        ("content_filter: SAFETY", "content_filter: SAFETY", FILTERED),
        ("SAFETY", "SAFETY", FILTERED),
        ("refusal", "refusal", FILTERED),
        ("end_turn", "end_turn", ""),
    ],
)
def test_how_a_reply_ended_is_read_by_one_table(chat: Chat, finish: str, kept: str, end: str) -> None:
    reply = both(chat, {"content": "so far"}, finish)
    made = Completion("k", 0, answer="so far", finish_reason=reply.finish_reason)
    assert reply.finish_reason == kept and (made.truncated, made.filtered) == (end == CUT, end == FILTERED)


@pytest.mark.parametrize(
    ("message", "content", "reasoning", "finish"),
    [
        ({"content": [{"type": "text", "text": "forty"}, {"type": "text", "text": "-two"}]}, "forty-two", "", "stop"),
        (
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "so"}]}, {"text": "42"}]},
            "42",
            "so",
            "stop",
        ),
        ({"content": None, "refusal": "I can't."}, "I can't.", "", "refusal"),
        ({"content": [{"type": "refusal", "refusal": "I can't."}]}, "I can't.", "", "refusal"),
        ({"content": "42", "refusal": None, "reasoning": "so", "reasoning_content": "so"}, "42", "so", "stop"),
    ],
)
def test_parts_and_refusals_are_read(chat: Chat, message: Any, content: str, reasoning: str, finish: str) -> None:
    reply = both(chat, message)
    assert (reply.content, reply.reasoning, reply.finish_reason) == (content, reasoning, finish)


@pytest.mark.parametrize(
    ("usage", "text", "is_doubted"),
    [
        (
            {"prompt_tokens": 5, "completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 8}},
            "42",
            True,
        ),
        (
            {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 20, "completion_tokens_details": {}},
            "42",
            False,
        ),
        (CHAT["usage"] | {"prompt_tokens_details": {"cached_tokens": 6}}, "42", True),
        ({"prompt_tokens": 1, "completion_tokens": 1}, "x" * 700, True),
        ({"prompt_tokens": 1, "completion_tokens": 1}, "so it is " * 4, True),
        ({"prompt_tokens": 9, "completion_tokens": 3}, " " * 700, False),
        ({"prompt_tokens": 9, "completion_tokens": 2}, "two words", False),
    ],
)
def test_counts_that_contradict_the_reply_are_not_taken(chat: Chat, usage: Any, text: str, is_doubted: bool) -> None:
    reply = both(chat, {"content": text}, usage=usage)
    assert bool(reply.doubt) is is_doubted
    assert (reply.counted == (None, 0, None)) is is_doubted


def test_a_prompt_that_the_server_cut_is_noticed() -> None:
    prompt = [{"role": "user", "content": "What is \\frac{1}{2} of it? " * 200}]  # 1,400 words and numbers
    reply = Reply("m", "42", "", "stop", 512, 0, 5, {})
    assert compared(reply, prompt).unread
    assert not compared(replace(reply, prompt_tokens=1400), prompt).unread
    assert not compared(replace(reply, prompt_tokens=0), prompt).unread, "nobody counted"


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("is_blank", [True, False])
def test_a_reply_far_beyond_its_cap_is_ended(
    chat: Chat, monkeypatch: pytest.MonkeyPatch, is_stream: bool, is_blank: bool
) -> None:
    monkeypatch.setattr(wire, "ROOM", 2000)
    monkeypatch.setattr(wire, "AROUND", 100)
    piece = (b" " if is_blank else b"x") * 100
    if is_stream and not is_blank:
        piece = events([{"choices": [{"delta": {"content": "x" * 100}}]}], done=False)
    sent = 0

    def send(request: Request) -> None:
        nonlocal sent
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b"" if is_stream else b'{"choices": ')
        request.close_connection = True
        while sent < 10**8:
            request.wfile.write(piece)
            sent += len(piece)

    chat.choose = lambda _: send
    body = {"model": "m", "messages": [{"role": "user", "content": "?"}], "max_tokens": 50}

    async def ask() -> None:
        async with Wire(chat.server, 1) as made:
            with pytest.raises(Oversized):
                await made.exchange(body, 30, 60)

    asyncio.run(ask())
    assert sent < 5 * 10**7


def test_white_space_before_a_reply_takes_no_longer_than_other_text(chat: Chat) -> None:
    chat.choose = lambda _: answer(200, BOM + b" " * 1_000_000 + json.dumps(CHAT).encode())
    assert one(chat.server).content == "forty-two"


def test_an_error_is_read_no_further_than_its_words(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "ERROR_BYTES", 100)
    chat.choose = lambda _: answer(400, b"too long " * 1_000_000)
    refused = exchanged(chat.server)[0]
    assert isinstance(refused, Refused) and refused.said == ("too long " * 20)[:100].strip()


@pytest.mark.parametrize(
    ("words", "is_too_large"),
    [
        ("Request too large for m on tokens per min (TPM): Limit 10,000, Requested 14,000.", True),
        ("Rate limit reached for m: Limit 10000, Used 9000, Requested 2000. Please try again in 6s.", False),
        ("Limit: 10, requested: 11", True),
        ("Limit 30000, Used 29000, Requested 36500. Please try again in 2s", True),
        ("Limit 1.5M tokens, requested 2000. Please try again in 3s", False),
        ("limit: 60 requests and 30000 tokens per minute; requested 2000 tokens", False),
        ("Limit 5 requests in flight; requested 6", False),
        ("slow down", False),
    ],
)
def test_a_request_larger_than_a_minutes_limit_is_told_from_a_passing_one(words: str, is_too_large: bool) -> None:
    assert Refused(429, {"error": {"message": words}}, {}).is_too_large is is_too_large


def test_a_span_that_is_none_is_read_at_once() -> None:
    assert Refused(429, None, {"x-ratelimit-reset": "1" * 10_000 + "x"}).wait is None


# Errors

WORDS: dict[str, tuple[Any, str]] = {
    "OpenAI": ({"error": {"message": "the words", "type": "x", "code": 400}}, "the words"),
    "message": ({"object": "error", "message": "the words", "code": 400}, "the words"),
    "text": ({"error": "the words"}, "the words"),
    "detail": ({"detail": "the words"}, "the words"),
    "detail, list": (
        {"detail": [{"loc": ["body", "top_k"], "msg": "should be a number", "input": "x" * 900}, {"msg": "more"}]},
        "body.top_k: should be a number; more",
    ),
    "detail, object": ({"detail": {"error": {"message": "the words"}}}, "the words"),
    "two places": ({"error": "Bad Request", "message": "the words", "statusCode": 400}, "the words"),
    "null beside it": ({"error": None, "detail": "the words"}, "the words"),
    "problem details": ({"type": "about:blank", "title": "Bad", "detail": "the words"}, "the words"),
    "errors": ({"errors": [{"message": "one"}, {"message": "two"}]}, "one; two"),
    "list": ([{"error": {"message": "the words", "status": "INVALID"}}], "the words"),
    "string": ("the words", "the words"),
    "no JSON": (b"the words\n", "the words"),
    "unknown form": ({"oops": 1}, '{"oops": 1}'),
    "nothing": (b"", "Error code: 400"),
    "deep": (json.loads('{"detail":' * 200 + '"deep"' + "}" * 200), "detail"),
}


@pytest.mark.parametrize("kind", WORDS)
def test_an_error_is_told_in_its_servers_own_words(chat: Chat, kind: str) -> None:
    told, words = WORDS[kind]
    chat.choose = lambda _: answer(400, told if isinstance(told, bytes) else json.dumps(told).encode())
    refusal = exchanged(chat.server)[0]
    assert isinstance(refusal, Refused) and refusal.status == 400
    assert refusal.said == words or (kind == "deep" and words in refusal.said)


def test_a_key_that_a_server_repeats_is_not_shown(chat: Chat) -> None:
    chat.choose = lambda _: answer(429, {"error": {"message": "slow down, sk-very-secret!"}})
    object.__setattr__(chat.server, "api_key", "sk-very-secret")
    refusal = exchanged(chat.server)[0]
    assert isinstance(refusal, Refused) and refusal.said == "slow down, (API_KEY)!"


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"retry_after": "7"}, 7, 7),
        ({"retry_after": "0.5"}, 0.5, 0.5),
        ({"retry_after": "-3"}, 0, 0),
        # In 3,000 seconds from when the test is run, which on a busy machine is long after this line is read.
        ({"retry_after": "%a, %d %b %Y %H:%M:%S GMT"}, 2000, 3000),
        ({"retry_after": "%A, %d-%b-%y %H:%M:%S GMT"}, 2000, 3000),
        ({"retry_after": "%a %b %d %H:%M:%S %Y"}, 2000, 3000),
        ({"retry_after": "Sun, 06 Nov 1994 08:49:37 -0000"}, 0, 0),
        ({"retry_after": "soon"}, None, None),
        ({"retry_after": "nan"}, None, None),
        ({"retry_after": "Sun, 99 Nov 1994 08:49:37 GMT"}, None, None),
        ({}, None, None),
    ],
)
def test_how_long_a_server_asks_us_to_wait_may_be_a_date(
    chat: Chat, headers: dict[str, str], least: float | None, most: float | None
) -> None:
    def then() -> dict[str, str]:
        moment = time.gmtime(time.time() + 3000)
        return {name: time.strftime(value, moment) if "%" in value else value for name, value in headers.items()}

    chat.choose = lambda _: answer(429, {"error": {"message": "slow down"}}, **then())
    refusal = exchanged(chat.server)[0]
    assert isinstance(refusal, Refused)
    if least is None or most is None:
        assert refusal.wait is None
    else:
        assert refusal.wait is not None and least <= refusal.wait <= most


def test_a_date_is_read_by_the_servers_own_clock() -> None:
    headers = {"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}
    assert Refused(429, None, headers).wait == 30


@pytest.mark.parametrize(
    ("status", "told", "headers", "is_unpaid"),
    [
        (429, {"error": {"message": "…", "type": "insufficient_quota", "code": "insufficient_quota"}}, {}, True),
        (429, {"error": {"message": "You exceeded your quota, check your plan and billing details."}}, {}, True),
        (402, {"error": {"message": "pay first"}}, {}, True),
        (400, {"error": {"message": "Your credit balance is too low"}}, {}, True),
        (403, {"detail": "billing_not_active"}, {}, True),
        (429, {"error": {"message": "Insufficient balance. Top up and try again"}}, {}, True),
        (429, {"error": {"message": "slow down"}}, {}, False),
        (429, {"error": {"message": "rate limit reached", "code": "rate_limit_exceeded"}}, {}, False),
        (429, [{"error": {"message": "check your plan and billing details. Please retry in 38.1s."}}], {}, False),
        (429, {"error": {"message": "check your plan and billing details"}}, {"retry-after": "20"}, False),
        (500, {"error": {"message": "out of memory"}}, {}, False),
        (429, {"error": {"message": "x", "code": "billing_hard_limit_reached"}}, {"retry-after": "20"}, True),
        (429, {"error": {"message": "x", "metadata": {"raw": '{"code": "insufficient_quota"}'}}}, {}, True),
        (429, [{"error": {"message": "Quota exceeded, limit: 0, model: m. Please retry in 38.1s."}}], {}, True),
        (429, {"error": {"details": [{"violations": [{"quotaId": "RequestsPerDayPerModel"}]}]}}, {}, True),
        (429, {"error": {"message": "Quota exceeded, limit: 20. Please retry in 38.1s."}}, {}, False),
    ],
)
def test_what_has_to_be_paid_is_told_from_what_passes(
    status: int, told: Any, headers: dict[str, str], is_unpaid: bool
) -> None:
    assert Refused(status, told, headers).is_unpaid is is_unpaid
