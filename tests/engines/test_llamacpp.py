"""llama.cpp with a GGUF file of the user's: conversion, sizes by hand, and the same answers as the embedded engine."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import numpy as np
import openai
import pytest
import safetensors
from safetensors.numpy import save_file

from core.base.errors import UserError
from core.engines import start
from core.engines.attach import probe
from core.engines.dialects import llamacpp
from core.engines.embedded_model import EMBEDDED_GGUF
from core.engines.gguf_header import Gguf
from core.engines.need import Need
from core.engines.server import Server
from core.engines.weights import sha256
from core.problems import sets
from core.scaffolds import prompts
from labs.training.architectures import QWEN2_SPLIT, gguf_names
from labs.training.to_gguf import convert
from tests.conftest import ROOT, environment, heed_signals, run

GIB = 2**30
Weights = dict[str, np.ndarray[Any, Any]]


def contents(path: Path) -> dict[str, Any]:
    """The metadata of a GGUF file."""
    return {name: field.contents() for name, field in gguf.GGUFReader(path).fields.items()}


def tensors(path: Path) -> dict[str, tuple[str, Any]]:
    """Name -> type and bytes of every tensor of a GGUF file."""
    return {t.name: (t.tensor_type.name, t.data.tobytes()) for t in gguf.GGUFReader(path).tensors}


LAYERS = contents(EMBEDDED_GGUF)["qwen3.block_count"]


def weights() -> Weights:
    """The embedded model's, under Hugging Face's names."""
    layer = ["input_layernorm", "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
    layer += [f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")]
    names = ["model.embed_tokens.weight", "model.norm.weight"]
    names += [f"model.layers.{i}.{name}.weight" for i in range(LAYERS) for name in layer]
    stored = {t.name: t.data for t in gguf.GGUFReader(EMBEDDED_GGUF).tensors}
    return {name: np.array(stored[found]) for name, found in gguf_names(names, LAYERS).items()}


def hugging_face(folder: Path, save: Callable[[Path, Weights], None], vocab: int = 900) -> Path:
    """The embedded model in Hugging Face's layout; tokens beyond its 900 are rows that no token has."""
    folder.mkdir()
    about = contents(EMBEDDED_GGUF)
    values = weights()
    rows = values["model.embed_tokens.weight"]
    values["model.embed_tokens.weight"] = np.vstack([rows, np.zeros((vocab - 900, rows.shape[1]), np.float32)])
    save(folder, values)
    tokens, types = about["tokenizer.ggml.tokens"], about["tokenizer.ggml.token_type"]
    added = [
        {"id": i, "content": tokens[i], "special": types[i] == gguf.TokenType.CONTROL}
        | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for i, kind in enumerate(types)
        if kind != gguf.TokenType.NORMAL
    ]
    split = {"type": "Split", "pattern": {"Regex": QWEN2_SPLIT}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    tokenizer = {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
        "decoder": level,
        "model": {
            "type": "BPE",
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in about["tokenizer.ggml.merges"]],
        },
    }
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "num_hidden_layers": LAYERS,
        "hidden_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": about["qwen3.attention.head_count_kv"],
        "head_dim": 32,
        "intermediate_size": 512,
        "vocab_size": vocab,
        "tie_word_embeddings": True,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "rope_scaling": None,
    }
    names = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "add_bos_token": False}
    names["tokenizer_class"] = "PreTrainedTokenizerFast"
    for name, value in (("tokenizer", tokenizer), ("config", config), ("tokenizer_config", names)):
        (folder / f"{name}.json").write_text(json.dumps(value))
    (folder / "chat_template.jinja").write_text(about["tokenizer.chat_template"])
    return folder


def one_file(folder: Path, values: Weights) -> None:
    save_file(values, folder / "model.safetensors")


def bf16_shards(folder: Path, values: Weights) -> None:
    """Three files of bf16, which NumPy has no type for."""
    for i in range(3):
        part = {name: bf16(values[name]) for name in sorted(values)[i::3]}
        stored = {
            name: safetensors.TensorSpec(
                dtype="bfloat16", shape=list(v.shape), data_ptr=v.ctypes.data, data_len=v.nbytes
            )
            for name, v in part.items()
        }
        safetensors.serialize_file(stored, str(folder / f"model-{i + 1:05}-of-00003.safetensors"))


def bf16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The upper halves of float32s, rounded to nearest, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hugging_face(tmp_path_factory.mktemp("f32") / "QED-Nano-toy", one_file)


@pytest.fixture(scope="module")
def converted(folder: Path) -> Path:
    out = folder.parent / "qed-nano-toy-f32.gguf"
    convert(folder, out, "f32")
    return out


