"""A Llama like DeepSeek's prover is trained by trl and peft, for real, and served by a GPU alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from core.base.errors import UserError
from core.engines import gpus
from labs.training import memory, served, starts
from labs.training.chat import Chat
from labs.training.rows import Row
from labs.training.served import Weights
from tests.conftest import run
from tests.labs.training import helpers as training
from tests.labs.training.models import ASSISTANT, BOS, EOS, TEMPLATE, USER, YARN, edit, llama

BASES = {"lora": "mha", "all": "gqa"}  # of each training: 4 and 2 heads of keys and values, and 4 of queries
INV_FREQ = "model.layers.1.self_attn.rotary_emb.inv_freq"
ROWS = [
    {"instruction": f"⊢ {a} + {b} = {b} + {a}", "input": "", "output": f"rw [add_comm {a} {b}]"}
    for a, b in ("xy", "pq", "nm", "kl")
]
# Trains; then transformers says of each model what it makes of a row, and with which tokens.
PROGRAM = f"""{training.TRAINS}
import torch
from labs.training.chat import Chat
from labs.training.encode import encoded
from labs.training.rows import read
from tokenizers import Tokenizer
rows = read(Path(folder, "rows.jsonl"))
told = {{}}
def turns(row, *more):
    return [{{"role": "user", "content": row.prompt}}, *more]
for name, of in {BASES}.items():
    trained, base = Path(folder, "out", name), Path(folder, of)
    tokenizer = AutoTokenizer.from_pretrained(trained / "model")
    texts, _ = encoded(Tokenizer.from_file(str(base / "tokenizer.json")), Chat.of(base), rows, 999)
    whole = [turns(row, {{"role": "assistant", "content": row.reply}}) for row in rows]
    asked = [tokenizer.apply_chat_template(turns(row), add_generation_prompt=True)["input_ids"] for row in rows]
    theirs = [tokenizer.apply_chat_template(each)["input_ids"] for each in whole]
    if name == "all":
        ours = AutoModelForCausalLM.from_pretrained(trained / "model")
        merged = AutoModelForCausalLM.from_pretrained(base)
    else:
        merged, ours = both(base, trained)
    prompt = torch.tensor([asked[0]])
    with torch.no_grad():
        logits = [model(torch.tensor([theirs[0]])).logits for model in (merged, ours)]
    said = ours.generate(prompt, do_sample=False, max_new_tokens=40)[0, prompt.shape[1] :]
    told[name] = {{
        "class": type(ours).__name__,
        "rope": [model.config.rope_parameters["rope_type"] for model in (merged, ours)],
        "differ": float((logits[0] - logits[1]).abs().max() / logits[0].abs().max()),
        "said": tokenizer.decode(said),
        "equal": [[*text.prompt, *text.reply] for text in texts] == theirs and [text.prompt for text in texts] == asked,
        "begins": [each.count(tokenizer.bos_token_id) for each in theirs],
    }}
Path(folder, "told.json").write_text(json.dumps(told))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("llama")
    llama(made / "mha", 4)
    llama(made / "gqa", 2)
    # As in folders that old releases of transformers wrote.
    path = made / "mha" / "model.safetensors"
    save_file(load_file(path) | {INV_FREQ: np.full(16, 0.5, np.float32)}, path)
    training.write(made / "rows.jsonl", ROWS)
    (made / "out").mkdir()
    return made


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    rest = f"--data {folder}/rows.jsonl --rate 1e-2 --epochs 120"
    done = training.run(
        PROGRAM,
        folder,
        f"--model {folder}/mha --out {folder}/out/lora --lora-rank 16 {rest}",
        f"--model {folder}/gqa --out {folder}/out/all --lora-rank 0 {rest}",
    )
    assert done.returncode == 0 and "status" not in done.stdout, done.stdout + done.stderr
    assert not done.stderr
    found: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return found


def record(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / name / "train.json").read_text())
    return found


@training.needed
@pytest.mark.parametrize("name", BASES)
def test_it_learns_its_rows_and_says_them(name: str, folder: Path, told: dict[str, Any]) -> None:
    its = record(folder, name)
    assert its["last_loss"] < its["first_loss"] / 4 and its["rows"] == len(ROWS)
    assert told[name]["class"] == "LlamaForCausalLM"
    assert told[name]["said"] == ROWS[0]["output"] + EOS
    assert told[name]["equal"] and told[name]["begins"] == [1] * len(ROWS)  # the tokens are those of transformers
    rank = 16 if name == "lora" else 0
    estimate = memory.needed(starts.start(folder / BASES[name], rank).shape, rank, memory.STEP_ROWS * 40, "cpu")
    assert its["peak_memory"] < 1.1 * estimate < 2 * 2**30


