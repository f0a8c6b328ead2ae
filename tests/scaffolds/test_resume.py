"""Every scaffold asks by names alone: broken off anywhere, in whatever order completions arrive, it asks the same.

That is all that resuming through the journal needs, so a new scaffold has no code of its own.
"""

import asyncio
import json
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core import constants
from core.base import seeds
from core.report import page, texts
from core.results.data import archive
from core.scaffolds import experiment_file, registry
from core.types import Bounded, Completion, Population, Scaffold
from tests import conftest
from tests.conftest import ROOT
from tests.fakes.model import PROBLEM, SCAFFOLDS, Model, graded_step, run
from tests.fakes.server import ScriptedServer, stated
from tests.helpers.runs import load, timeless

Names = tuple[str | int, ...]
SIZES: dict[str, Any] = {
    "N": 4, "K": 2, "T": 3, "ROUNDS": 4, "PASSES": 3, "FAILURES": 3, "SELECT_TOKENS": 50, "SUMMARY_TOKENS": 50,
    "VERIFY_MODE": "verdict", "VERIFY_SAMPLES": 2, "VERIFY_TOKENS": 50, "KEEP": 2, "REVIEWS": 1, "REFINEMENTS": 1,
    "PERFECT": 2, "MINUTES": 0, "CALLS": 6, "PLAN_TOKENS": 50,
}  # fmt: skip
SMALLER = {"N": 8, "T": 3, "VERIFY_SAMPLES": 2}  # at most, to be killed, of a scaffold that asks for more than ENOUGH
ENOUGH = 50
every_scaffold = pytest.mark.parametrize("scaffold", SCAFFOLDS.values(), ids=SCAFFOLDS)


class Broken(Exception):
    """The process was killed."""


class Wayward(Model):
    """Answers of every kind, which depend on `world` and the names alone; late by as many turns as `rng` says; dead
    after `life` requests."""

    def __init__(self, seed: int, life: int = 10**9, world: int = 0) -> None:
        super().__init__(self.said)
        self.rng, self.life, self.world = np.random.default_rng(seed), life, world

    async def __call__(self, *args: Any, **changes: Any) -> Completion:
        if len(self.asked) == self.life:
            raise Broken
        completion = await super().__call__(*args, **changes)
        for _ in range(int(self.rng.integers(5))):
            await asyncio.sleep(0)
        return completion

    def said(self, names: Names, prompt: str) -> str:
        kinds = [
            "Verdict: True\nBetter: 1\nBest: 1\nScore: 1\nKeep: 1, 2\nCALL solve {}\nyes",
            'Verdict: False\nBetter: 2\nBest: 2\nScore: 0\nKeep: 2\nCALL verify {"solution": 1}\nno',
            "",
            'Summary: so far\nCALL submit {"solution": 1}',
            "I wonder",
        ]
        drawn = seeds.derive(self.world, *names)
        said = kinds[drawn % len(kinds)]
        lines = [line for line in stated(prompt) if not any(line.partition(" ")[0] in kind for kind in kinds)]
        return said and "\n".join([str(names), said, *lines[drawn % (len(lines) + 1) :][:1]])

    def book(self) -> dict[Names, tuple[str, dict[str, Any]]]:
        return {names: (prompt, changes) for names, prompt, changes in self.asked}


def smaller(experiment: str) -> list[str]:
    """Return what makes an experiment's run small enough."""
    found = experiment_file.load(experiment)
    config = constants.read(found.planned.constants, found.namespace)
    assert isinstance(found.planned, Bounded)
    if found.planned.max_completions(config) <= ENOUGH:
        return []
    own = vars(config)
    return [f"{name}={min(most, own[name])}" for name, most in SMALLER.items() if name in own]


def shown(populations: list[Population]) -> list[list[tuple[Any, ...]]]:
    return [
        [
            (m.completion.key, m.parents, m.self_score, [c.key for c in m.side_calls], m.carried_over, m.notes)
            for m in population
        ]
        for population in populations
    ]


