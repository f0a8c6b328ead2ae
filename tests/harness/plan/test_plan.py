"""Plans of real settings, prices and sweeps, and bad input."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.protocol import Server
from core.rsa import BASELINE
from harness.plan import plan as cli
from harness.plan.estimate import hours
from harness.plan.lengths import ASSUMED
from harness.plan.work import loads_of
from tests.harness.plan.helpers import gpu_file, line, planned, rsa
from tests.helpers.machine import QED_NANO_CONFIG

GGUF = str(EMBEDDED_GGUF)
OPENAI = "02_rsa_basic with gpt-5-mini (card openai), 30 problems (aime_2025): "
NO_SPEED = "not planned: no earlier results"


@pytest.mark.parametrize(
    ("settings", "args", "words"),
    [
        (
            {},
            [],
            [
                "with QED-Nano on one RTX 4090, 30 problems (aime_2025)",
                "this machine has no NVIDIA GPU",
            ],
        ),
        (
            {"MODEL": "mine"},
            ["--gpu", "H100"],
            ["with mine@e3b0c44298fc on one H100", "2.21 B", "at most 4,096"],
        ),
        (
            {"MODEL": "mine", "ENGINE": "vllm"},
            [],
            ["with mine@e3b0c44298fc on one RTX 4090", "vLLM honours seeds"],
        ),
        (
            {"MODEL": GGUF},
            [],
            ["with model.gguf on this machine", "contexts of 2,048", "cap: 2,048", NO_SPEED],
        ),
        (
            {"MODEL": GGUF, "ENGINE": "llamacpp"},
            ["PROBLEMS=sums"],
            ["20 problems (sums)", "3 MB, 3 layers", NO_SPEED],
        ),
        ({"MODEL": "openai"}, [], [OPENAI, "time         not planned"]),
        (
            {"MODEL": "qed-nano-vllm", "KV": "bf16"},
            [],
            ["with QED-Nano on one RTX 4090", "tokens in bf16"],
        ),
    ],
)
def test_the_model_that_a_run_would_take_is_planned(
    settings: dict[str, str], args: list[str], words: list[str], no_gpu: None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, printed: Callable[..., str],
) -> None:  # fmt: skip
    (tmp_path / "mine").mkdir()
    config = QED_NANO_CONFIG | {"num_hidden_layers": 18, "max_position_embeddings": 4096}
    (tmp_path / "mine" / "config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    out = printed("02_rsa_basic", *args)
    assert not [each for each in words if each not in out], out
    assert ("QED-Nano" in out) == ("QED-Nano" in words[0])


def test_the_model_of_a_running_server_is_planned_without_its_speed(
    engine: Server, monkeypatch: pytest.MonkeyPatch, printed: Callable[..., str]
) -> None:
    monkeypatch.setenv("BASE_URL", engine.base_url)
    out = printed("02_rsa_basic")
    assert (
        f"with {engine.model} at {engine.base_url}, 20 problems (sums)" in out and "GPU" not in out
    )
    assert line(out, "time").startswith("not planned")


@pytest.mark.parametrize(
    ("settings", "args", "words"),
    [
        ({}, ["99_nothing"], "'99_nothing'"),
        ({}, ["--price", "much"], "'much'"),
        ({}, ["--gpu", "Voodoo 2"], "'Voodoo 2'"),
        ({}, ["--gpu-file", "nowhere.json"], "nowhere.json"),
        ({}, ["--gpu", "4090", "--gpu-file", "x.json"], "--gpu-file"),
        ({"MODEL": "opneai"}, [], "MODEL=opneai"),
        ({"MODEL": "missing.gguf"}, [], "missing.gguf"),
        ({"MODEL": GGUF, "ENGINE": "sglang"}, [], "MODEL="),
        ({"MODEL": GGUF}, ["--gpu", "H100"], "--gpu"),
        ({"ENGINE": "llamacpp"}, [], "ENGINE=llamacpp"),
        ({"ENGINE": "embedded"}, [], "ENGINE"),
        ({"MODEL": "openai"}, ["--gpu", "H100"], "--gpu"),
        ({"BASE_URL": "http://127.0.0.1:9"}, [], "http://127.0.0.1:9"),
    ],
)
def test_a_wrong_argument_or_setting_is_one_line_and_status_2(
    settings: dict[str, str], args: list[str], words: str, no_gpu: None, results: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        cli.main([*(["02_rsa_basic"] if args != ["99_nothing"] else []), *args])
    out, err = capsys.readouterr()
    assert ended.value.code == 2 and not out
    assert err.startswith("error: ") and err.count("\n") == 1 and words in err


def test_a_model_that_does_not_fit_is_refused_and_long_requests_are_noted(
    tmp_path: Path, printed: Callable[..., str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        printed("02_rsa_basic", "--gpu-file", str(gpu_file(tmp_path, memory_gib=8)))
    out = printed(
        "02_rsa_basic", "CARRY=full", "--gpu-file", str(gpu_file(tmp_path, memory_gib=12))
    )
    assert "but the server takes at most" in out


def test_a_priced_card_is_planned_in_dollars_by_hand(
    printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    plain = 'base_url = "https://api.example.com/v1"\nmodel = "m"\ncontinues = false\n'
    path.write_text(plain + '[price]\nread = 1\ncached = 0.1\nwritten = 10\non = "2026-11-23"\n')
    monkeypatch.setenv("MODEL", str(path))
    out = printed("01_baseline", "PROBLEMS=aime_2025", "N=8")
    config = rsa("ANSWER_TOKENS=0", "N=8", name="01_baseline")
    (load,) = loads_of(config, 30, ASSUMED, BASELINE)
    expected, most = (load.prompts + 10 * load.tokens) / 1e6, 240 * (200 + 10 * 16384) / 1e6
    assert f"${expected:,.2f} expected, ${most:,.2f} at most, at prices of 2026-11-23" in out
    assert "GPU" not in out
    path.write_text(plain)
    assert "the card mine has no table [price]" in printed("01_baseline", "PROBLEMS=aime_2025")


def test_a_sweep_is_planned_as_the_runs_that_send_requests(
    printed: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("PROBLEMS=aime_2025", "--gpu", "H100", "--price", "2")
    out = printed("02_rsa_basic", "N=2,8", "K=2,4", "T=1,2", *words)
    assert f"{30 * (2 + 8 + 8) * 3:,}." in out and "6, 3 of them from the first steps" in out
    assert "K=4 is larger than N=2" in out
    each = [
        planned("H100", "fp8", f"N={n}", f"K={k}", "T=2").seconds
        for n, k in ((2, 2), (8, 2), (8, 4))
    ]
    assert hours([sum(ends) for ends in zip(*each, strict=True)]) in out
    many = ",".join(map(str, range(8, 1025)))
    with pytest.raises(SystemExit, match="2"):
        printed("02_rsa_basic", f"N={many}", "K=1,2,3,4,5", "T=1,2", *words)
    err = capsys.readouterr().err
    assert "10,170 combinations" in err and "hours" in err and err.count("\n") == 1