@training.needed
def test_what_is_served_is_the_base_and_the_adapter(folder: Path, told: dict[str, Any]) -> None:
    assert told["lora"]["differ"] < 1e-4 < told["all"]["differ"]  # which stands beside the base itself
    adapter = load_file(folder / "out" / "lora" / "adapter" / starts.ADAPTER)
    shape = starts.start(folder / "mha", 16).shape
    assert sum(matrix.size for matrix in adapter.values()) == memory.adapted(shape, 16)


@training.needed
@pytest.mark.parametrize(("name", "kept"), [("lora", {INV_FREQ, "lm_head.weight"}), ("all", set())])
def test_what_was_not_trained_is_written_as_it_was(
    name: str, kept: set[str], folder: Path, told: dict[str, Any]
) -> None:
    model = folder / "out" / name / "model"
    assert told[name]["rope"] == ["yarn", "yarn"]
    assert json.loads((model / "config.json").read_text())["rope_scaling"] == YARN
    old, new = (load_file(each / "model.safetensors") for each in (folder / BASES[name], model))
    assert {key: value.shape for key, value in old.items()} == {key: value.shape for key, value in new.items()}
    assert all(np.array_equal(old[each], new[each]) for each in kept)
    assert np.any(old["lm_head.weight"] != new["lm_head.weight"]) is np.bool_(name == "all")
    ends = json.loads((model / "generation_config.json").read_text())["eos_token_id"]
    assert ends[0] == 901 and (model / "chat_template.jinja").is_file()


# What it is asked


def test_the_template_writes_what_begins_a_text_and_what_ends_a_turn(folder: Path) -> None:
    chat = Chat.of(folder / "gqa")
    assert chat.end == EOS and chat.texts(Row("1?", "2")) == (f"{BOS}{USER}1?{ASSISTANT}", "2")


@pytest.mark.parametrize(
    ("template", "names", "end"),
    [
        (TEMPLATE, {"bos_token": BOS, "eos_token": EOS}, EOS),  # bare names
        (TEMPLATE.replace("eos_token", f"'{EOS}'"), {"eos_token": None}, EOS),  # written out
        (TEMPLATE.replace("{{ eos_token }}", USER), {}, USER),  # another ends a turn than a text
        (TEMPLATE.replace("{{ eos_token }}", ""), {}, EOS),  # nothing: what ends a text
    ],
)
def test_a_turn_ends_as_the_template_has_it(template: str, names: dict[str, Any], end: str, tmp_path: Path) -> None:
    made = llama(tmp_path / "hf")
    (made / "chat_template.jinja").write_text(template)
    edit(made / "tokenizer_config.json", names)
    chat = Chat.of(made)
    assert chat.end == end and chat.texts(Row("1?", "2")) == (f"{BOS}{USER}1?{ASSISTANT}", "2")


def test_a_template_that_writes_the_date_gets_one(tmp_path: Path) -> None:
    made = llama(tmp_path / "hf")
    (made / "chat_template.jinja").write_text("{{ strftime_now('%Y') }}" + TEMPLATE)
    assert Chat.of(made).texts(Row("1?", "2"))[0].startswith("2")


# What is refused

SENTENCES = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "biases of attention": ("config", {"attention_bias": True}, "attention_bias"),
    "biases of the MLP": ("config", {"mlp_bias": True}, "mlp_bias"),
    "another type": ("config", {"model_type": "mistral"}, "LlamaForCausalLM"),
    "experts": ("config", {"num_local_experts": 8}, "experts"),
    "other heads": ("config", {"num_key_value_heads": 1}, "k_proj.weight"),
    "SentencePiece": ("tokenizer", {"pre_tokenizer": SENTENCES}, "tokenizer.json"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_dense_llama_is_one_line(what: str, tmp_path: Path) -> None:
    file, change, message = WRONG[what]
    made = llama(tmp_path / "hf")
    edit(made / f"{file}.json", change)
    with pytest.raises(UserError) as raised:
        starts.start(made, 16)
    assert message in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("experiment", ["21_star", "24_lean_iteration"])
def test_a_run_without_a_gpu_ends_before_anything_is_asked(
    experiment: str, folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "lean" in experiment:
        request.getfixturevalue("lean")
    status, out, err = run(experiment, MODEL=str(folder / "mha"), RESULTS_DIR=str(tmp_path / "results"))
    assert status == 2 and not out and err.count("\n") == 1
    assert str(folder / "mha") in err and "yarn" in err
    assert not (tmp_path / "results").exists()


def test_with_a_gpu_it_is_served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Weights(folder / "gqa")
    monkeypatch.setattr(gpus, "has_gpu", lambda: True)
    monkeypatch.setenv("PORT", "29871")
    served.check(made)
    monkeypatch.setenv("ENGINE", "vllm")
    with pytest.raises(UserError, match="PreTrainedTokenizerFast"):
        served.check(made)
