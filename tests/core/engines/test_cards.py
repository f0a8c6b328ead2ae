"""Test model cards: the bundled ones are right, a bad one is refused in a clear line, and MODEL
chooses them."""

import json
import re
import sys
import tomllib
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from core.base import files
from core.base.errors import UserError
from core.base.prices import Prices
from core.constants import Constants
from core.engines import attach, cards, environment
from core.engines.cards import NONE, Card
from core.engines.dialects.llamacpp import embedded_name
from core.engines.protocol import Server, engines
from core.rsa import RSA, RsaConstants
from core.server import serving
from harness import experiment_file
from harness.problems import sets
from harness.session import session
from tests.fakes.engines import StandIn, models

TEMPLATE = cards.FOLDER / "template.toml"
FIELDS = {field.name for field in fields(Card)} - {"name"}


@pytest.fixture(autouse=True)
def no_env_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(files, "HOME", tmp_path / "home")


def card(folder: Path, text: str, name: str = "mine.toml") -> Card:
    (folder / name).write_text(text, encoding="utf-8")
    return cards.read(folder / name)


# Bundled ones


def test_every_bundled_card_is_right_and_contains_no_key() -> None:
    assert {"openai", "qed-nano", "embedded"} < {*cards.names()}
    server = Server("vllm", "u", "m", "x", weights={"weights": "w"})
    for name in cards.names():
        card = cards.named(name)
        assert card.name == name and card.about and (card.engine or card.key_env or card.base_url)
        assert card.engine in ("", *engines())
        for named in (card.problem_set, card.star_set, card.star_eval_set):
            assert named.partition(":")[0] in ("", *sets.BUNDLED, *sets.PUBLISHED)
        json.dumps(card.to_json())
        assert not re.search(
            r"sk-|AIza|gsk_", (cards.FOLDER / f"{name}.toml").read_text(encoding="utf-8")
        ), name
        if card.engine:  # a model that we serve
            assert replace(server, card=card).key_fields == server.key_fields


def test_the_template_contains_every_field_with_a_right_value(tmp_path: Path) -> None:
    text = TEMPLATE.read_text(encoding="utf-8")
    switched_on = re.sub(r"^#(?=[\w\[-])", "", text, flags=re.M)
    assert set(tomllib.loads(switched_on)) == FIELDS
    whole = card(tmp_path, switched_on)
    assert whole.price is not None and whole.price.on == "2026-11-23"
    plain = card(tmp_path, text)
    assert plain == Card("mine", base_url=whole.base_url, key_env=whole.key_env, model=whole.model)


def test_keys_contain_only_the_fields_that_change_replies() -> None:
    openai = {"never": "logprobs min_p seed temperature top_k top_p", "continues": "no"}
    assert cards.named("openai").key_fields == openai
    assert Card("x", effort="high", send={"b": 1, "a": [2]}).key_fields == {
        "effort": "high",
        "send": '{"a": [2], "b": 1}',
    }
    assert Card("x", template={"b": 1, "a": False}).key_fields == {
        "template": '{"a": false, "b": 1}'
    }
    assert (
        Card(
            "x", concurrency=4, cap="max_completion_tokens", context=5, about="y", thinking="field"
        ).key_fields
        == {}
    )


# Bad ones


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("model = 3", "model"),
        ('modle = "m"', "modle"),
        ('name = "m"', "name"),
        ('api_key = "sk-very-secret"', "api_key"),
        ('base_url = "api.example.com/v1"', "address"),
        ('base_url = "https://me:very-secret@x/v1"', "address"),
        ('base_url = "https://x/v1?api_key=very-secret"', "address"),
        ('base_url = "http://[::1"', "address"),
        ('key_env = "sk_very_secret"', "key_env"),
        ('cap = "tokens"', "max_tokens|max_completion_tokens"),
        ('never = ["top_p", "stop"]', "never[1]"),
        ('step_verdicts = ["+"]', "step_verdicts"),
        ("[sampling]\ntemprature = 1", "temperature"),
        ("[send]\nx = 1\nconcurrency = 3", "concurrency"),
        ("[send]\nx = nan", "JSON"),
        ("[price]\nread = 1\nwritten = 2", "on"),
        ("model = m", "line 1"),
        ("x = " + 5000 * "[" + 5000 * "]", "mine.toml"),
    ],
)  # fmt: skip
def test_a_bad_card_names_its_file_and_the_field_and_shows_no_key(
    tmp_path: Path, text: str, field: str
) -> None:
    with pytest.raises(UserError) as raised:
        card(tmp_path, text)
    message = str(raised.value).removesuffix(cards.FIX)
    assert field in message and str(tmp_path / "mine.toml") in message and "\n" not in message
    assert "very-secret" not in message and "very_secret" not in message


