"""Test what users give to llama.cpp: files in parts, files without a chat template, other
architectures, and files that it can't load."""

import re
import shutil
from pathlib import Path

import pytest

from core.base.errors import UserError
from core.engines import environment, gguf_parts, in_process, our_port, process, weights
from core.engines.attach import probe
from core.engines.dialects import llamacpp
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.gguf_header import Gguf, whole
from core.engines.need import Need
from core.engines.protocol import NO_TEMPLATE
from core.server import on_llamacpp
from tests.helpers import tiny_models
from tests.helpers.asking import SHORT, ask
from tests.helpers.gguf_copies import copying

NEED = Need(1, 100, 16)
JINJA = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"


def split(source: Path, out: Path) -> list[Path]:
    """Write the file `source` as two parts, out-00001-of-00002.gguf and its successor."""
    with copying(source, out, split_max_tensors=20):
        pass
    return sorted(out.parent.glob(f"{out.stem}-*.gguf"))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return split(EMBEDDED_GGUF, tmp_path_factory.mktemp("parts") / "tiny.gguf")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Write the embedded model without a chat template."""
    out = tmp_path / "plain.gguf"
    content = EMBEDDED_GGUF.read_bytes()
    out.write_bytes(content.replace(b"tokenizer.chat_template", b"tokenizer.chat_templatx", 1))
    return out


# Parts


def test_any_part_selects_the_whole_model(
    parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXACT", "1")
    assert [path.name for path in parts] == [f"tiny-0000{part}-of-00002.gguf" for part in (1, 2)]
    assert {llamacpp.gguf_file(str(part)) for part in parts} == {parts[0]}
    asked = [(seed, SHORT) for seed in range(2)]
    with on_llamacpp(parts[0], NEED) as server:
        of_parts = ask(server, tmp_path / "parts", asked)
    with on_llamacpp(EMBEDDED_GGUF, NEED) as server_of_file:
        of_file = ask(server_of_file, tmp_path / "file", asked)
    assert [(reply.thinking, reply.answer) for reply in of_parts] == [
        (reply.thinking, reply.answer) for reply in of_file
    ]
    assert server.model.startswith("tiny@") and server.sha256 == weights.sha256(parts[0])
    assert Gguf.read(parts[0]).bytes == sum(part.stat().st_size for part in parts)


def test_the_hash_covers_all_parts(parts: list[Path], tmp_path: Path) -> None:
    copies = [Path(shutil.copy(part, tmp_path)) for part in parts]
    before = weights.sha256(copies[0])
    assert before == weights.sha256(parts[0]) != weights.sha256(EMBEDDED_GGUF)
    with open(copies[1], "ab") as file:
        file.write(b"0")
    assert weights.sha256(copies[0]) != before


def test_all_missing_parts_are_named(tmp_path: Path) -> None:
    names = gguf_parts.names("big-00002-of-00004.gguf")
    (tmp_path / names[1]).write_bytes(b"GGUF")
    with pytest.raises(UserError) as refusal:
        llamacpp.gguf_file(str(tmp_path / names[1]))
    message = str(refusal.value)
    assert [name in message.partition(" parts")[2] for name in names] == [True, False, True, True]


def test_a_part_is_not_converted(parts: list[Path]) -> None:
    with pytest.raises(UserError, match="llama-gguf-split"):
        whole(parts[0])


# Chat templates


def test_a_file_without_a_template_gets_one_by_name(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_llamacpp(plain, NEED) as server:
        assert NO_TEMPLATE in server.choice and "CHAT_TEMPLATE" in server.choice
        assert "chat_template" not in server.key_fields
    monkeypatch.setenv("CHAT_TEMPLATE", "gemma")
    with on_llamacpp(plain, NEED) as server:
        attached = probe(server.base_url, "x")
        assert attached is not None and attached.key_fields == server.key_fields
        assert server.tail == "<end_of_turn>\n<start_of_turn>model\n"
        assert server.key_fields["chat_template"] == "gemma"
        assert "gemma" in server.cannot_continue and NO_TEMPLATE not in server.choice


def test_a_template_in_a_file_is_used_and_enters_the_keys(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "chat.jinja"
    file.write_text(JINJA)
    monkeypatch.setenv("CHAT_TEMPLATE", str(file))
    port = process.free_port()
    for name, value in {"MODEL": str(plain), "PORT": str(port)}.items():
        monkeypatch.setenv(name, value)
    with on_llamacpp(plain, NEED, port) as server:
        assert server.tail == "[assistant]" and not server.cannot_continue
        assert server.key_fields["chat_template"].startswith("sha256:")
        running = our_port.running_server(environment.wanted())
        assert running is not None and running.key_fields == server.key_fields
        monkeypatch.setenv("CHAT_TEMPLATE", "chatml")
        with pytest.raises(UserError, match="CHAT_TEMPLATE=chatml"):
            our_port.running_server(environment.wanted())


@pytest.mark.parametrize("template", ["no-such-name", "no/such/file", "{bad}"])
def test_a_wrong_template_is_one_line(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if template == "{bad}":
        template = str(tmp_path / "bad.jinja")
        Path(template).write_text("{% if x %}never ended")
    monkeypatch.setenv("CHAT_TEMPLATE", template)
    with pytest.raises(UserError) as refusal, on_llamacpp(EMBEDDED_GGUF, NEED):
        pass
    assert "\n" not in str(refusal.value) and "CHAT_TEMPLATE" in str(refusal.value)


# Architectures


@pytest.mark.parametrize("architecture", tiny_models.MODELS)
def test_other_architectures_answer(architecture: str, tmp_path: Path) -> None:
    file = tiny_models.write(tmp_path / f"{architecture}.gguf", architecture)
    with on_llamacpp(file, NEED) as server:
        replies = ask(server, tmp_path / "journal", [(seed, SHORT) for seed in range(2)])
    assert server.model.startswith(f"{architecture}@") and server.context
    assert all(reply.completion_tokens and not reply.error for reply in replies)


def test_llama_cpp_fits_the_context_of_an_unknown_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Gguf, "cache", None)
    file = tiny_models.write(tmp_path / "tiny.gguf", "qwen3moe")
    with on_llamacpp(file, NEED) as server:
        assert (server.context, server.limit) == (2048, 1 + 2)
        assert not ask(server, tmp_path / "journal", [(0, SHORT)])[0].error


# Files that llama.cpp does not load


def test_the_reason_is_llama_cpps(tmp_path: Path) -> None:
    unknown = tmp_path / "unknown.gguf"
    unknown.write_bytes(EMBEDDED_GGUF.read_bytes().replace(b"qwen3", b"newer"))
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(EMBEDDED_GGUF.read_bytes()[:-1])
    for file, reason in ((unknown, "unknown model architecture: 'newer'"), (cut, "file bounds")):
        with pytest.raises(UserError) as refusal, on_llamacpp(file, NEED):
            pass
        message = str(refusal.value)
        assert file.name in message and reason in message and "\n" not in message


def test_errors_and_assertions_are_found_in_the_log() -> None:
    log = (
        "0.00.01 W srv  load_model: a warning\n"
        "0.00.02 E cmn  common_init_: failed to load\n"
        "0.00.03 E llama_model_load: error loading model: unknown\n"
        "/there/src/llama.cpp:1883: GGML_ASSERT(n > 0) failed\n"
    )
    assert in_process._ERROR.findall(log) == [
        "failed to load",
        "unknown",
        "GGML_ASSERT(n > 0) failed",
    ]
    assert not re.search(in_process._ERROR, "a reply that says E common: x")
