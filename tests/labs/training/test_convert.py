"""Between Hugging Face's layout and GGUF: the same model both ways, whoever reads it; and what
can't be converted."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import Keys
from safetensors.numpy import load_file

from core import server as start
from core.base.errors import UserError
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.gguf_header import Gguf
from core.engines.need import Need
from labs.training import llama_converter, starts, to_gguf, to_hf
from labs.training.architectures import check_tensors
from tests.conftest import ROOT, ended, environment, python
from tests.helpers import tiny_models
from tests.labs.training import helpers as training
from tests.labs.training.models import (
    LAYERS,
    bf16_shards,
    contents,
    edit,
    hugging_face,
    one_file,
    random_models,
    tensors,
    weights,
)

# Not of the model: its name is the folder's, and no folder tells a licence.
OF_THE_FILE = {"general.quantization_version", "general.name", "general.license"}
SCALING = Keys.Rope.SCALING_TYPE.format(arch="qwen3")
PROMPT = "<|im_start|>user\n7*43?<|im_end|>\n<|im_start|>assistant\n"  # of by_torch.py too


@pytest.fixture(scope="module")
def random(tmp_path_factory: pytest.TempPathFactory) -> Path:
    models = tmp_path_factory.mktemp("random") / "random"
    random_models(models)
    return models


def differing(one: Path, other: Path) -> set[str]:
    """The names of the metadata in which two GGUF files differ."""
    first, second = contents(one), contents(other)
    return {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)}


# The same model


def test_there_and_back_is_the_same_model_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    back, again = tmp_path / "back.gguf", tmp_path / "again"
    to_gguf.convert(folder, back, "f32")
    assert tensors(back) == tensors(EMBEDDED_GGUF) and differing(EMBEDDED_GGUF, back) == OF_THE_FILE
    assert contents(back)["general.name"] == folder.name
    to_hf.convert(back, again)
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert {file.name: file.read_bytes() for file in again.iterdir()} == files


def test_a_quantized_model_keeps_its_values_and_rows_that_no_token_has(tmp_path: Path) -> None:
    source, out = tmp_path / "q8.gguf", tmp_path / "hf"
    to_gguf.convert(hugging_face(tmp_path / "padded", vocab=908), source, "q8_0")
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


@pytest.mark.parametrize("type", ["q8_0", "bf16", "f16"])
def test_shards_of_bf16_convert_to_every_type_and_solve(tmp_path: Path, type: str) -> None:
    out = tmp_path / "toy.gguf"
    to_gguf.convert(bf16_shards(hugging_face(tmp_path / "hf", vocab=908)), out, type)
    kinds = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(out).tensors}
    assert kinds["token_embd.weight"] == kinds[f"blk.{LAYERS - 1}.ffn_down.weight"] == type.upper()
    assert kinds["output_norm.weight"] == kinds["blk.0.attn_q_norm.weight"] == "F32"
    about = contents(out)
    assert about["tokenizer.ggml.tokens"][900:902] == ["[PAD900]", "[PAD901]"]
    assert about["tokenizer.ggml.token_type"][900:] == [gguf.TokenType.UNUSED] * 8
    with start.on_llamacpp(out, Need(3, 300, 16)) as server:
        assert (
            "</think>" in (text := training.completed(server, training.SUM, 300))
            and "\\boxed{" in text
        )


# Qwen2 has biases of queries, keys and values and no norms of them; a Llama's queries and keys are
# in another order.


@training.needed
@pytest.mark.parametrize("name", ["qwen2", "smol"])
def test_it_says_on_llama_cpp_what_transformers_says(
    name: str, tmp_path: Path, random: Path, answers: dict[str, Any]
) -> None:
    to_gguf.convert(random / name, tmp_path / "tiny.gguf", "f32")
    with start.on_llamacpp(tmp_path / "tiny.gguf", Need(1, 64, 16)) as server:
        assert training.completed(server, PROMPT, 40) == answers[name] and len(answers[name]) > 20


@pytest.mark.parametrize(("name", "split"), [("qwen2", "qwen2"), ("smol", "smollm")])
def test_it_comes_back_with_the_same_tensors_and_tokenizer(
    name: str, split: str, tmp_path: Path, random: Path
) -> None:
    model = random / name
    to_gguf.convert(model, tmp_path / "tiny.gguf", "f32")
    to_hf.convert(tmp_path / "tiny.gguf", tmp_path / "back")
    before, after = (load_file(path / "model.safetensors") for path in (model, tmp_path / "back"))
    assert before.keys() == after.keys() and all(
        np.array_equal(before[key], after[key]) for key in before
    )
    to_gguf.convert(tmp_path / "back", tmp_path / "again.gguf", "f32")
    assert differing(tmp_path / "tiny.gguf", tmp_path / "again.gguf") == {"general.name"}
    assert contents(tmp_path / "tiny.gguf")["tokenizer.ggml.pre"] == split


# What can't be converted


@pytest.mark.parametrize(
    ("key", "value"),
    [(Keys.Tokenizer.PRE, "llama-bpe"), (Keys.Tokenizer.MODEL, "spm"), (SCALING, "yarn")],
)
def test_another_tokenizer_and_scaled_positions_are_refused(key: str, value: str) -> None:
    about, shape = contents(EMBEDDED_GGUF) | {key: value}, Gguf.read(EMBEDDED_GGUF).shape
    with pytest.raises(UserError, match=value):
        to_hf._config(EMBEDDED_GGUF, about, shape, "Qwen3ForCausalLM", "qwen3")


def test_a_missing_field_or_tensor_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Keys.Tokenizer, "CHAT_TEMPLATE", "tokenizer.lost")
    with pytest.raises(UserError, match=r"model\.gguf.*tokenizer\.lost"):
        to_hf.convert(EMBEDDED_GGUF, tmp_path / "hf")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match=r"x\.gguf.*blk\.2.*missing"):
        check_tensors(Path("x.gguf"), {"blk.1": (2,)}, {"blk.1": (2,), "blk.2": (3, 4)})


# A stand-in for llama.cpp's converter. It writes its arguments, or fails if the type is f32.
CONVERTER = """
import sys
from pathlib import Path

