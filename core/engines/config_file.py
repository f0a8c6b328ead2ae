"""Read a model's config.json for serving and planning.

The formulas of core/engines/shape.py hold for some models only. All other models are served too,
with the engine's own settings for memory and context."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.engines.queries import line
from core.engines.shape import Mixture, Shape, read_config

DEFAULT_CONTEXT = 32768  # tokens, if config.json names no context
_QUANTIZATION = ("quantization_config", "compression_config")
_RECURRENT = ("mamba", "ssm_", "linear_", "conv_")  # the beginnings of fields of such layers
_GATED = (None, "silu", "swish")  # activations of a gated MLP
# the names of a count of experts, and of the intermediate size of an expert
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_EXPERT_SIZES = ("moe_intermediate_size", "intermediate_size")


@dataclass(frozen=True)
class Config:
    """The fields of a config.json that decide how a model is served and planned."""

    kind: str  # its model_type, or ""
    longest: int  # tokens of context that the model was trained for
    # of a dense model in bf16, for which memory can be computed. None for other models
    shape: Shape | None
    # of such a model, a quantized model or a mixture of experts, for plans. None for other models
    sizes: Shape | None
    # how the model differs from a dense model in bf16, in a few words, or ""
    difference: str
    is_float32: bool = False  # whether its weights are stored in float32. Engines load them in bf16

    def loaded(self, stored: int) -> int:
        """Return the bytes in memory of weights that take so many `stored` bytes in files."""
        return stored // 2 if self.is_float32 else stored

    @classmethod
    def read(cls, path: Path) -> "Config":
        """Read the config.json at `path`. Raises UserError if it is missing or contains no JSON
        object."""
        config = read_config(path)
        difference = _attention(config) or _mlp(config)
        sizes: Shape | None = None
        if not difference:
            try:
                sizes = _sizes(config, path)
            except UserError:
                difference = "sizes with other names or values"
        difference = difference or _weights(config)
        return cls(
            kind=line(config.get("model_type")) or "",
            longest=_longest(path),
            shape=None if difference else sizes,
            sizes=sizes,
            difference=difference,
            is_float32="float32" in (config.get("dtype"), config.get("torch_dtype")),
        )


def _longest(path: Path) -> int:
    """Return the context in tokens. It may be in the part of a config.json for texts."""
    match = re.search(r'"max_position_embeddings":\s*(\d+)', path.read_text(encoding="utf-8"))
    return int(match[1]) if match else DEFAULT_CONTEXT


def _attention(config: Mapping[str, Any]) -> str:
    """Return how the attention differs from full attention in all layers, or ""."""
    if any(_is_part(name, value) for name, value in config.items()):
        return "other parts than a text model"
    if config.get("kv_lora_rank"):
        return "compressed keys and values"
    if any(name.startswith(_RECURRENT) for name in config):
        return "layers without attention"
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and any(kind != "full_attention" for kind in kinds):
        return "layers of several kinds"
    if _has_window(config):
        return "sliding windows"
    return ""


def _is_part(name: str, value: Any) -> bool:
    """Return whether a field describes a part of the model, such as a reader of images."""
    return name.endswith("_config") and name not in _QUANTIZATION and isinstance(value, dict)


def _has_window(config: Mapping[str, Any]) -> bool:
    """Return whether layers forget keys and values before the end of the model's context."""
    window = config.get("sliding_window")
    if not isinstance(window, int) or config.get("use_sliding_window") is False:
        return False
    context = config.get("max_position_embeddings")
    return not isinstance(context, int) or window < context


def _mlp(config: Mapping[str, Any]) -> str:
    """Return how the MLP differs from a gated one in each layer, or ""."""
    if config.get("hidden_act") not in _GATED:
        return "an MLP that may have no gate"
    if config.get("decoder_sparse_step", 1) != 1:
        return "experts in some layers only"
    return ""


def _weights(config: Mapping[str, Any]) -> str:
    """Return how the weights differ from a dense model in bf16, or ""."""
    if method := quantization(config):
        return f"quantized weights ({method})"
    return "a mixture of experts" if _has_experts(config) else ""


def quantization(config: Mapping[str, Any]) -> str:
    """Return the method of quantized weights, such as "awq" or "fp8", or "" for other weights."""
    for name in _QUANTIZATION:
        described = config.get(name)
        if isinstance(described, dict) and described:
            return line(described.get("quant_method")) or "unnamed method"
    return ""


def _has_experts(config: Mapping[str, Any]) -> bool:
    return any("expert" in name and bool(value) for name, value in config.items())


def _sizes(config: Mapping[str, Any], path: Path) -> Shape:
    """Return the sizes of a model with full attention. Raises UserError if one is missing or
    invalid."""
    if not _has_experts(config):
        return Shape.from_fields(config, path)
    expert_size = _first(config, *_EXPERT_SIZES)
    shared_size = _first(config, "shared_expert_intermediate_size")
    shared_size = shared_size or expert_size * _first(config, "n_shared_experts")
    dense = config.get("mlp_only_layers")
    experts = {
        "experts": _first(config, *_EXPERTS),
        "active": _first(config, "num_experts_per_tok"),
        "expert_size": expert_size,
        "shared_size": shared_size,
        "dense_layers": len(dense) if isinstance(dense, list) else 0,
    }
    if first_dense := _first(config, "first_k_dense_replace"):
        experts["dense_layers"] = first_dense
    return Mixture.from_fields({**config, **experts}, path)


def _first(config: Mapping[str, Any], *names: str) -> int:
    """Return the first positive integer in the fields `names`, or 0."""
    values = [config.get(name) for name in names]
    return next((value for value in values if isinstance(value, int) and value > 0), 0)
