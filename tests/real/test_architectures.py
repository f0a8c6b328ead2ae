"""Serve architectures that no formula describes, with tiny random weights, on vLLM's CPU build."""

import subprocess
from pathlib import Path

import pytest

from core.engines.attach import sized
from core.engines.config_file import Config
from core.engines.need import MOST_RUNNING, Need
from tests.real import tiny_models
from tests.real.conftest import FLAGS, PYTHON, SETTINGS, VENV, launched, run, serving

pytestmark = pytest.mark.engines


@pytest.mark.parametrize(("name", "port"), [("experts", 29857), ("hybrid", 29859)])
def test_the_engine_decides_what_no_formula_describes(
    name: str, port: int, folder: Path, tmp_path: Path
) -> None:
    made = tmp_path / name
    subprocess.run([VENV / "python", tiny_models.__file__, name, folder, made], check=True)
    assert Config.read(made / "config.json").shape is None
    # a hybrid without chunked prefill has no prefix cache
    started = PYTHON.replace(FLAGS, f"{FLAGS} --no-enable-prefix-caching")
    env = launched("vllm", started, made, tmp_path / "bin") | SETTINGS
    with serving(name, port, env, tmp_path) as server:
        flags = (tmp_path / "log").read_text()
        assert "--max-model-len auto" in flags and "--max-num-seqs" not in flags
        assert server.context == tiny_models.CONTEXT and server.kv_tokens > server.context
        assert sized(server, Need(max_tokens=300)).limit == 2 + MOST_RUNNING
        document = run("01_baseline", tmp_path, server, "LIMIT=2", "N=2", "MAX_TOKENS=40")
    assert document["complete"] and document["metrics"]["steps"][0]["failed"] == 0
