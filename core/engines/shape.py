"""Compute the bytes of a transformer's weights and KV cache, and its number of operations, from its
shape."""

from pathlib import Path
from typing import Annotated, Any, Self

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from core.base.errors import UserError
from core.base.fields import fitted
from core.base.files import read_json

KV_BYTES = {"bf16": 2, "fp8": 1}  # bytes of one element of the KV cache
RUNTIME_BYTES = 2**29  # for CUDA itself (an assumption, 0.3 to 0.6 GB are usual)

Size = Annotated[int, Meta(ge=1, lt=2**31)]


class Shape(Struct, frozen=True):
    """A dense decoder with grouped-query attention and a gated MLP (Llama, Qwen2, Qwen3), served in
    bf16. Fields have other names in a config.json."""

    layers: Size = field(name="num_hidden_layers")
    hidden: Size = field(name="hidden_size")
    heads: Size = field(name="num_attention_heads")
    kv_heads: Size = field(name="num_key_value_heads")
    head_dim: Size
    intermediate: Size = field(name="intermediate_size")
    vocab: Size = field(name="vocab_size")
    tied: bool = field(name="tie_word_embeddings")  # whether input and output share one embedding

    @classmethod
    def from_config(cls, path: Path) -> Self:
        """Read a Hugging Face config.json. Raises UserError for other files, and for MoE and
        quantized models."""
        wrong = f"{path} describes no transformer"
        fix = "Give the folder of a dense Llama, Qwen2 or Qwen3 model"
        config = fitted(read_json(path, "the model's", fix), dict[str, Any], wrong, fix)
        if config.get("quantization_config") or any("expert" in name for name in config):
            raise UserError(
                f"{path} describes a mixture of experts or a quantized model. Give a dense bf16 "
                "model"
            )
        given = {name: value for name, value in config.items() if value is not None}
        defaults = {
            "num_key_value_heads": given.get("num_attention_heads"),
            "head_dim": 1,
            "tie_word_embeddings": False,
        }
        rope = given.get("rope_parameters")  # since transformers 5, it contains rope_theta
        if isinstance(rope, dict):
            defaults |= rope
        shape = fitted(defaults | given, cls, wrong, fix)
        if "head_dim" in given:
            return shape
        return replace(shape, head_dim=max(1, shape.hidden // shape.heads))

    @property
    def layer_parameters(self) -> int:
        """The number of parameters in all layers: projections of attention and MLP, and norms, but
        no biases."""
        attention = 2 * self.hidden * (self.heads + self.kv_heads) * self.head_dim
        norms = 2 * self.hidden + 2 * self.head_dim
        return self.layers * (attention + 3 * self.hidden * self.intermediate + norms)

    @property
    def parameters(self) -> int:
        embeddings = self.vocab * self.hidden * (1 if self.tied else 2)
        return self.layer_parameters + embeddings + self.hidden

    @property
    def weight_bytes(self) -> int:
        return 2 * self.parameters

    @property
    def step_parameters(self) -> int:
        """The number of parameters that a decoding step reads: the layers and the output
        embedding."""
        return self.layer_parameters + self.vocab * self.hidden + self.hidden

    def flops(self, prompt: int, cached: int, completion: int) -> float:
        """Return a request's FLOPs. Each token is multiplied with all weights and attends to all
        earlier tokens. `cached` tokens of the prompt need no operations. The prompt needs no output
        embedding."""
        attended = ((prompt + completion) ** 2 - cached**2) / 2
        multiplied = self.layer_parameters * (prompt - cached)
        multiplied += self.step_parameters * completion
        return 2 * multiplied + 4 * self.layers * self.heads * self.head_dim * attended

    def kv_bytes(self, kv: str = "bf16") -> int:
        """Return the bytes per token in a KV cache of type `kv`, for the keys and values of every
        layer."""
        return 2 * self.layers * self.kv_heads * self.head_dim * KV_BYTES[kv]


# The config.json of QED-Nano, a fine-tuned Qwen3-4B, for planning before it is fetched.
QED_NANO = Shape(
    layers=36,
    hidden=2560,
    heads=32,
    kv_heads=8,
    head_dim=128,
    intermediate=9728,
    vocab=151936,
    tied=True,
)


def mem_fraction(memory: float) -> float:
    """Return the share of a GPU's free memory for weights and KV cache (SGLang's
    --mem-fraction-static). 2.5 GiB and 4% of `memory` are for activations and CUDA graphs. On 24
    GB, users report shares of 0.85 to 0.9."""
    free = memory - RUNTIME_BYTES
    return round(max(0.0, 1 - (2.5 * 2**30 + 0.04 * memory) / free), 3)


def kv_tokens(shape: Shape, memory: float, kv: str = "bf16", gpus: int = 1) -> int:
    """Return the tokens that the KV cache holds on so many `gpus` with `memory` bytes each, or 0 if
    the weights alone do not fit. Weights and heads are split among the GPUs. With fewer KV heads
    than GPUs, heads are copied."""
    room = (memory - RUNTIME_BYTES) * mem_fraction(memory) - shape.weight_bytes / gpus
    token_bytes = shape.kv_bytes(kv) / min(gpus, shape.kv_heads)
    return max(0, int(room // token_bytes))