def greedy(server: Server, count: int) -> list[tuple[str | None, str]]:
    """Answers at temperature 0: to problems, and to an aggregation of the first three."""
    client = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)

    def ask(messages: list[Any]) -> tuple[str | None, str]:
        reply = client.chat.completions.create(model=server.model, messages=messages, temperature=0, max_tokens=600)
        message = reply.choices[0].message
        return message.content, getattr(message, "reasoning_content", "")

    chosen = sets.load("sums").problems[:count]
    answers = [ask(prompts.solve(problem)) for problem in chosen]
    return [*answers, ask(prompts.aggregate(chosen[0], [str(answer) for answer, _ in answers[:3]]))]


def test_a_converted_model_is_the_one_it_was_made_of(converted: Path) -> None:
    assert tensors(converted) == tensors(EMBEDDED_GGUF)
    before, after = contents(EMBEDDED_GGUF), contents(converted)
    more = {"general.quantization_version", "general.name", "general.license"}
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == more
    assert after["general.name"] == "QED-Nano-toy"


def test_it_answers_as_the_embedded_engine_does(converted: Path, engine: Server, capfd: Any) -> None:
    with start.on_llamacpp(converted, Need()) as server:
        assert greedy(server, 12) == greedy(engine, 12)
        attached = probe(server.base_url, "x")
    assert server.model == f"qed-nano-toy-f32@{sha256(converted)[:12]}" == server.identity
    assert server.thinking and not server.card.name and server.problem_set == "aime_2025"
    assert attached is not None
    assert (attached.identity, attached.limit, attached.context) == (server.identity, server.limit, server.context)
    assert server.context == 2048 and server.limit == llamacpp.physical_cores() + 2
    note = "note: a request may hold 2,048 tokens (the model was trained for no more) and the longest may need 68,096"
    assert note in capfd.readouterr().err


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


def test_an_experiment_runs_on_it_and_on_a_server_of_it(converted: Path, results: Path, tmp_path: Path) -> None:
    env = {"ENGINE": "llamacpp", "MODEL": str(converted), "PROBLEMS": "sums"}
    small = ("LIMIT=4", "N=4", "T=2", "MAX_TOKENS=400")
    status, out, err = run("02_rsa_basic", *small, **env)
    assert status == 0 and "because ENGINE=llamacpp asks for it; it was started for this run" in out, err
    first = json.loads((results / "02_rsa_basic.json").read_text())
    name = f"qed-nano-toy-f32@{sha256(converted)[:12]}"
    assert first["model"]["name"] == name and first["model"]["sha256"] == sha256(converted)
    steps = first["metrics"]["steps"]
    assert len(steps) == 3 and not any(step["failed"] or step["truncated"] for step in steps)
    assert steps[-1]["mean_accuracy"]["value"] > 0.3

    port = "29881"
    args = [sys.executable, "-m", "core.engines.start", "MAX_TOKENS=400"]
    process = subprocess.Popen(
        args, env=environment(PORT=port, **env), stdout=subprocess.PIPE, text=True, cwd=ROOT, preexec_fn=heed_signals
    )
    try:
        assert process.stdout is not None and f"{name} on http://127.0.0.1:{port}/v1" in process.stdout.readline()
        status, out, err = run("02_rsa_basic", *small, PORT=port, **env)
        assert status == 0 and f"a server answers on port {port}" in out, err
        second = json.loads((results / "02_rsa_basic.json").read_text())
        assert second["model"] == first["model"] and second["metrics"]["tokens"] == first["metrics"]["tokens"]
        assert second["problems"] == first["problems"], "every completion comes from the journal"
        other = tmp_path / "other.gguf"
        other.write_bytes(EMBEDDED_GGUF.read_bytes())
        status, _, err = run("02_rsa_basic", PORT=port, **env | {"MODEL": str(other)})
        assert status == 2 and f"asks for other.gguf, but port {port} serves {name}" in err
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
    assert process.returncode == 0


# Sizes


def header(path: Path, architecture: str = "qwen3", **more: int) -> Path:
    """A GGUF file with QED-Nano's shape and no tensors."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(262144)
    writer.add_embedding_length(2560)
    writer.add_block_count(36)
    writer.add_head_count(32)
    writer.add_head_count_kv(8)
    writer.add_key_length(128)
    writer.add_value_length(128)
    for name, value in more.items():
        writer.add_uint16(name.replace("_", ".", 1), value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def qed_nano(path: Path, size: int) -> Gguf:
    """What a file of `size` bytes with QED-Nano's shape tells; the bytes after its header are a hole."""
    os.truncate(header(path), size)
    return Gguf.read(path)


