"""Test EFFORT and TEMPLATE: how each engine receives them, and how a run reports them."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.client.journal import Journal
from core.client.request import closed_thinking
from core.constants import Constants
from core.engines import environment, reasoning
from core.engines.card_template import template_in
from core.engines.cards import Card
from core.engines.dialects.llamacpp import embedded_card
from core.engines.protocol import MARK, Server
from core.types import Completion, Sampling
from harness.run import solve_sync
from harness.scaffolds.best_of import BEST_OF
from harness.session.session import Session
from tests.fakes.engines import StandIn, llama, models, sglang, vllm
from tests.fakes.http import Request, answer
from tests.helpers.asking import ask
from tests.helpers.runs import TWO, load

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


@pytest.mark.parametrize(
    ("thinking", "answer", "template", "argument"),
    [
        ("Let me see.", "42", {"enable_thinking": False}, "enable_thinking=false"),
        ("Let me see.", "42", {"thinking": False}, "thinking=false"),
        ("Let me see.", "42", {"enable_thinking": True}, ""),
        ("", "42", {"enable_thinking": False}, ""),
        ("42", "", {"enable_thinking": False}, ""),
    ],
)
def test_a_reply_shows_that_thinking_was_not_switched_off(
    thinking: str, answer: str, template: dict[str, Any], argument: str
) -> None:
    server = Server("other", "u", "m", "w", card=Card("mine", template=template))
    completion = Completion("", 0, thinking, answer)
    assert reasoning.ignored(server, completion) == argument


@pytest.mark.parametrize("field", ["reasoning", "tags"])
def test_a_run_reports_once_that_thinking_was_not_switched_off(
    field: str,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = {"reasoning": ("\\boxed{2}", "One."), "tags": ("<think>One.</think>\\boxed{2}", "")}
    content, thinking = said[field]
    with closing(StandIn(models("someone", "m"), lambda *_: (content, thinking, "stop"))) as here:
        monkeypatch.setenv("BASE_URL", here.url)
        solve_sync(BEST_OF, TWO, name="best", N=2, TEMPLATE="enable_thinking=false")
    document = load(results, "best")
    assert document["engine"]["ignores"] == "enable_thinking=false"
    assert sum("enable_thinking" in warning for warning in document["warnings"]) == 1
    assert capsys.readouterr().err.count("enable_thinking") == 1


def test_each_template_is_probed_once_in_a_session(thinker: StandIn, tmp_path: Path) -> None:
    session = Session[Constants]("x", Constants(), tmp_path, Journal(tmp_path / "j"))
    session = session.with_changes(server=thinker.probed())
    count = len(thinker.seen)
    first = session.server_for(CHOSEN)
    assert len(thinker.seen) > count
    count = len(thinker.seen)
    seeded = session.with_changes(config=Constants(SEED=1))
    assert seeded.server_for(CHOSEN) is first and len(thinker.seen) == count
    other = session.server_for(Constants(TEMPLATE="enable_thinking=true"))
    assert (first.thinking, other.thinking) == (False, True)
    assert session.server_for(Constants()) is session.server


@pytest.mark.parametrize(
    ("config", "constant"),
    [(Constants(EFFORT="low"), "EFFORT"), (Constants(TEMPLATE="a=1"), "TEMPLATE")],
)
def test_a_server_that_refuses_the_field_names_the_constant(
    config: Constants, constant: str, tmp_path: Path
) -> None:
    def refuse(request: Request) -> None:
        (name,) = here.asked[-1].keys() & APART.keys()
        detail = [{"loc": ["body", name], "msg": "Extra inputs are not permitted"}]
        answer(422, {"detail": detail})(request)

    with closing(StandIn(models("someone", "m"))) as here:
        here.faults = [refuse] * 9
        server = reasoning.configured(here.probed(), config)
        with pytest.raises(UserError, match=f"Set {constant}="):
            ask(server, tmp_path, [(1, Sampling(max_tokens=9))])


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