def test_a_card_that_cannot_be_read_or_found_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b'about = "\xff"')
    for path in (tmp_path / "none.toml", tmp_path, tmp_path / "a.toml"):
        with pytest.raises(UserError, match=str(path)):
            cards.read(path)
    with pytest.raises(UserError, match="opnai.*azure, deepseek"), environment.choosing("opnai"):
        pass


def test_a_card_is_read_as_it_is_written(tmp_path: Path) -> None:
    mine = card(
        tmp_path,
        'base_url = "https://x.example/openai/deployments/d/?api-version=1"\n'
        'never = ["seed", "seed"]\n[price]\nread = 1\nwritten = 2.5\non = "2026-11-23"\n'
        '[send.provider]\norder = ["a"]\n',
    )
    assert mine.base_url == "https://x.example/openai/deployments/d?api-version=1"
    assert mine.key_fields["never"] == "seed" and mine.send == {"provider": {"order": ["a"]}}
    assert mine.price == Prices(1, 1, 2.5, "2026-11-23"), (
        "by default, cached tokens cost as much as others"
    )


# Requests


def test_a_body_is_what_this_server_accepts() -> None:
    asked = {
        "model": "m",
        "seed": 1,
        "temperature": 0.7,
        "max_tokens": 9,
        "logprobs": True,
        "top_logprobs": 5,
    }
    assert NONE.body(asked) == asked
    never, send = ("temperature", "seed", "logprobs"), {"service_tier": "flex"}
    body = {"model": "m", "max_completion_tokens": 9, **send}
    assert Card("x", cap="max_completion_tokens", never=never, send=send).body(asked) == body


def test_sampling_is_the_files_unless_the_cards_is_asked_for() -> None:
    nano = cards.named("qed-nano")
    config = Constants(TOP_K=20)
    assert nano.sampled(config) is config
    asked = replace(config, SAMPLING="card")
    taken = nano.sampled(asked)
    assert (taken.TEMPERATURE, taken.TOP_P, taken.TOP_K) == (0.6, 0.95, 20)
    for other in (NONE, cards.named("openai")):
        with pytest.raises(UserError, match="SAMPLING=card"):
            other.sampled(asked)


# MODEL


@pytest.mark.parametrize("text", ["openai", "openai:", "openai:gpt-5-mini"])
def test_model_names_a_card(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MODEL", text)
    assert environment.card() == cards.named("openai") and environment.model() == "gpt-5-mini"
    assert environment.base_url() == environment.card().base_url == "https://api.openai.com/v1"


def test_another_model_of_the_server_has_no_price_and_no_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "FOLDER", tmp_path)
    text = (
        'model = "a"\ncontext = 9\neffort = "low"\n[price]\nread = 1\nwritten = 2\non = '
        "2026-11-23\n"
    )
    mine = card(tmp_path, text)
    assert cards.find("mine") == mine
    other = cards.find("mine:b/c:d")
    assert (other.model, other.context, other.price, other.effort) == ("b/c:d", None, None, "low")


def test_a_cards_name_goes_before_a_folder_and_an_unknown_name_is_a_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "openai").mkdir()
    for text, name in (
        ("openai", "openai"),
        ("./openai", ""),
        ("some/name", ""),
        ("qwen3:4b", ""),
        ("", ""),
    ):
        monkeypatch.setenv("MODEL", text)
        assert environment.card().name == name, text
    card(tmp_path, 'model = "m"')
    monkeypatch.setenv("MODEL", "mine.toml")
    assert environment.card() == Card("mine", model="m") and environment.model() == "m"


def test_a_served_model_has_the_card_of_its_name() -> None:
    for served, engine, name in (
        ("lm-provers/QED-Nano", "sglang", "qed-nano"),
        ("lm-provers/QED-Nano", "vllm", "qed-nano-vllm"),
        ("lm-provers/QED-Nano", "", "qed-nano"),
        (embedded_name(), "llamacpp", "embedded"),
        ("gpt-5-mini", "", ""),
        ("QED-Nano@0123456789ab", "sglang", ""),
    ):
        assert cards.of_model(served, engine).name == name


# Constants of a card


def run_with(monkeypatch: pytest.MonkeyPatch, path: Path, *given: str) -> RsaConstants:
    monkeypatch.setenv("MODEL", str(path))
    monkeypatch.setattr(sys, "argv", ["02_rsa_basic.py", *given])
    with session.command(RSA.constants, {"N": 8, "K": 3, "__file__": "02_rsa_basic.py"}) as (
        _,
        config,
    ):
        return config


