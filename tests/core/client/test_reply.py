"""All forms of streams, replies and errors."""

import json
from dataclasses import replace
from typing import Any

import pytest

from core.client.failures import Malformed, Refused
from core.client.reply import Reply, is_cut
from core.types import CUT, FILTERED, Completion
from tests.fakes.moody import USAGE, chat, events
from tests.helpers.asking import read_bytes

CHAT = chat("forty-two")
CHUNKS: list[dict[str, Any]] = [
    {"model": "m", "choices": [{"delta": {"role": "assistant", "content": "forty"}}]},
    {"choices": [{"delta": {"content": "-two"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": USAGE},
]


# Streams


STREAMS = {
    "LF": events(CHUNKS),
    "CRLF": events(CHUNKS, b"\r\n"),
    "other fields": b"retry: 5\r\nid: 1\nevent: message\n: hello\n" + events(CHUNKS),
    "no end of line": events(CHUNKS).rstrip(b"\n"),
    "no stream at all": json.dumps(CHAT, indent=1).encode(),
    "no done": events(CHUNKS, done=False),
    "messages for deltas": events(CHUNKS).replace(b'"delta"', b'"message"'),
    "a whole message at the end": events(
        [CHUNKS[0], {"choices": [CHUNKS[1]["choices"][0] | CHAT["choices"][0]]}, CHUNKS[2]]
    ),
    "messages that repeat the text so far": events(
        [
            {"choices": [{"index": 0, "message": {"content": text}}]}
            for text in ("forty", "forty-", "forty-two")
        ]
        + [{"choices": [{"index": 0, "message": {}, "finish_reason": "stop"}]}, CHUNKS[2]]
    ),
    "data after its end": events(CHUNKS)
    + events([CHUNKS[0], {"error": {"message": "late", "code": 500}}]),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_is_read_wherever_its_lines_and_chunks_end(kind: str) -> None:
    body = STREAMS[kind]
    line_ends = [at + 1 for at, byte in enumerate(body) if byte in b"\r\n"]
    for cuts in ([], range(1, len(body)), line_ends, range(7, len(body), 7)):
        got = read_bytes(body, cuts)
        assert (got.content, got.finish_reason, got.completion_tokens) == (
            "forty-two",
            "stop",
            7,
        ), cuts


@pytest.mark.parametrize("kind", ["LF", "CRLF"])
def test_a_stream_that_is_cut_off_passes_for_no_reply(kind: str) -> None:
    body = STREAMS[kind]
    for end in range(body.index(b"usage")):
        with pytest.raises(Malformed):
            read_bytes(body[:end])


def changed(**fields: Any) -> list[dict[str, Any]]:
    """Return a reply whose choice has these fields."""
    return [{"model": "m", "choices": [CHAT["choices"][0] | {"delta": {"content": "4"}} | fields]}]


NONSENSE: dict[str, list[Any]] = {
    "null choices": [{"choices": None}],
    "content of a number": changed(message={"content": 7}, delta={"content": 7}),
    "unfinished": changed(finish_reason=None),
    "aborted": changed(finish_reason="abort"),
    "an error": [*CHUNKS[:1], {"error": {"message": "the engine has died", "code": 500}}],
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_a_chat_that_makes_no_sense_passes_for_no_reply(kind: str) -> None:
    for body in (events(NONSENSE[kind]), json.dumps(NONSENSE[kind][-1]).encode()):
        with pytest.raises((Malformed, Refused)):
            read_bytes(body)


# What a reply holds


def both(message: dict[str, Any], finish: str = "stop") -> Reply:
    """Return the reply with `message`, which is the same whole and streamed."""
    mine = {"index": 0, "message": message, "delta": message, "finish_reason": finish}
    found = {"model": "m", "choices": [mine], "usage": USAGE}
    whole, streamed = read_bytes(json.dumps(found).encode()), read_bytes(events([found]))
    assert whole == streamed
    return whole


@pytest.mark.parametrize(
    ("finish", "kept", "end"),
    [
        ("stop", "stop", ""),
        ("length", "length", CUT),
        ("MAX_TOKENS", "length", CUT),
        ("content_filter: SAFETY", "content_filter: SAFETY", FILTERED),
        ("refusal", "refusal", FILTERED),
        ("end_turn", "end_turn", ""),
    ],
)
def test_how_a_reply_ended_is_read_by_one_table(finish: str, kept: str, end: str) -> None:
    reply = both({"content": "so far"}, finish)
    got = Completion("k", 0, answer="so far", finish_reason=reply.finish_reason)
    assert reply.finish_reason == kept and (got.truncated, got.filtered) == (
        end == CUT,
        end == FILTERED,
    )


CALLS = [
    {"id": "1", "type": "function", "function": {"name": "submit", "arguments": '{"answer": 42}'}}
]


@pytest.mark.parametrize(
    ("message", "content", "reasoning", "finish"),
    [
        (
            {"content": [{"type": "text", "text": "forty"}, {"type": "text", "text": "-two"}]},
            "forty-two",
            "",
            "stop",
        ),
        (
            {"content": [{"type": "thinking", "thinking": [{"text": "so"}]}, {"text": "42"}]},
            "42",
            "so",
            "stop",
        ),
        ({"content": "half \ud800 a pair"}, "half \ufffd a pair", "", "stop"),
        ({"content": None}, "", "", "stop"),
        ({"content": None, "tool_calls": CALLS}, "", "", "tool_calls"),
        ({"content": "42", "tool_calls": CALLS}, "42", "", "stop"),
        ({"content": "", "function_call": {"name": "f", "arguments": "{}"}}, "", "", "tool_calls"),
        ({"content": None, "reasoning": "so", "tool_calls": CALLS}, "", "so", "tool_calls"),
        ({"content": None, "refusal": "I can't."}, "I can't.", "", "refusal"),
        ({"content": [{"type": "refusal", "refusal": "I can't."}]}, "I can't.", "", "refusal"),
        (
            {"content": "42", "refusal": None, "reasoning": "so", "reasoning_content": "so"},
            "42",
            "so",
            "stop",
        ),
    ],
)
def test_parts_and_refusals_are_read_bytes(
    message: Any, content: str, reasoning: str, finish: str
) -> None:
    reply = both(message)
    assert (reply.content, reply.reasoning, reply.finish_reason) == (content, reasoning, finish)


def test_a_prompt_that_the_server_cut_is_noticed() -> None:
    # 1,400 words and numbers
    prompt = [{"role": "user", "content": "What is \\frac{1}{2} of it? " * 200}]
    reply = Reply("m", "42", "", "stop", 512, 0, 5, {})
    assert is_cut(reply, prompt)
    assert not is_cut(replace(reply, prompt_tokens=1400), prompt)
    assert not is_cut(replace(reply, prompt_tokens=0), prompt), "nobody counted"


PROMPTS = {  # a sentence, and about as many tokens as tokenizers need for it
    "Chinese": ("求所有满足条件的正整数对并证明你的结论。", 9),
    "Japanese": ("次の条件を満たす正の整数の組をすべて求めよ。", 11),
    "Korean": ("다음 조건을 만족하는 모든 양의 정수 쌍을 구하여라. ", 14),
    "Thai": ("จงหาจำนวนเต็มบวกทั้งหมดที่สอดคล้องกับเงื่อนไข", 14),
    "Hindi": ("शर्त को पूरा करने वाले सभी धनात्मक पूर्णांक ज्ञात कीजिए। ", 20),
    "Russian": ("Найдите все пары натуральных чисел. ", 8),
}


@pytest.mark.parametrize("language", PROMPTS)
def test_a_cut_prompt_is_noticed_in_every_script(language: str) -> None:
    sentence, tokens = PROMPTS[language]
    prompt = [{"role": "user", "content": sentence * 400}]
    whole = Reply("m", "42", "", "stop", tokens * 400, 0, 5, {})
    assert not is_cut(whole, prompt)
    assert is_cut(replace(whole, prompt_tokens=1000), prompt)
    assert is_cut(replace(whole, prompt_tokens=tokens * 100), prompt)


def test_a_request_larger_than_a_minutes_limit_does_not_pass() -> None:
    assert not Refused(
        429, {"error": {"message": "Request too large for m on tokens per min (TPM)"}}, {}
    ).may_pass
    assert Refused(
        429, {"error": {"message": "Rate limit reached. Limit 10000, Used 9000"}}, {}
    ).may_pass


# Errors

WORDS: dict[str, tuple[Any, str]] = {
    "OpenAI": ({"error": {"message": "the words", "type": "x", "code": 400}}, "the words"),
    "text": ({"error": "the words"}, "the words"),
    "detail": ({"detail": "the words"}, "the words"),
    "detail, list": (
        {"detail": [{"loc": ["body", 1], "msg": "no", "input": 9}, {"msg": "more"}]},
        "body.1: no; more",
    ),
    "two places": (
        {"error": "Bad Request", "message": "the words", "statusCode": 400},
        "the words",
    ),
    "list": ([{"error": {"message": "the words", "status": "INVALID"}}], "the words"),
    "no JSON": ("the words", "the words"),
    "unknown form": ({"oops": 1}, '{"oops": 1}'),
    "nothing": ("", "Error code: 400"),
    "deep": (json.loads('{"detail":' * 200 + '"deep"' + "}" * 200), "detail"),
}


@pytest.mark.parametrize("kind", WORDS)
def test_an_error_is_told_in_its_servers_own_words(kind: str) -> None:
    error, words = WORDS[kind]
    refusal = Refused(400, error if isinstance(error, str) else json.dumps(error), {})
    assert str(refusal) == words or (kind == "deep" and words in str(refusal))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_a_server_asks_for_is_a_number(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert Refused(429, None, headers).wait == seconds


@pytest.mark.parametrize(
    ("status", "error", "is_unpaid"),
    [
        (
            429,
            {"error": {"message": "…", "type": "insufficient_quota", "code": "insufficient_quota"}},
            True,
        ),
        (402, {"error": {"message": "pay first"}}, True),
        (400, {"error": {"message": "Your credit balance is too low"}}, True),
        (403, {"detail": "billing_not_active"}, True),
        (429, {"error": {"message": "Insufficient balance. Top up and try again"}}, True),
        (429, {"error": {"message": "rate limit reached", "code": "rate_limit_exceeded"}}, False),
        (
            429,
            [{"error": {"message": "check your plan and billing details. Please retry in 38.1s."}}],
            False,
        ),
        (
            422,
            {
                "detail": [
                    {"msg": "too long", "input": "Ann has an insufficient balance of 3 dollars"}
                ]
            },
            False,
        ),
        (500, {"error": {"message": "out of memory"}}, False),
    ],
)
def test_what_has_to_be_paid_is_told_from_what_passes(
    status: int, error: Any, is_unpaid: bool
) -> None:
    assert Refused(status, error, {}).is_unpaid is is_unpaid