folder, _, out, _, kind = sys.argv[1:]
if kind == "f32":
    sys.exit("an error of the converter")
Path(out).write_text(f"{Path(folder).name} {kind}")
"""


@pytest.fixture
def unknown(folder: Path, tmp_path: Path) -> Path:
    """Write a model of an architecture that only llama.cpp's converter knows."""
    out = Path(shutil.copytree(folder, tmp_path / "unknown"))
    changes = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text"}
    edit(out / "config.json", changes)
    return out


def test_llama_cpps_converter_takes_over_for_other_models(
    unknown: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = tmp_path / llama_converter.SCRIPT
    script.write_text(CONVERTER)
    out = tmp_path / "out.gguf"
    arguments = [str(unknown), str(out), "--type"]
    monkeypatch.setenv(llama_converter.VARIABLE, str(script))
    with pytest.raises(SystemExit) as status:
        to_gguf.main([*arguments, "f32"])
    err = capsys.readouterr().err
    assert status.value.code == 2 and "an error of the converter" in err and not out.exists()
    monkeypatch.delenv(llama_converter.VARIABLE)
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    to_gguf.main([*arguments, "q8_0"])
    assert out.read_text() == "unknown q8_0"
    assert "Gemma3ForCausalLM" in capsys.readouterr().err


def test_without_llama_cpps_converter_one_line_gives_the_way(
    unknown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, named in (("", llama_converter.VARIABLE), ("/no/such/file", "/no/such/file")):
        monkeypatch.setenv(llama_converter.VARIABLE, value)
        with pytest.raises(UserError, match=named):
            to_gguf._convert(unknown, tmp_path / "out.gguf", "f16")


@pytest.mark.parametrize("architecture", ["gemma3", "qwen3moe"])
def test_other_architectures_in_gguf_are_one_line(architecture: str, tmp_path: Path) -> None:
    file = tiny_models.write(tmp_path / "tiny.gguf", architecture)
    with pytest.raises(UserError, match=architecture):
        to_hf.convert(file, tmp_path / "hf")
    with pytest.raises(UserError, match=architecture):
        starts.start(file, 0)


@pytest.mark.parametrize("bytes_", [0, 20_000, 3_000_000])
def test_a_file_cut_off_anywhere_is_one_line(bytes_: int, tmp_path: Path) -> None:
    torn = tmp_path / "torn.gguf"
    torn.write_bytes(EMBEDDED_GGUF.read_bytes()[:bytes_])
    with pytest.raises(UserError, match=r"torn\.gguf"):
        to_hf.convert(torn, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


LOST = "model.layers.2.mlp.up_proj.weight"
FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), "config.json"),
    "no weights": (
        lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
        "safetensors",
    ),
    "weights cut off": (
        lambda f: os.truncate(f / "model.safetensors", 2_999_999),
        "model.safetensors",
    ),
    "no safetensors": (
        lambda f: (f / "model.safetensors").write_bytes(b"x" * 99),
        "model.safetensors",
    ),
    "a tensor less": (
        lambda f: one_file(f, {name: v for name, v in weights().items() if name != LOST}),
        LOST,
    ),
    "other shapes": (lambda f: edit(f / "config.json", {"vocab_size": 901}), "(900, 128)"),
    "other type": (lambda f: edit(f / "config.json", {"model_type": "qwen2"}), "Qwen3ForCausalLM"),
    "yarn": (lambda f: edit(f / "config.json", {"rope_scaling": {"rope_type": "yarn"}}), "yarn"),
    "no epsilon": (lambda f: edit(f / "config.json", {"rms_norm_eps": None}), "config.json"),
    "other tokenizer": (
        lambda f: edit(f / "tokenizer.json", {"pre_tokenizer": None}),
        "qwen2 or smollm",
    ),
    "no vocabulary": (lambda f: edit(f / "tokenizer.json", {"model": {}}), "'vocab'"),
    "more tokens": (
        lambda f: edit(f / "tokenizer.json", {"added_tokens": [{"id": 900, "content": "x"}]}),
        "token 900",
    ),
    "no end of turn": (lambda f: (f / "tokenizer_config.json").unlink(), "eos_token"),
}