def test_constants_of_a_card_replace_the_file_s_and_the_command_line_replaces_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    card(
        tmp_path, 'engine = "llamacpp"\n[constants]\nN = 4\nK = 2\nMAX_TOKENS = 160\nPOPULATION = 3'
    )
    config = run_with(monkeypatch, tmp_path / "mine.toml", "K=1")
    assert (config.N, config.K, config.MAX_TOKENS, config.T) == (4, 1, 160, RSA.constants().T)
    with session.open_session("x", config, tmp_path, rows=[("model", "m")]):
        assert "N=4 MAX_TOKENS=160, from the card mine\n" in capsys.readouterr().out


@pytest.mark.parametrize("value", ["0", '"many"', "true", "[1]", "1.5"])
def test_a_bad_constant_of_a_card_is_one_line_with_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    (tmp_path / "mine.toml").write_text(f"[constants]\nN = {value}", encoding="utf-8")
    with pytest.raises(SystemExit) as raised:
        run_with(monkeypatch, tmp_path / "mine.toml")
    lines = capsys.readouterr().err.strip().splitlines()
    assert raised.value.code == 2 and len(lines) == 1 and "mine" in lines[0]


def test_the_scaffold_of_a_card_is_used_unless_the_command_line_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    card(tmp_path, 'engine = "llamacpp"\n[constants]\nSCAFFOLD = "deepseek_math"\nROUNDS = 5')
    monkeypatch.setenv("MODEL", str(tmp_path / "mine.toml"))
    for words, name in (([], "deepseek_math"), (["SCAFFOLD=nomos"], "nomos")):
        monkeypatch.setattr(sys, "argv", ["18_proofs.py", *words])
        experiment = experiment_file.load("18_proofs")
        prover: Any = experiment.planned
        with session.command(
            prover.constants, experiment.namespace | {"__file__": "18_proofs.py"}
        ) as (
            _,
            config,
        ):
            assert (config.SCAFFOLD, prover.run.__name__, config.ROUNDS) == (name, name, 5)
    card(tmp_path, '[constants]\nSCAFFOLD = "nonsense"')
    monkeypatch.setattr(sys, "argv", ["18_proofs.py"])
    with pytest.raises(SystemExit) as raised:
        experiment_file.load("18_proofs")
    assert raised.value.code == 2 and len(capsys.readouterr().err.strip().splitlines()) == 1


# EFFORT


@pytest.mark.parametrize(
    "model", ["openai", "google", "gemini-3-pro", "together:openai/gpt-oss-120b"]
)
def test_effort_replaces_the_card_s_effort_and_enters_the_key_only_if_set(
    monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setenv("MODEL", model)
    plain = environment.card()
    assert "effort" not in plain.key_fields
    monkeypatch.setenv("EFFORT", "low")
    changed = environment.card()
    assert changed.key_fields == plain.key_fields | {"effort": "low"}
    assert changed == replace(plain, effort="low") and (changed.to_json() or {})["effort"] == "low"


@pytest.mark.parametrize(("model", "url"), [("some/hub-model", ""), ("", "u"), ("big", "u")])
def test_effort_works_for_models_without_a_card(
    monkeypatch: pytest.MonkeyPatch, model: str, url: str
) -> None:
    monkeypatch.setenv("MODEL", model)
    monkeypatch.setenv("EFFORT", "low")
    with closing(StandIn(models("vllm", model or "big"))) as server:
        monkeypatch.setenv("PORT", str(server.port))
        monkeypatch.setenv("BASE_URL", url and server.url)
        with serving() as attached:
            assert attached.card.effort == "low" and not attached.card.name
        assert attach.probe_again(attached) == attached
        monkeypatch.setenv("EFFORT", "")
        with serving() as plain:
            assert attached.key_fields == plain.key_fields | {"effort": "low"}


def test_effort_is_refused_for_a_served_model_that_takes_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EFFORT", "low")
    with closing(StandIn(models("vllm", "lm-provers/QED-Nano"))) as server:
        monkeypatch.setenv("BASE_URL", server.url)
        with pytest.raises(UserError, match="EFFORT=low"), serving():
            pass


@pytest.mark.parametrize("model", ["", "embedded", "smollm2", "lm-provers/QED-Nano"])
def test_effort_is_refused_for_models_that_do_not_reason(
    monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setenv("MODEL", model)
    monkeypatch.setenv("EFFORT", "low")
    with pytest.raises(UserError, match="EFFORT=low"):
        environment.card()


@pytest.mark.parametrize(
    ("name", "meant"),
    [("smolm2", "smollm2"), ("Gemini", "gemini-3-pro"), ("smollm2", ""), ("mine.gguf", "")],
)
def test_advice_on_cards_begins_with_the_one_that_is_meant(name: str, meant: str) -> None:
    assert cards.listing(name).startswith(f"Did you mean {meant}? Cards: " if meant else "Cards: ")
