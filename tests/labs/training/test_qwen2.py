"""A Qwen2 model (biases of queries, keys and values; no norms of them) and a Llama (queries and keys in another order)
become GGUF, say what they said before, and come back."""

from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file

from core.base.errors import UserError
from core.engines import start
from core.engines.gguf_header import Gguf
from core.engines.need import Need
from core.engines.shape import Shape
from labs.training import to_hf
from labs.training.architectures import SPLITS
from labs.training.to_gguf import convert
from tests.labs.training import helpers as training
from tests.labs.training.models import contents, edit, random_folder

SHAPE = Shape(layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, intermediate=128, vocab=900, tied=True)
PROMPT = "<|im_start|>user\n7*43?<|im_end|>\n<|im_start|>assistant\n"
# transformers' own model of it, at temperature 0.
GREEDY = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, prompt = sys.argv[1:]
tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
asked = tokenizer(prompt, return_tensors="pt")
said = model.generate(**asked, do_sample=False, max_new_tokens=40)[0, asked["input_ids"].shape[1] :]
print(tokenizer.decode(said), end="")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_folder(tmp_path_factory.mktemp("qwen2") / "tiny", "Qwen2ForCausalLM", SHAPE, is_plain=True)


def test_every_tensor_is_there_under_llama_cpps_names(folder: Path, tmp_path: Path) -> None:
    convert(folder, tmp_path / "q8.gguf")
    about = contents(tmp_path / "q8.gguf")
    assert about["general.architecture"] == "qwen2" and about["qwen2.attention.head_count_kv"] == 2
    kinds = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(tmp_path / "q8.gguf").tensors}
    assert len(kinds) == 2 + 2 * 12 and kinds["blk.1.attn_k.bias"] == "F32" and kinds["blk.1.attn_k.weight"] == "Q8_0"
    read = Gguf.read(tmp_path / "q8.gguf")
    assert (read.shape.layers, read.shape.kv_heads, read.shape.head_dim, read.longest) == (2, 2, 16, 2048)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = random_folder(tmp_path_factory.mktemp("llama") / "tiny", "LlamaForCausalLM", SHAPE, is_plain=True)
    split = {"type": "Sequence", "pretokenizers": SPLITS["smollm"]}
    edit(made / "tokenizer.json", {"pre_tokenizer": split, "decoder": SPLITS["smollm"][-1]})
    return made


@training.needed
@pytest.mark.parametrize("name", ["folder", "llama"])
def test_it_says_on_llama_cpp_what_transformers_says(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    made = request.getfixturevalue(name)
    convert(made, tmp_path / "tiny.gguf", "f32")
    done = training.run(GREEDY, made, PROMPT)
    assert done.returncode == 0 and len(done.stdout) > 20, done.stderr
    with start.on_llamacpp(tmp_path / "tiny.gguf", Need(1, 64, 16)) as server:
        assert training.completed(server, PROMPT, 40) == done.stdout


@pytest.mark.parametrize("name", ["folder", "llama"])
def test_it_comes_back_with_the_same_tensors_and_tokenizer(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    made = request.getfixturevalue(name)
    convert(made, tmp_path / "tiny.gguf", "f32")
    to_hf.convert(tmp_path / "tiny.gguf", tmp_path / "back")
    before, after = (load_file(path / "model.safetensors") for path in (made, tmp_path / "back"))
    assert before.keys() == after.keys() and all(np.array_equal(before[key], after[key]) for key in before)
    convert(tmp_path / "back", tmp_path / "again.gguf", "f32")
    first, second = (contents(tmp_path / f"{file}.gguf") for file in ("tiny", "again"))
    differ = {key for key in first.keys() | second.keys() if first.get(key) != second.get(key)}
    assert differ == {"general.name"} and first["tokenizer.ggml.pre"] == ("smollm" if name == "llama" else "qwen2")


def test_a_tensor_of_the_other_architecture_is_one_line(folder: Path, tmp_path: Path) -> None:
    before = (folder / "config.json").read_text()
    edit(folder / "config.json", {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"})
    with pytest.raises(UserError, match=r"lacks 4 tensors, the first is model\.layers\.0\.self_attn\.q_norm\.weight"):
        convert(folder, tmp_path / "tiny.gguf")
    (folder / "config.json").write_text(before)
    edit(folder / "config.json", {"model_type": "qwen3"})
    with pytest.raises(UserError, match="not of a Qwen2ForCausalLM or Qwen3ForCausalLM or Llama"):
        convert(folder, tmp_path / "tiny.gguf")
    (folder / "config.json").write_text(before)
