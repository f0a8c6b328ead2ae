"""Test how a run recognises and asks each engine, by a row of its pages."""

import pkgutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from core.client.request import sampling_sent, sampling_unsent
from core.engines import dialects
from core.engines.cards import Card
from core.engines.dialects import llamacpp
from core.engines.dialects.sglang import DIALECT as SGLANG
from core.engines.on_gpu import on_gpu
from core.engines.protocol import Server, engines
from core.types import Message, Sampling
from tests.fakes.engines import llama, sglang, vllm
from tests.helpers.asking import ask

QUESTION: list[Message] = [{"role": "user", "content": "1+1?"}]
TAGGED = "<think>\nso\n</think>\n\nIt is"
DIGEST = "0123456789abcdef" * 4


@dataclass(frozen=True)
class Row:
    """An engine's pages, and the server that is found by them."""

    pages: dict[str, Any]
    asked: str  # the paths of requests, each once and in order
    kind: str
    seeds: bool | None
    key_fields: dict[str, str]
    last: dict[str, str]  # the last message of a request that continues after thinking
    fields: dict[str, Any]  # the other fields of such a request


def listed(**fields: Any) -> dict[str, Any]:
    return {"/v1/models": {"data": [{"id": "default", **fields}]}}


def assistant(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


ROWS = {
    "llamacpp": Row(
        llama(),
        "/v1/models /props /apply-template",
        "llama.cpp",
        True,
        {"kind": "llama.cpp", "weights": "/models/one.gguf"},
        assistant("It is") | {"reasoning_content": "so"},
        {},
    ),
    "ollama": Row(
        listed(owned_by="library")
        | {"/api/tags": {"models": [{"name": "default:latest", "digest": DIGEST}]}},
        "/v1/models /props /api/tags",
        "other",
        None,
        {"kind": "other", "weights": DIGEST[:16]},
        assistant(TAGGED),
        {},
    ),
    "other": Row(listed(), "/v1/models /props /api/tags", "other", None, {}, assistant(TAGGED), {}),
    "sglang": Row(
        sglang(),
        "/v1/models /server_info /model_info /tokenize",
        "sglang",
        False,
        {"kind": "sglang", "weights": "/models/one"},
        assistant("so\n</think>\n\nIt is"),
        {"continue_final_message": True},
    ),
    "vllm": Row(
        vllm(),
        "/v1/models /metrics /version /tokenize",
        "vllm",
        True,
        {"kind": "vllm", "weights": "/models/one"},
        assistant(TAGGED),
        {"continue_final_message": True, "add_generation_prompt": False},
    ),
}


def test_every_engine_has_a_row() -> None:
    assert {module.name for module in pkgutil.iter_modules(dialects.__path__)} == ROWS.keys() - {
        "ollama"
    }


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_an_engine_is_recognised_and_asked_by_its_row(row: Row, serve: Any) -> None:
    here = serve(row.pages)
    server = here.probed()
    paths = list(dict.fromkeys(path for path, _ in here.seen))
    expected = [path for path in paths if path in row.asked.split()]
    assert " ".join(expected) == row.asked
    if server.dialect.names:
        assert paths == expected, "an engine that names itself gets no requests for pages of others"
    assert (server.kind, server.seeds, server.key_fields) == (row.kind, row.seeds, row.key_fields)
    assert not server.cannot_continue
    fields = {"messages": [*QUESTION, row.last], **row.fields}
    assert server.dialect.closed(server, QUESTION, "so", "It is") == fields


PENALTIES = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
OFF = {"top_k": -1, "min_p": 0.0}
SENT: dict[str, dict[str, Any]] = {
    "llamacpp": OFF | llamacpp.NEUTRAL,
    "ollama": {},
    "other": {},
    "sglang": OFF | PENALTIES,
    "vllm": OFF | PENALTIES,
}


@pytest.mark.parametrize("name", ROWS)
def test_known_engines_get_neutral_values_for_all_sampling_parameters(
    name: str, serve: Any, tmp_path: Path
) -> None:
    here = serve(ROWS[name].pages)
    server = here.probed()
    sent = {"temperature": 0.7, "top_p": 1.0} | SENT[name]
    assert sampling_sent(server, Sampling()) == sent
    ask(server, tmp_path, [(1, Sampling(max_tokens=9))])
    others = {"model", "messages", "seed", "max_tokens", "stream", "stream_options"}
    assert {field: value for field, value in here.asked[-1].items() if field not in others} == sent
    unsent = sampling_unsent(server, Sampling())
    assert unsent == ([] if SENT[name] else ["top_k", "min_p", *PENALTIES])


def test_a_card_has_the_last_word_on_sampling() -> None:
    card = Card("mine", never=("top_p", "presence_penalty"), send={"repetition_penalty": 1.05})
    server = Server("vllm", "u", "m", "w", card=card)
    sent = {"temperature": 0.7, "repetition_penalty": 1.05, "frequency_penalty": 0.0} | OFF
    assert sampling_sent(server, Sampling()) == sent
    assert sampling_unsent(server, Sampling()) == ["top_p", "presence_penalty"]
    other = Server("other", "u", "m", "w", card=replace(card, never=()))
    assert sampling_unsent(other, Sampling(top_k=20)) == ["presence_penalty", "frequency_penalty"]


def test_engine_has_values_for_all_that_can_be_started() -> None:
    assert set(engines()) == {"sglang", "vllm", "llamacpp", "embedded"} and on_gpu("") is SGLANG
