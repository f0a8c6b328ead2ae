"""Test EFFORT and TEMPLATE: how each engine receives them, and how a run reports them."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.client.request import closed_thinking
from core.constants import Constants
from core.engines import environment, reasoning
from core.engines.card_template import template_in
from core.engines.cards import Card
from core.engines.dialects.llamacpp import embedded_card
from core.engines.protocol import MARK, Server
from core.types import Sampling
from tests.fakes.engines import StandIn, llama, models, sglang, vllm
from tests.helpers.asking import ask

CHOSEN = Constants(EFFORT="low", TEMPLATE="enable_thinking=false")
APART = {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}}
TOGETHER = {"chat_template_kwargs": {"reasoning_effort": "low", "enable_thinking": False}}


def rendering(body: dict[str, Any]) -> dict[str, str]:
    """Answer as a llama.cpp whose chat template closes the thinking if it is switched off."""
    arguments = body.get("chat_template_kwargs", {})
    ending = "" if arguments.get("enable_thinking", True) else "\n</think>\n\n"
    return {"prompt": f"<|user|>{MARK}<|assistant|><think>\n{ending}"}


@pytest.fixture
def thinker() -> Iterator[StandIn]:
    with closing(StandIn(llama() | {"/apply-template": rendering})) as server:
        yield server


@pytest.mark.parametrize(
    ("pages", "fields"),
    [(models("someone", "m"), APART), (vllm(), APART), (sglang(), APART), (llama(), TOGETHER)],
    ids=["other", "vllm", "sglang", "llama.cpp"],
)
def test_each_engine_receives_both_in_its_own_way(
    pages: dict[str, Any], fields: dict[str, Any], tmp_path: Path
) -> None:
    with closing(StandIn(pages)) as here:
        plain = here.probed()
        chosen = reasoning.configured(plain, CHOSEN)
        for server in (plain, chosen, chosen):
            ask(server, tmp_path, [(1, Sampling(max_tokens=9))])
        without, sent = here.asked  # the third request is in the journal
    assert sent == without | fields
    assert not APART.keys() & without.keys()


def test_without_constants_the_record_of_the_server_is_unchanged() -> None:
    server = Server("other", "u", "m", "w", card=Card("mine", effort="high", template={"a": 1}))
    assert reasoning.configured(server, Constants()) is server
    plain = reasoning.configured(server, Constants(EFFORT="", TEMPLATE=""))
    assert plain.key_fields == {}


def test_a_template_that_closes_thinking_is_rendered_again(thinker: StandIn) -> None:
    plain = thinker.probed()
    chosen = reasoning.configured(plain, CHOSEN)
    assert (plain.thinking, chosen.thinking) == (True, False)
    again = chosen.probe_again(chosen)
    assert again == chosen


def test_a_run_is_told_if_the_chat_template_ignores_its_arguments(thinker: StandIn) -> None:
    server = thinker.probed()
    heard = reasoning.configured(server, CHOSEN)
    ignored = reasoning.configured(server, Constants(TEMPLATE="no_such=1"))
    assert reasoning.description(server) == ""
    assert reasoning.description(heard) == "effort low, enable_thinking=false"
    assert "ignores" in reasoning.description(ignored)
    unknown = replace(heard, kind="other")
    assert "ignores" not in reasoning.description(unknown)


def test_an_answer_that_sglang_begins_keeps_the_arguments() -> None:
    card = Card("mine", template={"b": 1, "enable_thinking": True})
    server = Server("sglang", "u", "m", "w", closes=True, tail="<think>\n", card=card)
    fields = closed_thinking(server, [{"role": "user", "content": "?"}], "", "It is")
    assert fields["chat_template_kwargs"] == {"b": 1, "enable_thinking": False}


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("enable_thinking=false", {"enable_thinking": False}),
        ("a=1 b=0.5 c=low d=NaN e=[1]", {"a": 1, "b": 0.5, "c": "low", "d": "NaN", "e": "[1]"}),
        ("a='two words' b=", {"a": "two words", "b": ""}),
    ],
)
def test_a_template_has_names_and_values(text: str, arguments: dict[str, Any]) -> None:
    assert template_in(text) == arguments


@pytest.mark.parametrize("text", ["enable_thinking", "=1", "a=1 b", "a='", '{"a": 1}'])
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="TEMPLATE="):
        reasoning.check(Constants(TEMPLATE=text))


def test_the_environment_sets_a_template_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPLATE", "enable_thinking=false")
    with closing(StandIn(vllm())) as here:
        monkeypatch.setenv("BASE_URL", here.url)
        assert environment.card().template == {"enable_thinking": False}


def test_effort_is_refused_for_a_model_whose_card_has_none() -> None:
    server = Server("llama.cpp", "u", "m", "w", card=embedded_card())
    with pytest.raises(UserError, match="EFFORT=low"):
        reasoning.configured(server, CHOSEN)
