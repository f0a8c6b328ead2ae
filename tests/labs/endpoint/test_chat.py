"""Requests to the endpoint, read or refused."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.rsa import RsaConstants
from labs.endpoint import chat
from labs.endpoint.chat import Refusal
from tests.labs.endpoint.conftest import ASKED, DEFAULTS, OFFERS, STATEMENT


def read(body: Any) -> chat.ChatRequest:
    if isinstance(body, dict):
        body = {"model": "rsa/m@1", "messages": ASKED} | body
    return chat.read(body if isinstance(body, bytes) else json.dumps(body).encode(), "m@1", OFFERS)


def test_a_chat_uis_request_is_read() -> None:
    asked = read(
        {
            "stream": True,
            "model": "rsa/m",
            "messages": [
                {"role": "developer", "content": "Be exact."},
                {"role": "assistant", "content": "What shall I solve?", "tool_calls": None},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": STATEMENT},
                        {"type": "text", "text": "Please."},
                    ],
                },
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
    first, second = (rsa({"rsa": {"n": 5, "T": 2}, "max_completion_tokens": 9}) for _ in "ab")
    assert (first.N, first.K, first.T, first.MAX_TOKENS) == (5, DEFAULTS.K, 2, 9)
    assert first.SEED != second.SEED
    assert read({"seed": 3, "rsa": {"SEED": 4}}).config.SEED == 4
    best: Any = read({"model": "best_of/m", "best_of": {"VERIFY_SAMPLES": 2}}).config
    assert (best.N, best.VERIFY_SAMPLES, best.MAX_TOKENS) == (8, 2, 300)
    assert (
        read({"seed": 3}).problem.id
        == read({"stream": True}).problem.id
        != read({"messages": ASKED * 2}).problem.id
    )


def rsa(body: Any) -> RsaConstants:
    config = read(body).config
    assert isinstance(config, RsaConstants)
    return config


NO_JSON: list[Any] = [
    b"{",
    b"[" * 100_000,
    b"\xff\xfe{",
    b'{"temperature": NaN}',
    b'{"model": "\\ud800"}',
    [],
]
IMAGE = {"type": "image_url", "image_url": {"url": "x"}}
FIELDS: list[tuple[str, Any]] = [
    *[("model", model) for model in ("gpt-5", "rsa", "vote/m", "rsa/n")],
    ("best_of", {"N": 1}),
    ("rsa", 5),
    ("messages", []),
    ("messages", [{"role": "user", "content": " \n"}]),
    ("messages", [*ASKED, {"role": "assistant", "content": "The"}]),
    ("max_tokens", 0),
    ("max_tokens", 1.5),
    ("temperature", True),
    ("temperature", -1),
    ("seed", -1),
    ("n", 2),
    ("logprobs", True),
    ("tools", [{"type": "function"}]),
    ("response_format", {"type": "json_object"}),
    ("presence_penalty", 0.5),
]
CONSTANTS: list[tuple[str, Any]] = [
    ("N", 10**5),
    ("M", 1),
    ("TIMEOUT", 1),
    ("MAX_DOLLARS", 1),
    ("CARRY", "all"),
    ("RUNS", 3),
    ("sampling", "card"),
]
CALL: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [{}]}
ERRORS: list[tuple[Any, str | None]] = [  # bodies, and the fields that are refused
    *[(body, None) for body in NO_JSON],
    *[({name: value}, name) for name, value in FIELDS],
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [CALL]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages[0].content[0].type"),
    ({"rsa": {"K": 5}}, "rsa"),
    *[({"rsa": {name: value}}, f"rsa.{name}") for name, value in CONSTANTS],
]


@pytest.mark.parametrize(("body", "param"), ERRORS)
def test_a_request_that_cannot_be_answered_is_refused_in_openais_words(
    body: Any, param: str | None
) -> None:
    with pytest.raises(Refusal) as refused:
        read(body)
    error = refused.value.to_json()["error"]
    assert (
        set(error) == {"message", "type", "param", "code"}
        and error["type"] == "invalid_request_error"
    )
    assert refused.value.status == (404 if param == "model" else 400)
    assert error["param"] == param and "\n" not in error["message"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
some_fields = st.dictionaries(
    st.sampled_from(
        [
            *chat.FIELDS,
            *chat.UNSUPPORTED,
            "stop",
            "stream",
            "stream_options",
            "rsa",
            "majority",
            "messages",
        ]
    ),
    json_values,
)


@given(some_fields | json_values)
def test_any_body_is_read_or_refused(body: Any) -> None:
    with suppress(Refusal):
        assert read(body).problem.statement
