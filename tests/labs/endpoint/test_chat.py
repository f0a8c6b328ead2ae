"""Requests to the endpoint, read or refused."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.endpoint import chat
from labs.endpoint.chat import Refusal
from tests.labs.endpoint.conftest import ASKED, DEFAULTS, STATEMENT


def read(body: Any) -> chat.ChatRequest:
    if isinstance(body, dict):
        body = {"model": "rsa/m@1", "messages": ASKED} | body
    return chat.read(body if isinstance(body, bytes) else json.dumps(body).encode(), "rsa/m@1", DEFAULTS)


def test_a_chat_uis_request_is_read() -> None:
    asked = read(
        {
            "stream": True,
            "model": "rsa/m",
            "messages": [
                {"role": "developer", "content": "Be exact."},
                {"role": "assistant", "content": "What shall I solve?", "tool_calls": None},
                {"role": "user", "content": [{"type": "text", "text": STATEMENT}, {"type": "text", "text": "Please."}]},
            ],
            "stream_options": {"include_usage": True},
            "n": 1,
            "stop": ["<|im_end|>", ""],
            "max_tokens": 300,
            "temperature": 0.7,
            "top_k": -1,
            "frequency_penalty": 0,
            "logit_bias": {},
            "logprobs": False,
            "tools": [],
            "tool_choice": "auto",
            "response_format": {"type": "text"},
            "seed": None,
            "user": "ada",
            "metadata": {"chat_id": "1", "features": {"web_search": False}},
            "background_tasks": {"title_generation": True},
            "custom": None,
        }
    )
    assert asked.problem.statement == f"{STATEMENT}\nPlease." and asked.stop == ["<|im_end|>"]
    assert [message["role"] for message in asked.before] == ["system", "assistant"]
    assert (asked.stream, asked.include_usage) == (True, True)
    assert (asked.config.MAX_TOKENS, asked.config.TEMPERATURE, asked.config.TOP_K) == (300, 0.7, 0)


def test_constants_come_from_the_request_and_without_a_seed_one_is_drawn() -> None:
    first, second = (read({"rsa": {"n": 5, "T": 2}, "max_completion_tokens": 9}).config for _ in "ab")
    assert (first.N, first.K, first.T, first.MAX_TOKENS) == (5, DEFAULTS.K, 2, 9)
    assert first.SEED != second.SEED
    assert read({"seed": 3, "rsa": {"SEED": 4}}).config.SEED == 4
    assert read({"seed": 3}).problem.id == read({"stream": True}).problem.id != read({"messages": ASKED * 2}).problem.id


ERRORS: list[tuple[Any, int, str | None]] = [
    (b"{", 400, None),
    (b"[" * 100_000, 400, None),
    (b"\xff\xfe{", 400, None),
    (b'{"temperature": NaN}', 400, None),
    (b'{"model": "\\ud800"}', 400, None),
    ([], 400, None),
    ({"model": "gpt-5"}, 404, "model"),
    ({"messages": []}, 400, "messages"),
    ({"messages": [{"role": "tool", "content": "x"}]}, 400, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 5}]}, 400, "messages[0].content"),
    ({"messages": [{"role": "user", "content": " \n"}]}, 400, "messages"),
    ({"messages": [*ASKED, {"role": "assistant", "content": "The"}]}, 400, "messages"),
    ({"messages": [{"role": "assistant", "content": None, "tool_calls": [{}]}]}, 400, "messages[0].content"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        400,
        "messages[0].content[0].type",
    ),
    ({"max_tokens": 0}, 400, "max_tokens"),
    ({"max_tokens": 1.5}, 400, "max_tokens"),
    ({"temperature": True}, 400, "temperature"),
    ({"temperature": -1}, 400, "temperature"),
    ({"seed": -1}, 400, "seed"),
    ({"rsa": {"K": 5}}, 400, "rsa"),
    ({"rsa": {"N": 10**5}}, 400, "rsa.N"),
    ({"rsa": {"M": 1}}, 400, "rsa.M"),
    ({"rsa": {"TIMEOUT": 1}}, 400, "rsa.TIMEOUT"),
    ({"rsa": {"MAX_DOLLARS": 1}}, 400, "rsa.MAX_DOLLARS"),
    ({"rsa": {"CARRY": "all"}}, 400, "rsa.CARRY"),
    ({"n": 2}, 400, "n"),
    ({"logprobs": True}, 400, "logprobs"),
    ({"tools": [{"type": "function"}]}, 400, "tools"),
    ({"response_format": {"type": "json_object"}}, 400, "response_format"),
    ({"presence_penalty": 0.5}, 400, "presence_penalty"),
]


@pytest.mark.parametrize(("body", "status", "param"), ERRORS)
def test_a_request_that_cannot_be_answered_is_refused_in_openais_words(
    body: Any, status: int, param: str | None
) -> None:
    with pytest.raises(Refusal) as refused:
        read(body)
    error = refused.value.to_json()["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["type"] == "invalid_request_error"
    assert (refused.value.status, error["param"]) == (status, param) and "\n" not in error["message"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
some_fields = st.dictionaries(
    st.sampled_from([*chat.FIELDS, *chat.UNSUPPORTED, "stop", "stream", "stream_options", "rsa", "messages"]),
    json_values,
)


@given(some_fields | json_values)
def test_any_body_is_read_or_refused(body: Any) -> None:
    with suppress(Refusal):
        assert read(body).problem.statement
