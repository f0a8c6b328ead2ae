"""All iterations as one command: a trial of it, begun anew, and without the first policy's figures."""

import json
from pathlib import Path

import pytest

from tests.conftest import run
from tests.labs.lean.test_iterate import arguments
from tests.labs.training import helpers as training

pytestmark = [pytest.mark.usefixtures("lean"), training.needed]


def test_a_trial_goes_through_all_iterations_in_a_folder_of_its_own(tmp_path: Path) -> None:
    status, out, err = run("25_lean_all", "SMOKE=1", "MAX_ITERATION=1", RESULTS_DIR=str(tmp_path))
    assert status == 0, err
    folder = tmp_path / "lean" / "smoke"
    for number in (0, 1):
        record = json.loads((folder / f"iteration_{number}" / "record.json").read_text())
        assert record["complete"] and record["evaluated"]["theorems"] == 6
        assert max(map(int, record["evaluated"]["solved"])) == 4
    assert [path.name for path in (tmp_path / "lean").iterdir()] == ["smoke"]
    assert "no go" not in out or "(GO=1 goes on)" in out


def test_begun_anew_the_old_files_are_kept(tmp_path: Path) -> None:
    command = ("24_lean_iteration", *arguments(tmp_path), "ENERGY=0", "SKIP_BASELINE=1")
    status, out, err = run(*command, RESULTS_DIR=str(tmp_path))
    assert status == 0 and "baseline" not in out, (out, err)
    own = tmp_path / "lean" / "iteration_0"
    record = json.loads((own / "record.json").read_text())
    assert record["complete"] and "gain" not in record["evaluated"] and not (own / "eval_before").exists()
    before = (own / "pairs.jsonl").read_bytes()
    status, out, err = run(*command, "RESET=1", RESULTS_DIR=str(tmp_path))
    assert status == 0 and "leave RESET out" in out, (out, err)
    kept = [path for path in own.parent.iterdir() if path.name.startswith("iteration_0") and path != own]
    assert len(kept) == 1 and (kept[0] / "pairs.jsonl").read_bytes() == before == (own / "pairs.jsonl").read_bytes()
    status, _, err = run(*command, "RESET=1", "ITERATION=1", "MAX_ITERATION=1", RESULTS_DIR=str(tmp_path))
    assert status == 2 and "RESET=1 begins with iteration 0" in err
