"""Compute the bytes of a transformer's weights and KV cache, and its number of operations, from its
shape.

core/engines/config_file.py decides for which models these formulas hold."""

from collections.abc import Mapping
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
        config = read_config(path)
        if config.get("quantization_config") or any("expert" in name for name in config):
            raise UserError(
                f"{path} describes a mixture of experts or a quantized model. Give a dense bf16 "
                "model"
            )
        return cls.from_fields(config, path)

    @classmethod
    def from_fields(cls, config: Mapping[str, Any], path: Path) -> Self:
        """Read the fields of the config.json at `path`. Raises UserError if one is missing or
        invalid."""
        given = {name: value for name, value in config.items() if value is not None}
        defaults = {
            "num_key_value_heads": given.get("num_attention_heads"),
            "head_dim": 1,
            "tie_word_embeddings": False,
        }
        rope = given.get("rope_parameters")  # since transformers 5, it contains rope_theta
        if isinstance(rope, dict):
            defaults |= rope
        shape = fitted(defaults | given, cls, _no_transformer(path), _DENSE)
        if "head_dim" in given:
            return shape
        return replace(shape, head_dim=max(1, shape.hidden // shape.heads))

    @property
    def layer_weights(self) -> int:
        """The number of parameters in one layer besides the MLP: projections of attention, and
        norms, but no biases."""
        attention = 2 * self.hidden * (self.heads + self.kv_heads) * self.head_dim
        norms = 2 * self.hidden + 2 * self.head_dim
        return attention + norms

    @property
    def layer_parameters(self) -> int:
        """The number of parameters in all layers that a token uses."""
        return self.layers * (self.layer_weights + 3 * self.hidden * self.intermediate)

    @property
    def parameters(self) -> int:
        embeddings = self.vocab * self.hidden * (1 if self.tied else 2)
        return self.layer_parameters + embeddings + self.hidden

    @property
    def weight_bytes(self) -> int:
        return 2 * self.parameters

    @property
    def step_parameters(self) -> int:
        """The number of parameters that a token is multiplied with: the layers and the output
        embedding."""
        return self.layer_parameters + self.vocab * self.hidden + self.hidden

    def read_parameters(self, requests: float) -> float:
        """Return the number of parameters that a decoding step of so many `requests` reads."""
        return self.step_parameters

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


class Mixture(Shape, frozen=True, kw_only=True):
    """A mixture of experts. In each layer but the first `dense_layers`, a token uses `active` of
    the `experts`, and the shared expert if there is one. Each of them is a gated MLP."""

    experts: Size
    active: Size
    expert_size: Size
    shared_size: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    dense_layers: Annotated[int, Meta(ge=0, lt=2**31)] = 0

    def __post_init__(self) -> None:
        if self.active > self.experts:
            raise ValueError(f"{self.active} of {self.experts} experts are active")

    def _layers_with(self, experts: float) -> float:
        """Return the number of parameters in all layers, with so many `experts` in each."""
        mlp = 3 * self.hidden * self.intermediate
        router = self.hidden * self.experts
        mixed = 3 * self.hidden * (experts * self.expert_size + self.shared_size) + router
        dense = min(self.dense_layers, self.layers)
        return self.layers * self.layer_weights + dense * mlp + (self.layers - dense) * mixed

    @property
    def layer_parameters(self) -> int:
        """The number of parameters in all layers that a token uses."""
        return int(self._layers_with(self.active))

    @property
    def parameters(self) -> int:
        return super().parameters + int(self._layers_with(self.experts)) - self.layer_parameters

    def read_parameters(self, requests: float) -> float:
        """Return the number of parameters that a decoding step of so many `requests` reads, if each
        request's experts are drawn at random."""
        unused = (1 - self.active / self.experts) ** max(1.0, requests)
        read = self._layers_with(self.experts * (1 - unused))
        return self.step_parameters - self.layer_parameters + read


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


_DENSE = "Give the folder of a dense Llama, Qwen2 or Qwen3 model"
_FOLDER = "Give the folder of a model with its config.json"


def _no_transformer(path: Path) -> str:
    return f"{path} describes no transformer"


def read_config(path: Path) -> dict[str, Any]:
    """Read the config.json at `path`. Raises UserError if it is missing or contains no object."""
    config = read_json(path, "the model's", _FOLDER)
    return fitted(config, dict[str, Any], f"{path} describes no model", _FOLDER)


def mem_fraction(memory: float) -> float:
    """Return the share of a GPU's free memory for weights and KV cache (SGLang's
    --mem-fraction-static). 2.5 GiB and 4% of `memory` are for activations and CUDA graphs. On 24
    GB, users report shares of 0.85 to 0.9."""
    free = memory - RUNTIME_BYTES
    return round(max(0.0, 1 - (2.5 * 2**30 + 0.04 * memory) / free), 3)


def kv_tokens(
    shape: Shape, memory: float, kv: str = "bf16", gpus: int = 1, weight_bytes: float = 0
) -> int:
    """Return the tokens that the KV cache holds on so many `gpus` with `memory` bytes each, or 0 if
    the weights alone do not fit. Weights and heads are split among the GPUs. With fewer KV heads
    than GPUs, heads are copied. `weight_bytes` replaces the size of weights in bf16."""
    weights = weight_bytes or shape.weight_bytes
    room = (memory - RUNTIME_BYTES) * mem_fraction(memory) - weights / gpus
    token_bytes = shape.kv_bytes(kv) / min(gpus, shape.kv_heads)
    return max(0, int(room // token_bytes))
