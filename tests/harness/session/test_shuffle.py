"""SHUFFLE=1: options in an order of the run's seed, in prompts, results and merged runs."""

import json
from pathlib import Path

import pytest

from core.base.errors import UserError
from core.rsa import BASELINE
from core.types import Problem
from harness.problems.sets import ProblemSet
from harness.report import compare, report
from harness.report.data import load as load_results
from harness.run import solve_sync
from harness.session import regrade
from tests.fakes.server import ScriptedServer
from tests.helpers.runs import load

OPTIONS = ["12", "24", "42", "56"]
STATEMENT = "How much?\n\nA. 12\nB. 24\nC. 42\nD. 56"
CHOICES = [Problem(f"p{i}", STATEMENT, "C", "choice", details={"options": OPTIONS}) for i in (1, 2)]


def test_runs_show_the_options_in_an_order_of_their_seed_and_can_be_merged(
    server: ScriptedServer, results: Path
) -> None:
    merged = solve_sync(BASELINE, CHOICES, name="01_baseline", N=1, SHUFFLE=1, RUNS=3)
    stored = load(results, "01_baseline")
    assert merged.head.problem_set["sha256"] == ProblemSet("s", tuple(CHOICES), "").sha256
    assert stored["config"]["SHUFFLE"] == 1
    statements = [row["statement"] for row in stored["problems"]]
    assert len(set(statements)) > 2 and len(statements) == 6
    for row in stored["problems"]:
        options = row["details"]["options"]
        assert options["ABCD".index(row["answer"])] == "42"
        assert [OPTIONS[position] for position in row["details"]["order"]] == options
    asked = [json.loads(body)["messages"][0]["content"] for body in server.asked]
    prompts = "\n\n".join(asked)
    assert all(statement in prompts for statement in statements)
    assert prompts.count("put the letter of the right option in \\boxed{}") == len(statements)


def test_runs_with_other_orders_are_compared_by_problem(
    server: ScriptedServer, results: Path
) -> None:
    for name, more in (("plain", {}), ("one", {"SEED": 3}), ("all", {"RUNS": 3})):
        shuffle = {"SHUFFLE": 1} if more else {}
        solve_sync(BASELINE, CHOICES, name=name, N=1, **shuffle, **more)
    first, *others = [compare.result(load_results(name)) for name in ("plain", "one", "all")]
    for other in others:
        assert first.final.keys() == other.final.keys() == {("p1", "C"), ("p2", "C")}


def test_a_line_of_json_has_the_shown_options_and_their_letter(
    server: ScriptedServer, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"problem": "How much?", "choices": OPTIONS, "answer": 2}]
    solve_sync(BASELINE, rows, name="one", N=1, SHUFFLE=1, SEED=3)
    capsys.readouterr()
    report.main(["one", "--jsonl", "-"])
    line = json.loads(capsys.readouterr().out)
    row = load(results, "one")["problems"][0]
    assert (line["problem"], line["answer"]) == (row["statement"], row["answer"])
    assert "\nA. " in line["problem"] and line["choices"] == OPTIONS


def test_a_regraded_run_reads_its_own_order(server: ScriptedServer, results: Path) -> None:
    solve_sync(BASELINE, CHOICES, name="01_baseline", N=2, SHUFFLE=1, SEED=3)
    before = load(results, "01_baseline")
    _, _, after, changes = regrade.regrade(results / "01_baseline.json")
    assert changes == [] and after["metrics"]["steps"] == before["metrics"]["steps"]


def test_published_order_is_the_default(server: ScriptedServer, results: Path) -> None:
    solve_sync(BASELINE, CHOICES, name="01_baseline", N=1)
    stored = load(results, "01_baseline")
    assert "SHUFFLE" not in stored["config"]
    assert [row["details"] for row in stored["problems"]] == [{"options": OPTIONS}] * 2
    assert {row["statement"] for row in stored["problems"]} == {STATEMENT}


def test_a_set_without_options_is_refused(server: ScriptedServer) -> None:
    with pytest.raises(UserError, match="SHUFFLE=1"):
        solve_sync(BASELINE, [Problem("p", "6*7?", "42")], SHUFFLE=1)
    assert not server.asked
