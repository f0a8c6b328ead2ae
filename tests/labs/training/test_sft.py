"""A folder in Hugging Face's layout is trained by trl and peft, for real, on the embedded model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from core import server as start
from core.engines.need import Need
from labs.training import to_gguf
from tests.labs.training import helpers as training
from tests.labs.training.helpers import record

pytestmark = training.needed


@pytest.fixture(scope="module")
def folder(trained: Path) -> Path:
    return trained / "sft"


def test_the_loss_falls_and_nothing_but_progress_is_printed(folder: Path) -> None:
    output = (folder.parent / "stdout.txt").read_text()
    lora = record(folder / "lora")
    assert lora["last_loss"] < lora["first_loss"] * 0.8 and lora["steps"] == len(lora["loss"]) == 4
    assert lora["rows"] == 48 and lora["loss"][-1][0] == lora["tokens"] and lora["versions"]["trl"]
    assert lora["device"].startswith("cpu") and 0 < lora["trained_tokens"] < lora["tokens"]
    assert all(line.startswith("training: step ") for line in output.splitlines()), output


def test_it_ends_its_turn_and_says_the_same_on_llama_cpp(
    folder: Path, answers: dict[str, Any], tmp_path: Path
) -> None:
    prompt, reply = answers["sft"]["prompt"], answers["sft"]["reply"]
    assert answers["sft"]["differ"] < 1e-5, "the base and the adapter, as peft merges them"
    assert answers["sft"]["prompts"] and prompt.endswith("<|im_start|>assistant\n<think>\n")
    assert "</think>" in reply and reply.endswith("<|im_end|>")
    to_gguf.convert(folder / "lora" / "model", tmp_path / "lora.gguf", "f32")
    with start.on_llamacpp(tmp_path / "lora.gguf", Need(3, 300, 16)) as server:
        assert training.completed(server, prompt, 300) == reply.removesuffix("<|im_end|>")


def test_an_adapter_is_gone_on_from_and_the_same_twice_is_the_same_bit_by_bit(folder: Path) -> None:
    for name in (
        "adapter/adapter_model.safetensors",
        "adapter/adapter_config.json",
        "model/model.safetensors",
    ):
        assert (folder / "on" / name).read_bytes() == (folder / "again" / name).read_bytes(), name
    # Where the one before stopped: new matrices would begin at the base's loss.
    assert record(folder / "on")["first_loss"] < record(folder / "lora")["first_loss"] * 0.9


def test_rank_0_trains_all_weights_and_keeps_no_adapter(folder: Path) -> None:
    old, new = (load_file(folder / part / "model.safetensors") for part in ("../hf", "all/model"))
    assert not (folder / "all" / "model" / "FETCHED.json").exists(), (
        "the new weights were not fetched"
    )
    assert (
        not (folder / "all" / "adapter").exists()
        and 1000 <= record(folder / "all")["tokens"] < 1300
    )
    assert old.keys() == new.keys() and all(np.any(old[name] != new[name]) for name in old)
