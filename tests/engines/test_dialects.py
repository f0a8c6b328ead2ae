"""The engines: a row each, with its pages, and how a run recognises and asks it."""

import pkgutil
from dataclasses import dataclass
from typing import Any

import pytest

from core.engines import dialects
from core.engines.dialect import default
from core.engines.server import engines
from core.types import Message
from tests.fakes.engines import llama, sglang, vllm

QUESTION: list[Message] = [{"role": "user", "content": "1+1?"}]
TAGGED = "<think>\nso\n</think>\n\nIt is"
DIGEST = "0123456789abcdef" * 4


@dataclass(frozen=True)
class Row:
    """The pages of an engine, and the server that is found by them.

    `asked`: the paths that are asked, each once and in this order. `told`: the server's part of journal keys.
    `last`, `fields`: the last message of a request that continues behind thinking, and its other fields.
    """

    pages: dict[str, Any]
    asked: str
    kind: str
    seeds: bool | None
    told: dict[str, str]
    last: dict[str, str] | None  # None: it continues no message
    fields: dict[str, Any]


def listed(**about: Any) -> dict[str, Any]:
    return {"/v1/models": {"data": [{"id": "default", **about}]}}


def said(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


ROWS = {
    "llamacpp": Row(
        llama(),
        "/v1/models /props",
        "llama.cpp",
        True,
        {"kind": "llama.cpp", "weights": "/models/one.gguf"},
        said("It is") | {"reasoning_content": "so"},
        {},
    ),
    "ollama": Row(
        listed(owned_by="library") | {"/api/tags": {"models": [{"name": "default:latest", "digest": DIGEST}]}},
        "/v1/models /props /api/tags",
        "other",
        None,
        {"kind": "other", "weights": DIGEST[:16]},
        said(TAGGED),
        {},
    ),
    "other": Row(listed(), "/v1/models /props /api/tags", "other", None, {}, said(TAGGED), {}),
    "sglang": Row(
        sglang(),
        "/v1/models /server_info /model_info /tokenize",
        "sglang",
        False,
        {"kind": "sglang", "weights": "/models/one"},
        said("so\n</think>\n\nIt is"),
        {"continue_final_message": True},
    ),
    "vllm": Row(
        vllm(),
        "/v1/models /metrics /version",
        "vllm",
        True,
        {"kind": "vllm", "weights": "/models/one"},
        said(TAGGED),
        {"continue_final_message": True, "add_generation_prompt": False},
    ),
}


def test_every_engine_has_a_row() -> None:
    assert {module.name for module in pkgutil.iter_modules(dialects.__path__)} == set(ROWS)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_an_engine_is_recognised_and_asked_as_its_row_says(row: Row, serve: Any) -> None:
    here = serve(row.pages)
    server = here.probed()
    paths = list(dict.fromkeys(path for path, _ in here.seen))
    own = [path for path in paths if path in row.asked.split()]
    assert " ".join(own) == row.asked
    if server.dialect.is_owner(row.pages["/v1/models"]["data"][0]):
        assert paths == own, "an engine that names itself is asked for no page of another one"
    assert (server.kind, server.seeds, server.told) == (row.kind, row.seeds, row.told)
    assert bool(server.cannot_continue) == (row.last is None)
    if row.last:
        assert server.dialect.closed(server, QUESTION, "so", "It is") == {
            "messages": [*QUESTION, row.last],
            **row.fields,
        }


def test_engine_has_values_for_all_that_can_be_started() -> None:
    assert set(engines()) == {"sglang", "vllm", "llamacpp", "embedded"} and default().kind == "sglang"
