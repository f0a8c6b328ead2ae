"""A dense Qwen3: the names and shapes of its tensors in Hugging Face's layout and in GGUF, and its splitting rule."""

from collections.abc import Iterable

import gguf

from core.engines.shape import Shape

# Qwen2's splitting rule, which llama.cpp knows by the name "qwen2": every digit is a token of its own.
QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def tensor_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Hugging Face's names of a dense Qwen3's tensors, with their shapes."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layer = {
        "input_layernorm": (shape.hidden,),
        "self_attn.q_proj": (queries, shape.hidden),
        "self_attn.k_proj": (keys, shape.hidden),
        "self_attn.v_proj": (keys, shape.hidden),
        "self_attn.o_proj": (shape.hidden, queries),
        "self_attn.q_norm": (shape.head_dim,),
        "self_attn.k_norm": (shape.head_dim,),
        "post_attention_layernorm": (shape.hidden,),
        "mlp.gate_proj": (shape.intermediate, shape.hidden),
        "mlp.up_proj": (shape.intermediate, shape.hidden),
        "mlp.down_proj": (shape.hidden, shape.intermediate),
    }
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (shape.vocab, shape.hidden)}
    for i in range(shape.layers):
        shapes |= {f"model.layers.{i}.{name}.weight": size for name, size in layer.items()}
    shapes["model.norm.weight"] = (shape.hidden,)
    if not shape.tied:
        shapes["lm_head.weight"] = (shape.vocab, shape.hidden)
    return shapes


def gguf_names(names: Iterable[str], layers: int) -> dict[str, str]:
    """GGUF's names of tensors that Hugging Face's layout calls `names`."""
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3, layers)
    return {name: found for name in names if (found := table.get_name(name, try_suffixes=(".weight",)))}
