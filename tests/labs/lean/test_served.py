"""Test the servers that propose and embed with a policy, on stand-ins of GPUs, and the variables of
BurnQED."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core import constants
from core.base.errors import UserError
from core.engines import attach, environment, gpus, weights
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.dialects.sglang import DIALECT as SGL
from core.engines.need import Need, server_size
from core.engines.protocol import Server
from core.engines.shape import QED_NANO, RUNTIME_BYTES, Shape
from core.engines.wanted import Hosting
from core.engines.weights import Model
from labs.lean import burnqed, served
from labs.lean.constants import (
    AblationConstants,
    ControlledConstants,
    IterationConstants,
    LeanConstants,
)
from labs.training import served as training_served
from labs.training.embeddings import Embedder, Vectors
from labs.training.served import Weights, embedding
from labs.training.to_hf import convert
from tests.helpers.machine import GPU, stand_in
from tests.labs.lean.embedding import asked
from tests.labs.training import sglang

GIB = 2**30
MODEL = Model(Path("/weights/policy"), "policy@0123456789ab", QED_NANO, 262144)
CONFIG = LeanConstants(MAX_TOKENS=128)
# as Qwen3-8B's config.json has it
PROVER_8B = Shape(36, 4096, 32, 8, 128, 12288, 151936, tied=False)
# as DeepSeek-Prover-V2-7B's config.json has it
PROVER_7B = Shape(30, 4096, 32, 32, 128, 11008, 102400, tied=False)
# Says with what it was started, and is a stand-in then.
SGLANG = f"""[ "$1" = -c ] || echo "$CUDA_VISIBLE_DEVICES $*" >>"$STARTS"
{sglang.STARTED}"""


def test_one_server_of_a_7b_policy_proposes_and_embeds_on_a_4090_by_hand() -> None:
    """6.91e9 parameters in bf16, and 30 layers of keys and values of all 32 heads in bf16: 480 KiB
    for a token."""
    gpu = gpus.named("4090")
    chosen = server_size(PROVER_7B, 65536, gpu, Need(0, 256, 0, embeds=True))
    room = gpu.memory - RUNTIME_BYTES - (2.5 * GIB + 0.04 * gpu.memory) - 2 * 6_910_375_680
    assert (
        chosen.tokens == pytest.approx(room / (480 * 1024), rel=0.01)
        and 6 * 2304 < chosen.tokens < 7 * 2304
    )
    assert (chosen.kv, chosen.context) == ("bf16", 2304)
    assert _of(SGL.arguments(MODEL, chosen, Hosting()), "--return-hidden-states-mode") == "last"
    assert server_size(
        PROVER_7B, 65536, gpu, Need(0, 256, 0, embeds=True), kv="fp8"
    ).tokens == pytest.approx(2 * chosen.tokens, abs=1)


def _of(args: list[str], flag: str) -> str:
    return args[args.index(flag) + 1]


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Weights]:
    """Return the embedded model as a folder, on a machine with stand-ins of a GPU and of SGLang."""
    convert(EMBEDDED_GGUF, tmp_path / "policy")
    small = GPU.replace("24564", "3700")  # MiB
    monkeypatch.setenv("PATH", stand_in(tmp_path / "bin", nvidia_smi=small, sglang_python=SGLANG))
    monkeypatch.setenv("SGLANG_PYTHON", str(tmp_path / "bin" / "sglang-python"))
    monkeypatch.setenv("STARTS", str(tmp_path / "starts"))
    monkeypatch.setenv("MODEL", str(tmp_path / "policy"))
    # not the port of other programs of tests, which would attach to it
    monkeypatch.setenv("PORT", "29870")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("BASE_URL", raising=False)
    gpus.count.cache_clear()
    yield Weights(tmp_path / "policy")
    gpus.count.cache_clear()


def test_one_server_on_a_small_gpu_proposes_and_embeds(policy: Weights, tmp_path: Path) -> None:
    texts = ["⊢ p → p", "h : p\n⊢ q", "x " * 6000]

    def embedded(server: Server) -> tuple[str, np.ndarray]:
        async def both(embedder: Embedder) -> tuple[str, Vectors]:
            vectors = await embedder(texts)
            assert texts[2] in embedder.cut and not {*texts[:2]} & embedder.cut
            return embedder.model, vectors

        return asked(server, both)

    served.check_embeds(policy, CONFIG)
    with served.serving(policy, CONFIG, tmp_path) as (server, embeds):
        assert embeds is server and server.base_url == "http://127.0.0.1:29870/v1"
        model, on_gpu = embedded(embeds)
    digest = weights.sha256(policy.path)[:12]
    assert (server.model, model) == (f"policy@{digest}", f"policy-last@{digest}")
    with embedding(Weights(EMBEDDED_GGUF), tmp_path) as other:
        assert np.allclose(on_gpu, embedded(other)[1], atol=0.05)
    assert attach.probe(server.base_url, "x") is None, "it is gone"
    (started,) = (tmp_path / "starts").read_text().splitlines()
    assert "--return-hidden-states-mode last" in started and (tmp_path / "sglang.log").exists()


def test_vllm_is_refused_if_it_must_embed(policy: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not served.need(policy, CONFIG).embeds
    monkeypatch.setenv("ENGINE", "vllm")
    with pytest.raises(UserError, match="ENGINE=sglang"):
        served.check_embeds(policy, CONFIG)


def test_two_gpus_fit_a_policy_that_one_does_not(
    policy: Weights, tmp_path: Path, monkeypatch: Any
) -> None:
    gpu = GPU.replace("24564", "15360")
    monkeypatch.setenv("PATH", stand_in(tmp_path / "two", nvidia_smi=f"{gpu}; {gpu}"))
    monkeypatch.setattr(Model, "at", lambda named: replace(MODEL, shape=PROVER_7B))
    with pytest.raises(UserError, match="TP=2"):
        served.check_embeds(policy, CONFIG)
    monkeypatch.setenv("TP", "2")
    served.check_embeds(policy, CONFIG)


def test_a_policy_that_no_gpu_serves_is_embedded_on_the_cpu(
    policy: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gguf = Weights(EMBEDDED_GGUF)
    assert served.need(gguf, CONFIG, embeds=True) == served.need(gguf, CONFIG)
    for module in (served, training_served):
        monkeypatch.setattr(module, "is_on_gpu", lambda policy: False)
    for built in (gguf, policy):
        with embedding(built, tmp_path) as embeds:
            assert embeds.kind == "llama.cpp"
            assert asked(embeds, lambda embedder: embedder(["⊢ p"])).shape == (1, 128)
    assert not (tmp_path / "starts").exists()


# The variables of BurnQED

# the constants of an experiment
FILE = {"MAX_NODES": 30, "CANDIDATES": 8, "NUM_WORKERS": 2, "THEOREMS": "auto"}
ALL = (*burnqed.CONSTANTS, *burnqed.SETTINGS, "MODEL", "ENGINE", "BASE_URL")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ALL:
        monkeypatch.delenv(name, raising=False)


def test_a_variable_sets_the_constant_that_the_experiment_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {
        "MAX_ITER": "3",
        "EBM_STEPS": "70",
        "EBM_RESUME": "auto",
        "THEOREM_INDEX": "index.json",
        "NUM_WORKERS": "9",
        "EVAL_MAX_THEOREMS": "5",
        "MAX_THEOREMS": "6",
        "SKIP_BASELINE": "1",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = constants.read(IterationConstants, FILE)
    expected = {
        "MAX_ITERATION": 3,
        "STEPS": 70,
        "ENERGY_START": "auto",
        "TRAIN_THEOREMS": "index.json",
        "NUM_WORKERS": 9,
        "EVAL_THEOREMS": 5,
        "MAX_THEOREMS": 6,
        "SKIP_BASELINE": 1,
    }
    assert {name: getattr(found, name) for name in expected} == expected
    assert (found.MAX_NODES, found.CANDIDATES, found.THEOREMS) == (30, 8, "auto"), (
        "the tiny policy keeps the file's"
    )
    baseline = constants.read(ControlledConstants, FILE)
    assert (baseline.THEOREMS, baseline.EVAL_THEOREMS) == ("index.json", 5)
    assert "MAX_ITER=3 sets MAX_ITERATION" in dict(burnqed.rows(found))["environment"]
    shown = dict(burnqed.rows(baseline))["environment"]
    assert "MAX_ITER has no effect" in shown and "MAX_THEOREMS has no effect" in shown


def test_the_command_line_replaces_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_ITER", "3")
    found = constants.read(IterationConstants, FILE, ["MAX_ITERATION=1"])
    assert found.MAX_ITERATION == 1 and burnqed.rows(found) == []
    monkeypatch.setenv("MAX_ITER", "many")
    with pytest.raises(UserError, match="MAX_ITERATION=many"):
        constants.read(IterationConstants, FILE)


def test_a_named_policy_has_the_guides_constants_and_the_tiny_one_has_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for named, expected in ((str(burnqed.POLICY), (30, 8)), ("policy.gguf", (100, 4))):
        monkeypatch.setenv("MODEL", named)
        found = constants.read(ControlledConstants, FILE)
        assert expected == (found.MAX_NODES, found.CANDIDATES)
        assert burnqed.is_named() == (named == "policy.gguf")
        assert (4 if burnqed.is_named() else 2) == constants.read(
            IterationConstants, FILE
        ).MAX_ITERATION
    found = constants.read(ControlledConstants, FILE, ["CANDIDATES=5"])
    assert (found.CANDIDATES, found.BATCH, found.NUM_WORKERS) == (5, 32, 6)
    told = dict(burnqed.rows(found))["constants"]
    assert "MAX_NODES=100" in told and "CANDIDATES" not in told
    monkeypatch.setenv("NUM_WORKERS", "8")
    assert constants.read(ControlledConstants, FILE).NUM_WORKERS == 8


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        (ControlledConstants, "http://localhost:1"),
        (IterationConstants, ""),
        (AblationConstants, ""),
    ],
)
def test_the_guides_model_and_server_are_settings(
    kind: type[ControlledConstants], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_BASE", "owner/policy")
    monkeypatch.setenv("SGLANG_URL", "http://localhost:1")
    with environment.setting(**kind.settings()):
        assert (environment.model(), environment.base_url()) == ("owner/policy", url)
        told = dict(burnqed.rows(constants.read(kind, FILE)))["environment"]
        assert "LLM_BASE=owner/policy sets MODEL" in told and (
            "SGLANG_URL has no effect" in told
        ) == (not url)
    assert not environment.model()
    monkeypatch.setenv("MODEL", "mine")
    with environment.setting(**kind.settings()):
        assert environment.model() == "mine"
