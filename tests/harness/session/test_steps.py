"""The figures that a run reports of each step (on_step), and the inputs that it reads once."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from core.engines import environment
from core.rsa import RSA
from harness import framing
from harness import run as entry_points
from harness.run import solve_sync
from harness.scaffolds.refinement import REFINEMENT
from tests.fakes.server import ScriptedServer
from tests.helpers.runs import TWO, load

SIZE: dict[str, Any] = {"N": 2, "K": 2, "T": 2}


def test_each_step_is_reported_once_with_its_final_figures(
    server: ScriptedServer, results: Path
) -> None:
    steps: list[dict[str, Any]] = []
    solve_sync(RSA, TWO, RUNS=2, on_step=steps.append, **SIZE)
    assert [(row["seed"], row["step"]) for row in steps] == [
        (s, t) for s in (0, 1) for t in range(3)
    ]
    for seed in (0, 1):
        name = f"rsa-seed{seed}"
        written = load(results / "rsa", name)["metrics"]["steps"]
        reported = [row for row in steps if row["seed"] == seed]
        assert reported == [{"experiment": name, "seed": seed} | row for row in written]
    again: list[dict[str, Any]] = []
    solve_sync(RSA, TWO, RUNS=2, on_step=again.append, **SIZE)
    assert [row["step"] for row in again] == [row["step"] for row in steps]


def test_a_command_and_a_scaffold_whose_problems_end_apart_report_too(
    server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[dict[str, Any]] = []
    monkeypatch.setattr(sys, "argv", ["mine.py", "PROBLEMS=sums", "LIMIT=3"])
    entry_points.run(REFINEMENT, {"__file__": "mine.py", "N": 1, "ROUNDS": 2}, on_step=steps.append)
    written = load(results, "mine")["metrics"]["steps"]
    assert [row["step"] for row in steps] == [row["step"] for row in written]
    assert steps[-1]["mean_accuracy"] == written[-1]["mean_accuracy"]


def test_an_exception_of_on_step_is_raised_and_partial_results_are_saved(
    server: ScriptedServer, results: Path
) -> None:
    def fails(figures: dict[str, Any]) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        solve_sync(RSA, TWO, on_step=fails, **SIZE)
    assert (results / "rsa.partial.json").exists()


@pytest.mark.parametrize("runs", [1, 2])
def test_a_run_reads_its_framing_and_resolves_its_card_once(
    server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch, runs: int
) -> None:
    calls = Counter[str]()

    def counted(module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*args: Any) -> Any:
            caller = sys._getframe(1).f_globals["__name__"]
            if caller.startswith("harness"):  # attaching to a server reads the card for itself
                calls[name] += 1
            return function(*args)

        monkeypatch.setattr(module, name, call)

    (results / "system.txt").write_text("Be brief.")
    (results / "prompt.txt").write_text("{problem}")
    for name in ("read_rows", "read_text"):
        counted(framing, name)
    counted(environment, "card")
    files = {"SYSTEM": results / "system.txt", "PROMPT": results / "prompt.txt"}
    solve_sync(RSA, TWO, SHOTS=2, RUNS=runs, **files, **SIZE)
    assert calls == {"read_rows": 1, "read_text": 2, "card": 1}
    assert all("Be brief." in body for body in server.asked)
