"""From GGUF to Hugging Face's layout and back: the same model, whoever reads it; and files that can't be converted."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import Keys
from safetensors.numpy import load_file

from core.base.errors import UserError
from core.engines.embedded_model import EMBEDDED_GGUF
from labs.training import to_gguf, to_hf
from tests.conftest import ROOT, environment
from tests.labs.training.models import contents, hugging_face, one_file, tensors, weights

# Not of the model: its name is the folder's, and no folder tells a licence.
OF_THE_FILE = {"general.quantization_version", "general.name", "general.license"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("hf") / "tiny-qwen3-thinking"
    to_hf.convert(EMBEDDED_GGUF, out)
    return out


def test_there_and_back_is_the_same_model_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    back = tmp_path / "back.gguf"
    to_gguf.convert(folder, back, "f32")
    assert tensors(back) == tensors(EMBEDDED_GGUF)
    before, after = contents(EMBEDDED_GGUF), contents(back)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == OF_THE_FILE
    again = tmp_path / "again"
    to_hf.convert(back, again)
    assert {file.name: file.read_bytes() for file in again.iterdir()} == {
        file.name: file.read_bytes() for file in folder.iterdir()
    }


def test_the_folder_is_the_one_that_was_written_by_hand(folder: Path, tmp_path: Path) -> None:
    by_hand = hugging_face(tmp_path / "hf", one_file)
    for name in ("config.json", "tokenizer_config.json", "tokenizer.json"):
        ours, theirs = (json.loads((place / name).read_text()) for place in (folder, by_hand))
        assert {key: ours[key] for key in theirs} == theirs, name
    assert (folder / "chat_template.jinja").read_text() == (by_hand / "chat_template.jinja").read_text()


def test_weights_are_read_by_the_package_that_reads_others(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    assert stored.keys() == weights().keys() and all(np.array_equal(stored[name], w) for name, w in weights().items())


def test_a_quantized_model_keeps_its_values_and_rows_that_no_token_has(tmp_path: Path) -> None:
    source, out = tmp_path / "q8.gguf", tmp_path / "hf"
    to_gguf.convert(hugging_face(tmp_path / "padded", one_file, vocab=908), source, "q8_0")
    to_hf.convert(source, out)
    stored = load_file(out / "model.safetensors")
    q_proj = next(t for t in gguf.GGUFReader(source).tensors if t.name == "blk.0.attn_q.weight")
    assert q_proj.tensor_type.name == "Q8_0"
    values = gguf.quants.dequantize(q_proj.data, q_proj.tensor_type)
    assert np.array_equal(stored["model.layers.0.self_attn.q_proj.weight"], values)
    assert stored["model.embed_tokens.weight"].shape == (908, 128)
    assert len(json.loads((out / "tokenizer.json").read_text())["model"]["vocab"]) == 900
    back = tmp_path / "back.gguf"
    to_gguf.convert(out, back, "q8_0")
    assert tensors(back) == tensors(source)


def changed(path: Path, out: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Path:
    """The GGUF file at `path` written again with its fields and tensors changed."""
    reader = gguf.GGUFReader(path)
    fields = {name: (field.types, field.contents()) for name, field in reader.fields.items()}
    stored = {tensor.name: tensor.data for tensor in reader.tensors}
    change(fields, stored)
    writer = gguf.GGUFWriter(out, fields.pop(Keys.General.ARCHITECTURE)[1])
    for name, (types, value) in fields.items():
        if not name.startswith("GGUF."):
            writer.add_key_value(name, value, types[0], types[-1] if len(types) > 1 else None)
    for name, values in stored.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def put(fields: dict[str, Any], name: str, value: Any) -> None:
    fields[name] = ([gguf.GGUFValueType.get_type(value)], value)


BREAKS: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any]], object], str]] = {
    "other model": (lambda f, t: put(f, Keys.General.ARCHITECTURE, "mamba"), "is of architecture mamba"),
    "other tokenizer": (
        lambda f, t: put(f, Keys.Tokenizer.PRE, "llama-bpe"),
        "is converted. Fetch the folder",
    ),
    "yarn": (lambda f, t: put(f, "qwen3.rope.scaling.type", "yarn"), "asks for yarn scaling"),
    "no template": (lambda f, t: f.pop(Keys.Tokenizer.CHAT_TEMPLATE), "does not hold tokenizer.chat_template"),
    "no end of turn": (lambda f, t: f.pop(Keys.Tokenizer.EOS_ID), "does not hold tokenizer.ggml.eos_token_id"),
    "no epsilon": (lambda f, t: f.pop("qwen3.attention.layer_norm_rms_epsilon"), "does not hold qwen3.attention."),
    "no such token": (lambda f, t: put(f, Keys.Tokenizer.EOS_ID, 900), "has a damaged vocabulary"),
    "a token twice": (lambda f, t: f[Keys.Tokenizer.LIST][1].__setitem__(8, "!"), "has a damaged vocabulary"),
    "a tensor less": (lambda f, t: t.pop("blk.2.ffn_up.weight"), "lacks 1 tensors, the first is blk.2.ffn_up.weight"),
    "a tensor more": (
        lambda f, t: t.update({"blk.0.attn_q.bias": np.zeros(128, np.float32)}),
        "attn_q.bias, which such a dense model does not have",
    ),
    "other shapes": (
        lambda f, t: t.update({"output_norm.weight": np.zeros(64, np.float32)}),
        "output_norm.weight in ",
    ),
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_file_that_cannot_be_converted_is_one_line_and_leaves_nothing(what: str, tmp_path: Path) -> None:
    change, message = BREAKS[what]
    broken = changed(EMBEDDED_GGUF, tmp_path / "broken.gguf", change)
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError) as raised:
        to_hf.convert(broken, tmp_path / "out" / "hf")
    assert message in str(raised.value) and not list((tmp_path / "out").iterdir())


def test_what_was_not_changed_converts(tmp_path: Path) -> None:
    to_hf.convert(changed(EMBEDDED_GGUF, tmp_path / "same.gguf", lambda f, t: None), tmp_path / "hf")


@pytest.mark.parametrize("bytes_", [0, 100, 20_000, 3_000_000])
def test_a_file_cut_off_anywhere_is_one_line(bytes_: int, tmp_path: Path) -> None:
    torn = tmp_path / "torn.gguf"
    torn.write_bytes(EMBEDDED_GGUF.read_bytes()[:bytes_])
    with pytest.raises(UserError, match=r"torn\.gguf is cut off or damaged"):
        to_hf.convert(torn, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


def command(*args: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "labs.training.to_hf", *map(str, args)],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def test_the_command_writes_a_folder_and_never_over_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = command(EMBEDDED_GGUF, tmp_path / "hf")
    size = f"{(tmp_path / 'hf' / to_hf.WEIGHTS).stat().st_size / 1e6:.1f} MB"
    assert done.returncode == 0 and f"{size}. Serve it: ENGINE=vllm" in done.stdout, done.stderr
    assert os.listdir(tmp_path) == ["hf"]
    for model, out, message in (
        (EMBEDDED_GGUF, tmp_path / "hf", "hf exists. Remove it"),
        (EMBEDDED_GGUF, tmp_path / "none" / "hf", "none does not exist"),
        (tmp_path / "none.gguf", tmp_path / "new", "can't be read"),
        (ROOT / "README.md", tmp_path / "new", "is cut off or damaged"),
    ):
        done = command(model, out)
        assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr, done.stderr
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1))
        with pytest.raises(UserError, match=r"has 0.0 MB free and the model needs 3.4 MB. Make room"):
            to_hf.convert(EMBEDDED_GGUF, tmp_path / "new")
    assert os.listdir(tmp_path) == ["hf"]
