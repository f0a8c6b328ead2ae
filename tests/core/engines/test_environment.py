"""Test settings in the environment: read at each use, in one module; and the record of a server, a
light import."""

import os
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.engines import environment, gpus, process, protocol
from core.engines.protocol import Dialect, Server
from core.engines.wanted import GRADER, SCORER, Hosting
from core.server import main, serving
from tests.fakes.engines import models


def test_settings_are_read_at_each_use(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.hosting() == Hosting() and environment.api_key() == ""
    environment.check()
    for name, value in {
        "BIND": " 10.0.0.1\n",
        "PORT": " 30001\n",
        "API_KEY": "sk-1\n",
        "ENGINE": "VLLM",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EXACT", "0")
    assert environment.hosting() == Hosting(BIND="10.0.0.1", PORT=30001, EXACT="0")
    assert (environment.engine(), environment.api_key()) == ("vllm", "sk-1")
    assert Hosting().exact(default=True) and not environment.hosting().exact(default=True)
    environment.check()


def test_the_settings_of_a_start_are_read_once_and_show_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("API_KEY", "sk-secret")
    monkeypatch.setenv("BASE_URL", "http://127.0.0.1:1/v1")
    wanted = environment.wanted()
    monkeypatch.setenv("BASE_URL", "http://127.0.0.1:2/v1")
    assert wanted.base_url == wanted.remote.url == "http://127.0.0.1:1/v1"
    assert wanted.remote.key == "sk-secret" and "sk-secret" not in repr(wanted)
    assert environment.base_url() == "http://127.0.0.1:2/v1"


@pytest.mark.parametrize(
    ("settings", "commit", "has_effect"),
    [
        ({"MODEL": "Qwen/Qwen3-0.6B"}, "0" * 40, True),
        # llama.cpp identifies the file by its hash
        ({"MODEL": "Qwen/Qwen3-0.6B-GGUF"}, None, True),
        ({}, "0" * 40, True),  # QED-Nano
        ({}, None, False),  # the embedded model
        ({"MODEL": "mine.gguf"}, None, False),
        ({"MODEL": "openai:gpt-5"}, None, False),
        ({"MODEL": "Qwen/Qwen3-0.6B", "BASE_URL": "http://127.0.0.1:9/v1"}, "0" * 40, False),
        ({"BASE_URL": "http://127.0.0.1:9/v1", "FLEET": "servers"}, None, True),
    ],
)
def test_a_revision_without_effect_is_known(
    settings: dict[str, str], commit: str | None, has_effect: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert environment.unused_revision(commit) == ""
    monkeypatch.setenv("REVISION", "step-100")
    assert environment.unused_revision(commit) == ("" if has_effect else "step-100")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("PORT", value) for value in ("http", "0", "65536")),
        *(("API_KEY", value) for value in ("sk-é", "sk 1", "sk\t1")),
        ("ENGINE", "ollama"),
        ("BIND", "0.0.0.0"),  # without an API_KEY
        ("DETERMINISTIC", "yes"),
        ("EXACT", "yes"),
        ("KV", "int3"),
    ],
)
def test_settings_that_can_not_be_right_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=name) as raised:
        environment.check()
    assert (value in str(raised.value)) == (name != "API_KEY"), "a key is not shown"


URL = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("model", "engine", "base_url", "served", "chosen"),
    [
        ("", "", "", "", ""),
        ("some/name", "", "", "some/name", ""),
        ("{folder}", "", "", "", ""),
        ("{folder}", "", URL, "{folder}", ""),
        ("{folder}/a.gguf", "", "", "", "llamacpp"),
        ("{folder}/a.gguf", "", URL, "{folder}/a.gguf", ""),
        ("{folder}/none.gguf", "", "", "{folder}/none.gguf", ""),
        ("qed-nano-vllm", "", "", "lm-provers/QED-Nano", "vllm"),
        ("qed-nano-vllm", "sglang", "", "", UserError),
        ("qed-nano-vllm", "sglang", URL, "lm-provers/QED-Nano", "sglang"),
        ("embedded", "", "", "qed-rsa-embedded", "embedded"),
        # The embedded engine would serve its own model all the same.
        ("embedded:{folder}/a.gguf", "", "", "", UserError),
        ("{folder}/a.gguf", "embedded", "", "", UserError),
        ("Qwen/Qwen3-0.6B", "embedded", "", "", UserError),
        ("Qwen/Qwen3-0.6B", "embedded", URL, "Qwen/Qwen3-0.6B", "embedded"),
    ],
)
def test_model_is_a_card_a_path_of_weights_or_the_name_of_a_model_on_a_server(
    monkeypatch: Any,
    tmp_path: Path,
    model: str,
    engine: str,
    base_url: str,
    served: str,
    chosen: Any,
) -> None:
    (tmp_path / "a.gguf").touch()
    for name, value in {
        "MODEL": model.format(folder=tmp_path),
        "ENGINE": engine,
        "BASE_URL": base_url,
    }.items():
        monkeypatch.setenv(name, value)
    if chosen is UserError:
        with pytest.raises(UserError, match=engine or str(tmp_path)):
            environment.engine()
    else:
        wanted = environment.wanted()
        assert (wanted.served_model, wanted.engine) == (served.format(folder=tmp_path), chosen)


def test_a_card_is_chosen_for_a_while_in_place_of_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("ENGINE", "vllm")
    monkeypatch.delenv("MODEL", raising=False)
    with environment.choosing("embedded"):
        assert (environment.base_url(), environment.engine(), environment.card().name) == (
            "",
            "embedded",
            "embedded",
        )
    with environment.choosing(""):
        assert environment.base_url() == "http://127.0.0.1:9/v1"
    assert environment.base_url() == "http://127.0.0.1:9/v1" and "MODEL" not in os.environ
    monkeypatch.delenv("BASE_URL")
    with pytest.raises(UserError, match="nowhere"), environment.choosing("nowhere"):
        pass
    assert os.environ["ENGINE"] == "vllm"


