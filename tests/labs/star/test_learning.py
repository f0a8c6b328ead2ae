"""Learning to aggregate, end to end: the real embedded model, the real training, as a user runs it,
also with kills."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from core.base.files import sha256
from labs.star import record as rounds
from labs.star.record import Record
from labs.training.stages import NAME
from tests.conftest import ended, run, start
from tests.labs.star.helpers import timeless
from tests.labs.training import helpers as training

EXPERIMENT = "29_learn_to_aggregate"
SMALL = ("LIMIT=12", "N=4", "K=2", "T=1", "ROUNDS=1", "EPOCHS=1", "MAX_TOKENS=400")
SETTINGS = {"TRAIN_PYTHON": str(training.PYTHON)}
pytestmark = training.needed


def record(results: Path) -> Record:
    return rounds.read(results / EXPERIMENT / "learn-seed0" / NAME)


def outcome(results: Path) -> dict[str, Any]:
    """Return the rows, the weights and the record, without times."""
    folder = results / EXPERIMENT
    hashes = {
        str(path.relative_to(folder)): sha256(path)
        for ending in ("*.jsonl", "model.gguf")
        for path in folder.rglob(ending)
    }
    return hashes | {"record": timeless(record(results).rounds)}


def test_a_run_that_is_killed_while_it_trains_resumes_and_measures_rsa(tmp_path: Path) -> None:
    process = start(EXPERIMENT, *SMALL, RESULTS_DIR=str(tmp_path), **SETTINGS)
    log = tmp_path / EXPERIMENT / "learn-seed0" / "round1" / "trained.log"
    while process.poll() is None and not log.exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    ended(process)
    collected = record(tmp_path).rounds[1]["collected"]
    status, out, err = run(EXPERIMENT, *SMALL, RESULTS_DIR=str(tmp_path), **SETTINGS)
    assert status == 0, err
    assert "of which" not in out and "round 0:" not in out, "these stages are not repeated"
    found = record(tmp_path)
    assert found.head["complete"] and found.rounds[1]["collected"] == collected
    assert collected["kept"]["aggregated"] and collected["mixed"]
    figures = found.rounds[1]["evaluated"]["rsa"]
    assert figures["gain"]["n"] == 12 and len(figures["steps"]) == 2
    for names in figures["files"].values():
        assert all((tmp_path / EXPERIMENT / f"{name}.json").exists() for name in names)
    table = (tmp_path / EXPERIMENT / "table.txt").read_text()
    assert "before" in table and "1 of 2 right" in table
    assert (tmp_path / EXPERIMENT / "rounds.png").stat().st_size > 5000


@pytest.mark.faults
def test_killed_anywhere_it_comes_to_the_same_files(tmp_path: Path) -> None:
    whole, results = tmp_path / "whole", tmp_path / "results"
    began = time.monotonic()
    assert run(EXPERIMENT, *SMALL, RESULTS_DIR=str(whole), **SETTINGS)[0] == 0
    took = time.monotonic() - began
    rng = random.Random(int(os.environ.get("FAULTS_SEED", "0")))
    for sign in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        process = start(EXPERIMENT, *SMALL, RESULTS_DIR=str(results), **SETTINGS)
        time.sleep(rng.uniform(0, took))
        process.send_signal(sign)
        _, _, err = ended(process)
        assert "Traceback" not in err and "error: " not in err, err
    assert run(EXPERIMENT, *SMALL, RESULTS_DIR=str(results), **SETTINGS)[0] == 0
    assert outcome(results) == outcome(whole)
