"""A GGUF file is trained by our own loop, for real: what comes of it, again bit by bit, and after a
kill."""

import os
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from core import server as start
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.need import Need
from tests.labs.training import helpers as training
from tests.labs.training.helpers import record
from tests.labs.training.models import contents

pytestmark = training.needed

# Trains as its second argument says, until it is killed after its first step, and then as each
# further argument says: one import of torch for all of them. The first argument is the folder,
# whose files it prints after the kill.
COMMANDS = """
import os, resource, signal, sys
from labs.training import loop
from labs.training.finetune import main
reading, writing = os.pipe()
if not (training := os.fork()):
    os.dup2(writing, 1)
    main(sys.argv[2].split())
os.close(writing)
assert os.read(reading, 20).startswith(b"training: step 1 of")
os.kill(training, signal.SIGKILL)
os.waitpid(training, 0)
print(*os.listdir(sys.argv[1]))
for line in sys.argv[3:]:
    *args, most = line.split()
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), resource.RLIM_INFINITY))
    try:
        main(args)
    except SystemExit as end:
        print("status", end.code)
"""
NO_LIMIT = 2**40


def arguments(data: Path, out: Path, more: str = "--epochs 3") -> str:
    return (
        f"--model {EMBEDDED_GGUF} --data {data} --out {out} --lora-rank 0 --rate 3e-3 --seed 3 "
        f"{more}"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("loop")


@pytest.fixture(scope="module")
def done(folder: Path) -> Any:
    data = training.write(folder / "rows.jsonl", rows := training.rows(4))
    huge = training.write(
        folder / "huge.jsonl", [{"instruction": "1", "output": "7*43=301\n" * 1000}]
    )
    with_huge = training.write(
        folder / "with_huge.jsonl",
        [
            *rows[:1],
            {"instruction": "x", "output": "<|im_end|>" * 50},
            {"instruction": "1", "output": "301\n" * 3000},
        ],
    )
    return training.run(
        COMMANDS,
        folder,
        arguments(data, folder / "again", "--tokens 1000000"),
        f"{arguments(data, folder / 'once')} {NO_LIMIT}",
        f"{arguments(data, folder / 'again')} {NO_LIMIT}",
        f"{arguments(data, folder / 'tokens', '--tokens 300')} {NO_LIMIT}",
        f"{arguments(with_huge, folder / 'left_out', '--epochs 0.5')} {NO_LIMIT}",
        f"{arguments(huge, folder / 'huge')} {NO_LIMIT}",
        f"{arguments(data, folder / 'full', '--tokens 1')} 500000",
        f"{arguments(data, folder / 'once')} {NO_LIMIT}",
    )


def test_the_loss_falls_and_the_record_tells_what_was_done(folder: Path, done: Any) -> None:
    once = record(folder / "once")
    assert set(os.listdir(folder / "once")) == {"model.gguf", "train.json"}
    assert once["rows"] == 4 and once["left_out"] == 0 and once["steps"] == len(once["loss"]) > 1
    assert once["last_loss"] < once["first_loss"] * 0.7 and once["loss"][-1][0] == once["tokens"]
    assert (
        0 < once["trained_tokens"] < once["tokens"]
        and once["peak_memory"] > 1e8
        and once["versions"]["torch"]
    )
    assert f"training: step 1 of {once['steps']}, loss {once['loss'][0][1]:.3f}, " in done.stdout, (
        done.stderr
    )
    assert "Traceback" not in done.stderr


def test_training_on_tokens_ends_after_the_row_that_reaches_them(folder: Path, done: Any) -> None:
    few = record(folder / "tokens")
    assert 300 <= few["tokens"] < 300 + 300 and few["rows"] == 4


def test_rows_that_are_too_long_are_left_out_and_counted_never_cut(folder: Path, done: Any) -> None:
    left = record(folder / "left_out")
    assert (left["rows"], left["left_out"]) == (2, 1)
    assert (
        done.stderr.count("error: ") == 3
        and "2,048" in done.stderr
        and f"{folder / 'once'}" in done.stderr
    )
    assert "model.gguf" not in os.listdir(folder) and not (folder / "huge").exists()


def test_a_disk_that_fills_is_one_line_and_leaves_nothing(folder: Path, done: Any) -> None:
    assert f"{folder}/.full." in done.stderr and done.stdout.count("status 2") == 3
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == [
        "again",
        "left_out",
        "once",
        "tokens",
    ]


def test_the_file_is_the_one_before_with_other_weights_and_is_served(
    folder: Path, done: Any
) -> None:
    model = folder / "once" / "model.gguf"
    first, second = contents(EMBEDDED_GGUF), contents(model)
    assert all(
        second[name] == value for name, value in first.items() if not name.startswith("general.")
    )
    old, new = (
        {t.name: t.data for t in gguf.GGUFReader(path).tensors} for path in (EMBEDDED_GGUF, model)
    )
    assert old.keys() == new.keys() and all(old[name].shape == new[name].shape for name in old)
    assert all(
        np.isfinite(new[name]).all() and not np.array_equal(old[name], new[name]) for name in old
    )
    with start.on_llamacpp(model, Need(3, 300, 16)) as server:
        assert "7*43=" in training.completed(server, training.SUM, 300)


def test_a_kill_leaves_nothing_that_counts_and_the_next_gives_the_same_bits(
    folder: Path, done: Any
) -> None:
    killed = done.stdout.splitlines()[0].split()
    assert ".again.new" in killed and "again" not in killed
    assert not [path for path in folder.iterdir() if path.name.startswith(".again")]
    assert (folder / "again" / "model.gguf").read_bytes() == (
        folder / "once" / "model.gguf"
    ).read_bytes()