@pytest.mark.parametrize(
    ("settings", "named", "changed"),
    [
        ({}, "", {}),
        (
            {"BASE_URL": URL, "ENGINE": "vllm"},
            "openai",
            {"MODEL": "openai", "BASE_URL": "", "ENGINE": ""},
        ),
        ({"BASE_URL": URL}, "big", {"MODEL": "big"}),
        ({"BASE_URL": URL}, "owner/name", {"MODEL": "owner/name"}),
        ({"BASE_URL": URL, "GRADER_URL": URL}, "big", {"GRADER_MODEL": "big"}),
        ({}, "owner/name", {"MODEL": "owner/name"}),
        ({"MODEL": "openai"}, "owner/name", {"MODEL": "owner/name"}),
        ({"MODEL": "openai"}, "gpt-5", {"MODEL": "openai:gpt-5"}),
        ({"MODEL": "qed-nano"}, "gpt-5", None),
        ({}, "opnai", None),
    ],
)
def test_a_grader_is_a_card_a_model_of_a_server_or_a_model_of_the_hub(
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    named: str,
    changed: dict[str, str] | None,
) -> None:
    monkeypatch.delenv("MODEL", raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    if changed is None:
        with pytest.raises(UserError, match=f"{named}.*GRADER_URL"), environment.choosing(named):
            pass
        return
    before = dict(os.environ)
    with environment.choosing(named):
        assert dict(os.environ) == before | changed
        assert environment.has_own_grader(named) is ("GRADER_MODEL" in changed)
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("settings", "served"),
    [
        ({"GRADER_MODEL": "maker/big"}, {"MODEL": "maker/big", "PORT": "30001"}),
        (
            {"GRADER_MODEL": "maker/big", "ENGINE": "vllm", "MODEL": "small", "PORT": "40000"},
            {"MODEL": "maker/big", "PORT": "40001", "ENGINE": "vllm"},
        ),
        (
            {"GRADER_MODEL": "maker/big/q4.gguf", "ENGINE": "vllm", "EFFORT": "low"},
            {"MODEL": "maker/big/q4.gguf", "PORT": "30001"},
        ),
        (
            {"GRADER_MODEL": "embedded", "ENGINE": "embedded", "BASE_URL": URL},
            {"MODEL": "embedded", "PORT": "30001"},
        ),
        ({"GRADER_MODEL": "maker/big", "GRADER_URL": URL}, None),
        ({"GRADER_MODEL": "openai"}, None),
        ({}, None),
    ],
)
def test_a_grader_without_an_address_is_served_on_the_next_port(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], served: dict[str, str] | None
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    grader = environment.served_second(GRADER)
    assert (grader.values if grader else None) == served


def test_a_scorer_is_another_second_model_than_the_grader(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GRADER_URL", URL)
    assert environment.second(GRADER).url == URL and not environment.has_second(SCORER)
    monkeypatch.setenv("SCORER_MODEL", "maker/big")
    scorer = environment.served_second(SCORER)
    assert scorer and scorer.values == {"MODEL": "maker/big", "PORT": "30002"}
    monkeypatch.setenv("SCORER_URL", URL)
    monkeypatch.setenv("SCORER_KEY", "sk-of-the-scorer")
    assert environment.second(SCORER)[:3] == (URL, "maker/big", "sk-of-the-scorer")
    assert environment.served_second(SCORER) is None


def test_a_card_names_the_scorer_of_its_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    card = tmp_path / "mine.toml"
    card.write_text(f'model = "small"\nbase_url = "{URL}"\nscorer = "maker/judge"\n')
    monkeypatch.setenv("MODEL", str(card))
    scorer = environment.served_second(SCORER)
    assert scorer and scorer.value("MODEL") == "maker/judge"
    assert environment.served_second(GRADER) is None
    monkeypatch.setenv("SCORER_MODEL", "maker/big")
    assert environment.wanted().named_second(SCORER) == "maker/big"


class AttachOnly(Dialect):
    """An engine that runs only attach to, as a file in core/engines/dialects may define it."""

    kind = "lmdeploy"
    names = ("lmdeploy",)

    def described(self, server: Server, entry: Any, models: Any) -> Server:
        return server


def test_an_engine_that_runs_only_attach_to_is_recognised_and_never_started(
    monkeypatch: pytest.MonkeyPatch, serve: Any
) -> None:
    dialects = (*protocol.dialects(), AttachOnly())
    by_kind = {dialect.kind: dialect for dialect in dialects}
    monkeypatch.setattr(protocol, "dialects", lambda: dialects)
    monkeypatch.setattr(protocol, "named", by_kind.__getitem__)
    monkeypatch.setattr(gpus, "count", lambda: 0)
    monkeypatch.setenv("ENGINE", "lmdeploy")
    here = serve(models("lmdeploy", "big"))
    monkeypatch.setenv("PORT", str(here.port))
    with serving() as server:
        assert (server.kind, server.identity) == ("lmdeploy", "big")
    monkeypatch.setenv("PORT", str(process.free_port()))
    with pytest.raises(UserError, match="ENGINE=lmdeploy.*BASE_URL") as raised, serving():
        pass
    with pytest.raises(UserError, match="ENGINE=lmdeploy.*BASE_URL"):
        main([])
    assert "\n" not in str(raised.value)
