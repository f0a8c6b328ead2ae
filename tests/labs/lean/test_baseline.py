"""Test a baseline end to end with real Lean and the tiny policy. Golden files pin its files."""

import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, run
from tests.labs.lean.small import BASELINE, LEARNED, figures, written


def test_stopped_the_same_command_gives_the_same_searches(
    baseline: Path, stored_run: Callable[[str], Path]
) -> None:
    assert figures(baseline) == figures(stored_run("23_lean_baseline"))


def test_iteration_0_takes_the_searches_of_the_baseline(baseline: Path, tmp_path: Path) -> None:
    there = shutil.copytree(baseline, tmp_path / "results")
    theorems = f"TRAIN_{written(tmp_path, *LEARNED[3:])}"
    status, _, err = run(
        "25_lean_all", *BASELINE, theorems, "MAX_ITERATION=-1", "ENERGY=0", RESULTS_DIR=str(there)
    )
    assert status == 0, err
    before, after = (
        there / "lean" / name for name in ("baseline/trajectories", "iteration_0/eval_before")
    )
    assert len(list(after.iterdir())) == 2 * 4
    assert all((before / path.name).read_bytes() == path.read_bytes() for path in after.iterdir())
    assert not (there / "lean" / "iteration_0" / "model").exists()


@pytest.mark.usefixtures("lean")
def test_a_statement_that_does_not_elaborate_is_one_line_before_any_search(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["23_lean_baseline.py", written(results, ("wrong", "(p : Prop) : q → p"))]
    )
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(ROOT / "experiments" / "23_lean_baseline.py"), run_name="__main__")
    assert capsys.readouterr().err.count("error: ") == 1 and not (results / "lean").exists()
