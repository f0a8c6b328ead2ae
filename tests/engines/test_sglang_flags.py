"""Our SGLang command lines, parsed by the argument parser of the pinned release (fetched from PyPI, about a minute):

SGLANG_FLAGS=1 bash scripts/test.sh tests/engines/test_sglang_flags.py
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from core.engines import gpus
from core.engines.dialects.sglang import DIALECT as SGLANG
from core.engines.need import Need, settings
from core.engines.shape import QED_NANO
from core.engines.weights import Model
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(not os.environ.get("SGLANG_FLAGS"), reason="opt-in: SGLANG_FLAGS=1 (fetches SGLang)")
LIGHT = ("msgspec", "typing_extensions", "pydantic", "numpy", "packaging", "orjson", "psutil", "pyyaml")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with the wheel of requirements-sglang.txt and the small packages that its parser needs."""
    pinned = re.search(r"^sglang==\S+", (ROOT / "requirements-sglang.txt").read_text(), re.MULTILINE)
    assert pinned
    venv = tmp_path_factory.mktemp("sglang")
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", pinned[0]], check=True)
    subprocess.run([*pip, *LIGHT], check=True)
    return str(venv / "bin" / "python")


def parsed(python: str, *commands: list[str]) -> "subprocess.CompletedProcess[str]":
    script = str(ROOT / "tests" / "sglang_parser.py")
    return subprocess.run([python, script], input=json.dumps(commands), capture_output=True, text=True, check=False)


def made_flags(
    gpu: str,
    kv: str = "",
    need: Need = Need(),  # noqa: B008 - frozen
    extra: tuple[str, ...] = (),
    deterministic: bool = False,
) -> list[str]:
    model = Model(Path("/weights/QED-Nano"), "lm-provers/QED-Nano", QED_NANO, 262144)
    chosen = settings(QED_NANO, 262144, gpus.named(gpu), need, kv, deterministic)
    module = ["-m", "sglang.launch_server"]
    made = SGLANG.arguments(model, chosen, "127.0.0.1", 30000)
    assert made[:2] == module
    return [*made[2:], *extra]


def test_the_pinned_release_understands_every_command_line(python: str) -> None:
    cards = [made_flags(gpu) for gpu in gpus.GPUS]
    others = [
        made_flags("4090", deterministic=True),
        made_flags("4090", "bf16"),
        made_flags("H200", need=Need(8, 81920, 512), extra=("--dp-size", "2")),
    ]
    done = parsed(python, *cards, *others)
    assert done.returncode == 0, done.stderr[-2000:]
    read = dict(zip(gpus.GPUS, json.loads(done.stdout), strict=False))
    mine = read["RTX 4090"]
    fixed = json.loads(done.stdout)[len(cards)]
    assert fixed["enable_deterministic_inference"] and fixed["attention_backend"] == "triton"
    expected = {
        "model_path": "/weights/QED-Nano",
        "served_model_name": "lm-provers/QED-Nano",
        "host": "127.0.0.1",
        "port": 30000,
        "context_length": 68096,
        "kv_cache_dtype": "fp8_e5m2",
        "mem_fraction_static": 0.853,
        "max_running_requests": 33,
        "cuda_graph_max_bs_decode": 33,
        "schedule_conservativeness": 0.5,
        "stream_interval": 32,
        "reasoning_parser": "qwen3",
        "enable_cache_report": True,
        "enable_metrics": True,
        "trust_remote_code": False,
        "deprecated": "",
    }
    assert {name: mine.get(name) for name in expected} == expected
    assert read["RTX 3090"]["kv_cache_dtype"] == "auto"
    assert json.loads(done.stdout)[-1]["dp_size"] == 2


@pytest.mark.parametrize("wrong", [["--kv-cache-dtype", "fp9"], ["--no-such-flag"], ["--reasoning-parser", "qwen99"]])
def test_the_parser_that_judges_is_real(python: str, wrong: list[str]) -> None:
    done = parsed(python, [*made_flags("4090"), *wrong])
    assert done.returncode == 2
    assert "invalid choice" in done.stderr or "unrecognized arguments" in done.stderr
