"""RUNS of a whole experiment: each as it would be alone, and all of them in one file."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.constants import Constants
from core.grading.sympy_process import math_equal
from core.rsa import RSA
from harness.run import solve, solve_sync
from tests.fakes.server import ScriptedServer
from tests.helpers.runs import TWO, journal_lines, load, timeless

SIZE: dict[str, Any] = {"N": 4, "K": 2, "T": 1}


def test_seeds_count_up_and_stay_in_range() -> None:
    assert [each.SEED for each in Constants(SEED=5, RUNS=3).runs()] == [5, 6, 7]
    assert Constants(SEED=5).runs() == [Constants(SEED=5)]
    with pytest.raises(UserError, match="SEED=9223372036854775808"):
        Constants(SEED=2**63 - 1, RUNS=2).runs()


def test_each_run_equals_a_single_run_and_is_not_asked_for_again(
    server: ScriptedServer, results: Path
) -> None:
    first = solve_sync(RSA, TWO, **SIZE)
    alone, asked = json.loads(first.path.read_text()), len(server.asked)
    assert "RUNS" not in alone["config"] and "runs" not in alone
    whole = solve_sync(RSA, TWO, **SIZE, RUNS=3)
    assert len(server.asked) == 3 * asked, "the first run came from the journal"
    assert (
        whole.path == results / "rsa.json"
        and whole.head.runs
        and whole.head.runs.seeds == [0, 1, 2]
    )
    assert repr(whole) == "<Results of rsa: 2 problems, 3 runs, 48 members>"
    assert whole.completion(whole.problems[2].steps[1].members[3]).text, (
        "the journal is that of the experiment"
    )
    runs = [load(results / "rsa", f"rsa-seed{seed}") for seed in range(3)]
    assert timeless(runs[0] | {"experiment": "rsa"}) == timeless(alone)
    second = solve_sync(RSA, TWO, **SIZE, SEED=1)
    assert timeless(json.loads(second.path.read_text())["problems"]) == timeless(
        runs[1]["problems"]
    )
    assert len(server.asked) == 3 * asked
    means = [each["metrics"]["final"]["mean_accuracy"]["value"] for each in runs]
    over = whole.head.metrics.steps[-1].runs
    assert over and over["mean_accuracy"]["values"] == pytest.approx(means)
    assert {each.name for each in results.glob("rsa.*.json")} and not list(
        results.glob("*.partial.json")
    )


def test_out_names_the_results_and_finished_completions_are_reused(
    server: ScriptedServer, results: Path
) -> None:
    alone = json.loads(solve_sync(RSA, TWO, **SIZE).path.read_text())
    asked = len(server.asked)
    found = solve_sync(RSA, TWO, **SIZE, OUT="other-model", RUNS=2)
    assert found.path == results / "other-model.json" and (results / "rsa.json").exists()
    first = load(results / "other-model", "other-model-seed0")
    assert len(server.asked) == 2 * asked and (results / "journal" / "other-model.jsonl").exists()
    assert timeless(first | {"experiment": "rsa"}) == timeless(alone)
    for name in ("../x", "a.b", "outputs/gemini.jsonl", "-x", "x" * 81):
        with pytest.raises(UserError, match="OUT="):
            solve_sync(RSA, TWO, **SIZE, OUT=name)


def test_runs_are_stopped_between_two_and_resumed(server: ScriptedServer, results: Path) -> None:
    server.life = 20  # of 16 requests a run

    async def stopped() -> None:
        runs = asyncio.create_task(solve(RSA, TWO, **SIZE, RUNS=3, SEED=4))
        await asyncio.to_thread(server.is_stuck.wait, 60)
        runs.cancel()
        await runs

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stopped())
    partial = load(results, "rsa.partial")
    assert (
        not partial["complete"]
        and partial["runs"]["seeds"] == [4]
        and partial["config"]["RUNS"] == 1
    )
    assert math_equal("3/6", r"\frac12") is None, "a stopped run waits for no judge"
    lines = journal_lines(results, "rsa")
    server.revive()
    whole = solve_sync(RSA, TWO, **SIZE, RUNS=3, SEED=4)
    assert whole.head.complete and whole.head.runs and whole.head.runs.seeds == [4, 5, 6]
    assert (
        journal_lines(results, "rsa")[: len(lines)] == lines
        and len(journal_lines(results, "rsa")) == 3 * 16
    )
    assert not (results / "rsa.partial.json").exists()
    assert math_equal("3/6", r"\frac12") is True, "and the next run judges again"
