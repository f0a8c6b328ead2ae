"""Expert iteration, end to end: real Lean, the real tiny policy, real training, as a user runs it."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from core.base.files import sha256
from labs.lean.served import POLICY
from labs.training import to_hf
from tests.conftest import ended, run, start
from tests.labs.lean.test_door import written
from tests.labs.training import helpers as training

LEARNED = (
    ("identity", "(p : Prop) : p → p"),
    ("falsity", "(p q : Prop) : False → (p ∧ q)"),
    ("succ", "(n : Nat) : n + 1 = 1 + n"),
    ("right", "(p q : Prop) : p → (q ∨ p)"),
)
HELD_OUT = (("first", "(p q : Prop) : p → (q → p)"), ("four", "(n : Nat) : n + 4 = 4 + n"), ("false", "(p : Prop) : p"))
SMALL = (
    "MAX_ITERATION=0",
    "TRAIN_NODES=16",
    "EPOCHS=2",
    "MAX_NODES=8",
    "HARVEST=4",
    "GO=1",
    "STEPS=20",
    "NUM_WORKERS=1",
)
pytestmark = [pytest.mark.usefixtures("lean"), training.needed]


def iterate(results: Path, *overrides: str) -> tuple[int, str, str]:
    return run("24_lean_iteration", *arguments(results), *overrides, RESULTS_DIR=str(results))


def arguments(results: Path) -> tuple[str, ...]:
    (results / "learned").mkdir(exist_ok=True)
    learned = written(results / "learned", *LEARNED).removeprefix("THEOREMS=")
    return (f"TRAIN_THEOREMS={learned}", written(results, *HELD_OUT), *SMALL)


def made(results: Path) -> dict[str, Any]:
    """All that an iteration has come to but for times."""
    own = results / "lean" / "iteration_0"
    told = json.loads((own / "eval_no_energy.json").read_text())
    kept = {name: told[name] for name in ("theorems", "solved", "nodes", "gain")}
    return kept | {name: sha256(own / name) for name in ("pairs.jsonl", "model/model.gguf")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("whole")
    status, out, err = iterate(results, "ENERGY=0")
    assert status == 0, err
    assert "go: the baseline solves" in out and "held-out theorems" in out and "(GO=1 goes on)" in out
    return results


def test_an_iteration_leaves_pairs_a_policy_and_what_it_gained(whole: Path) -> None:
    own = whole / "lean" / "iteration_0"
    rows = [json.loads(line) for line in (own / "pairs.jsonl").read_text().splitlines()]
    names = {name for name, _ in LEARNED}
    assert rows and {row["theorem"] for row in rows} <= names
    assert all(row["state"] in row["instruction"] and row["output"] for row in rows)
    record = json.loads((own / "record.json").read_text())
    assert record["complete"] and record["trained"]["digest"] == sha256(own / "model" / "model.gguf")
    gain = record["evaluated"]["gain"]
    assert gain["n"] == len(HELD_OUT) and gain["low"] <= gain["difference"] <= gain["high"]


def test_the_same_command_again_asks_nothing_and_trains_nothing(whole: Path) -> None:
    before = made(whole)
    status, out, err = iterate(whole, "ENERGY=0")
    assert status == 0 and "training" not in out.replace("training theorems", ""), (out, err)
    assert made(whole) == before


def test_a_policy_in_a_folder_is_trained_by_lora_served_and_embedded(tmp_path: Path) -> None:
    folder = tmp_path / "policy"
    to_hf.convert(POLICY, folder)
    status, _, err = run(
        "24_lean_iteration", *arguments(tmp_path), "LORA_RANK=4", RESULTS_DIR=str(tmp_path), MODEL=str(folder)
    )
    assert status == 0, err
    own = tmp_path / "lean" / "iteration_0"
    assert (own / "model" / "adapter").is_dir() and list((own / "model" / "model").glob("*.safetensors"))
    record = json.loads((own / "record.json").read_text())
    assert record["complete"] and record["guided"]["gain"]["n"] == len(HELD_OUT)
    energy = json.loads((own / "energy" / "energy.json").read_text())
    assert energy["model"].startswith(f"served-{record['trained']['digest'][:12]}")  # not by the first policy


def _is_training(results: Path) -> bool:
    return (results / "lean" / "iteration_0" / "pairs.jsonl").exists()


def test_killed_as_it_trains_the_same_command_gives_the_same_files(whole: Path, tmp_path: Path) -> None:
    process = start("24_lean_iteration", *arguments(tmp_path), "ENERGY=0", RESULTS_DIR=str(tmp_path))
    while process.poll() is None and not _is_training(tmp_path):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    ended(process)
    status, _, err = iterate(tmp_path, "ENERGY=0")
    assert status == 0, err
    assert made(tmp_path) == made(whole)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["ITERATION=3"], "ITERATION=3 is behind MAX_ITERATION"),
        (["ITERATION=1", "MAX_ITERATION=1"], "iteration 0 has made no policy yet"),
        (["TRAIN_NODES=2"], "MAX_NODES=2"),
        (["TRAIN_THEOREMS=nowhere.json"], "nowhere.json"),
    ],
)
def test_bad_input_is_one_line(overrides: list[str], said: str, tmp_path: Path) -> None:
    status, out, err = iterate(tmp_path, *overrides)
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert status == 2 and len(lines) == 1 and said in lines[0], (out, err)
    assert "Traceback" not in err


def test_a_theorem_twice_or_no_lean_is_one_line_before_anything_is_spent(tmp_path: Path) -> None:
    (tmp_path / "twice").mkdir()
    status, _, err = iterate(tmp_path, "ENERGY=0", written(tmp_path / "twice", LEARNED[1], LEARNED[1]))
    assert status == 2 and err.count("error: ") == 1 and "stands there twice" in err
    constants = arguments(tmp_path)
    status, _, err = run("24_lean_iteration", *constants, RESULTS_DIR=str(tmp_path), LEAN=str(tmp_path))
    assert status == 2 and err.count("error: ") == 1 and "LEAN=" in err
    assert not (tmp_path / "lean").exists()


def test_a_held_out_theorem_is_not_learned_from(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    status, _, err = iterate(tmp_path, written(tmp_path / "other", LEARNED[0]))
    assert status == 2 and "has the statement of identity" in err
