"""A Llama like DeepSeek's prover is trained by trl and peft, for real, and served by a GPU alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from core.base.errors import UserError
from core.engines import gpus
from core.engines.shape import Shape
from labs.training import memory, served, starts
from labs.training.chat import Chat
from labs.training.rows import Row
from labs.training.served import Weights
from tests.conftest import run
from tests.labs.training import helpers as training
from tests.labs.training.models import ASSISTANT, BOS, EOS, TEMPLATE, USER, YARN, edit, llama

HEADS = {"gqa": 2, "mha": 4}  # of keys and values, by folder; both have 4 of queries
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
    return [{{"role": "user", "content": row.asked}}, *more]
for name in ("gqa", "mha", "all"):
    trained, base = Path(folder, "out", name), Path(folder, name if name != "all" else "mha")
    tokenizer = AutoTokenizer.from_pretrained(trained / "model")
    texts, _ = encoded(Tokenizer.from_file(str(base / "tokenizer.json")), Chat.of(base), rows, 999)
    whole = [turns(row, {{"role": "assistant", "content": row.said}}) for row in rows]
    asked = [tokenizer.apply_chat_template(turns(row), add_generation_prompt=True)["input_ids"] for row in rows]
    theirs = [tokenizer.apply_chat_template(each)["input_ids"] for each in whole]
    if name == "all":
        ours = AutoModelForCausalLM.from_pretrained(trained / "model")
        merged = base_model = AutoModelForCausalLM.from_pretrained(base)
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
        "equal": [[*text.asked, *text.said] for text in texts] == theirs and [text.asked for text in texts] == asked,
        "begins": [each.count(tokenizer.bos_token_id) for each in theirs],
    }}
Path(folder, "told.json").write_text(json.dumps(told))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("llama")
    for name, kv_heads in HEADS.items():
        llama(made / name, kv_heads)
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
        *(f"--model {folder}/{name} --out {folder}/out/{name} --lora-rank 16 {rest}" for name in HEADS),
        f"--model {folder}/mha --out {folder}/out/all --lora-rank 0 {rest}",
    )
    assert done.returncode == 0 and "status" not in done.stdout, done.stdout + done.stderr
    assert not done.stderr
    found: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return found


def record(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / name / "train.json").read_text())
    return found


@training.needed
@pytest.mark.parametrize("name", ["gqa", "mha", "all"])
def test_it_learns_its_rows_and_says_them(name: str, folder: Path, told: dict[str, Any]) -> None:
    its = record(folder, name)
    assert its["last_loss"] < its["first_loss"] / 4 and its["rows"] == len(ROWS)
    assert told[name]["class"] == "LlamaForCausalLM"
    assert told[name]["said"] == ROWS[0]["output"] + EOS


@training.needed
@pytest.mark.parametrize("name", ["gqa", "mha", "all"])
def test_its_tokens_are_those_of_transformers_with_one_beginning(name: str, told: dict[str, Any]) -> None:
    assert told[name]["equal"] and told[name]["begins"] == [1] * len(ROWS)


@training.needed
@pytest.mark.parametrize("name", HEADS)
def test_what_is_served_is_the_base_and_the_adapter(name: str, folder: Path, told: dict[str, Any]) -> None:
    assert told[name]["differ"] < 1e-4 < told["all"]["differ"]  # which stands beside the base itself
    shape = starts.start(folder / name, 16).shape
    adapter = load_file(folder / "out" / name / "adapter" / starts.ADAPTER)
    assert sum(matrix.size for matrix in adapter.values()) == memory.adapted(shape, 16)


@training.needed
def test_what_was_not_trained_is_written_as_it_was(folder: Path, told: dict[str, Any]) -> None:
    for name, base in (("gqa", "gqa"), ("mha", "mha"), ("all", "mha")):
        model = folder / "out" / name / "model"
        assert told[name]["rope"] == ["yarn", "yarn"]
        assert json.loads((model / "config.json").read_text())["rope_scaling"] == YARN
        old, new = (load_file(each / "model.safetensors") for each in (folder / base, model))
        assert {key: value.shape for key, value in old.items()} == {key: value.shape for key, value in new.items()}
        for kept in {INV_FREQ} & old.keys() | ({"lm_head.weight"} if name != "all" else set()):
            assert np.array_equal(old[kept], new[kept])
        ends = json.loads((model / "generation_config.json").read_text())["eos_token_id"]
        assert ends[0] == 901 and "chat_template.jinja" in {file.name for file in model.iterdir()}
    assert np.any(old["lm_head.weight"] != new["lm_head.weight"])  # where all weights are trained


@training.needed
@pytest.mark.parametrize(("name", "rank"), [("gqa", 16), ("mha", 16), ("all", 0)])
def test_the_memory_is_within_the_estimate(name: str, rank: int, folder: Path, told: dict[str, Any]) -> None:
    start = starts.start(folder / (name if rank else "mha"), rank)
    estimate = memory.on_cpu(start.shape, rank, memory.STEP_ROWS * 40)
    assert record(folder, name)["peak_memory"] < 1.1 * estimate < 2 * 2**30


# Sizes as told of DeepSeek-Prover-V2-7B; no file of it was read.
PROVER = Shape(30, 4096, 32, 32, head_dim=128, intermediate=11008, vocab=102400, tied=False)


def test_a_prover_of_7_billion_fits_a_card_of_24_gb_by_lora_and_none_of_80_with_all_its_weights() -> None:
    assert round(PROVER.parameters / 1e9, 2) == 6.91
    assert memory.adapted(PROVER, 16) == 30 * 16 * (8 * 4096 + 3 * (4096 + 11008))
    lora, whole = (memory.on_gpu(PROVER, rank, 8192) / 1e9 for rank in (16, 0))
    assert 15 < lora < 24 and whole > 100


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


def test_an_old_folder_names_its_tokens_in_a_file_of_their_own(tmp_path: Path) -> None:
    made = llama(tmp_path / "hf")
    edit(made / "tokenizer_config.json", {"bos_token": None, "eos_token": None})
    (made / "special_tokens_map.json").write_text(json.dumps({"bos_token": BOS, "eos_token": {"content": EOS}}))
    assert (Chat.of(made).bos, Chat.of(made).end) == (BOS, EOS)


def test_a_template_that_writes_the_date_gets_one(tmp_path: Path) -> None:
    made = llama(tmp_path / "hf")
    (made / "chat_template.jinja").write_text("{{ strftime_now('%Y') }}" + TEMPLATE)
    assert Chat.of(made).texts(Row("1?", "2"))[0].startswith("2")


# What is refused

SENTENCES = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "biases of attention": ("config", {"attention_bias": True}, "asks for attention_bias. Others are not trained here"),
    "biases of the MLP": ("config", {"mlp_bias": True}, "asks for mlp_bias. Others are not trained here"),
    "another type": ("config", {"model_type": "mistral"}, "is of ['LlamaForCausalLM'], not of a Qwen2ForCausalLM or"),
    "an odd name": ("config", {"architectures": [["LlamaForCausalLM"]]}, "is of [['LlamaForCausalLM']], not of a"),
    "experts": ("config", {"num_local_experts": 8}, "is of a mixture of experts"),
    "other heads": ("config", {"num_key_value_heads": 1}, "k_proj.weight in"),
    "SentencePiece": ("tokenizer", {"pre_tokenizer": SENTENCES}, "is not byte-level, or adds spaces"),
    "no tokens": ("tokenizer", {"added_tokens": []}, f"'{BOS}' stands in a prompt and is no token of"),
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
    assert "mha is a LlamaForCausalLM, which is trained here but not served: without a GPU" in err
    assert not (tmp_path / "results").exists()


def test_without_a_gpu_it_is_not_served_and_with_one_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Weights(folder / "gqa")
    monkeypatch.setattr(gpus, "has_gpu", lambda: False)
    with pytest.raises(UserError, match="is a LlamaForCausalLM, which is trained here but not served: without a GPU"):
        served.check(made)
    monkeypatch.setattr(gpus, "has_gpu", lambda: True)
    monkeypatch.setenv("PORT", "29871")
    served.check(made)
    monkeypatch.setenv("ENGINE", "vllm")
    with pytest.raises(UserError, match=r'Write "tokenizer_class": "PreTrainedTokenizerFast" there'):
        served.check(made)