@pytest.mark.parametrize("world", range(3))
@every_scaffold
def test_the_order_of_arrival_changes_nothing(scaffold: Scaffold[Any], world: int) -> None:
    first = Wayward(seed=0, world=world)
    populations = shown(run(scaffold, first, **SIZES))
    for seed in range(1, 6):
        other = Wayward(seed, world=world)
        assert shown(run(scaffold, other, **SIZES)) == populations and other.book() == first.book()


@pytest.mark.parametrize("world", range(3))
@every_scaffold
def test_broken_off_anywhere_it_has_asked_for_nothing_that_the_whole_run_does_not_ask(
    scaffold: Scaffold[Any], world: int
) -> None:
    whole = Wayward(seed=0, world=world)
    run(scaffold, whole, **SIZES)
    for life in range(len(whole.asked)):
        broken = Wayward(seed=life, life=life, world=world)
        with pytest.raises(Broken):
            run(scaffold, broken, **SIZES)
        assert len(broken.asked) >= life and broken.book().items() <= whole.book().items()


@every_scaffold
def test_every_population_can_be_graded(scaffold: Scaffold[Any]) -> None:
    populations = run(scaffold, Wayward(seed=0), **SIZES)
    for t, population in enumerate(populations):
        record = graded_step(PROBLEM, t, population)
        earlier = len(populations[t - 1]) if t else 0
        assert len(record["members"]) == len(population) >= 1
        assert all(0 <= parent < earlier for member in record["members"] for parent in member["parents"])


@every_scaffold
def test_what_it_asks_is_in_the_hash_of_its_prompts(scaffold: Scaffold[Any]) -> None:
    """Each request is one of the templates, filled in."""
    models = [Wayward(seed=0, world=world) for world in range(30)]
    for model in models:
        run(scaffold, model, **SIZES)
    held = [prompt if isinstance(prompt, str) else prompt.answer for prompt in scaffold.prompts]
    fields = [re.split(r"\{[a-z]+\}", text) for text in held if re.search(r"\{[a-z]+\}", text)]
    filled = re.compile(
        "|".join(".*".join(map(re.escape, (p.format() for p in pieces))) for pieces in fields), re.DOTALL
    )
    asked = {prompt for model in models for _, prompt, _ in model.asked}
    assert [prompt for prompt in asked if not filled.fullmatch(prompt)] == []


@pytest.mark.parametrize("name", registry.experiments().values())
def test_each_experiment_is_short_and_says_how_it_is_run(name: str) -> None:
    text = (ROOT / "experiments" / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 40
    assert all(word in text for word in (f"\nCommand: bash scripts/run.sh {name}", "\nQuestion: ", "\nExpected: "))


@pytest.mark.parametrize("name", registry.experiments().values())
def test_killed_inside_and_run_again_the_results_are_those_of_a_run_that_was_not(name: str, tmp_path: Path) -> None:
    problems = tmp_path / "problems.json"
    problems.write_text(json.dumps([{"id": f"p{i}", "problem": f"What is {i}?", "answer": "1"} for i in range(2)]))
    disturbed, whole = tmp_path / "disturbed", tmp_path / "whole"
    constants = (f"PROBLEMS={problems}", "CONCURRENCY=2", *smaller(name))
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
    told = page.read(whole / f"{name}.json")
    with archive(told.path, told.head.experiment) as journals:
        found = [texts.of_problem(problem, journals) for problem in told.problems]
    assert [each.missing for each in found] == [0, 0]
    shown = [
        (each, t, i)
        for n, each in enumerate(found)
        for t, step in enumerate(told.problems[n].steps)
        for i in range(len(step.members))
    ]
    assert all(texts.messages_of(*at) for at in shown), "every prompt, as it was sent"
    calls = [call for each in found for more in each.tiers["b"].values() for call in more.get("side_calls", [])]
    assert all(call["prompt"] for call in calls), "those of side calls too"
    resumed, undisturbed = server.asked[:asked], server.asked[asked:]
    assert set(resumed) == set(undisturbed) and len(set(undisturbed)) == len(undisturbed)
    assert len(resumed) <= len(undisturbed) + 2, "only what was in flight is asked again"
