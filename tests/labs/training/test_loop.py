"""A GGUF file is trained by our own loop, for real: what comes of it, again bit by bit, and after a kill."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from core.engines import start
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.need import Need
from tests.conftest import ROOT, environment, heed_signals
from tests.labs.training import helpers as training
from tests.labs.training.helpers import record
from tests.labs.training.models import contents

pytestmark = training.needed

# Each of its arguments is a command line, run one after the other: one import of torch for all of them.
COMMANDS = """
import resource, sys
from labs.training.finetune import main
for line in sys.argv[1:]:
    *args, most = line.split()
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), resource.RLIM_INFINITY))
    try:
        main(args)
    except SystemExit as end:
        print("status", end.code)
"""
NO_LIMIT = 2**40
ENDLESS = "--tokens 1000000"


def arguments(data: Path, out: Path, more: str = "--epochs 3") -> str:
    return f"--model {EMBEDDED_GGUF} --data {data} --out {out} --lora-rank 0 --rate 3e-3 --seed 3 {more}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("loop")


@pytest.fixture(scope="module")
def killed(folder: Path) -> set[str]:
    """The files that a training into the folder `again` left, killed after its first step."""
    data = training.write(folder / "16.jsonl", training.rows(16))
    args = [str(training.PYTHON), "-m", "scripts.finetune", *arguments(data, folder / "again", ENDLESS).split()]
    with subprocess.Popen(
        args, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=heed_signals
    ) as process:
        assert process.stdout and process.stdout.readline().startswith("training: step 1 of")
        process.send_signal(signal.SIGKILL)
    return set(os.listdir(folder))


@pytest.fixture(scope="module")
def done(folder: Path, killed: set[str]) -> "subprocess.CompletedProcess[str]":
    rows = training.rows(16)
    data = folder / "16.jsonl"
    huge = training.write(folder / "huge.jsonl", [{"instruction": "1", "output": "7*43=301\n" * 1000}])
    with_huge = training.write(
        folder / "with_huge.jsonl",
        [*rows[:8], {"instruction": "x", "output": "<|im_end|>" * 50}, {"instruction": "1", "output": "301\n" * 3000}],
    )
    return training.run(
        COMMANDS,
        f"{arguments(data, folder / 'once')} {NO_LIMIT}",
        f"{arguments(data, folder / 'again')} {NO_LIMIT}",
        f"{arguments(data, folder / 'tokens', '--tokens 1500')} {NO_LIMIT}",
        f"{arguments(with_huge, folder / 'left_out', '--epochs 0.5')} {NO_LIMIT}",
        f"{arguments(huge, folder / 'huge')} {NO_LIMIT}",
        f"{arguments(data, folder / 'full', '--tokens 1')} 500000",
        f"{arguments(data, folder / 'once')} {NO_LIMIT}",
    )


def test_the_loss_falls_and_the_record_tells_what_was_done(folder: Path, done: Any) -> None:
    once = record(folder / "once")
    assert set(os.listdir(folder / "once")) == {"model.gguf", "train.json"}
    assert once["rows"] == 16 and once["left_out"] == 0 and once["steps"] == len(once["loss"]) > 1
    assert once["last_loss"] < once["first_loss"] * 0.7 and once["loss"][-1][0] == once["tokens"]
    assert 0 < once["trained_tokens"] < once["tokens"] and once["peak_memory"] > 1e8 and once["versions"]["torch"]
    assert f"training: step 1 of {once['steps']}, loss {once['loss'][0][1]:.3f}, " in done.stdout, done.stderr
    assert "Traceback" not in done.stderr


def test_training_on_tokens_ends_after_the_row_that_reaches_them(folder: Path, done: Any) -> None:
    few = record(folder / "tokens")
    assert 1500 <= few["tokens"] < 1500 + 300 and few["rows"] == 16


def test_rows_that_are_too_long_are_left_out_and_counted_never_cut(folder: Path, done: Any) -> None:
    left = record(folder / "left_out")
    assert (left["rows"], left["left_out"]) == (9, 1)
    assert done.stderr.count("error: ") == 3 and "2,048" in done.stderr and f"{folder / 'once'}" in done.stderr
    assert "model.gguf" not in os.listdir(folder) and not (folder / "huge").exists()


def test_a_disk_that_fills_is_one_line_and_leaves_nothing(folder: Path, done: Any) -> None:
    assert f"{folder}/.full." in done.stderr and done.stdout.count("status 2") == 3
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["again", "left_out", "once", "tokens"]


def test_the_file_is_the_one_before_with_other_weights_and_is_served(folder: Path, done: Any) -> None:
    model = folder / "once" / "model.gguf"
    first, second = contents(EMBEDDED_GGUF), contents(model)
    assert all(second[name] == value for name, value in first.items() if not name.startswith("general."))
    old, new = ({t.name: t.data for t in gguf.GGUFReader(path).tensors} for path in (EMBEDDED_GGUF, model))
    assert old.keys() == new.keys() and all(old[name].shape == new[name].shape for name in old)
    assert all(np.isfinite(new[name]).all() and not np.array_equal(old[name], new[name]) for name in old)
    with start.on_llamacpp(model, Need(3, 300, 16)) as server:
        assert "7*43=" in training.completed(server, training.SUM, 300)


def test_a_kill_leaves_nothing_that_counts_and_the_next_gives_the_same_bits(
    folder: Path, killed: set[str], done: Any
) -> None:
    assert ".again.new" in killed and "again" not in killed
    assert not [path for path in folder.iterdir() if path.name.startswith(".again")]
    assert (folder / "again" / "model.gguf").read_bytes() == (folder / "once" / "model.gguf").read_bytes()
