"""Test API keys: each is sent to its own server only, and is in the environment or in .env."""

from pathlib import Path

import pytest

from core.base import files
from core.base.errors import UserError
from core.engines import environment
from core.engines.protocol import Key
from core.engines.wanted import GRADER


@pytest.fixture(autouse=True)
def no_env_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(files, "HOME", tmp_path / "home")


def server_key() -> Key:
    return environment.wanted().remote.key


def test_a_key_is_its_servers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL", "openai")
    monkeypatch.setenv("API_KEY", "sk-ours")
    with pytest.raises(UserError, match="OPENAI_API_KEY .*home/.env"):
        server_key()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-theirs\n")
    assert server_key() == "sk-theirs"
    assert server_key().variable == "OPENAI_API_KEY"
    assert environment.api_key() == "sk-ours"
    assert repr(server_key()) == "(OPENAI_API_KEY)"
    monkeypatch.setenv("BASE_URL", "https://api.openai.com:443/v1")
    assert server_key() == "sk-theirs", "the same origin"
    others = ("https://api.openai.com.evil.example/v1", "https://api.openai.com@evil.example")
    for elsewhere in (
        *others,
        "http://api.openai.com/v1",
        "https://api.openai.com:port/v1",
        "http://[::1",
        "x",
    ):
        monkeypatch.setenv("BASE_URL", elsewhere)
        assert server_key() == "sk-ours"
        assert server_key().variable == "API_KEY"
    monkeypatch.delenv("BASE_URL")
    monkeypatch.setenv("OPENAI_API_KEY", "sk thé")
    with pytest.raises(UserError, match="OPENAI_API_KEY") as raised:
        server_key()
    assert "sk th" not in str(raised.value)


def test_a_card_without_a_key_of_its_own_is_sent_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "sk-ours")
    for model, key in (("ollama", ""), ("qed-nano", "sk-ours"), ("", "sk-ours")):
        monkeypatch.setenv("MODEL", model)
        assert server_key() == key
    monkeypatch.setenv("MODEL", "azure")
    monkeypatch.setenv("BASE_URL", "https://mine.openai.azure.com/openai/v1")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "az-1")
    assert server_key().sent == ("api-key", "az-1"), (
        "the address that the card leaves to BASE_URL is its own"
    )


def test_a_key_may_be_in_the_checkouts_env_file(monkeypatch: pytest.MonkeyPatch) -> None:
    files.HOME.mkdir()
    monkeypatch.setenv("MODEL", "openai")
    (files.HOME / ".env").write_text(
        "\ufeff# keys\r\nA=1\r\nexport OPENAI_API_KEY='sk-file'  # mine\r\n"
    )
    assert server_key() == "sk-file"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    assert server_key() == "sk-environment", "the environment goes first"
    monkeypatch.delenv("OPENAI_API_KEY")
    (files.HOME / ".env").write_bytes(b"OPENAI_API_KEY=\xff")
    with pytest.raises(UserError, match="home/.env"):
        server_key()
    (files.HOME / ".env").unlink()
    (files.HOME / ".env").mkdir()  # as some name their virtual environment
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        server_key()
    assert ".env" in (files.ROOT / ".gitignore").read_text().splitlines()


def test_a_graders_model_may_be_a_card_with_a_key_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-theirs")
    monkeypatch.setenv("GRADER_KEY", "sk-graders")
    assert environment.second(GRADER)[0] == ""
    for url, model, expected in (
        ("", "openai", ("https://api.openai.com/v1", "gpt-5-mini", "sk-theirs", "openai")),
        (
            "http://127.0.0.1:9/v1",
            "openai",
            ("http://127.0.0.1:9/v1", "gpt-5-mini", "sk-graders", "openai"),
        ),
        ("http://127.0.0.1:9/v1", "m", ("http://127.0.0.1:9/v1", "m", "sk-graders", "")),
    ):
        monkeypatch.setenv("GRADER_URL", url)
        monkeypatch.setenv("GRADER_MODEL", model)
        address, name, key, card = environment.second(GRADER)
        assert (address, name, key, card.name) == expected
    monkeypatch.setenv("GRADER_URL", "")
    for model in ("opnai", "azure"):  # no card, and one without an address and an engine
        monkeypatch.setenv("GRADER_MODEL", model)
        with pytest.raises(UserError, match=f"GRADER_MODEL={model}"):
            environment.second(GRADER)


def test_google_s_key_has_two_names_and_the_first_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL", "google")
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    with pytest.raises(UserError, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
        server_key()
    monkeypatch.setenv("GOOGLE_API_KEY", "g-1")
    assert server_key() == "g-1"
    assert server_key().variable == "GOOGLE_API_KEY"
    monkeypatch.setenv("GEMINI_API_KEY", "g-2")
    assert server_key() == "g-2"
    assert server_key().variable == "GEMINI_API_KEY"
