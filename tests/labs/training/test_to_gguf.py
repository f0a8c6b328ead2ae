"""From Hugging Face's layout to GGUF: the same model, and folders that can't be converted."""

import os
import resource
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

from core.base.errors import UserError
from core.engines import start
from core.engines.embedded_model import EMBEDDED_GGUF
from core.engines.need import Need
from labs.training.architectures import gguf_names
from labs.training.to_gguf import convert
from tests.conftest import ROOT, environment
from tests.helpers.greedy import greedy
from tests.labs.training.models import (
    LAYERS,
    bf16,
    bf16_shards,
    contents,
    edit,
    hugging_face,
    one_file,
    tensors,
    weights,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hugging_face(tmp_path_factory.mktemp("f32") / "QED-Nano-toy", one_file)


@pytest.fixture(scope="module")
def converted(folder: Path) -> Path:
    out = folder.parent / "qed-nano-toy-f32.gguf"
    convert(folder, out, "f32")
    return out


def test_a_converted_model_is_the_one_it_was_made_of(converted: Path) -> None:
    assert tensors(converted) == tensors(EMBEDDED_GGUF)
    before, after = contents(EMBEDDED_GGUF), contents(converted)
    more = {"general.quantization_version", "general.name", "general.license"}
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == more
    assert after["general.name"] == "QED-Nano-toy"


@pytest.mark.parametrize("type", ["q8_0", "bf16", "f16"])
def test_shards_of_bf16_convert_to_every_type_and_solve(tmp_path: Path, type: str) -> None:
    out = tmp_path / "toy.gguf"
    convert(hugging_face(tmp_path / "hf", bf16_shards, vocab=908), out, type)
    kinds = {t.name: t.tensor_type.name for t in gguf.GGUFReader(out).tensors}
    assert kinds["token_embd.weight"] == kinds[f"blk.{LAYERS - 1}.ffn_down.weight"] == type.upper()
    assert kinds["output_norm.weight"] == kinds["blk.0.attn_q_norm.weight"] == "F32"
    about = contents(out)
    assert about["tokenizer.ggml.tokens"][899:902] == [about["tokenizer.ggml.tokens"][899], "[PAD900]", "[PAD901]"]
    assert about["tokenizer.ggml.token_type"][900:] == [gguf.TokenType.UNUSED] * 8
    for name, found in gguf_names(weights(), LAYERS).items():  # no more is lost than the type takes
        stored = next(t for t in gguf.GGUFReader(out).tensors if t.name == found)
        exact = (bf16(weights()[name]).astype(np.uint32) << 16).view(np.float32)
        read = gguf.quants.dequantize(stored.data, stored.tensor_type)[: len(exact)]
        step = np.abs(exact).max() / 127 if type == "q8_0" else np.abs(exact).max() * 2.0**-11
        assert np.abs(read - exact).max() <= (step if type != "bf16" else 0)
    with start.on_llamacpp(out, Need(3, 300, 16)) as server:
        answers = greedy(server, 4)
    assert all(answer and "\\boxed" in answer and thinking for answer, thinking in answers)


def to_gguf(*args: object, **changes: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "labs.training.to_gguf", *map(str, args)],
        env=environment(**changes.pop("env", {})),
        cwd=ROOT,
        capture_output=True,
        text=True,
        **changes,
    )


def lose_a_tensor(folder: Path) -> None:
    values = weights()
    del values["model.layers.2.mlp.up_proj.weight"]
    one_file(folder, values)


def add_a_tensor(folder: Path) -> None:
    one_file(folder, weights() | {"model.layers.0.self_attn.q_proj.bias": np.zeros(128, np.float32)})


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


BREAKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), "config.json can't be read (No such file or directory)"),
    "no JSON": (lambda f: (f / "config.json").write_text("{"), "config.json is not valid JSON"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "holds no safetensors files"),
    "weights cut off": (lambda f: cut(f / "model.safetensors"), "model.safetensors is cut off: "),
    "no safetensors": (lambda f: (f / "model.safetensors").write_bytes(b"x" * 99), "is no safetensors file"),
    "a tensor less": (lose_a_tensor, "lacks 1 tensors, the first is model.layers.2.mlp.up_proj.weight"),
    "a tensor more": (add_a_tensor, "q_proj.bias, which such a model does not have"),
    "other shapes": (lambda f: edit(f / "config.json", {"vocab_size": 901}), "is F32 [900, 128]; BF16, F16, F32 and"),
    "other model": (lambda f: edit(f / "config.json", {"architectures": ["MambaForCausalLM"]}), "MambaForCausalLM"),
    "yarn": (lambda f: edit(f / "config.json", {"rope_scaling": {"rope_type": "yarn"}}), "asks for yarn scaling"),
    "no epsilon": (lambda f: edit(f / "config.json", {"rms_norm_eps": None}), "does not hold a sound"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json can't be read"),
    "other tokenizer": (
        lambda f: edit(f / "tokenizer.json", {"pre_tokenizer": None}),
        "splits text by no rule of",
    ),
    "no vocabulary": (lambda f: edit(f / "tokenizer.json", {"model": {}}), "or the files beside it are damaged"),
    "no end of turn": (lambda f: (f / "tokenizer_config.json").unlink(), "holds no end of a turn (eos_token)"),
    "no template": (lambda f: (f / "chat_template.jinja").unlink(), "holds no chat template"),
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_broken_folder_is_one_line_and_leaves_nothing(what: str, tmp_path: Path) -> None:
    broken = hugging_face(tmp_path / "hf", one_file)
    change, message = BREAKS[what]
    change(broken)
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError) as raised:
        convert(broken, tmp_path / "out" / "model.gguf")
    assert message in str(raised.value) and not list((tmp_path / "out").iterdir())


def test_a_disk_that_refuses_leaves_what_was_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limit() -> None:  # writing beyond half a million bytes fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

    done = to_gguf(folder, tmp_path / "model.gguf", preexec_fn=limit)
    assert done.returncode == 2 and "model.gguf: writing failed (" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1))
        with pytest.raises(UserError, match=r"has 0.0 MB free and the file needs 0.9 MB. Make room"):
            convert(folder, tmp_path / "model.gguf")
    (tmp_path / "model.gguf").write_text("precious")
    done = to_gguf(folder, tmp_path / "model.gguf")
    assert done.returncode == 2 and "model.gguf exists. Remove it, or choose another name" in done.stderr
    assert [file.read_text() for file in tmp_path.iterdir()] == ["precious"]
    for out, message in (("model.bin", "must be named .gguf"), ("none/model.gguf", "none does not exist")):
        done = to_gguf(folder, tmp_path / out)
        assert done.returncode == 2 and message in done.stderr


def test_llama_cpps_own_converter_is_called_where_it_is_given(folder: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "llama.cpp"
    checkout.mkdir()
    script, out = checkout / "convert_hf_to_gguf.py", tmp_path / "model.gguf"
    env = {"LLAMA_CPP": str(checkout)}
    assert "holds no convert_hf_to_gguf.py" in to_gguf(folder, out, env=env).stderr
    script.write_text("import sys; open(sys.argv[3], 'w').write('half'); sys.exit(3)")
    done = to_gguf(folder, out, env=env)
    assert done.returncode == 2 and "llama.cpp's converter ended with status 3" in done.stderr
    script.write_text("import sys; open(sys.argv[3], 'w').write(' '.join([sys.argv[1], *sys.argv[4:]]))")
    done = to_gguf(folder, out, "--type", "f16", env=env)
    assert done.returncode == 0 and out.read_text() == f"{folder} --outtype f16", done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["llama.cpp", "model.gguf"]
