"""Test how public models are served and planned by their config.json, without a start."""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.base.errors import UserError
from core.engines import gpus, process, weights
from core.engines.attach import sized
from core.engines.config_file import Config
from core.engines.dialects.sglang import DIALECT as SGLANG
from core.engines.dialects.vllm import DIALECT as VLLM
from core.engines.need import MOST_RUNNING, Need, check_fits
from core.engines.on_gpu import OnGpu
from core.engines.protocol import Server
from core.engines.shape import Mixture
from core.server import start_on_gpu
from tests.conftest import ROOT
from tests.helpers.machine import QED_NANO_CONFIG

# Fields of the config.json files of public models, by name. They were compared on 2026-11-29 with
# copies of these files in public code, because no hub could be reached:
# - gpt-oss-20b, Qwen3-30B-A3B, Phi-4-mini, GLM-4.5-Air and LFM2-1.2B: printed configs
# - granite-4.0-h-tiny: a test's copy of its sizes and layers. Its class is that of h-1b
# - gemma-3-4b-it: a sparse text_config and its window in several tests, and a siglip_vision_model
# - SmolLM3-3B: a test's "authoritative copy". layer_types and windows are from transformers
# - Qwen3.5-4B: notes on the file of 2026-09-16, and a table of its fields of 2026-05-23
# - Qwen3-32B-AWQ: the fields of Qwen3-32B. dtype and quantisation are AutoAWQ's usual ones
# - DeepSeek-V3: printed sizes, and quantization_config in the makers' README_WEIGHTS.md
CONFIGS = json.loads((ROOT / "tests" / "cases" / "configs.json").read_text())
DENSE = ("microsoft/Phi-4-mini-instruct", "HuggingFaceTB/SmolLM3-3B")
QED_NANO = "qed-nano"
COMPUTED = ("--mem-fraction-static", "--context-length", "--max-running-requests", "--max-num-seqs")


def folder_of(name: str, folder: Path, stored: int = 1, **changes: Any) -> Path:
    """Write a model's config.json and a sparse file of `stored` bytes in place of its weights."""
    config = QED_NANO_CONFIG if name == QED_NANO else CONFIGS[name]
    (folder / "config.json").write_text(json.dumps(config | changes))
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(stored)
    return folder


def launch(
    engine: OnGpu, folder: Path, monkeypatch: pytest.MonkeyPatch, answer: Server, tp: int = 1
) -> tuple[list[str], Server]:
    """Return the flags with which an engine is started on RTX 4090s, and the started server."""
    flags: list[str] = []
    started = SimpleNamespace(wait_until=lambda *_: answer, failure=None)

    def record(_name: str, args: list[str], *_: object) -> Any:
        flags.extend(args)
        return nullcontext(started)

    monkeypatch.setattr(process, "running", record)
    monkeypatch.setattr(gpus, "here", lambda: gpus.named("4090"))
    monkeypatch.setattr(gpus, "count", lambda: tp)
    monkeypatch.setattr(weights, "sha256", lambda _: "0" * 64)
    monkeypatch.setenv("MODEL", str(folder))
    monkeypatch.setenv("TP", str(tp))
    with start_on_gpu(engine, Need(max_tokens=600)) as server:
        return flags, server


