"""Proofs end to end: written by any scaffold, recorded without grades, and shown as what nobody has graded."""

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.testclient import TestClient

from core.base.errors import UserError
from core.base.files import ROOT
from core.constants import read
from core.grading.ungraded import ungraded
from core.report import compare, jsonl, live, page
from core.report import report as cli
from core.results import load as loaded
from core.results.metrics import RunMetrics
from core.results.read import read as read_results
from core.results.records import record
from core.results.warnings import is_ungraded
from core.scaffolds.experiment_file import FOLDER
from core.scaffolds.registry import experiments, scaffold_named
from core.session import equal_compute
from core.session.regrade import regrade
from core.session.run import solve
from core.types import FORCED_PROOF, Completion, Grade, Graded, Member, Problem, Scaffold
from tests.conftest import run
from tests.fakes.model import run as run_on
from tests.fakes.server import ScriptedServer
from tests.scaffolds.test_resume import SIZES, Wayward, every_scaffold
from tests.scaffolds.test_wording import PROOF
from tests.session.test_run import journal_lines, load

SCHEMA = json.loads((ROOT / "core" / "results" / "schema.json").read_text(encoding="utf-8"))
FEW = ("LIMIT=2", "N=3", "K=2", "T=1", "RUNS=2", "MAX_TOKENS=300")


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Two small runs of the embedded engine on its own set of proofs, with what was printed."""
    folder = tmp_path_factory.mktemp("proofs")
    status, out, err = run("18_proofs", *FEW, RESULTS_DIR=str(folder))
    assert status == 0, err
    return folder, out


def test_a_run_of_proofs_has_members_and_tokens_and_no_accuracies(proofs: tuple[Path, str]) -> None:
    folder, out = proofs
    whole = load(folder, "18_proofs")
    jsonschema.validate(whole, SCHEMA)
    assert whole["grader"] == "ungraded" and whole["problem_set"]["name"] == "sums_proof[:2]"
    assert whole["config"]["SCAFFOLD"] == "rsa" and whole["runs"]["seeds"] == [0, 1]
    for step in whole["metrics"]["steps"]:
        nobody = {"value": None, "low": 0.0, "high": 1.0, "n": 0}
        assert step["mean_accuracy"] == step["majority_accuracy"] == nobody and step["pass_at_k"] == {}
        assert step["completions"] == 12 and step["completion_tokens"] > 0 and "runs" not in step
    for problem in whole["problems"]:
        assert problem["answer_type"] == "proof" and problem["solution"] and "7 points where" in problem["guidelines"]
        for step in problem["steps"]:
            assert step["mean_accuracy"] is step["majority_correct"] is step["majority_answer"] is None
            assert all(m["correct"] is m["grade"] is m["answer"] is None for m in step["members"])
    assert "0  not graded" in out and "final: not graded, " in out and "plot    none: not graded" in out
    assert not re.search(r"accuracy|majority|\b0\.0\b", out.partition("\n\n")[2].partition("note: ")[0])
    assert not list(folder.rglob("*.png"))


def test_run_again_it_asks_for_nothing(proofs: tuple[Path, str]) -> None:
    folder, _ = proofs
    asked = journal_lines(folder, "18_proofs")
    status, out, err = run("18_proofs", *FEW, RESULTS_DIR=str(folder))
    assert status == 0 and journal_lines(folder, "18_proofs") == asked and len(asked) == 24, err
    assert "24 completions came from the journal" in out


def test_whatever_shows_results_says_that_they_are_not_graded(
    proofs: tuple[Path, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = proofs
    monkeypatch.setenv("RESULTS_DIR", str(folder))
    cli.main(["18_proofs"])
    told = capsys.readouterr().out
    assert "0  not graded" in told and "majority right" not in told and "pass@" not in told
    cli.main(["18_proofs", "18_proofs", "--out", str(folder / "two.html")])
    assert "note: not compared: 18_proofs is not graded, so that there is nothing to compare" in capsys.readouterr().out
    cli.main(["18_proofs", "--figures", str(folder / "figures")])
    drawn = capsys.readouterr()
    assert "18_proofs is not graded, so that there is nothing to draw" in drawn.err and "figure" not in drawn.out
    with pytest.raises(SystemExit) as ended:
        compare.main(["18_proofs", "18_proofs"])
    assert ended.value.code == 2 and "is not graded" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"18_proofs-seed0.json holds proofs, which by_answer can't grade"):
        regrade(folder / "18_proofs" / "18_proofs-seed0.json")
    known = page.data([page.read(folder / "18_proofs.json")] * 2)
    assert known["comparison"]["notes"] == ["18_proofs is not graded, so that there is nothing to compare"]
    member = known["runs"][0]["problems"][0]["steps"][0]["members"][0]
    assert "correct" not in member and "grade" not in member
    assert {row["grade"] for row in loaded("18_proofs", folder).rows} == {None}


def test_the_live_page_serves_them(proofs: tuple[Path, str]) -> None:
    served = live.Live(["18_proofs"], proofs[0])
    with TestClient(live.application(served), base_url="http://127.0.0.1") as client:
        assert client.get("/").status_code == 200
        steps = client.get("/data").json()["runs"][0]["head"]["metrics"]["steps"]
    assert [step["mean_accuracy"]["n"] for step in steps] == [0, 0]


def test_exported_they_are_the_rows_of_the_set_with_a_solution_each(proofs: tuple[Path, str]) -> None:
    folder, _ = proofs
    jsonl.write(folder / "18_proofs.json", str(folder / "out.jsonl"))
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    rows = json.loads((ROOT / "data" / "sums_proof.json").read_text())
    assert [(line["id"], line["seed"]) for line in lines] == [(row["id"], seed) for row in rows[:2] for seed in (0, 1)]
    for line in lines:
        row = next(row for row in rows if row["id"] == line["id"])
        assert line.items() >= row.items() and line["model_solution"].strip()
        assert line["grade"] is line["correct"] is line["model_answer"] is None
        assert set(line["cost_run"]) == {"input_tokens", "output_tokens", "cost"} and line["cost_run"]["output_tokens"]
        asked = [message["content"] for message in line["history"] if message["role"] == "user"]
        assert len(asked) == 6 and all("proof" in text and "boxed" not in text.split("Candidate")[0] for text in asked)
        assert not any(row["grading_guidelines"] in text for text in asked)


@every_scaffold
def test_what_any_scaffold_yields_is_recorded_without_grades(scaffold: Scaffold[Any]) -> None:
    figures = RunMetrics(1)
    for t, population in enumerate(run_on(scaffold, Wayward(seed=0), PROOF, **SIZES)):
        graded = asyncio.run(ungraded(PROOF, population, None))  # type: ignore[arg-type]
        figures.add(0, json.loads(json.dumps(record(t, population, graded))))
    figures.finished[:] = True
    metrics = json.loads(json.dumps(figures.metrics(1.0), allow_nan=False))
    assert is_ungraded({"metrics": metrics}) and figures.accuracy is None
    assert metrics.get("verification", {}).get("auc") is None


def test_graded_members_have_a_mean_and_the_others_are_left_out() -> None:
    """As a grader of proofs gives them: points / 7; the score of a population without a vote is their mean."""
    members = [Member(Completion(f"{i:032x}", i, answer="so")) for i in range(3)]
    made = record(0, members, Graded([Grade(1.0), Grade(3 / 7), Grade(None)], score=5 / 7))
    assert made["mean_accuracy"] == pytest.approx(5 / 7) == made["majority_correct"]
    assert [m["correct"] for m in made["members"]] == [True, False, None]
    figures = RunMetrics(2)
    figures.add(0, made)
    figures.add(1, record(0, members, Graded([Grade(None)] * 3, None)))
    (step,) = figures.metrics(1.0)["steps"]
    assert step["mean_accuracy"]["n"] == 1 and step["mean_accuracy"]["value"] == pytest.approx(5 / 7)


def test_what_is_not_whole_is_told_apart_before_any_grade() -> None:
    cut = Member(Completion("0" * 32, 0, thinking="hm", finish_reason="length"))
    empty, failed = Member(Completion("1" * 32, 1, finish_reason="stop")), Member(Completion("2" * 32, 2, error="no"))
    graded = asyncio.run(ungraded(PROOF, [cut, empty, failed], None))  # type: ignore[arg-type]
    assert [m["doubt"] for m in record(0, [cut, empty, failed], graded)["members"]] == ["truncated", "empty", "failed"]


@pytest.mark.parametrize("scaffold", ["deepseek_math", "nomos", "13_best_of", "math_agent"])
def test_scaffolds_that_review_group_select_and_plan_run_end_to_end(scaffold: str, results: Path) -> None:
    server = ScriptedServer()
    try:
        few = ("LIMIT=2", "RUNS=1", f"SCAFFOLD={scaffold}", "PROBLEMS=sums_proof")
        status, _, err = run("18_proofs", *few, BASE_URL=server.url, RESULTS_DIR=str(results))
    finally:
        server.close()
    assert status == 0, err
    head, problems = read_results(results / "18_proofs.json")
    assert [len(problem.steps[-1].members) for problem in problems] == [1, 1], "the one that is selected"
    assert any("rigorous proof" in body for body in server.asked)
    assert not any("final answer" in body for body in server.asked)
    assert head.config["SCAFFOLD"] == scaffold


def test_cut_off_thinking_is_closed_with_words_for_a_proof(results: Path) -> None:
    few = ("LIMIT=2", "N=2", "SCAFFOLD=baseline", "RUNS=1", "MAX_TOKENS=12", "ANSWER_TOKENS=40")
    status, _, err = run("18_proofs", *few, RESULTS_DIR=str(results))
    assert status == 0, err
    kept = [json.loads(line)["completion"] for line in journal_lines(results, "18_proofs")]
    assert len(kept) == 4 and all(each["forced"].startswith(FORCED_PROOF) for each in kept)


def test_a_scaffold_keeps_what_its_own_experiment_sets_and_overrides_change_it(results: Path) -> None:
    status, out, err = run("18_proofs", "SCAFFOLD=nomos", "--help")
    assert status == 0 and "N=16" in out and "perfect scores that suffice" in out and "ANSWER_TOKENS=4096" in out, err
    for name, experiment in experiments().items():
        entry = equal_compute.entry(experiment)
        for chosen in (name, experiment):
            config = read(scaffold_named(chosen).constants, {"SCAFFOLD": chosen}, ["MAX_TOKENS=99"])
            assert vars(config).items() >= entry.constants.items() and config.MAX_TOKENS == 99
    assert read(scaffold_named("rsa").constants, {}, ["N=5"]).N == 5


@pytest.mark.parametrize(
    ("experiment", "constants", "words"),
    [
        ("02_rsa_basic", ["PROBLEMS=sums_proof"], "02_rsa_basic compares answers, and sums_proof asks for proofs"),
        ("19_answers", ["PROBLEMS=proofs"], "19_answers compares answers, and sums_proof asks for proofs"),
        ("18_proofs", ["PROBLEMS=sums"], "18_proofs asks for proofs, and sums has answers to compare"),
        ("18_proofs", ["SCAFFOLD=majority"], "Take SCAFFOLD=best_of"),
        ("18_proofs", ["SCAFFOLD=rsa_adaptive"], "Take SCAFFOLD=rsa"),
        ("18_proofs", ["SCAFFOLD=stopping"], "SCAFFOLD=stopping is not one of baseline, rsa, rsa_verified"),
        ("18_proofs", ["PROBLEMS=bad.csv"], 'line 2 needs "problem" (or question'),
        ("18_proofs", ["SCAFFOLD=nomos", "T=3"], "unknown constant 'T'"),
    ],
)
def test_what_does_not_fit_is_one_line_and_status_2(
    experiment: str, constants: list[str], words: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.csv").write_text("statement of it,guidelines\nx,y\n")
    constants = [each.replace("bad.csv", str(tmp_path / "bad.csv")) for each in constants]
    status, _, err = run(experiment, *constants, RESULTS_DIR=str(tmp_path))
    errors = [line for line in err.splitlines() if not line.startswith("note: ")]
    assert status == 2 and len(errors) == 1 and words in errors[0] and errors[0].startswith("error: "), err


def test_a_grader_of_ones_own_may_take_proofs_and_a_vote_may_not(engine: Any, results: Path) -> None:
    async def short(problem: Problem, population: Any, ask: Any) -> Graded:
        return Graded([Grade(0.5) for _ in population], 0.5)

    rows = [{"problem": "Prove that 6*7 is even.", "guidelines": "7 for all of it"}]
    rsa, majority = scaffold_named("rsa"), scaffold_named("majority")
    few: dict[str, Any] = {"N": 2, "K": 2, "T": 1, "MAX_TOKENS": 50, "grader": short}
    found = asyncio.run(solve(rsa, rows, **few))
    assert found.head.metrics.steps[-1].mean_accuracy.value == 0.5
    with pytest.raises(UserError, match="goes by answers that say the same, and the proofs that given asks for"):
        asyncio.run(solve(majority, rows, N=2, grader=short))


def test_both_experiments_are_short_and_say_how_they_are_run() -> None:
    for name in ("18_proofs", "19_answers"):
        text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        assert len(text.splitlines()) < 40 and f"Command: bash scripts/run.sh {name}" in text


def test_19_answers_is_the_scaffolds_own_experiment_under_several_seeds(results: Path) -> None:
    few = ("LIMIT=2", "N=2", "MAX_TOKENS=300")
    assert run("19_answers", "SCAFFOLD=baseline", "RUNS=2", *few, RESULTS_DIR=str(results))[0] == 0
    assert run("01_baseline", *few, RESULTS_DIR=str(results))[0] == 0
    ours, own = load(results / "19_answers", "19_answers-seed0"), load(results, "01_baseline")
    keys = [[m["key"] for m in problem["steps"][0]["members"]] for problem in ours["problems"]]
    assert keys == [[m["key"] for m in problem["steps"][0]["members"]] for problem in own["problems"]]
    assert Counter(journal_lines(results, "01_baseline")) == Counter(), "19_answers has asked for all of it"
