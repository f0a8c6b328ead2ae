"""OPENAI_BASE_URL and OPENAI_API_KEY, which the openai client reads too."""

from pathlib import Path

import pytest

from core.engines.wanted import Wanted, with_openai_names

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


def test_a_key_alone_sends_no_run_to_openai() -> None:
    wanted = Wanted(with_openai_names({"OPENAI_API_KEY": "sk-openai"}))
    assert wanted.base_url == "" and wanted.api_key == ""
