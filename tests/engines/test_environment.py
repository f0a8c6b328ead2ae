"""Test settings in the environment: read at each use, in one module; and the record of a server, a light import."""

import os
from pathlib import Path

import pytest

from core.base.errors import UserError
from core.engines import environment
from core.engines.environment import Hosting


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BIND", "PORT", "WEIGHTS_DIR", "PYTHONPATH", "DETERMINISTIC", "EXACT", "KV"):
        monkeypatch.delenv(name, raising=False)


def test_settings_are_read_at_each_use(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.hosting() == Hosting() and environment.api_key() == ""
    environment.check()
    for name, value in {"BIND": " 10.0.0.1\n", "PORT": " 30001\n", "API_KEY": "sk-1\n", "ENGINE": "VLLM"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EXACT", "0")
    assert environment.hosting() == Hosting(BIND="10.0.0.1", PORT=30001, EXACT="0")
    assert (environment.engine(), environment.api_key()) == ("vllm", "sk-1")
    assert Hosting().exact(default=True) and not environment.hosting().exact(default=True)
    environment.check()


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
def test_settings_that_can_not_be_right_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=name) as raised:
        environment.check()
    assert (value in str(raised.value)) == (name != "API_KEY"), "a key is not shown"


def test_model_is_a_path_of_weights_or_the_name_of_a_model_on_a_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.gguf").touch()
    url = "http://127.0.0.1:1/v1"
    for value, engine, base_url, served, chosen in (
        ("", "", "", "", ""),
        ("some/name", "", "", "some/name", ""),
        (str(tmp_path), "", "", "", ""),
        (str(tmp_path), "", url, str(tmp_path), ""),
        (f"{tmp_path}/a.gguf", "", "", "", "llamacpp"),
        (f"{tmp_path}/a.gguf", "", url, f"{tmp_path}/a.gguf", ""),
        (f"{tmp_path}/none.gguf", "", "", f"{tmp_path}/none.gguf", ""),
    ):
        monkeypatch.setenv("MODEL", value)
        monkeypatch.setenv("ENGINE", engine)
        monkeypatch.setenv("BASE_URL", base_url)
        assert (environment.model(), environment.served_model(), environment.engine()) == (value, served, chosen)


def test_a_card_is_chosen_for_a_while_in_place_of_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("ENGINE", "vllm")
    monkeypatch.delenv("MODEL", raising=False)
    with environment.choosing("embedded"):
        assert (environment.base_url(), environment.engine(), environment.card().name) == ("", "embedded", "embedded")
    with environment.choosing(""):
        assert environment.base_url() == "http://127.0.0.1:9/v1"
    assert environment.base_url() == "http://127.0.0.1:9/v1" and "MODEL" not in os.environ
    with pytest.raises(UserError, match="nowhere"), environment.choosing("nowhere"):
        pass
    assert os.environ["ENGINE"] == "vllm"
