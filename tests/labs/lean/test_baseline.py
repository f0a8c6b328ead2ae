"""Test a baseline end to end with real Lean and the tiny policy. Golden files pin its files."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.conftest import ended, run, start
from tests.labs.lean.small import BASELINE, THEOREMS, figures, written


def test_stopped_the_same_command_gives_the_same_searches(baseline: Path, tmp_path: Path) -> None:
    constants = written(tmp_path, *THEOREMS), *BASELINE
    process = start("23_lean_baseline", *constants, RESULTS_DIR=str(tmp_path))
    while process.poll() is None and not list(tmp_path.glob("lean/baseline/trajectories/*.json")):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    status, _, err = ended(process)
    assert status in (0, 130) and "Traceback" not in err, err
    status, _, err = run("23_lean_baseline", *constants, RESULTS_DIR=str(tmp_path))
    assert status == 0, err
    assert figures(tmp_path) == figures(baseline)


@pytest.mark.usefixtures("lean")
def test_a_statement_that_does_not_elaborate_is_one_line_before_any_search(tmp_path: Path) -> None:
    theorems = written(tmp_path, ("wrong", "(p : Prop) : q → p"))
    status, out, err = run("23_lean_baseline", theorems, RESULTS_DIR=str(tmp_path))
    assert status == 2 and err.count("error: ") == 1 and "Traceback" not in err, (out, err)
    assert not (tmp_path / "lean").exists()
