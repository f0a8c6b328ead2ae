"""The simulated runs of benchmarks/time_left.py."""

from pathlib import Path

import pytest

from benchmarks.time_left import Kind, Replay, figures, short, simulate
from harness.report.data import Results
from tests.helpers import reports


def test_a_simulated_run_shows_times_near_the_truth() -> None:
    figures = simulate(Kind("a run", short, 120, 8), 0)
    assert figures.too_early == 0 and figures.ratios and 0 < figures.first < 0.5
    assert sum(figures.ratios) / len(figures.ratios) == pytest.approx(1, abs=0.3)


def test_a_replay_takes_the_time_of_the_stored_completions(results: Path) -> None:
    path = reports.results(results, problems=3) / "02_rsa_basic.json"
    run = Results(path)
    replay = figures(lambda: Replay(run))
    assert replay.too_early == 0