@pytest.mark.parametrize("engine", [SGLANG, VLLM])
@pytest.mark.parametrize("name", CONFIGS)
def test_no_public_model_is_refused_for_its_architecture(
    name: str, engine: OnGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Server(engine.kind, "u", "m", "w", kv_tokens=20_000, most_running=MOST_RUNNING)
    flags, server = launch(engine, folder_of(name, tmp_path), monkeypatch, answer)
    assert any(flag in flags for flag in COMPUTED) is (name in DENSE)
    assert not any("quantization" in flag or "trust" in flag for flag in flags)
    if name in DENSE:
        return
    assert flags[flags.index("--kv-cache-dtype") + 1] == "auto"
    # the limit follows from the cache that the server reports: 600 tokens, a third of them held
    assert server.limit == 2 + 20_000 // 200
    if engine is VLLM:
        assert flags[flags.index("--max-model-len") + 1] == "auto"


def test_gpt_oss_gets_each_engines_own_parser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of("openai/gpt-oss-20b", tmp_path)
    (folder / "chat_template.jinja").write_text("<|channel|>analysis {{ messages }}")
    for engine, parser in ((SGLANG, "gpt-oss"), (VLLM, "openai_gptoss")):
        flags, _ = launch(engine, folder, monkeypatch, Server(engine.kind, "u", "m", "w"))
        assert flags[flags.index("--reasoning-parser") + 1] == parser


def test_weights_larger_than_the_memory_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Server("vllm", "u", "m", "w")
    folder = folder_of("Qwen/Qwen3-30B-A3B", tmp_path, stored=40 * 10**9)
    with pytest.raises(UserError, match=r"40\.0 GB.*RTX 4090"):
        launch(VLLM, folder, monkeypatch, answer)
    launch(VLLM, folder, monkeypatch, answer, tp=2)
    folder_of("Qwen/Qwen3-30B-A3B", tmp_path, stored=40 * 10**9, torch_dtype="float32")
    launch(VLLM, folder, monkeypatch, answer)  # engines load half as many bytes
    with pytest.raises(UserError, match="8 x H100"):
        check_fits(10**12, gpus.named("H100"), 8)


def test_weights_that_mistral_stores_twice_count_once() -> None:
    files = {"model-00001-of-00002.safetensors": 3, "model-00002-of-00002.safetensors": 2}
    assert weights.weight_bytes(files | {"consolidated.safetensors": 5, "config.json": 9}) == 5
    assert weights.weight_bytes({"consolidated.safetensors": 5}) == 5


@pytest.mark.parametrize(
    ("name", "billions", "active"),
    [("Qwen/Qwen3-30B-A3B", 30.5, 3.0), ("zai-org/GLM-4.5-Air", 106.9, 12.6)],
)
def test_experts_are_counted_whole_and_by_token(
    name: str, billions: float, active: float, tmp_path: Path
) -> None:
    sizes = Config.read(folder_of(name, tmp_path) / "config.json").sizes
    assert isinstance(sizes, Mixture)
    assert sizes.parameters / 1e9 == pytest.approx(billions, rel=0.01)
    assert sizes.step_parameters / 1e9 == pytest.approx(active, rel=0.03)
    # one request reads its own experts, and many requests read all
    assert sizes.read_parameters(1) == pytest.approx(sizes.step_parameters, rel=1e-6)
    without_input = sizes.parameters - sizes.vocab * sizes.hidden
    assert sizes.read_parameters(10**4) == pytest.approx(without_input, rel=1e-6)


def test_windows_that_the_context_never_exceeds_change_nothing(tmp_path: Path) -> None:
    for changes, is_dense in (
        ({"sliding_window": 4096}, False),
        ({"sliding_window": 4096, "use_sliding_window": False}, True),
        ({"sliding_window": 10**6}, True),
        ({"num_local_experts": 0}, True),
        ({"hidden_act": "gelu"}, False),
    ):
        path = folder_of(QED_NANO, tmp_path, **changes) / "config.json"
        assert (Config.read(path).shape is not None) is is_dense


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)
NAMES = sorted({field for config in CONFIGS.values() for field in config})


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(name=st.sampled_from([*CONFIGS]), field=st.sampled_from(NAMES), value=JSON)
def test_any_field_gives_a_config_or_a_users_error(
    name: str, field: str, value: Any, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[name] | {field: value}))
    try:
        config = Config.read(path)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert config.difference or config.shape
        assert config.sizes is None or config.sizes.read_parameters(3) > 0


def test_a_card_has_the_last_word_on_the_limit() -> None:
    server = Server("vllm", "u", "m", "w", limit=7)
    assert sized(server, Need(max_tokens=30)).limit == 7, "its cache is unknown"
