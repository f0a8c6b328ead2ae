"""Write tiny GGUF files of other architectures, with random weights and the embedded model's
tokenizer."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from core.engines.dialects.llamacpp import EMBEDDED_GGUF

HIDDEN = 64
LAYERS = 4
HEADS = 4
KV_HEADS = 2
HEAD = 16  # elements of a head
INNER = 128  # of the MLP, and of Mamba
VOCAB = 900  # of the embedded model

Shapes = dict[str, tuple[int, ...]]
ATTENTION: Shapes = {
    "attn_norm.weight": (HIDDEN,),
    "attn_q.weight": (HEADS * HEAD, HIDDEN),
    "attn_k.weight": (KV_HEADS * HEAD, HIDDEN),
    "attn_v.weight": (KV_HEADS * HEAD, HIDDEN),
    "attn_output.weight": (HIDDEN, HEADS * HEAD),
}
QK_NORMS: Shapes = {"attn_q_norm.weight": (HEAD,), "attn_k_norm.weight": (HEAD,)}
MLP: Shapes = {
    "ffn_norm.weight": (HIDDEN,),
    "ffn_gate.weight": (INNER, HIDDEN),
    "ffn_up.weight": (INNER, HIDDEN),
    "ffn_down.weight": (HIDDEN, INNER),
}
EXPERTS: Shapes = {
    "ffn_norm.weight": (HIDDEN,),
    "ffn_gate_inp.weight": (4, HIDDEN),
    "ffn_gate_exps.weight": (4, 32, HIDDEN),
    "ffn_up_exps.weight": (4, 32, HIDDEN),
    "ffn_down_exps.weight": (4, HIDDEN, 32),
}
MAMBA: Shapes = {
    "attn_norm.weight": (HIDDEN,),
    "ssm_in.weight": (2 * INNER, HIDDEN),
    "ssm_conv1d.weight": (INNER, 4),
    "ssm_conv1d.bias": (INNER,),
    "ssm_x.weight": (8 + 2 * 16, INNER),
    "ssm_dt.weight": (INNER, 8),
    "ssm_dt.bias": (INNER,),
    "ssm_a": (INNER, 16),
    "ssm_d": (INNER,),
    "ssm_out.weight": (HIDDEN, INNER),
}
CONVOLUTION: Shapes = {
    "attn_norm.weight": (HIDDEN,),
    "shortconv.conv.weight": (HIDDEN, 3),
    "shortconv.in_proj.weight": (3 * HIDDEN, HIDDEN),
    "shortconv.out_proj.weight": (HIDDEN, HIDDEN),
}
LATENT: Shapes = {
    "attn_norm.weight": (HIDDEN,),
    "attn_q_a.weight": (32, HIDDEN),
    "attn_q_a_norm.weight": (32,),
    "attn_q_b.weight": (HEADS * (HEAD + 8), 32),
    "attn_kv_a_mqa.weight": (32 + 8, HIDDEN),
    "attn_kv_a_norm.weight": (32,),
    "attn_k_b.weight": (HEADS, 32, HEAD),
    "attn_v_b.weight": (HEADS, HEAD, 32),
    "attn_output.weight": (HIDDEN, HEADS * HEAD),
}
SANDWICH: Shapes = {
    "post_attention_norm.weight": (HIDDEN,),
    "post_ffw_norm.weight": (HIDDEN,),
}

SIZES: dict[str, Any] = {
    "context_length": 2048,
    "embedding_length": HIDDEN,
    "block_count": LAYERS,
    "feed_forward_length": INNER,
    "attention.head_count": HEADS,
    "attention.head_count_kv": KV_HEADS,
    "attention.key_length": HEAD,
    "attention.value_length": HEAD,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "vocab_size": VOCAB,
}
GEMMA3: dict[str, Any] = {"attention.sliding_window": 256}
QWEN3_MOE: dict[str, Any] = {
    "expert_count": 4,
    "expert_used_count": 2,
    "expert_feed_forward_length": 32,
}
MAMBA_SIZES: dict[str, Any] = {
    "attention.head_count": 0,
    "attention.head_count_kv": 0,
    "feed_forward_length": 0,
    "ssm.conv_kernel": 4,
    "ssm.inner_size": INNER,
    "ssm.state_size": 16,
    "ssm.time_step_rank": 8,
}
LFM2: dict[str, Any] = {
    "attention.head_count_kv": [0, KV_HEADS, 0, KV_HEADS],
    "shortconv.l_cache": 3,
}
DEEPSEEK2: dict[str, Any] = {
    "attention.head_count_kv": 1,
    "attention.key_length": 32 + 8,
    "attention.value_length": 32,
    "attention.key_length_mla": HEAD + 8,
    "attention.value_length_mla": HEAD,
    "attention.q_lora_rank": 32,
    "attention.kv_lora_rank": 32,
    "rope.dimension_count": 8,
    "leading_dense_block_count": LAYERS,
    "expert_count": 0,
    "expert_used_count": 0,
    "expert_feed_forward_length": 32,
    "expert_shared_count": 0,
    "expert_weights_scale": 1.0,
}
# architecture: fields besides SIZES, and the tensors of each layer
MODELS: dict[str, tuple[dict[str, Any], list[Shapes]]] = {
    "gemma3": (GEMMA3, [ATTENTION | QK_NORMS | SANDWICH | MLP] * LAYERS),
    "qwen3moe": (QWEN3_MOE, [ATTENTION | QK_NORMS | EXPERTS] * LAYERS),
    "mamba": (MAMBA_SIZES, [MAMBA] * LAYERS),
    "lfm2": (LFM2, [CONVOLUTION | MLP, ATTENTION | QK_NORMS | MLP] * (LAYERS // 2)),
    "deepseek2": (DEEPSEEK2, [LATENT | MLP] * LAYERS),
}


def write(path: Path, architecture: str) -> Path:
    """Write a model of `architecture` (a key in MODELS)."""
    fields, layers = MODELS[architecture]
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in (SIZES | fields).items():
        _add(writer, f"{architecture}.{name}", value)
    for field in gguf.GGUFReader(EMBEDDED_GGUF).fields.values():
        if field.name.startswith("tokenizer."):
            kind = field.types[0]
            inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
    shapes: Shapes = {"token_embd.weight": (VOCAB, HIDDEN)}
    for number, layer in enumerate(layers):
        shapes |= {f"blk.{number}.{name}": shape for name, shape in layer.items()}
    shapes["token_embd_norm.weight" if architecture == "lfm2" else "output_norm.weight"] = (HIDDEN,)
    random = np.random.default_rng(0)
    for name, shape in shapes.items():
        writer.add_tensor(name, random.normal(0, 0.05, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, name: str, value: Any) -> None:
    """Add a field with the type of its value."""
    if isinstance(value, list):
        writer.add_array(name, value)
    elif isinstance(value, float):
        writer.add_float32(name, value)
    else:
        writer.add_uint32(name, value)
