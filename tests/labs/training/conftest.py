"""Models that trl and peft trained, and answers by transformers, for several files of tests: one
process for all."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from core.engines.dialects import llamacpp
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from labs.training import to_hf
from tests.conftest import ROOT, environment
from tests.helpers.once import once
from tests.labs.training import helpers as training
from tests.labs.training.models import ROWS, llamas, random_models


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the comparison with trl, peft and transformers (half a minute) to the long suite."""
    for item in items:
        if "trained" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.faults)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of llama.cpp spin as they wait for each other: on a busy machine a reply takes ten
    times as long."""
    monkeypatch.setattr(llamacpp, "physical_cores", lambda: 1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model in Hugging Face's layout, to read."""
    out = tmp_path_factory.mktemp("hf") / "tiny-qwen3-thinking"
    to_hf.convert(EMBEDDED_GGUF, out)
    return out


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders sft (the embedded model), llama, and random (not trained), stdout.txt and
    answers.json."""

    def make(folder: Path) -> None:
        sft, rows = folder / "sft", folder / "rows.jsonl"
        to_hf.convert(EMBEDDED_GGUF, folder / "hf")
        # the commit of the weights that were fetched
        (folder / "hf" / "FETCHED.json").write_text("{}")
        training.write(folder / "48.jsonl", training.rows(48))
        training.write(folder / "16.jsonl", training.rows(16, seed=6))
        training.write(rows, ROWS)
        sft.mkdir()
        llamas(folder / "llama")
        random_models(folder / "random")
        base = f"--model {folder}/hf --rate 1e-2"
        few = f"{base} --data {folder}/16.jsonl --epochs 1"
        on = f"{few} --lora-rank 4 --adapter {sft}/lora/adapter"
        rest = f"--data {rows} --rate 1e-2 --epochs 68"
        commands = (
            f"{base} --data {folder}/48.jsonl --epochs 1.25 --lora-rank 4 --out {sft}/lora",
            f"{on} --out {sft}/on",
            f"{on} --out {sft}/again",
            f"{few} --lora-rank 0 --tokens 1000 --out {sft}/all",
            f"--model {folder}/llama/mha --out {folder}/llama/lora --lora-rank 16 {rest}",
            f"--model {folder}/llama/gqa --out {folder}/llama/all --lora-rank 0 {rest}",
        )
        args = [str(training.PYTHON), "-m", "tests.labs.training.by_torch", str(folder), *commands]
        env = environment(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", OMP_NUM_THREADS="1")
        done = subprocess.run(args, env=env, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stderr
        (folder / "stdout.txt").write_text(done.stdout)

    return once(tmp_path_factory, "trained", make)


@pytest.fixture(scope="session")
def answers(trained: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((trained / "answers.json").read_text())
    return found
