"""The embedded model and tiny random ones in Hugging Face's layout, with the embedded model's tokenizer."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import safetensors
from safetensors.numpy import save_file

from core.engines.embedded_model import EMBEDDED_GGUF
from core.engines.shape import Shape
from labs.training.architectures import ARCHITECTURES, QWEN2_SPLIT, gguf_names, tensor_shapes

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


def edit(path: Path, change: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


BOS, EOS, USER, ASSISTANT = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"
# As DeepSeek's behaves: it begins with the tokenizer's own token, and a turn ends with another.
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}"
    "{% else %}<｜Assistant｜>{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<｜Assistant｜>{% endif %}"
)
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "beta_fast": 32, "beta_slow": 1}


def random_folder(folder: Path, named: str, shape: Shape, is_plain: bool = False, **config: Any) -> Path:
    """A model of the architecture `named`, of this shape; one that `is_plain` says plain characters only. `config` goes
    into its config.json."""
    hugging_face(folder, one_file, vocab=shape.vocab)
    rng = np.random.default_rng(3)
    values = {}
    for name, size in tensor_shapes(shape, ARCHITECTURES[named]).items():
        spread = 1.0 if name.endswith(".bias") else 0.25
        values[name] = np.ones(size) if "norm" in name else rng.normal(0, spread, size)
    vocab = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    for token, i in vocab.items() if is_plain else ():
        if not token.isascii() or token.startswith("<"):  # its logit is 0, and others have a greater one
            values["model.embed_tokens.weight" if shape.tied else "lm_head.weight"][i] = 0
    one_file(folder, {name: value.astype(np.float32) for name, value in values.items()})
    edit(
        folder / "config.json",
        {
            "architectures": [named],
            "model_type": ARCHITECTURES[named].name,
            "num_hidden_layers": shape.layers,
            "hidden_size": shape.hidden,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "intermediate_size": shape.intermediate,
            "tie_word_embeddings": shape.tied,
        }
        | config,
    )
    return folder


def llama(folder: Path, kv_heads: int = 4) -> Path:
    """A Llama with what DeepSeek-Prover-V2-7B has, as far as that is known here: yarn, untied embeddings, a token that
    begins every text and that its tokenizer.json puts there by itself, and the name of another kind of tokenizer."""
    shape = Shape(2, 128, 4, kv_heads, head_dim=32, intermediate=256, vocab=904, tied=False)
    random_folder(folder, "LlamaForCausalLM", shape, rope_scaling=YARN, attention_bias=False, hidden_act="silu")
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    as_it_stands = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    for i, token in enumerate((BOS, EOS, USER, ASSISTANT)):
        is_control = token in (BOS, EOS)  # DeepSeek's roles are added tokens, not special ones
        tokenizer["added_tokens"].append({"id": 900 + i, "content": token, "special": is_control} | as_it_stands)
    text = {"Sequence": {"id": "A", "type_id": 0}}
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": BOS, "type_id": 0}}, text],
        "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {BOS: {"id": BOS, "ids": [900], "tokens": [BOS]}},
    }
    path.write_text(json.dumps(tokenizer))
    begins = {"__type": "AddedToken", "content": BOS} | as_it_stands
    names = {"bos_token": begins, "eos_token": begins | {"content": EOS}, "pad_token": EOS, "add_bos_token": True}
    edit(folder / "tokenizer_config.json", names | {"tokenizer_class": "LlamaTokenizerFast"})
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder
