"""Test the memory of a slot's context, from the headers of many architectures, by hand."""

from pathlib import Path
from typing import Any

import gguf
import pytest

from core.base.errors import UserError
from core.engines.dialects import llamacpp
from core.engines.gguf_cache import CHECKPOINTS, Cache
from core.engines.gguf_header import Gguf
from core.engines.need import Need
from tests.helpers import tiny_models

GIB = 2**30
COPIES = 1 + CHECKPOINTS


def attention(layers: int, kv_heads: Any, key: int, value: int, **more: Any) -> dict[str, Any]:
    """Return the fields of layers with attention. Dots in names are written as two underscores."""
    fields = {
        "block_count": layers,
        "attention.head_count": 16,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": key,
        "attention.value_length": value,
    }
    return fields | {name.replace("__", "."): value for name, value in more.items()}


# architecture, fields, bytes of each token and of each slot
HEADERS = {
    # 48 layers with 4 heads of 128
    "Qwen3-30B-A3B": ("qwen3moe", attention(48, 4, 128, 128), 48 * 4 * 256 * 2, 0),
    # Every second of 24 layers has a window of 128 tokens. 128 + 512 in 256s are 768.
    "gpt-oss-20b": (
        "gpt-oss",
        attention(24, 8, 64, 64, attention__sliding_window=128),
        12 * 8 * 128 * 2,
        12 * 8 * 128 * 2 * 768,
    ),
    # Every sixth of 18 layers has no window. 512 + 512 are 1,024.
    "Gemma 3 270M": (
        "gemma3",
        attention(18, 1, 256, 256, attention__sliding_window=512),
        3 * 512 * 2,
        15 * 512 * 2 * 1024,
    ),
    "a pattern per layer": (
        "gemma4",
        attention(
            2,
            1,
            512,
            512,
            attention__key_length_swa=256,
            attention__value_length_swa=256,
            attention__sliding_window=512,
            attention__sliding_window_pattern=[True, False],
        ),
        1024 * 2,
        512 * 2 * 1024,
    ),
    "DeepSeek-V2-Lite": (
        "deepseek2",
        attention(27, 1, 576, 512, attention__key_length_mla=192),
        27 * 576 * 2,
        0,
    ),
    # The last 20 of 35 layers use the keys and values of others.
    "shared layers": (
        "gemma3n",
        attention(35, 2, 256, 256, attention__shared_kv_layers=20),
        15 * 2 * 512 * 2,
        0,
    ),
    # A state has 128 x 3,072 elements, and a convolution 3 x (3,072 + 2 x 128).
    "Granite 4 H Tiny": (
        "granitehybrid",
        attention(
            40,
            [4 if layer % 10 == 5 else 0 for layer in range(40)],
            128,
            128,
            ssm__conv_kernel=4,
            ssm__inner_size=3072,
            ssm__state_size=128,
            ssm__group_count=1,
        ),
        4 * 4 * 256 * 2,
        36 * 4 * (128 * 3072 + 3 * (3072 + 256)),
    ),
    # Every fourth of 48 layers has attention.
    "Qwen3-Next-80B": (
        "qwen3next",
        attention(
            48,
            2,
            256,
            256,
            full_attention_interval=4,
            ssm__conv_kernel=4,
            ssm__inner_size=4096,
            ssm__state_size=128,
            ssm__group_count=16,
        ),
        12 * 2 * 512 * 2,
        36 * 4 * (128 * 4096 + 3 * (4096 + 2 * 16 * 128)),
    ),
    "RWKV-7": (
        "rwkv7",
        {"block_count": 12, "embedding_length": 768, "wkv.head_size": 64, "token_shift_count": 2},
        0,
        12 * 4 * 768 * (2 + 64),
    ),
}


@pytest.mark.parametrize("name", HEADERS)
def test_the_memory_of_a_slot_by_hand(name: str) -> None:
    architecture, fields, token, slot = HEADERS[name]
    assert Cache.of(architecture, fields) == Cache(token, COPIES * slot)


def test_a_header_that_does_not_tell_all_gives_a_bound_or_nothing() -> None:
    unknown_windows = attention(4, 2, 16, 16, attention__sliding_window=64)
    assert Cache.of("newest", unknown_windows) == Cache(4 * 2 * 32 * 2, 0, is_bound=True)
    assert Cache.of("newest", {"block_count": 4}) is None


# What llama.cpp allocates for two slots with 2,048 tokens each, in bytes (measured).
ALLOCATED = {
    "gemma3": 2 * 393_216,
    "qwen3moe": 2 * 2**20,
    "mamba": 2 * 38_912,
    "lfm2": 2**20 + 2 * 2 * 4 * 128,
    "deepseek2": 1_310_720,
}


@pytest.mark.parametrize("architecture", tiny_models.MODELS)
def test_the_memory_of_a_slot_is_what_llama_cpp_allocates(
    architecture: str, tmp_path: Path
) -> None:
    model = Gguf.read(tiny_models.write(tmp_path / "tiny.gguf", architecture))
    assert model.cache is not None and not model.cache.is_bound
    allocated = 2 * (2048 * model.cache.token + model.cache.slot // COPIES)
    assert allocated == ALLOCATED[architecture]


def a_model(cache: Cache | None, monkeypatch: pytest.MonkeyPatch) -> Gguf:
    monkeypatch.setattr(Gguf, "cache", cache)
    return Gguf(Path("some.gguf"), GIB, "newest", {"context_length": 8192}, {})


NEED = Need(1, 1000, 440)  # 3,488 tokens, or 4,488 with a text. In 256s, 4,608


def test_the_size_counts_windows_and_states_of_each_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 8 GiB, 4.2 GiB are left. A slot takes 4,608 x 100,000 + 200,000,000 bytes, so 6 fit."""
    model = a_model(Cache(100_000, 200_000_000), monkeypatch)
    assert llamacpp.size(model, NEED, 8 * GIB, 2) == llamacpp.Size(6, 4608, 2, 0)
    exact = llamacpp.size(model, NEED, 8 * GIB, 2, exact=True)
    assert exact == llamacpp.Size(3, 4608, 2, 0)
    stateful = a_model(Cache(0, 200_000_000), monkeypatch)
    assert llamacpp.size(stateful, NEED, 8 * GIB, 2).slots == 16


def test_llama_cpp_fits_the_context_if_the_header_does_not_tell_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted = llamacpp.Size(1, 0, 2, 0, least=3488)
    assert llamacpp.size(a_model(None, monkeypatch), NEED, 8 * GIB, 2) == fitted
    bound = Cache(10**9, is_bound=True)
    assert llamacpp.size(a_model(bound, monkeypatch), NEED, 8 * GIB, 2) == fitted
    for cache in (None, bound, Cache(10**9)):
        with pytest.raises(UserError, match=r"some\.gguf"):
            llamacpp.size(a_model(cache, monkeypatch), NEED, 3 * GIB, 2)


def test_short_arrays_of_numbers_are_read_and_others_skipped(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "some.gguf", "lfm2")
    writer.add_array("lfm2.attention.head_count_kv", [0, 8, 0])
    writer.add_array("tokenizer.ggml.scores", [0.5] * 2000)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    fields = Gguf.read(tmp_path / "some.gguf").fields
    assert fields["attention.head_count_kv"] == [0, 8, 0]
    assert not any(name.startswith("tokenizer") for name in fields)
