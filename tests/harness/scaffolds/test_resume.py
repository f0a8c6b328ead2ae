"""Every scaffold asks by names alone: interrupted anywhere, and in any order of arrival, it asks
the same.

Resuming through the journal needs nothing else, so a new scaffold has no code for it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from core.rsa import RSA
from core.types import Scaffold
from harness.run import solve_sync
from tests import conftest
from tests.fakes.model import SIZES, Broken, Wayward, every_scaffold, run
from tests.fakes.server import ScriptedServer
from tests.helpers.runs import TWO, journal_lines, load, timeless


@pytest.mark.parametrize("world", range(3))
@every_scaffold
def test_the_order_of_arrival_changes_nothing(scaffold: Scaffold[Any], world: int) -> None:
    first = Wayward(seed=0, world=world)
    populations = run(scaffold, first, **SIZES)
    for seed in range(1, 4):
        other = Wayward(seed, world=world)
        assert run(scaffold, other, **SIZES) == populations and other.book() == first.book()


@pytest.mark.parametrize("world", range(2))
@every_scaffold
def test_broken_off_anywhere_it_has_asked_for_nothing_else(
    scaffold: Scaffold[Any], world: int
) -> None:
    whole = Wayward(seed=0, world=world)
    run(scaffold, whole, **SIZES)
    for life in range(len(whole.asked)):
        broken = Wayward(seed=life, life=life, world=world)
        with pytest.raises(Broken):
            run(scaffold, broken, **SIZES)
        assert len(broken.asked) >= life and broken.book().items() <= whole.book().items()


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("11_math_agent", ("CALLS=8",)),
        ("13_best_of", ("SCORE=confidence", "CHOOSE=weighted_vote")),
        ("13_best_of", ("SCORE=confidence", "WARM_UP=3", "DROP=0.9", "GROUP=2")),
    ],
)
def test_killed_and_run_again_a_run_ends_as_undisturbed(
    server: ScriptedServer, tmp_path: Path, name: str, own: tuple[str, ...]
) -> None:
    problems = tmp_path / "problems.json"
    problems.write_text(
        json.dumps([{"id": f"p{i}", "problem": f"What is {i}?", "answer": "1"} for i in range(2)])
    )
    disturbed, whole = tmp_path / "disturbed", tmp_path / "whole"
    constants = (f"PROBLEMS={problems}", "CONCURRENCY=2", *own)
    server.life = 7
    process = conftest.start(name, *constants, BASE_URL=server.url, RESULTS_DIR=str(disturbed))
    server.kill(process)
    for folder in (disturbed, whole):
        asked = len(server.asked)
        status, _, err = conftest.run(
            name, *constants, BASE_URL=server.url, RESULTS_DIR=str(folder)
        )
        assert status == 0, err
    assert timeless(load(disturbed, name)) == timeless(load(whole, name))
    resumed, undisturbed = server.asked[:asked], server.asked[asked:]
    assert set(resumed) == set(undisturbed) and len(set(undisturbed)) == len(undisturbed)
    # two requests in flight, and the trial of log probabilities
    assert len(resumed) <= len(undisturbed) + 3, "only what was in flight is asked again"


def test_results_that_moved_continue_without_new_requests(
    server: ScriptedServer, tmp_path: Path
) -> None:
    here, there = tmp_path / "old", tmp_path / "new"
    sizes: dict[str, Any] = {"N": 2, "K": 2}
    solve_sync(RSA, TWO, folder=here, **sizes, T=1)
    first, asked = load(here, "rsa"), journal_lines(here, "rsa")
    shutil.move(here, there)
    solve_sync(RSA, TWO, folder=there, **sizes, T=1)
    assert journal_lines(there, "rsa") == asked and timeless(load(there, "rsa")) == timeless(first)
    solve_sync(RSA, TWO, folder=there, **sizes, T=2)
    assert sum(load(there, "rsa")["metrics"]["reused"].values()) == 8, (
        "it goes on with the third step"
    )
    assert len(server.asked) == 12 and not here.exists()