@pytest.mark.parametrize("what", FOLDERS)
def test_a_broken_folder_is_one_line_and_leaves_nothing(
    what: str, folder: Path, tmp_path: Path
) -> None:
    broken = shutil.copytree(folder, tmp_path / "hf")
    change, named = FOLDERS[what]
    change(broken)
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError) as raised:
        to_gguf.convert(broken, tmp_path / "out" / "model.gguf")
    assert named in str(raised.value) and not list((tmp_path / "out").iterdir())


def test_the_commands_write_whole_files_and_never_over_others(tmp_path: Path) -> None:
    def limit() -> None:  # writing beyond half a million bytes fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

    status, out, err = ended(
        python("-m", "labs.training.to_hf", str(EMBEDDED_GGUF), str(tmp_path / "hf"))
    )
    size = f"{(tmp_path / 'hf' / to_hf.WEIGHTS).stat().st_size / 1e6:.1f} MB"
    assert status == 0 and size in out and os.listdir(tmp_path) == ["hf"], err
    with pytest.raises(UserError, match=f"{tmp_path / 'hf'}"):
        to_hf.convert(EMBEDDED_GGUF, tmp_path / "hf")
    args = [
        sys.executable,
        "-m",
        "labs.training.to_gguf",
        str(tmp_path / "hf"),
        str(tmp_path / "model.gguf"),
    ]
    done = subprocess.run(
        args, env=environment(), cwd=ROOT, capture_output=True, text=True, preexec_fn=limit
    )
    assert (
        done.returncode == 2 and done.stderr.count("error: ") == 1 and "model.gguf" in done.stderr
    )
    assert os.listdir(tmp_path) == ["hf"]
    for out in ("model.bin", "none/model.gguf"):
        with pytest.raises(UserError, match=out.partition("/")[0]):
            to_gguf.convert(tmp_path / "hf", tmp_path / out)
