"""Plans of models that are no dense transformers in bf16, and of several GPUs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from core.engines import weights
from harness.plan.lengths import FEWEST
from tests.conftest import ROOT
from tests.harness.plan.helpers import line
from tests.helpers import documents

CONFIGS = json.loads((ROOT / "tests" / "cases" / "configs.json").read_text())
GB = 10**9
NO_HOURS = "not planned: no formula holds for"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], str]:
    """Return a function that makes MODEL a folder with a public config.json and so many bytes of
    weights, and returns the model's name."""
    monkeypatch.setattr(weights, "sha256", lambda _: "0" * 64)

    def make(name: str, stored: int) -> str:
        folder = tmp_path / "mine"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(CONFIGS[name]))
        with (folder / "model.safetensors").open("wb") as file:
            file.truncate(stored)
        monkeypatch.setenv("MODEL", str(folder))
        return f"mine@{'0' * 12}"

    return make


def test_a_mixture_of_experts_is_planned_by_its_active_parameters(
    model: Callable[[str, int], str], printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model("Qwen/Qwen3-30B-A3B", 61 * GB)
    out = printed("02_rsa_basic", "--gpu", "2xH100", "--price", "5")
    assert " on 2 x H100, 30 problems" in out and "communication" in out
    assert "30.53 B parameters (3.04 B for each token), 61.0 GB" in line(out, "model")
    monkeypatch.setenv("TP", "2")
    for gpu in ("H100", "2xH100"):
        same = printed("02_rsa_basic", "--gpu", gpu)
        assert line(same, "time") == line(out, "time")
    with pytest.raises(SystemExit, match="2"):
        printed("02_rsa_basic", "--gpu", "8xH100")


def test_quantized_weights_have_the_bytes_of_their_files(
    model: Callable[[str, int], str], printed: Callable[..., str]
) -> None:
    model("Qwen/Qwen3-32B-AWQ", 19 * GB)
    out = printed("02_rsa_basic", "--gpu", "H100")
    assert "32.76 B parameters, 19.0 GB" in line(out, "model")
    assert "tokens in bf16" in line(out, "KV cache"), "as for a server that is started"
    model("Qwen/Qwen3-32B-AWQ", 0)  # bytes are unknown
    assert line(printed("02_rsa_basic"), "time").startswith(NO_HOURS)


def test_hours_that_no_formula_gives_follow_from_an_earlier_run_on_the_engine(
    model: Callable[[str, int], str],
    results: Path,
    printed: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = model("openai/gpt-oss-20b", 14 * GB)
    out = printed("02_rsa_basic")
    assert line(out, "time").startswith(NO_HOURS) and line(out, "model").endswith("14.0 GB")
    assert "1,440" in line(out, "completions") and line(out, "output")
    members = [documents.member(100)] * FEWEST
    document = documents.document(
        [documents.problem("p", [documents.step(0, members)])],
        model={"name": name},
        engine={"kind": "sglang"},
    )
    (results / "x.json").write_text(json.dumps(document))
    assert "at the measured speed" in line(printed("02_rsa_basic", "--price", "5"), "time")
    assert line(printed("02_rsa_basic", "--price", "5"), "cost").endswith("at 5 an hour")
    monkeypatch.setenv("ENGINE", "vllm")
    assert line(printed("02_rsa_basic"), "time").startswith(NO_HOURS)


def test_a_sweep_of_a_model_without_a_formula_has_tokens_but_no_hours(
    model: Callable[[str, int], str], printed: Callable[..., str]
) -> None:
    model("google/gemma-3-4b-it", 9 * GB)
    out = printed("02_rsa_basic", "N=4,8")
    assert line(out, "output") and line(out, "time").startswith(NO_HOURS)


def test_weights_that_no_number_of_these_gpus_holds_are_refused(
    model: Callable[[str, int], str],
    printed: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    model("deepseek-ai/DeepSeek-V3", 689 * GB)
    with pytest.raises(SystemExit, match="2"):
        printed("02_rsa_basic", "--gpu", "8xH100")
    error = capsys.readouterr().err
    assert "8 x H100" in error and error.count("\n") == 1
    assert line(printed("02_rsa_basic", "--gpu", "8xH200"), "time").startswith(NO_HOURS)
