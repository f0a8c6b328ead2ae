"""The simulated runs of benchmarks/time_left.py."""

import pytest

from benchmarks.time_left import Kind, short, simulate


def test_a_simulated_run_shows_times_near_the_truth() -> None:
    figures = simulate(Kind("a run", short, 120, 8), 0)
    assert figures.too_early == 0 and figures.ratios and 0 < figures.first < 0.5
    assert sum(figures.ratios) / len(figures.ratios) == pytest.approx(1, abs=0.3)
