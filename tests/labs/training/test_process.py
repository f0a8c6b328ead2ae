"""Training as a process of its own: what it needs is checked before, what it says is passed on, and
it ends with us."""

import os
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.base.errors import UserError
from core.engines import gpus
from core.engines.dialects import llamacpp
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.shape import QED_NANO
from labs.training import process, starts
from labs.training.outcome import Options
from tests.conftest import python as started
from tests.helpers.processes import eventually
from tests.labs.training import helpers as training

GIB = 2**30


def test_what_can_be_trained_passes(folder: Path) -> None:
    for weights, rank in ((EMBEDDED_GGUF, 0), (folder, 0), (folder, 8)):
        process.check(weights, rank, 384, 5)


def test_an_adapter_has_the_rank_and_no_pickled_weights(tmp_path: Path) -> None:
    (tmp_path / starts.CONFIG).write_text('{"r": 8}')
    for rank, file in ((8, "adapter_model.bin"), (4, starts.ADAPTER)):
        (tmp_path / file).touch()
        with pytest.raises(UserError, match=rf"{starts.ADAPTER}|\b{rank}\b"):
            starts.check_adapter(tmp_path, rank)
    starts.check_adapter(tmp_path, 8)


def test_too_little_memory_or_disk_is_reported_with_the_estimate(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as small:
        small.setattr(llamacpp, "memory", lambda: GIB // 2)
        for weights, rank in ((EMBEDDED_GGUF, 0), (folder, 16)):
            with pytest.raises(UserError, match="MAX_TOKENS"):
                process.check(weights, rank, 384, 1)
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10_000_000))
        with pytest.raises(UserError, match="RESULTS_DIR"):
            process.check(EMBEDDED_GGUF, 0, 384, 100)
        process.check(EMBEDDED_GGUF, 0, 384, 2)


@pytest.mark.parametrize(
    ("gib", "rank", "instead"),
    [
        (80, 16, ""),
        (24, 16, ""),  # 4B parameters by LoRA on the project's card
        (24, 0, "LORA_RANK=16"),
        (12, 16, "LORA_RANK"),
    ],
)
def test_a_gpus_memory_is_what_counts_where_there_is_one(
    gib: int, rank: int, instead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = starts.Start(Path("qed-nano"), QED_NANO, 262_144, QED_NANO.weight_bytes)
    monkeypatch.setattr(gpus, "count", lambda: 1)
    monkeypatch.setattr(gpus, "here", lambda: replace(gpus.DEFAULT, memory=gib * GIB))
    monkeypatch.setattr(llamacpp, "memory", lambda: GIB)
    if not instead:
        return process._check_memory(model, rank, 4096)
    with pytest.raises(UserError, match=instead):
        process._check_memory(model, rank, 4096)


def test_an_interpreter_that_cannot_train_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for named in (sys.executable, "/nowhere/python"):
        monkeypatch.setenv("TRAIN_PYTHON", named)
        with pytest.raises(UserError, match="TRAIN_PYTHON"):
            process.python_of()


@pytest.fixture
def python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAIN_PYTHON", str(training.PYTHON))  # setup.sh is not asked again


@training.needed
def test_what_went_wrong_is_its_last_error_and_where_the_log_is(
    python: None, tmp_path: Path
) -> None:
    (tmp_path / "data.jsonl").write_text('{"instruction": "1", "output": "2"}\n{}\n')
    with pytest.raises(UserError) as raised:
        process.train(Options(EMBEDDED_GGUF, tmp_path / "data.jsonl", tmp_path / "1", 1, 1e-3, 0))
    message = str(raised.value)
    assert (
        "data.jsonl, line 2" in message
        and str(tmp_path / "1.log") in message
        and "error: " not in message
    )


ENDLESS = """
import sys
from pathlib import Path
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from labs.training.outcome import Options
from labs.training.process import train
data, out = map(Path, sys.argv[1:])
train(Options(EMBEDDED_GGUF, data, out, 1, 1e-3, 0, tokens=10**6), lambda line: print(line, \
flush=True))
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
@pytest.mark.parametrize(
    "sign", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.faults)]
)
def test_it_ends_with_us_however_we_end_and_leaves_nothing(
    python: None, sign: signal.Signals, tmp_path: Path
) -> None:
    data, out = training.write(tmp_path / "data.jsonl", training.rows(1)), tmp_path / "w" / "1"
    (program := tmp_path / "endless.py").write_text(ENDLESS)
    with started(str(program), str(data), str(out)) as ours:
        assert ours.stdout and ours.stdout.readline().startswith("training: step 1 of"), ours.stderr
        assert processes(out)
        ours.send_signal(sign)
    assert eventually(lambda: not processes(out), 60) and os.listdir(tmp_path / "w") == ["1.log"]
