"""Describe dense Llama, Qwen2 and Qwen3 models: tensors in GGUF and in Hugging Face's layout, and
pre-tokenizers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from msgspec import field

from core.base.errors import UserError
from core.base.fields import fitted
from core.base.files import read_json
from core.engines.shape import Shape, Size

# The pattern of Qwen2's pre-tokenizer, which splits text before BPE. Each digit is a separate
# token.
QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Pre-tokenizers for byte-level BPE. The keys are llama.cpp's names, the values are parts of
# tokenizer.json.
_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
SPLITS: dict[str, list[dict[str, Any]]] = {
    "qwen2": [
        {
            "type": "Split",
            "pattern": {"Regex": QWEN2_SPLIT},
            "behavior": "Isolated",
            "invert": False,
        },
        _LEVEL | {"use_regex": False},
    ],
    "smollm": [{"type": "Digits", "individual_digits": True}, _LEVEL | {"use_regex": True}],
}


class Unsupported(UserError):
    """An error about a model that can't be converted here, although it is complete: the `fault`,
    and a remedy."""

    def __init__(self, fault: str, remedy: str) -> None:
        super().__init__(f"{fault}. {remedy}")
        self.fault = fault


@dataclass(frozen=True)
class Architecture:
    """A model architecture that can be converted."""

    name: str  # in llama.cpp
    table: gguf.MODEL_ARCH  # for the names of tensors
    biases: bool  # queries, keys and values have biases
    norms: bool  # queries and keys have norms
    # llama.cpp stores the rows of queries and keys in another order (see `reordered`)
    is_paired: bool = False


QWEN3 = Architecture("qwen3", gguf.MODEL_ARCH.QWEN3, biases=False, norms=True)
ARCHITECTURES = {
    "Qwen2ForCausalLM": Architecture("qwen2", gguf.MODEL_ARCH.QWEN2, biases=True, norms=False),
    "Qwen3ForCausalLM": QWEN3,
    "LlamaForCausalLM": Architecture(
        "llama", gguf.MODEL_ARCH.LLAMA, biases=False, norms=False, is_paired=True
    ),
}
# the end of tensor names in old Llamas. These tensors are computed from config.json
UNUSED = ".rotary_emb.inv_freq"


class Sizes(Shape, frozen=True, kw_only=True):
    """A model's shape, its context in tokens, the norms' epsilon and the base of rotary
    positions."""

    context: Size = field(name="max_position_embeddings", default=32768)
    eps: float = field(name="rms_norm_eps")
    rope_base: float = field(name="rope_theta", default=10_000.0)


def read_object(path: Path) -> dict[str, Any]:
    """Read the JSON file `path` of a model. Raises UserError if the file is missing, invalid or
    contains no object."""
    remedy = "Choose the folder of a complete Hugging Face model"
    return fitted(
        read_json(path, "the model's file", remedy),
        dict[str, Any],
        f"{path} has no JSON object",
        remedy,
    )


def check_tensors(
    where: Path, found: Mapping[str, tuple[int, ...]], wanted: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise UserError if the names and shapes `found` in the file or folder `where` differ from
    `wanted`."""
    if odd := sorted({name for name, _ in found.items() ^ wanted.items()}):
        raise UserError(
            f"{where} has wrong tensors: {odd[0]} is {found.get(odd[0], 'missing')}, but should be "
            f"{wanted.get(odd[0], 'absent')}. Fetch or convert the model again"
        )


def architecture_of(config: dict[str, Any], folder: Path, remedy: str) -> Architecture:
    """Return the architecture of `config`. Raises UserError, with `remedy`, if it or an option is
    unsupported."""
    named = config.get("architectures")
    found = next((its for name, its in ARCHITECTURES.items() if named == [name]), None)
    if found is None or config.get("model_type", found.name) != found.name:
        raise Unsupported(
            f"{folder / 'config.json'} has the architectures {named} and model_type "
            f"{config.get('model_type')!r}. Supported are "
            f"{', '.join(f'{each} ({its.name})' for each, its in ARCHITECTURES.items())}",
            remedy,
        )
    refused = ("use_sliding_window", "mlp_bias", *(() if found.biases else ("attention_bias",)))
    if asked := [name for name in refused if config.get(name)]:
        raise Unsupported(
            f"{folder / 'config.json'} sets {asked[0]}, which is not supported", remedy
        )
    return found


def tensor_shapes(shape: Shape, architecture: Architecture = QWEN3) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a dense model. The keys are Hugging Face's names."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    rows = {"q": queries, "k": keys, "v": keys}
    layer: dict[str, tuple[int, ...]] = {"input_layernorm.weight": (shape.hidden,)}
    layer |= {
        f"self_attn.{part}_proj.weight": (count, shape.hidden) for part, count in rows.items()
    }
    layer["self_attn.o_proj.weight"] = (shape.hidden, queries)
    if architecture.biases:
        layer |= {f"self_attn.{part}_proj.bias": (count,) for part, count in rows.items()}
    if architecture.norms:
        layer |= {f"self_attn.{part}_norm.weight": (shape.head_dim,) for part in "qk"}
    layer |= {
        "post_attention_layernorm.weight": (shape.hidden,),
        "mlp.gate_proj.weight": (shape.intermediate, shape.hidden),
        "mlp.up_proj.weight": (shape.intermediate, shape.hidden),
        "mlp.down_proj.weight": (shape.hidden, shape.intermediate),
    }
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (shape.vocab, shape.hidden)}
    for i in range(shape.layers):
        shapes |= {f"model.layers.{i}.{name}": size for name, size in layer.items()}
    shapes["model.norm.weight"] = (shape.hidden,)
    if not shape.tied:
        shapes["lm_head.weight"] = (shape.vocab, shape.hidden)
    return shapes


def gguf_names(
    names: Iterable[str], layers: int, architecture: Architecture = QWEN3
) -> dict[str, str]:
    """Map the `names` of tensors in Hugging Face's layout to the names in GGUF. Unknown names are
    left out."""
    table = gguf.get_tensor_name_map(architecture.table, layers)
    found = {name: table.get_name(name, try_suffixes=(".weight", ".bias")) for name in names}
    return {name: its for name, its in found.items() if its}


def reordered(
    name: str, values: np.ndarray[Any, Any], shape: Shape, architecture: Architecture, to_gguf: bool
) -> np.ndarray[Any, Any]:
    """Put the rows of a Llama's queries and keys into llama.cpp's order, or back. Other tensors
    stay unchanged. Rotary positions rotate pairs of rows. In Hugging Face's layout a head's rows i
    and i + head_dim/2 are a pair. In GGUF a pair is two neighbouring rows."""
    if not architecture.is_paired or not name.endswith(("q_proj.weight", "k_proj.weight")):
        return values
    heads, half = shape.heads if "q_proj" in name else shape.kv_heads, shape.head_dim // 2
    pairs = (2, half) if to_gguf else (half, 2)
    return values.reshape(heads, *pairs, -1).swapaxes(1, 2).reshape(values.shape)


def split_of(tokenizer: dict[str, Any]) -> str | None:
    """Return the key in SPLITS of a tokenizer.json's pre-tokenizer, or None if SPLITS lacks the
    pre-tokenizer."""
    parts = (tokenizer.get("pre_tokenizer") or {}).get("pretokenizers", [])
    offsets = {"trim_offsets": True}  # without effect on the tokens
    found = [part | offsets for part in parts]
    return next(
        (name for name, its in SPLITS.items() if found == [part | offsets for part in its]), None
    )
