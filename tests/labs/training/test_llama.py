"""A Llama like DeepSeek's prover is trained by trl and peft, for real, and served by a GPU
alone."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from core.base.errors import UserError
from core.engines import gpus
from labs.training import served, starts
from labs.training.chat import Chat
from labs.training.rows import Line
from labs.training.served import Weights
from tests.labs.training import helpers as training
from tests.labs.training.models import (
    ASSISTANT,
    BOS,
    EOS,
    INV_FREQ,
    ROWS,
    TEMPLATE,
    USER,
    YARN,
    edit,
    llamas,
)

# of each training: 4 and 2 heads of keys and values, and 4 of queries
BASES = {"lora": "mha", "all": "gqa"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    models = tmp_path_factory.mktemp("llama") / "llama"
    llamas(models)
    return models


@training.needed
@pytest.mark.parametrize("name", BASES)
def test_it_learns_its_rows_and_says_them(
    name: str, trained: Path, answers: dict[str, Any]
) -> None:
    folder, ours = trained / "llama", answers[name]
    its = json.loads((folder / name / "train.json").read_text())
    assert its["last_loss"] < its["first_loss"] / 4 and its["rows"] == len(ROWS)
    assert ours["class"] == "LlamaForCausalLM"
    assert ours["reply"] == ROWS[0]["output"] + EOS
    # transformers' tokens
    assert ours["prompts"] and ours["whole"] and ours["begins"] == [1] * len(ROWS)
    rank = 16 if name == "lora" else 0
    estimate = starts.needed(
        starts.start(folder / BASES[name], rank).shape, rank, starts.STEP_ROWS * 40, "cpu"
    )
    assert its["peak_memory"] < 1.1 * estimate < 2 * 2**30


@training.needed
def test_what_is_served_is_the_base_and_the_adapter(trained: Path, answers: dict[str, Any]) -> None:
    # from peft's merge, and from the base
    assert answers["lora"]["differ"] < 1e-4 < answers["all"]["differ"]
    adapter = load_file(trained / "llama" / "lora" / "adapter" / starts.ADAPTER)
    shape = starts.start(trained / "llama" / "mha", 16).shape
    assert sum(matrix.size for matrix in adapter.values()) == starts.adapted(shape, 16)


@training.needed
@pytest.mark.parametrize(("name", "kept"), [("lora", {INV_FREQ, "lm_head.weight"}), ("all", set())])
def test_what_was_not_trained_is_written_as_it_was(
    name: str, kept: set[str], trained: Path, answers: dict[str, Any]
) -> None:
    model = trained / "llama" / name / "model"
    assert answers[name]["rope"] == ["yarn", "yarn"]
    assert json.loads((model / "config.json").read_text())["rope_scaling"] == YARN
    old, new = (
        load_file(each / "model.safetensors") for each in (trained / "llama" / BASES[name], model)
    )
    assert {key: value.shape for key, value in old.items()} == {
        key: value.shape for key, value in new.items()
    }
    assert all(np.array_equal(old[each], new[each]) for each in kept)
    assert np.any(old["lm_head.weight"] != new["lm_head.weight"]) is np.bool_(name == "all")
    ends = json.loads((model / "generation_config.json").read_text())["eos_token_id"]
    assert ends[0] == 901 and (model / "chat_template.jinja").is_file()


# What it is asked


@pytest.mark.parametrize(
    ("template", "names", "end"),
    [
        (TEMPLATE, {"bos_token": BOS, "eos_token": EOS}, EOS),  # bare names
        (TEMPLATE.replace("eos_token", f"'{EOS}'"), {"eos_token": None}, EOS),  # written out
        (TEMPLATE.replace("{{ eos_token }}", USER), {}, USER),  # another ends a turn than a text
        (TEMPLATE.replace("{{ eos_token }}", ""), {}, EOS),  # nothing: what ends a text
        # it may write the date
        ("{% if not strftime_now('%Y') %}{{ raise() }}{% endif %}" + TEMPLATE, {}, EOS),
    ],
)
def test_a_turn_ends_as_the_template_has_it(
    template: str, names: Any, end: str, folder: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(folder / "gqa", tmp_path / "hf")
    (model / "chat_template.jinja").write_text(template)
    edit(model / "tokenizer_config.json", names)
    chat = Chat.of(model)
    assert chat.end == end and chat.texts(Line("1?", "2")) == (f"{BOS}{USER}1?{ASSISTANT}", "2")


# What is refused

SENTENCES = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "biases of attention": ("config", {"attention_bias": True}, "attention_bias"),
    "biases of the MLP": ("config", {"mlp_bias": True}, "mlp_bias"),
    "experts": ("config", {"num_local_experts": 8}, "experts"),
    "SentencePiece": ("tokenizer", {"pre_tokenizer": SENTENCES}, "tokenizer.json"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_dense_llama_is_one_line(what: str, folder: Path, tmp_path: Path) -> None:
    file, change, message = WRONG[what]
    model = shutil.copytree(folder / "gqa", tmp_path / "hf")
    edit(model / f"{file}.json", change)
    with pytest.raises(UserError) as raised:
        starts.start(model, 16)
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_scaled_positions_are_served_on_a_gpu_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Weights(folder / "gqa")
    with pytest.raises(UserError, match=f"{model.path}.*yarn"):
        served.check(model)
    monkeypatch.setattr(gpus, "count", lambda: 1)
    monkeypatch.setenv("PORT", "29871")
    served.check(model)
    monkeypatch.setenv("ENGINE", "vllm")
    with pytest.raises(UserError, match="PreTrainedTokenizerFast"):
        served.check(model)
    monkeypatch.setattr(gpus, "count", lambda: 0)
    assert not served.is_on_gpu(model)
    monkeypatch.setenv("VLLM_PYTHON", "vllm-python")  # the user's build for the CPU
    assert served.is_on_gpu(model)
