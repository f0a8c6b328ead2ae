"""OPENAI_BASE_URL and OPENAI_API_KEY, which the openai client reads too."""

from pathlib import Path

import pytest

from core import server as start
from core.engines import environment
from core.engines.wanted import LLAMACPP, Wanted, with_openai_names
from tests.fakes.moody import Moody

URL = "http://127.0.0.1:9/v1"
KEYS = {"OPENAI_BASE_URL": URL, "OPENAI_API_KEY": "sk-openai"}


@pytest.mark.parametrize("model", ["", "m", "owner/name"])
def test_the_names_of_the_openai_client_select_a_server_and_its_key(model: str) -> None:
    wanted = Wanted(with_openai_names({**KEYS, "MODEL": model}))
    assert (wanted.remote.url, wanted.remote.key) == (URL, "sk-openai")
    assert wanted.served_model == model


@pytest.mark.parametrize(
    "other",
    [
        {"BASE_URL": "http://127.0.0.1:8/v1"},
        {"BASE_URL": ""},  # a grader that is served here
        {"ENGINE": "embedded"},
        {"MODEL": "embedded"},
        {"MODEL": str(Path(__file__))},
    ],
)
def test_another_choice_of_a_server_ignores_them(other: dict[str, str]) -> None:
    assert with_openai_names(KEYS | other) == KEYS | other


def test_the_key_belongs_to_that_server_alone() -> None:
    wanted = Wanted(with_openai_names(KEYS))
    assert wanted.remote.key.variable == "OPENAI_API_KEY" and wanted.api_key == ""
    with_own_key = Wanted(with_openai_names(KEYS | {"API_KEY": "own"}))
    assert (with_own_key.remote.key, with_own_key.remote.key.variable) == ("own", "API_KEY")


def test_a_server_that_is_started_ignores_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BASE_URL", "ENGINE", "API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MODEL", "owner/name/file.gguf")
    assert environment.wanted().base_url == URL
    wanted = environment.wanted_here()
    assert (wanted.base_url, wanted.api_key, wanted.engine) == ("", "", LLAMACPP)


def test_a_runs_first_rows_tell_how_to_avoid_them(
    moody: Moody, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BASE_URL", "ENGINE", "API_KEY", "MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", moody.url)
    assert start.at_base_url().why == "OPENAI_BASE_URL is set (BASE_URL= ignores it)"
    monkeypatch.setenv("BASE_URL", moody.url)
    assert start.at_base_url().why == "BASE_URL is set"


def test_a_key_alone_sends_no_run_to_openai() -> None:
    wanted = Wanted(with_openai_names({"OPENAI_API_KEY": "sk-openai"}))
    assert wanted.base_url == "" and wanted.api_key == ""
