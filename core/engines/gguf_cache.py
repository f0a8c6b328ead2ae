"""Compute the memory that llama.cpp takes for the context of a request, from the fields of a GGUF
file's header.

Layers with attention keep keys and values of every token, or of the tokens in a window. Recurrent
layers keep a state of constant size. Fields have the names of the GGUF format, without the
architecture."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KV_BYTES = 2  # of one key or value (f16)
STATE_BYTES = 4  # of one element of a recurrent state (f32)
# llama.cpp keeps a window and the tokens of one batch, rounded up to a multiple of BLOCK tokens
BATCH = 512
BLOCK = 256
# Copies of a slot's windows and states that llama.cpp may keep besides the slot. It returns to one
# of them if the next prompt repeats only a part of the last one. (Its own default is 32, which
# takes gigabytes.)
CHECKPOINTS = 3
# The period of the layers without a window, for architectures whose files may not contain it.
PERIODS = {"cohere2": 4, "gemma2": 2, "gemma3": 6, "gpt-oss": 2}

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Cache:
    """The memory of a slot: `token` bytes for each token of its context, and `slot` bytes for any
    context. `is_bound` is true if the header does not tell all, so that llama.cpp may take less."""

    token: int
    slot: int = 0
    is_bound: bool = False

    @classmethod
    def of(cls, architecture: str, fields: Fields) -> "Cache | None":
        """Return the memory of a slot, or None if the header does not tell it. Raises LookupError
        if the number of layers is missing."""
        layers = _Layers.of(architecture, fields)
        token = 0
        window = 0
        states = 0
        for layer in range(layers.count):
            if layers.is_recurrent(layer):
                states += 1
            elements = layers.elements(layer)
            if layers.is_windowed(layer):
                window += elements
            else:
                token += elements
        slot = KV_BYTES * window * _rounded(layers.window + BATCH)
        slot += STATE_BYTES * states * layers.state
        if not (token or slot):
            return None
        return cls(KV_BYTES * token, (1 + CHECKPOINTS) * slot, layers.is_bound)


def _rounded(tokens: int) -> int:
    """Return `tokens` rounded up to a multiple of BLOCK."""
    return -(-tokens // BLOCK) * BLOCK


@dataclass(frozen=True)
class _Layers:
    """The layers of a model that keep something of the context."""

    count: int
    fields: Fields
    window: int  # tokens, or 0
    pattern: Any  # of the layers with a window: one value per layer, a period, or None
    state: int  # elements of a recurrent layer's state, or 0

    @classmethod
    def of(cls, architecture: str, fields: Fields) -> "_Layers":
        count = fields["block_count"]
        # layers that predict further tokens are not loaded, and shared layers keep nothing
        count -= fields.get("nextn_predict_layers", 0)
        count -= fields.get("attention.shared_kv_layers", 0)
        return cls(
            count,
            fields,
            fields.get("attention.sliding_window", 0),
            fields.get("attention.sliding_window_pattern", PERIODS.get(architecture)),
            _state(fields),
        )

    @property
    def is_bound(self) -> bool:
        """True if the header does not tell which layers have a window, or are recurrent."""
        has_unknown_windows = self.window > 0 and self.pattern is None
        return has_unknown_windows or (self.state > 0 and self.heads(0) > 0 and not self._is_mixed)

    @property
    def _is_mixed(self) -> bool:
        """True if the header tells which layers are recurrent."""
        return self._lists_heads or "full_attention_interval" in self.fields

    @property
    def _lists_heads(self) -> bool:
        """True if the header has the number of heads of each layer."""
        return isinstance(self.fields.get("attention.head_count_kv"), list)

    def heads(self, layer: int) -> int:
        """Return the number of heads that have keys and values."""
        heads = self.fields.get("attention.head_count_kv", self.fields.get("attention.head_count"))
        return _at(heads, layer)

    def is_recurrent(self, layer: int) -> bool:
        if not self.state:
            return False
        if interval := self.fields.get("full_attention_interval"):
            return bool((layer + 1) % interval)
        return not (self._lists_heads and self.heads(layer))

    def is_windowed(self, layer: int) -> bool:
        if not self.window or self.pattern is None:
            return False
        if isinstance(self.pattern, list):
            return bool(_at(self.pattern, layer))
        period = int(self.pattern)
        return layer % max(1, period) < period - 1

    def elements(self, layer: int) -> int:
        """Return the number of elements that a layer with attention keeps of a token."""
        if self.is_recurrent(layer) and "full_attention_interval" in self.fields:
            return 0
        suffix = "_swa" if self.is_windowed(layer) else ""
        keys = self._length("attention.key_length", suffix, layer)
        values = self._length("attention.value_length", suffix, layer)
        if "attention.key_length_mla" in self.fields:
            values = 0  # llama.cpp computes the values from the same compressed vector
        return self.heads(layer) * (keys + values)

    def _length(self, name: str, suffix: str, layer: int) -> int:
        """Return the length of a head's keys or values."""
        length = self.fields.get(f"{name}{suffix}", self.fields.get(name))
        if length is not None:
            return _at(length, layer)
        heads = _at(self.fields.get("attention.head_count"), layer)
        hidden = int(self.fields.get("embedding_length", 0))
        return hidden // heads if heads else 0


def _at(value: Any, layer: int) -> int:
    """Return the value of a layer: an entry of a list, or the same value for all. A missing value
    counts as 0."""
    if isinstance(value, list):
        return int(value[layer]) if layer < len(value) else 0
    return int(value or 0)


def _state(fields: Fields) -> int:
    """Return the number of elements in the state of a recurrent layer, or 0 without such layers.

    The first part are the last inputs of a convolution (or of a token shift), the second is the
    state itself."""

    def number(name: str, otherwise: int = 0) -> int:
        return int(fields.get(name, otherwise))

    hidden = number("embedding_length")
    if size := number("wkv.head_size"):
        return hidden * (number("token_shift_count", 2) + size)
    if length := number("shortconv.l_cache"):
        return hidden * (length - 1)
    kernel = number("ssm.conv_kernel", 1)
    if size := number("kda.head_dim"):
        heads = _at(fields.get("attention.head_count"), 0)
        return heads * size * (3 * (kernel - 1) + size)
    inner = number("ssm.inner_size")
    size = number("ssm.state_size")
    groups = number("ssm.group_count")
    return (kernel - 1) * (inner + 2 * groups * size) + inner * size