def test_sizes_for_qed_nano_by_hand(tmp_path: Path) -> None:
    """36 layers with 8 heads of 128, keys and values of 2 bytes: 147,456 bytes a token. 4.28 GB of weights in q8_0; of
    the memory, 2 GiB and a tenth are kept. 68,096 tokens = 2,048 + 4 x 16,384 + 512."""
    model = qed_nano(tmp_path / "q8.gguf", 4_280_000_000)
    assert model.kv_elements * llamacpp.KV_ELEMENT == 147_456 and model.longest == 262_144

    def size(gib: int, cores: int = 8, need: Need = Need()) -> llamacpp.Size:  # noqa: B008 - frozen
        return llamacpp.size(model, need, gib * GIB, cores)

    # (0.9 x 16 x 1,073,741,824 - 2,147,483,648 - 4,280,000,000) / 147,456 = 61,268 tokens: one slot, in 256s.
    assert size(16) == llamacpp.Size(1, 61_184, 8)
    # 32 GiB: 166,130 tokens hold two slots of 68,096; 128 GiB: 795,302 tokens hold eleven, and eight cores take eight.
    assert size(32) == llamacpp.Size(2, 68_096, 8)
    assert size(128) == llamacpp.Size(8, 68_096, 8) and size(128, cores=4).slots == 4
    # 2,048 + 4 x 2,000 + 512 = 10,560, in 256s 10,752: 61,268 tokens hold five.
    assert size(16, need=Need(3, 2000, 512)) == llamacpp.Size(5, 10_752, 8)
    assert size(512, need=Need(3, 200_000, 512)).context == 262_144, "no more than the model was trained for"
    # 8 GiB: 0.9 x 8 GiB - 2 GiB - 4.28 GB = 1.30 GB, 8,839 tokens; 2,048 + 16,384 + 512 = 18,944.
    with pytest.raises(
        UserError, match=r"room for 8,839 tokens .* may need 18,944. Lower MAX_TOKENS, or take a smaller"
    ):
        size(8)
    with pytest.raises(UserError, match="room for 0 tokens"):
        size(4)


@pytest.mark.parametrize("stem", ["QED-Nano-Q8_0", "qed_nano.f16", "QEDNano", "Qwen3-4B-Thinking-2507-BF16"])
def test_a_name_does_not_make_a_thinking_model(stem: str) -> None:
    server = Server("llama.cpp", "http://127.0.0.1:1/v1", f"{stem}@0123456789ab", "x")
    assert server.thinking is None and not server.card.name and server.problem_set == "aime_2025"


def test_memory_and_cores_of_this_machine_are_told() -> None:
    assert GIB < llamacpp.memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 1 <= llamacpp.physical_cores() <= (os.cpu_count() or 1)


# What goes wrong, one by one


def test_a_model_that_cannot_be_served_is_one_line(tmp_path: Path, folder: Path, results: Path) -> None:
    whole = EMBEDDED_GGUF.read_bytes()
    (tmp_path / "text.gguf").write_text("not a model")
    (tmp_path / "empty.gguf").write_bytes(b"")
    for size in (6, 1000, 20_000, len(whole) - 1):
        (tmp_path / f"cut{size}.gguf").write_bytes(whole[:size])
    header(tmp_path / "other.gguf", "mamba")
    header(tmp_path / "part.gguf", split_count=3)
    header(tmp_path / "hollow.gguf")
    for named, message in {
        "": "ENGINE=llamacpp needs MODEL, the path of a GGUF file. Make one: bash scripts/to_gguf.sh",
        str(tmp_path / "none.gguf"): "none.gguf can't be read (No such file or directory)",
        str(folder): "is a folder and ENGINE=llamacpp needs a GGUF file. Make one",
        str(tmp_path / "text.gguf"): "text.gguf is not a GGUF file. Make one",
        str(tmp_path / "empty.gguf"): "empty.gguf is not a GGUF file. Make one",
        **{str(tmp_path / f"cut{size}.gguf"): "is cut off or damaged" for size in (6, 1000, 20_000, len(whole) - 1)},
        str(tmp_path / "other.gguf"): "is of architecture mamba; served are llama, qwen2, qwen3",
        str(tmp_path / "part.gguf"): "is one of 3 parts. Merge them",
        str(tmp_path / "hollow.gguf"): "llama.cpp does not start with hollow.gguf",
    }.items():
        status, _, err = run("02_rsa_basic", "MAX_TOKENS=300", ENGINE="llamacpp", MODEL=named, PROBLEMS="sums")
        lines = [line for line in err.splitlines() if not line.startswith("note: ")]
        assert status == 2 and len(lines) == 1 and message in lines[0], err


def to_gguf(*args: object, **changes: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "labs.training.to_gguf", *map(str, args)],
        env=environment(**changes.pop("env", {})),
        cwd=ROOT,
        capture_output=True,
        text=True,
        **changes,
    )


def edit(path: Path, change: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


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
