"""Test launch settings: figures by hand, flags, refusals, and hidden keys."""

import json
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from core.base.errors import UserError
from core.engines import gpus, process
from core.engines.dialects.sglang import DIALECT as SGLANG
from core.engines.dialects.vllm import DIALECT as VLLM
from core.engines.need import MOST_RUNNING, Need, ServerSize, server_size
from core.engines.on_gpu import OnGpu
from core.engines.protocol import Server
from core.engines.shape import QED_NANO
from core.engines.wanted import Hosting
from core.engines.weights import Model
from core.rsa import RSA
from core.server import set_up, start_on_gpu
from harness.scaffolds.best_of import BEST_OF
from harness.scaffolds.majority import MAJORITY
from harness.scaffolds.refinement import REFINEMENT
from harness.session.session import need_of
from tests.helpers.machine import QED_NANO_CONFIG, stand_in

GIB = 2**30


def chosen(gpu: str, need: Need = Need(), kv: str = "auto") -> ServerSize:  # noqa: B008 - frozen
    return server_size(QED_NANO, 262144, gpus.named(gpu), need, kv)


def test_the_settings_of_a_4090_by_hand() -> None:
    """CUDA takes 512 MiB of 24,564 MiB, and 2.5 GiB and 4% stay free. 4,022,468,096 parameters in
    bf16. 36 layers with 8 heads of 128, keys and values of one byte in fp8."""
    free = 24564 * 2**20 - 2**29
    reserved = 2.5 * GIB + 0.04 * 24564 * 2**20
    fraction = 1 - reserved / free
    room = free * round(fraction, 3) - 2 * 4_022_468_096
    size = chosen("4090")
    assert (size.kv, size.fraction) == ("fp8", 0.853)
    assert size.tokens == int(room // (2 * 36 * 8 * 128)) == pytest.approx(182_600, rel=0.01)
    assert size.context == 2048 + 4 * 16384 + 512 == 68_096
    assert size.running == int(size.tokens // (16384 / 3)) == 33
    assert chosen("4090", kv="bf16").tokens == size.tokens // 2
    assert chosen("H100", kv="bf16").tokens == pytest.approx(481_000, rel=0.01)


def test_old_cards_keep_bf16_and_small_needs_are_bounded() -> None:
    assert chosen("3090").kv == "bf16"
    with pytest.raises(UserError, match="RTX 3090.*KV=bf16"):
        chosen("3090", kv="fp8")
    assert chosen("4090", Need(3, 300, 16)).running == MOST_RUNNING
    with pytest.raises(UserError, match="202,560.*MAX_TOKENS"):
        chosen("4090", Need(3, 200_000, 512))
    with pytest.raises(UserError, match="KV=fp8"):
        chosen("4090", Need(3, 150_000, 512), kv="bf16")


def test_a_gpu_that_the_table_lacks_serves_by_its_memory(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", stand_in(tmp_path, nvidia_smi="echo 'NVIDIA RTX A6000, 49140'"))
    gpu = gpus.here()
    assert gpu.memory == 49140 * 2**20
    size = server_size(QED_NANO, 262144, gpu, Need())
    assert (size.kv, size.fraction) == ("bf16", 0.907) and size.tokens > chosen(
        "4090", kv="bf16"
    ).tokens


def test_a_context_is_never_longer_than_the_model_or_the_cache() -> None:
    assert server_size(QED_NANO, 32768, gpus.named("4090"), Need()).context == 32768
    long = chosen("4090", Need(8, 81920, 512))
    assert long.context == long.tokens < Need(8, 81920, 512).context


def test_a_need_comes_from_constants_or_from_the_command_line() -> None:
    sizes: dict[str, Any] = {"MAX_TOKENS": 1000, "ANSWER_TOKENS": 0}
    assert need_of(RSA, RSA.constants(N=8, K=4, **sizes)) == Need(4, 1000, 0)
    assert need_of(MAJORITY, MAJORITY.constants(**sizes)) == Need(0, 1000, 0)
    assert need_of(REFINEMENT, REFINEMENT.constants(**sizes)) == Need(1, 1000, 0), (
        "one that carries shows one"
    )
    assert need_of(BEST_OF, BEST_OF.constants(**sizes)) == Need(1, 1000, 0), (
        "so does one that verifies"
    )
    assert Need.read(["K=4", "--dp-size", "2", "MAX_TOKENS=99"]) == (
        Need(4, 99),
        ["--dp-size", "2"],
    )
    with pytest.raises(UserError, match="N.*K, MAX_TOKENS"):
        Need.read(["N=4"])
    with pytest.raises(UserError, match="K=none"):
        Need.read(["K=none"])


def a_model(folder: Path) -> Model:
    return Model(folder, "m", QED_NANO, 262144)


@pytest.mark.parametrize("engine", [SGLANG, VLLM])
def test_a_key_is_on_no_command_line(engine: OnGpu, tmp_path: Path) -> None:
    key = 'sk-"quoted\\key'
    hidden, environment = engine.secrets(key, tmp_path)
    assert key not in " ".join(hidden)
    if engine is VLLM:
        assert environment == {"VLLM_API_KEY": key}
    else:
        file = tmp_path / "key.yaml"
        assert hidden == ["--config", str(file)] and not environment
        assert os.stat(file).st_mode & 0o777 == 0o600
        # YAML's double quotes are JSON's
        assert json.loads(file.read_text().removeprefix("api-key: ")) == key
    assert engine.secrets("", tmp_path / "none") == ([], {})


def test_flags_of_both_engines_follow_the_settings(tmp_path: Path, monkeypatch: Any) -> None:
    size = chosen("4090")
    sglang = SGLANG.arguments(a_model(tmp_path), size, Hosting())
    vllm = VLLM.arguments(a_model(tmp_path), size, Hosting())
    for args, names in (
        (
            sglang,
            {
                "--context-length": "68096",
                "--mem-fraction-static": "0.853",
                "--max-running-requests": "33",
            },
        ),
        (sglang, {"--sampling-defaults": "openai"}),
        (vllm, {"--max-model-len": "68096", "--kv-cache-dtype": "fp8", "--max-num-seqs": "33"}),
        (vllm, {"--generation-config": "vllm"}),
    ):
        assert {name: args[args.index(name) + 1] for name in names} == names
        assert args[args.index("--host") + 1] == "127.0.0.1"
        assert not any("trust" in arg for arg in args)
    bf16 = SGLANG.arguments(a_model(tmp_path), chosen("3090"), Hosting())
    assert bf16[bf16.index("--kv-cache-dtype") + 1] == "auto"
    fixed = SGLANG.arguments(a_model(tmp_path), size, Hosting(DETERMINISTIC=1))
    added = ["--enable-deterministic-inference", "--attention-backend", "triton"]
    assert [flag for flag in fixed if flag not in sglang] == added


def test_a_tiny_model_on_a_large_gpu_gets_no_more_tokens_than_sglang_can_list(
    tmp_path: Path,
) -> None:
    tiny = structs.replace(
        QED_NANO, layers=2, hidden=64, heads=2, kv_heads=1, head_dim=32, intermediate=128, vocab=100
    )
    for shape, is_capped in ((tiny, True), (QED_NANO, False)):
        size = server_size(shape, 2048, gpus.named("h100"), Need(0, 300, 24))
        args = SGLANG.arguments(a_model(tmp_path), size, Hosting())
        assert ("--max-total-tokens" in args) is is_capped


def test_no_more_is_in_flight_than_a_server_of_ours_decodes_together(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """The limit is not reported by vLLM. With added flags it may decode more."""
    monkeypatch.setattr(Model, "at", lambda *_: a_model(tmp_path))
    running = SimpleNamespace(
        wait_until=lambda *_: Server("vllm", "u", "m", "x", limit=258), failure=None
    )
    monkeypatch.setattr(process, "running", lambda *_: nullcontext(running))
    monkeypatch.setattr(gpus, "here", lambda: gpus.named("4090"))
    monkeypatch.setattr(gpus, "count", lambda: 1)
    for extra, limit in (((), 35), (("--max-num-seqs", "500"), 258)):
        with start_on_gpu(VLLM, Need(), extra=extra) as server:
            assert server.limit == limit


def test_a_users_build_of_vllm_for_cpus_serves_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "count", lambda: 0)
    monkeypatch.setattr(Model, "at", lambda *_: a_model(tmp_path))
    monkeypatch.setenv("ENGINE", "vllm")
    with pytest.raises(UserError, match="ENGINE.*VLLM_PYTHON"):
        set_up(VLLM)
    recorder = 'echo "$@" >"$FLAGS"; exit 3'
    stand_in(tmp_path / "bin", vllm_python=recorder)
    monkeypatch.setenv("VLLM_PYTHON", str(tmp_path / "bin" / "vllm-python"))
    monkeypatch.setenv("FLAGS", str(tmp_path / "flags"))
    set_up(VLLM)
    need = Need(max_tokens=300)
    with pytest.raises(UserError, match="vLLM"), start_on_gpu(VLLM, need, log=tmp_path / "log"):
        pass
    flags = (tmp_path / "flags").read_text()
    assert "--kv-cache-dtype auto" in flags and " ".join(VLLM.cpu_flags) in flags
    monkeypatch.setenv("ENGINE", "sglang")
    monkeypatch.setenv("SGLANG_PYTHON", str(tmp_path / "bin" / "vllm-python"))
    with pytest.raises(UserError, match="NVIDIA"):
        set_up(SGLANG)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=str(tmp_path)):
        Model.at(str(tmp_path))


def test_gpus_used_together_hold_a_larger_model(tmp_path: Path) -> None:
    shape = a_model(tmp_path).shape
    gpu = gpus.named("4090")
    on_one = server_size(shape, 10**6, gpu, Need(), "bf16", gpus=1)
    on_two = server_size(shape, 10**6, gpu, Need(), "bf16", gpus=2)
    assert on_two.tokens > 2 * on_one.tokens and on_two.gpus == 2  # the weights are split too
    for engine, flag in ((SGLANG, "--tp-size"), (VLLM, "--tensor-parallel-size")):
        args = engine.arguments(a_model(tmp_path), on_two, Hosting())
        assert args[args.index(flag) + 1] == "2"
        assert flag not in engine.arguments(a_model(tmp_path), on_one, Hosting())


def test_a_users_own_model_is_served_under_a_name_that_identifies_its_weights(
    tmp_path: Path,
) -> None:
    config = {
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "intermediate_size": 128,
    }
    (tmp_path / "config.json").write_text(
        json.dumps(config | {"vocab_size": 100, "max_position_embeddings": 4096})
    )
    (tmp_path / "model.safetensors").write_bytes(b"one")
    first = Model.at(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"two")
    second = Model.at(str(tmp_path))
    assert (
        first.name.partition("@")[0] == second.name.partition("@")[0] == tmp_path.name
        and first.name != second.name
    )
    assert first.longest == 4096


@pytest.mark.parametrize(
    ("template", "thinks"),
    [
        ("{{ messages }}<think>", True),
        ("{% if enable_thinking %}{% endif %}{{ messages }}", True),
        ("{{ messages }}", False),
        (None, False),
    ],
)
def test_thinking_is_separated_if_the_template_mentions_it(
    template: str | None, thinks: bool, tmp_path: Path
) -> None:
    """SGLang's parser takes all text before a closing tag for thinking."""
    (tmp_path / "config.json").write_text(json.dumps(QED_NANO_CONFIG))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    model = Model.at(str(tmp_path))
    for engine in (SGLANG, VLLM):
        args = engine.arguments(model, chosen("4090"), Hosting())
        assert ("--reasoning-parser" in args) is thinks
