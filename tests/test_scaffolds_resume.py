"""Every scaffold asks by names alone: broken off anywhere, in whatever order completions arrive, it asks the same.

That is all that resuming through the journal needs, so a new scaffold joins this table and has no code of its own.
"""

import asyncio
import json
import runpy
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core import config as constants
from core import results, seeds
from core.generate import Completion
from core.rsa import Population
from core.runner import Scaffold
from core.scaffolds.best_of import best_of
from core.scaffolds.deepseek_math import deepseek_math
from core.scaffolds.majority import majority
from core.scaffolds.math_agent import math_agent
from core.scaffolds.nomos import nomos
from core.scaffolds.qed_rsa import qed_rsa
from core.scaffolds.reasoning_cache import reasoning_cache
from core.scaffolds.refinement import refinement
from core.scaffolds.selfcheck import selfcheck
from core.scaffolds.static_math_agent import static_math_agent
from tests import conftest
from tests.conftest import ROOT
from tests.scripted import PROBLEM, Model, run
from tests.scripted_server import ScriptedServer
from tests.test_run import load, timeless

Names = tuple[str | int, ...]
SIZES: dict[str, Any] = {
    "N": 4, "K": 2, "ROUNDS": 4, "PASSES": 3, "FAILURES": 3, "SELECT_TOKENS": 50, "SUMMARY_TOKENS": 50,
    "VERIFY_MODE": "verdict", "VERIFY_SAMPLES": 2, "VERIFY_TOKENS": 50, "KEEP": 2, "REVIEWS": 1, "REFINEMENTS": 1,
    "PERFECT": 2, "MINUTES": 0, "CALLS": 6, "PLAN_TOKENS": 50,
}  # fmt: skip
SCAFFOLDS = [
    best_of, deepseek_math, majority, math_agent, nomos, qed_rsa, reasoning_cache, refinement, selfcheck,
    static_math_agent,
]  # fmt: skip
# What a problem takes with the constants of the experiment's file.
DEFAULTS = {
    "05_rsa_qed": 39, "06_deepseek_math": 60, "07_nomos": 44, "08_reasoning_cache": 5, "09_selfcheck": 62,
    "10_static_math_agent": 29, "11_math_agent": 35, "12_majority": 64, "13_best_of": 40, "14_refinement": 8,
}  # fmt: skip


class Broken(Exception):
    """The process was killed."""


class Wayward(Model):
    """Answers of every kind, which depend on the names alone; late by as many turns as `rng` says; dead after `life`
    requests."""

    def __init__(self, seed: int, life: int = 10**9) -> None:
        super().__init__(self.said)
        self.rng, self.life = np.random.default_rng(seed), life

    async def __call__(self, *args: Any, **changes: Any) -> Completion:
        if len(self.asked) == self.life:
            raise Broken
        completion = await super().__call__(*args, **changes)
        for _ in range(int(self.rng.integers(5))):
            await asyncio.sleep(0)
        return completion

    def said(self, names: Names, prompt: str) -> str:
        kinds = [
            "Verdict: True\nBetter: 1\nBest: 1\nScore: 1\nKeep: 1, 2\nCALL solve {}",
            'Verdict: False\nBetter: 2\nBest: 2\nScore: 0\nKeep: 2\nCALL verify {"solution": 1}',
            "",
            'Summary: so far\nCALL submit {"solution": 1}',
            "I wonder",
        ]
        said = kinds[seeds.derive(*names) % len(kinds)]
        return said and f"{names}\n{said}"

    def book(self) -> dict[Names, tuple[str, dict[str, Any]]]:
        return {names: (prompt, changes) for names, prompt, changes in self.asked}


def shown(populations: list[Population]) -> list[list[tuple[Any, ...]]]:
    return [
        [(m.completion.key, m.parents, m.score, [c.key for c in m.checks], m.again, m.notes) for m in population]
        for population in populations
    ]


@pytest.mark.parametrize("scaffold", SCAFFOLDS)
def test_the_order_of_arrival_changes_nothing(scaffold: Scaffold) -> None:
    first = Wayward(seed=0)
    populations = shown(run(scaffold, first, **SIZES))
    for seed in range(1, 6):
        other = Wayward(seed)
        assert shown(run(scaffold, other, **SIZES)) == populations and other.book() == first.book()


@pytest.mark.parametrize("scaffold", SCAFFOLDS)
def test_broken_off_anywhere_it_has_asked_for_nothing_that_the_whole_run_does_not_ask(scaffold: Scaffold) -> None:
    whole = Wayward(seed=0)
    run(scaffold, whole, **SIZES)
    for life in range(len(whole.asked)):
        broken = Wayward(seed=life, life=life)
        with pytest.raises(Broken):
            run(scaffold, broken, **SIZES)
        assert len(broken.asked) >= life and broken.book().items() <= whole.book().items()


@pytest.mark.parametrize("scaffold", SCAFFOLDS)
def test_every_population_can_be_graded(scaffold: Scaffold) -> None:
    populations = run(scaffold, Wayward(seed=0), **SIZES)
    for t, population in enumerate(populations):
        record = results.grade(PROBLEM, t, population)
        earlier = len(populations[t - 1]) if t else 0
        assert len(record["members"]) == len(population) >= 1
        assert all(0 <= parent < earlier for member in record["members"] for parent in member["parents"])


@pytest.mark.parametrize(("name", "expected"), DEFAULTS.items())
def test_each_experiment_is_short_and_takes_the_calls_of_its_source(name: str, expected: int) -> None:
    path = ROOT / "experiments" / f"{name}.py"
    namespace = runpy.run_path(str(path))
    config = constants.read(namespace, [], constants.COMMON)
    assert namespace["generations"](config) == expected
    assert len(path.read_text().splitlines()) < 60 and f"bash scripts/run.sh {name}" in namespace["__doc__"]


@pytest.mark.parametrize("name", DEFAULTS)
def test_killed_inside_and_run_again_the_results_are_those_of_a_run_that_was_not(name: str, tmp_path: Path) -> None:
    problems = tmp_path / "problems.json"
    problems.write_text(json.dumps([{"id": f"p{i}", "problem": f"What is {i}?", "answer": "1"} for i in range(2)]))
    disturbed, whole = tmp_path / "disturbed", tmp_path / "whole"
    constants = (f"PROBLEMS={problems}", "CONCURRENCY=2")
    server = ScriptedServer()
    try:
        server.life = 7
        process = conftest.start(name, *constants, BASE_URL=server.url, RESULTS_DIR=str(disturbed))
        assert server.is_stuck.wait(120)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        server.revive()
        for folder in (disturbed, whole):
            asked = len(server.asked)
            status, _, err = conftest.run(name, *constants, BASE_URL=server.url, RESULTS_DIR=str(folder))
            assert status == 0, err
    finally:
        server.close()
    assert timeless(load(disturbed, name)) == timeless(load(whole, name))
    resumed, undisturbed = server.asked[:asked], server.asked[asked:]
    assert set(resumed) == set(undisturbed) and len(set(undisturbed)) == len(undisturbed)
    assert len(resumed) <= len(undisturbed) + 2, "only what was in flight is asked again"
