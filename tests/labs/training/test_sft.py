"""A folder in Hugging Face's layout is trained by trl and peft, for real, on the embedded model."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from core.engines import start
from core.engines.embedded_model import EMBEDDED_GGUF
from core.engines.need import Need
from labs.training import to_gguf, to_hf
from labs.training.starts import lora_names
from tests.labs.training import helpers as training

pytestmark = training.needed

# Trains; then peft itself merges the first adapter into its base, and transformers answers with what we wrote.
PROGRAM = f"""{training.TRAINS}
merged, ours = both(f"{{folder}}/hf", f"{{folder}}/lora")
tokenizer = AutoTokenizer.from_pretrained(f"{{folder}}/lora/model")
messages = [{{"role": "user", "content": "Find the remainder when 7*43 + 6*58 is divided by 1000."}}]
asked = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
said = ours.generate(**asked, do_sample=False, max_new_tokens=200)[0]
ended = int(said[-1]) == tokenizer.convert_tokens_to_ids("<|im_end|>")
prompt, text = (tokenizer.decode(ids) for ids in (asked["input_ids"][0], said[len(asked["input_ids"][0]) : -1]))
told = {{"differ": differ(merged, ours), "ended": ended, "prompt": prompt, "text": text}}
Path(folder, "told.json").write_text(json.dumps(told))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sft")
    to_hf.convert(EMBEDDED_GGUF, made / "hf")
    training.write(made / "64.jsonl", training.rows(64))
    training.write(made / "16.jsonl", training.rows(16, seed=6))
    return made


@pytest.fixture(scope="module")
def said(folder: Path) -> "subprocess.CompletedProcess[str]":
    base = f"--model {folder}/hf --rate 1e-2"
    few = f"{base} --data {folder}/16.jsonl --epochs 1"
    on = f"{few} --lora-rank 4 --adapter {folder}/lora/adapter"
    done = training.run(
        PROGRAM,
        folder,
        f"{base} --data {folder}/64.jsonl --epochs 1.25 --lora-rank 4 --out {folder}/lora",
        f"{on} --out {folder}/on",
        f"{on} --out {folder}/again",
        f"{few} --lora-rank 0 --tokens 1000 --out {folder}/all",
    )
    assert done.returncode == 0, done.stderr
    return done


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "train.json").read_text())
    return found


def test_the_loss_falls_and_nothing_but_progress_is_printed(folder: Path, said: Any) -> None:
    lora = record(folder / "lora")
    assert lora["last_loss"] < lora["first_loss"] * 0.8 and lora["steps"] == len(lora["loss"]) == 5
    assert lora["rows"] == 64 and lora["loss"][-1][0] == lora["tokens"] and lora["versions"]["trl"]
    assert lora["device"].startswith("cpu") and 0 < lora["trained_tokens"] < lora["tokens"]
    assert all(line.startswith("training: step ") for line in said.stdout.splitlines()), said.stdout
    assert not said.stderr


def test_what_is_served_is_the_base_and_the_adapter(folder: Path, said: Any) -> None:
    """As we add them up, and as peft does."""
    old, new = (load_file(folder / part / "model.safetensors") for part in ("hf", "lora/model"))
    adapter = load_file(folder / "lora" / "adapter" / "adapter_model.safetensors")
    assert old.keys() == new.keys() and len(adapter) == 3 * 7 * 2
    for name, base in old.items():
        first, second = lora_names(name)
        added = 2 * adapter[second] @ adapter[first] if first in adapter else 0
        assert np.allclose(base + added, new[name], atol=1e-6) and (first in adapter) == np.any(base != new[name])
    told = json.loads((folder / "told.json").read_text())
    assert told["differ"] < 1e-6


def test_it_ends_its_turn_and_says_the_same_on_llama_cpp(folder: Path, said: Any) -> None:
    told = json.loads((folder / "told.json").read_text())
    assert told["ended"] and told["prompt"].endswith("<|im_start|>assistant\n<think>\n")
    to_gguf.convert(folder / "lora" / "model", folder / "lora.gguf", "f32")
    with start.on_llamacpp(folder / "lora.gguf", Need(3, 300, 16)) as server:
        assert training.completed(server, told["prompt"], 300) == told["text"]
    assert "</think>" in told["text"]


def test_an_adapter_is_gone_on_from_and_the_same_twice_is_the_same_bit_by_bit(folder: Path, said: Any) -> None:
    for name in ("adapter/adapter_model.safetensors", "adapter/adapter_config.json", "model/model.safetensors"):
        assert (folder / "on" / name).read_bytes() == (folder / "again" / name).read_bytes(), name
    # Where the one before stopped: new matrices would begin at the base's loss.
    assert record(folder / "on")["first_loss"] < record(folder / "lora")["first_loss"] * 0.9


def test_rank_0_trains_all_weights_and_keeps_no_adapter(folder: Path, said: Any) -> None:
    old, new = (load_file(folder / part / "model.safetensors") for part in ("hf", "all/model"))
    assert not (folder / "all" / "adapter").exists() and 1000 <= record(folder / "all")["tokens"] < 1300
    assert old.keys() == new.keys() and all(np.any(old[name] != new[name]) for name in old)
