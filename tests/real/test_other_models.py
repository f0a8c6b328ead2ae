"""Test experiments on real GGUF files of several architectures, as a user runs them.

Only `bash scripts/test.sh models` runs these tests, for each of these files that WEIGHTS_DIR
contains. They check that the model is served and all replies are recorded."""

import os
from pathlib import Path

import pytest

from tests.conftest import python
from tests.helpers.runs import load

pytestmark = pytest.mark.models

# models of the hub, with the value of CHAT_TEMPLATE
MODELS = {
    "google/gemma-3-270m-GGUF/gemma-3-270m-q4_k_m.gguf": "gemma",  # a base model without a template
    "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf": "",
    "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf": "",
}
SMALL = ("LIMIT=2", "N=2", "MAX_TOKENS=48")
RUNS = {
    "01_baseline": (*SMALL, "TEMPERATURE=0"),
    "02_rsa_basic": (*SMALL, "K=2", "T=1"),
}


@pytest.mark.parametrize("experiment", RUNS)
@pytest.mark.parametrize("model", MODELS)
def test_a_real_model_is_served(model: str, experiment: str, tmp_path: Path) -> None:
    repo, _, file = model.rpartition("/")
    weights_dir = os.environ.get("WEIGHTS_DIR", "")
    path = Path(weights_dir) / repo.replace("/", "--") / file
    if not (weights_dir and path.is_file()):
        pytest.skip(f"WEIGHTS_DIR has no {file}")
    process = python(
        f"experiments/{experiment}.py",
        *RUNS[experiment],
        MODEL=model,
        CHAT_TEMPLATE=MODELS[model],
        WEIGHTS_DIR=weights_dir,
        PROBLEMS="words",
        RESULTS_DIR=str(tmp_path),
    )
    out, err = process.communicate()
    assert process.returncode == 0, err
    document = load(tmp_path, experiment)
    assert document["complete"]
    assert document["model"]["name"].startswith(f"{path.stem}@")
    steps = document["metrics"]["steps"]
    assert all(step["completion_tokens"] and not step["failed"] for step in steps), out
