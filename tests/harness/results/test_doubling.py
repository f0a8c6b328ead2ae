"""Extrapolation to twice the tokens: exact lines, noise, and runs that it refuses."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.doubling import CURVES, STEPS, simulated
from core.base import stats
from harness.results import doubling, read
from harness.results.doubling import extrapolate, of_run
from tests.helpers import documents

TOKENS = np.array([100.0, 200.0, 300.0, 400.0, 500.0])


def test_half_of_the_gain_of_a_line_is_expected_and_the_interval_contains_none_and_all() -> None:
    line = np.repeat(0.2 + 0.1 * np.log2(TOKENS / 100)[np.newaxis], 20, axis=0)
    found = extrapolate(TOKENS, line)
    assert found and found.tokens == 500
    assert found.then.value == pytest.approx(found.now.value + 0.05)
    assert found.then.low <= found.now.value < found.now.value + 0.1 <= found.then.high
    assert found.then.low <= found.now.low, "the error over problems is part of it"
    full = extrapolate(TOKENS, np.ones((20, 5)))
    assert full and full.then.value == full.then.high == 1 and full.then.low == full.now.low


@pytest.mark.parametrize(("problems", "steps"), [(9, 5), (20, 3)])
def test_few_problems_or_steps_are_not_extrapolated(problems: int, steps: int) -> None:
    assert extrapolate(TOKENS[:steps], np.ones((problems, steps))) is None


def test_a_problem_that_has_ended_keeps_its_vote(tmp_path: Path) -> None:
    def problem(name: int, votes: list[float]) -> dict[str, Any]:
        steps = [
            documents.step(t, [documents.member(100, [0] * bool(t))], majority=vote)
            for t, vote in enumerate(votes)
        ]
        return documents.problem(f"p{name}", steps)

    path = tmp_path / "run.json"
    path.write_text(json.dumps(documents.document([problem(0, [0, 1]), problem(1, [0, 0, 1])])))
    found = doubling.curve([*read.read(path)[1]])
    assert found and found[0].tolist() == [100, 200, 250]
    assert found[1].tolist() == [[0, 1, 1], [0, 0, 1]]
    assert of_run([]) is None


@pytest.mark.parametrize("name", ["flat", "levels off"])
def test_the_interval_contains_the_truth_of_simulated_runs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats, "RESAMPLES", 1000)
    rng, truth = np.random.default_rng(5), float(CURVES[name](2 * STEPS[-1:])[0])
    found = [extrapolate(STEPS, simulated(CURVES[name], 40, rng)) for _ in range(60)]
    inside = sum(each.then.low <= truth <= each.then.high for each in found if each)
    assert inside >= 60 * 0.95 - 3 * math.sqrt(60 * 0.95 * 0.05)
