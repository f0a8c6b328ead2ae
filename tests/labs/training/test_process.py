"""Training as a process of its own: what it needs is checked before, what it says is passed on, and it ends with us."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from core.base.errors import UserError
from core.engines import gpus
from core.engines.dialects import llamacpp
from core.engines.embedded_model import EMBEDDED_GGUF
from labs.star.constants import StarConstants
from labs.training import process, to_gguf, to_hf
from labs.training.architectures import QWEN3, linear_shapes
from labs.training.starts import Start, lora_names, start, write_base
from tests.conftest import ROOT, environment, heed_signals
from tests.labs.training import helpers as training
from tests.labs.training.models import edit

GIB = 2**30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("check") / "hf"
    to_hf.convert(EMBEDDED_GGUF, out)
    return out


def constants(**changes: Any) -> StarConstants:
    return StarConstants(**{"MAX_TOKENS": 384, **changes})


def check(weights: Path, config: StarConstants, folder: Path, rounds: int, adapter: Path | None = None) -> None:
    """As STaR has it."""
    rank = config.lora_rank(is_gguf=not weights.is_dir())
    process.check(weights, rank, config.MAX_TOKENS, folder, rounds, adapter)


def adapter(path: Path, base: Path, rank: int = 8) -> Path:
    """A LoRA adapter that changes nothing, as peft writes them."""
    import numpy as np

    path.mkdir()
    (path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank}))
    matrices: dict[str, Any] = {}
    for name, (outputs, inputs) in linear_shapes(start(base, rank).shape, QWEN3).items():
        first, second = lora_names(name)
        matrices |= {first: np.zeros((rank, inputs), np.float32), second: np.zeros((outputs, rank), np.float32)}
    save_file(matrices, path / "adapter_model.safetensors")
    write_base(path, base)
    return path


def test_what_can_be_trained_passes(folder: Path, tmp_path: Path) -> None:
    check(EMBEDDED_GGUF, constants(), tmp_path / "not" / "there", 5)
    check(folder, constants(), tmp_path, 5)
    check(folder, constants(LORA_RANK="0"), tmp_path, 5)
    check(folder, constants(LORA_RANK="8"), tmp_path, 5, adapter(tmp_path / "adapter", folder))


def refusal(*args: Any) -> str:
    with pytest.raises(UserError) as raised:
        check(*args)
    return str(raised.value)


def other_base(path: Path) -> None:
    stored = load_file(path / "hf" / "model.safetensors")
    save_file({name: 2 * values for name, values in stored.items()}, path / "hf" / "model.safetensors")


ADAPTERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "another rank": (
        lambda p: edit(p / "adapter" / "adapter_config.json", {"r": 4}),
        "has rank 4, not 8. Give the rank",
    ),
    "no LoRA": (
        lambda p: edit(p / "adapter" / "adapter_config.json", {"peft_type": "IA3"}),
        "is not of a LoRA adapter",
    ),
    "dora": (lambda p: edit(p / "adapter" / "adapter_config.json", {"use_dora": True}), "has use_dora"),
    "pickled": (
        lambda p: (p / "adapter" / "adapter_model.safetensors").rename(p / "adapter" / "adapter_model.bin"),
        "pickled weights are never read",
    ),
    "cut off": (lambda p: os.truncate(p / "adapter" / "adapter_model.safetensors", 20_000), "is cut off"),
    "of another base": (other_base, "is of another base than"),
    "no config": (lambda p: (p / "adapter" / "adapter_config.json").unlink(), "can't be read"),
}


@pytest.mark.parametrize("what", ADAPTERS)
def test_an_adapter_that_does_not_fit_is_one_line(what: str, folder: Path, tmp_path: Path) -> None:
    change, message = ADAPTERS[what]
    shutil.copytree(folder, tmp_path / "hf")
    adapter(tmp_path / "adapter", tmp_path / "hf")
    change(tmp_path)
    said = refusal(tmp_path / "hf", constants(LORA_RANK="8"), tmp_path, 1, tmp_path / "adapter")
    assert message in said and "\n" not in said


def test_models_that_cannot_be_trained_are_one_line(folder: Path, tmp_path: Path) -> None:
    to_gguf.convert(folder, tmp_path / "q8.gguf", "q8_0")
    assert "LoRA rank 0, not 16" in refusal(EMBEDDED_GGUF, constants(LORA_RANK="16"), tmp_path, 1)
    assert "is quantized (Q8_0)" in refusal(tmp_path / "q8.gguf", constants(), tmp_path, 1)
    assert "can't be read" in refusal(tmp_path / "none.gguf", constants(), tmp_path, 1)
    shutil.copytree(folder, tmp_path / "hf")
    edit(tmp_path / "hf" / "config.json", {"architectures": ["MambaForCausalLM"]})
    assert "is of ['MambaForCausalLM'], not of a Qwen2" in refusal(tmp_path / "hf", constants(), tmp_path, 1)


def test_too_little_memory_or_disk_is_said_with_the_estimate(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as small:
        small.setattr(llamacpp, "memory", lambda: GIB // 2)
        for weights in (EMBEDDED_GGUF, folder):
            assert "of memory and there are 0.5. Lower MAX_TOKENS" in refusal(weights, constants(), tmp_path, 1)
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10_000_000))
        assert "100 trainings of model.gguf leave as many models, 34" in refusal(
            EMBEDDED_GGUF, constants(), tmp_path, 100
        )
        check(EMBEDDED_GGUF, constants(), tmp_path, 2)


def test_a_gpus_memory_is_what_counts_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from core.engines.shape import QED_NANO

    model = Start(Path("qed-nano"), QED_NANO, 262_144, QED_NANO.weight_bytes, QWEN3)
    monkeypatch.setattr(gpus, "has_gpu", lambda: True)
    monkeypatch.setattr(llamacpp, "memory", lambda: 64 * GIB)
    monkeypatch.setattr(process, "python_of", lambda: sys.executable)  # which has no bitsandbytes
    for gib, rank, message in (
        (80, 16, ""),
        (24, 16, ""),  # 4B parameters by LoRA on the project's card
        (24, 0, "(all weights, rows of up to 6,144 tokens) takes about"),
        (12, 16, "GB of the GPU's 12.9; in 4 bits"),
        (4, 16, "and the GPU has 4.3. Lower MAX_TOKENS or LORA_RANK"),
    ):
        monkeypatch.setattr(gpus, "memory", lambda gib=gib: gib * GIB)
        if not message:
            process._check_memory(model, rank, 4096)
            continue
        with pytest.raises(UserError) as raised:
            process._check_memory(model, rank, 4096)
        assert message in str(raised.value)


def test_an_interpreter_that_cannot_train_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for named in (sys.executable, "/nowhere/python"):
        monkeypatch.setenv("TRAIN_PYTHON", named)
        with pytest.raises(UserError, match="does not import torch, trl, peft"):
            process.python_of()


@pytest.fixture
def python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAIN_PYTHON", str(training.PYTHON))  # setup.sh is not asked again


@training.needed
def test_it_says_how_far_it_is_keeps_a_log_and_returns_the_record(python: None, tmp_path: Path) -> None:
    data = training.write(tmp_path / "data.jsonl", training.rows(8))
    said: list[str] = []
    done = process.train(
        EMBEDDED_GGUF, data, tmp_path / "w" / "1", epochs=1, rate=1e-3, lora_rank=0, seed=0, say=said.append
    )
    assert done["rows"] == 8 and done == json.loads((tmp_path / "w" / "1" / "train.json").read_text())
    assert said and all(line.startswith("training: step ") for line in said)
    assert "training: step 1 of" in (tmp_path / "w" / "1.log").read_text()
    assert sorted(os.listdir(tmp_path / "w")) == ["1", "1.log"]


@training.needed
def test_what_went_wrong_is_its_last_error_and_where_the_log_is(python: None, tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"instruction": "1", "output": "2"}\n{}\n')
    with pytest.raises(UserError) as raised:
        process.train(EMBEDDED_GGUF, tmp_path / "data.jsonl", tmp_path / "1", epochs=1, rate=1e-3, lora_rank=0, seed=0)
    said = str(raised.value)
    assert said.startswith("training ended with status 2: ") and "data.jsonl line 2 has no instruction" in said
    assert said.endswith(f"Its log is {tmp_path / '1.log'}") and "error: " not in said


ENDLESS = """
import sys
from pathlib import Path
from labs.training.process import train
data, out = map(Path, sys.argv[1:])
from core.engines.embedded_model import EMBEDDED_GGUF
say = lambda line: print(line, flush=True)
train(EMBEDDED_GGUF, data, out, epochs=1, rate=1e-3, lora_rank=0, seed=0, tokens=10**6, say=say)
"""


def processes(out: Path) -> list[int]:
    """Those that train into `out`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            args = (folder / "cmdline").read_bytes().split(b"\0")
            found += [int(folder.name)] * (str(out).encode() in args and b"--model" in args)
    return found


@training.needed
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_it_ends_with_us_however_we_end_and_leaves_nothing(python: None, sign: signal.Signals, tmp_path: Path) -> None:
    data, out = training.write(tmp_path / "data.jsonl", training.rows(8)), tmp_path / "w" / "1"
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(data), str(out)],
        env=environment(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,
    ) as ours:
        assert ours.stdout and ours.stdout.readline().startswith("training: step 1 of"), ours.stderr
        assert processes(out)
        ours.send_signal(sign)
    until = time.monotonic() + 60
    while processes(out) and time.monotonic() < until:
        time.sleep(0.1)
    assert not processes(out) and os.listdir(tmp_path / "w") == ["1.log"]
