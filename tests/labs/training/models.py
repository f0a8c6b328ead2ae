"""The embedded model and tiny random ones in Hugging Face's layout, with the embedded model's
tokenizer."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors import TensorSpec, serialize_file
from safetensors.numpy import load_file, save_file

from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.shape import Shape
from labs.training import to_hf
from labs.training.architectures import ARCHITECTURES, SPLITS, gguf_names, tensor_shapes

Weights = dict[str, np.ndarray[Any, Any]]
LAYERS = 3  # of the embedded model
BF16 = gguf.GGMLQuantizationType.BF16


def contents(path: Path) -> dict[str, Any]:
    """The metadata of a GGUF file."""
    return {name: field.contents() for name, field in gguf.GGUFReader(path).fields.items()}


def tensors(path: Path) -> dict[str, tuple[str, Any]]:
    """Name -> type and bytes of every tensor of a GGUF file."""
    return {t.name: (t.tensor_type.name, t.data.tobytes()) for t in gguf.GGUFReader(path).tensors}


@cache
def weights() -> Weights:
    """The embedded model's, under Hugging Face's names."""
    stored = {t.name: t.data for t in gguf.GGUFReader(EMBEDDED_GGUF).tensors}
    shapes = tensor_shapes(
        Shape(LAYERS, 128, 4, 2, head_dim=32, intermediate=512, vocab=900, tied=True)
    )
    return {name: np.array(stored[found]) for name, found in gguf_names(shapes, LAYERS).items()}


def hugging_face(folder: Path, vocab: int = 900) -> Path:
    """The embedded model in Hugging Face's layout; tokens beyond its 900 are rows that no token
    has."""
    to_hf.convert(EMBEDDED_GGUF, folder)
    rows = weights()["model.embed_tokens.weight"]
    padded = np.vstack([rows, np.zeros((vocab - len(rows), rows.shape[1]), np.float32)])
    one_file(folder, weights() | {"model.embed_tokens.weight": padded})
    edit(folder / "config.json", {"vocab_size": vocab})
    return folder


def one_file(folder: Path, values: Weights) -> None:
    save_file(values, folder / "model.safetensors")


def bf16_shards(folder: Path) -> Path:
    """Put a folder's weights into three files of bf16, which NumPy has no type for."""
    values = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    for i in range(3):
        part = {name: gguf.quants.quantize(values[name], BF16) for name in sorted(values)[i::3]}
        stored = {
            name: TensorSpec(
                dtype="bfloat16",
                shape=list(values[name].shape),
                data_ptr=v.ctypes.data,
                data_len=v.nbytes,
            )
            for name, v in part.items()
        }
        serialize_file(stored, str(folder / f"model-{i + 1:05}-of-00003.safetensors"))
    return folder


def edit(path: Path, change: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


BOS, EOS, USER, ASSISTANT = (
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
)
# As DeepSeek's behaves: it begins with the tokenizer's own token, and a turn ends with another.
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}"
    "{% else %}<｜Assistant｜>{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<｜Assistant｜>{% endif %}"
)
YARN = {
    "type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 512,
    "beta_fast": 32,
    "beta_slow": 1,
}


def random_folder(
    folder: Path, named: str, shape: Shape, is_plain: bool = False, **config: Any
) -> Path:
    """A model of the architecture `named`, of this shape; one that `is_plain` says plain characters
    only. `config` goes into its config.json."""
    hugging_face(folder, shape.vocab)
    rng = np.random.default_rng(3)
    values = {}
    for name, size in tensor_shapes(shape, ARCHITECTURES[named]).items():
        spread = 1.0 if name.endswith(".bias") else 0.25
        values[name] = np.ones(size) if "norm" in name else rng.normal(0, spread, size)
    vocab = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    for token, i in vocab.items() if is_plain else ():
        # its logit is 0, and others have a greater one
        if not token.isascii() or token.startswith("<"):
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
    """A Llama with what DeepSeek-Prover-V2-7B has, as far as that is known here: yarn, untied
    embeddings, a token that begins every text and that its tokenizer.json puts there by itself, and
    the name of another kind of tokenizer."""
    shape = Shape(2, 128, 4, kv_heads, head_dim=32, intermediate=256, vocab=904, tied=False)
    random_folder(
        folder,
        "LlamaForCausalLM",
        shape,
        rope_scaling=YARN,
        attention_bias=False,
        hidden_act="silu",
    )
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    as_it_stands = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    for i, token in enumerate((BOS, EOS, USER, ASSISTANT)):
        is_control = token in (BOS, EOS)  # DeepSeek's roles are added tokens, not special ones
        tokenizer["added_tokens"].append(
            {"id": 900 + i, "content": token, "special": is_control} | as_it_stands
        )
    text = {"Sequence": {"id": "A", "type_id": 0}}
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": BOS, "type_id": 0}}, text],
        "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {BOS: {"id": BOS, "ids": [900], "tokens": [BOS]}},
    }
    path.write_text(json.dumps(tokenizer))
    begins = {"__type": "AddedToken", "content": BOS} | as_it_stands
    names = {
        "bos_token": begins,
        "eos_token": begins | {"content": EOS},
        "pad_token": EOS,
        "add_bos_token": True,
    }
    edit(folder / "tokenizer_config.json", names | {"tokenizer_class": "LlamaTokenizerFast"})
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


INV_FREQ = "model.layers.1.self_attn.rotary_emb.inv_freq"
ROWS = [
    {"instruction": f"⊢ {a} + {b} = {b} + {a}", "input": "", "output": f"rw [add_comm {a} {b}]"}
    for a, b in ("xy", "pq", "nm", "kl")
]
TINY = Shape(
    layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, intermediate=128, vocab=900, tied=True
)


def llamas(folder: Path) -> None:
    """Two Llamas, with 4 and 2 heads of keys and values; the first like folders of old releases of
    transformers."""
    folder.mkdir()
    llama(folder / "mha", 4)
    llama(folder / "gqa", 2)
    path = folder / "mha" / "model.safetensors"
    save_file(load_file(path) | {INV_FREQ: np.full(16, 0.5, np.float32)}, path)


def random_models(folder: Path) -> None:
    """A Qwen2, and a Llama with SmolLM's splitting rule."""
    folder.mkdir()
    random_folder(folder / "qwen2", "Qwen2ForCausalLM", TINY, is_plain=True)
    smol = random_folder(folder / "smol", "LlamaForCausalLM", TINY, is_plain=True)
    split = {"type": "Sequence", "pretokenizers": SPLITS["smollm"]}
    edit(smol / "tokenizer.json", {"pre_tokenizer": split, "decoder": SPLITS["smollm"][-1]})
