"""Results, graded: the grades go into the file, the figures follow, and the file as it was stays."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.generate.journal import Journal
from core.types import Completion
from labs.proofs.grade.stored import written
from tests import conftest
from tests.conftest import python
from tests.fakes.grader import GradingServer, points_of
from tests.fakes.server import ScriptedServer
from tests.helpers.runs import load
from tests.labs.proofs.grade.conftest import grade, the_error
from tests.labs.proofs.grade.test_lines import wait_for_lines

MakeCard = Callable[..., str]
PROOFS = [{"id": f"p{i}", "problem": f"Show that {i} is {i}.", "grading_scheme": f"7: say {i}"} for i in range(3)]
SMALL = ("SCAFFOLD=baseline", "N=4", "RUNS=1")


def made(results: Path, name: str, problems: list[dict[str, Any]], *args: str) -> None:
    """Results of a run whose server is gone."""
    path = results.parent / "problems.json"
    path.write_text(json.dumps(problems))
    server = ScriptedServer()
    try:
        status, _, err = conftest.run(name, f"PROBLEMS={path}", *args, BASE_URL=server.url)
        assert status == 0, err
    finally:
        server.close()


def members(document: dict[str, Any], step: int = -1) -> list[dict[str, Any]]:
    return [member for problem in document["problems"] for member in problem["steps"][step]["members"]]


def completions(results: Path, name: str) -> dict[str, dict[str, Any]]:
    lines = (results / "journal" / f"{name}.jsonl").read_text().splitlines()
    return {line["key"]: line["completion"] for line in map(json.loads, lines)}


def test_grades_go_into_the_results_and_the_figures_follow(
    grader: GradingServer, card: MakeCard, results: Path
) -> None:
    made(results, "18_proofs", PROOFS, *SMALL)
    before, said = load(results, "18_proofs"), completions(results, "18_proofs")
    status, out, err = grade("18_proofs", card())
    assert status == 0, err
    after = load(results, "18_proofs")
    found = members(after)
    assert [m["grade"] for m in found] == [points_of(said[m["key"]]["answer"]) for m in found]
    assert [m["worth"] for m in found] == [m["grade"] / 7 for m in found]
    assert all(m["graded_by"] == "grader" and m["reasons"][0].endswith(f"Points: {m['grade']}") for m in found)
    assert [m["scheme"] for m in found] == [f"7: say {i}" for i in range(3) for _ in range(4)]
    value = sum(m["worth"] for m in found) / len(found)
    for figure in (after["metrics"]["proofs"]["points"], after["metrics"]["steps"][-1]["mean_accuracy"]):
        assert figure["value"] == pytest.approx(value) and figure["n"] == 3
    assert after["metrics"]["steps"][-1]["majority_accuracy"]["value"] == pytest.approx(value), "a fair draw"
    assert f"all         3  {100 * value:.1f} [" in out and "mean points / 7" in out and after["grader"] == "by_model"
    assert len({(problem["id"], said[m["key"]]["answer"]) for problem in after["problems"] for m in
                problem["steps"][-1]["members"]}) == grader.asked, "the same proof is graded once"  # fmt: skip
    kept = [json.loads(path.read_text()) for path in results.glob("18_proofs.2*.json")]
    assert kept == [before]
    assert grade("18_proofs", card())[0] == 0 and load(results, "18_proofs") == after
    assert len(list(results.glob("18_proofs*.json"))) == 2, "nothing has changed, and nothing is written"


def test_an_export_has_the_grades_and_can_be_graded_again(grader: GradingServer, card: MakeCard, results: Path) -> None:
    made(results, "18_proofs", PROOFS, *SMALL)
    assert grade("18_proofs", card())[0] == 0
    asked = grader.asked
    process = python("-m", "core.report.report", "18_proofs", "--jsonl")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    path = results / "18_proofs.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["grade"] for row in rows] == [points_of(row["model_solution"]) for row in rows]
    assert [row["score"] for row in rows] == [row["grade"] / 7 for row in rows]
    assert [row["schema_0"] for row in rows] == [f"7: say {i}" for i in range(3)]
    assert all(row["grade_cost"]["cost"] > 0 and row["finish_reason"] == "stop" for row in rows)
    status, _, err = grade(str(path), card())
    assert status == 0 and grader.asked == asked, "the same proofs, graded already"
    again = [json.loads(line) for line in path.with_suffix(".graded.jsonl").read_text().splitlines()]
    assert [row["grade"] for row in again] == [row["grade"] for row in rows]


def test_killed_in_the_middle_the_results_stay_and_nothing_is_graded_again(
    grader: GradingServer, card: MakeCard, results: Path
) -> None:
    made(results, "18_proofs", PROOFS, *SMALL)
    before = (results / "18_proofs.json").read_bytes()
    grader.life = 3
    process = python("-m", "labs.proofs.grade.cli", "18_proofs", card("concurrency = 2"))
    assert grader.is_stuck.wait(120)
    wait_for_lines(process, results, 3, "18_proofs")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert (results / "18_proofs.json").read_bytes() == before
    grader.revive()
    assert grade("18_proofs", card("concurrency = 2"))[0] == 0
    assert len(set(grader.answered)) == len(grader.answered)
    assert all(m["grade"] is not None for m in members(load(results, "18_proofs")))


def test_each_of_several_runs_is_graded_and_they_are_merged_again(
    grader: GradingServer, card: MakeCard, results: Path
) -> None:
    made(results, "18_proofs", PROOFS, "SCAFFOLD=baseline", "N=2", "RUNS=2")
    status, out, err = grade("18_proofs", card())
    assert status == 0 and "12 of 12 proofs of 3 problems" in out, err
    whole = load(results, "18_proofs")
    parts = [load(results / "18_proofs", f"18_proofs-seed{seed}") for seed in (0, 1)]
    assert whole["grading"] == parts[0]["grading"] == parts[1]["grading"]
    mean = whole["metrics"]["steps"][-1]["mean_accuracy"]["value"]
    assert mean == pytest.approx(sum(m["worth"] for part in parts for m in members(part)) / 12)
    assert mean == pytest.approx(whole["metrics"]["proofs"]["points"]["value"])
    asked = grader.asked
    assert grade("18_proofs", card())[0] == 0 and grader.asked == asked


def test_all_populations_are_graded_where_that_is_asked_for(
    grader: GradingServer, card: MakeCard, results: Path
) -> None:
    made(results, "18_proofs", PROOFS, "SCAFFOLD=refinement", "N=2", "ROUNDS=2", "RUNS=1")
    assert grade("18_proofs", card())[0] == 0
    document = load(results, "18_proofs")
    assert [m.get("grade") for step in (0, 1) for m in members(document, step)] == [None] * 12
    assert all(m["grade"] is not None for m in members(document, 2))
    status, out, _ = grade("18_proofs", card(), "STEPS=all")
    assert status == 0 and "18 of 18 proofs" in out
    document = load(results, "18_proofs")
    assert all(m["grade"] is not None for step in range(3) for m in members(document, step))
    steps = document["metrics"]["steps"]
    assert [step["mean_accuracy"]["n"] for step in steps] == [3, 3, 3]
    assert document["metrics"]["proofs"]["points"]["value"] == pytest.approx(steps[-1]["mean_accuracy"]["value"])


def test_missing_grades_are_in_no_mean_and_what_was_cut_off_is_0_in_it(
    grader: GradingServer, card: MakeCard, results: Path
) -> None:
    made(results, "18_proofs", PROOFS, *SMALL)
    journal = results / "journal" / "18_proofs.jsonl"
    document = load(results, "18_proofs")
    cut, gone = members(document)[0]["key"], members(document)[1]["key"]
    said = completions(results, "18_proofs")
    _rewrite(journal, {cut: {"finish_reason": "length"}, gone: {"answer": "worthless to say"}})
    grader.reply = lambda prompt, seed: "Hm." if "worthless" in prompt else "Points: 6"
    status, out, err = grade("18_proofs", card())
    assert status == 0 and "counted as 0 points: 1 cut off" in out and "1 grading unreadable" in out, err
    found = members(load(results, "18_proofs"))
    assert [m["grade"] for m in found] == [None, None] + [6] * 10 and len(said) == 12
    assert (found[0]["worth"], found[0]["ungraded"]) == (0, "cut off")
    assert (found[1]["worth"], found[1]["ungraded"], found[1]["grades"]) == (None, "grading unreadable", [None])
    mean = load(results, "18_proofs")["metrics"]["steps"][-1]["mean_accuracy"]["value"]
    assert mean == pytest.approx(((0 + 6 + 6) / 21 + 6 / 7 + 6 / 7) / 3)


def _rewrite(journal: Path, changes: dict[str, dict[str, Any]]) -> None:
    """The journal with other completions under some keys."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    journal.unlink()
    with Journal(journal) as made:
        for line in lines:
            made.put(line["key"], line["completion"] | changes.get(line["key"], {}), line["messages"])


def test_of_answers_the_grader_is_asked_for_what_is_in_doubt(
    grader: GradingServer, card: MakeCard, results: Path
) -> None:
    problems = [{"id": f"p{i}", "problem": f"What is {i}?", "answer": i} for i in range(3)]
    made(results, "01_baseline", problems, "N=4")
    before = load(results, "01_baseline")
    status, out, err = grade("01_baseline", card())
    assert status == 0 and grader.asked == 0 and "math-verify decided" in out, err
    after = load(results, "01_baseline")
    assert {m["graded_by"] for m in members(after)} == {"math-verify"}
    names = ("answer", "correct", "doubt", "key", "group")
    assert [[m[n] for n in names] for m in members(after)] == [[m[n] for n in names] for m in members(before)]
    assert after["metrics"]["steps"] == before["metrics"]["steps"] and after["grading"]["by_math_verify"] == 12
    doubtful = next(m["key"] for m in members(after) if not m["correct"])
    _rewrite(results / "journal" / "01_baseline.jsonl", {doubtful: {"answer": "I would say that it is so."}})
    grader.reply = lambda prompt, seed: "It says the same.\nPoints: 7"
    status, _, err = grade("01_baseline", card())
    assert status == 0 and grader.asked == 1, err
    [found] = [m for m in members(load(results, "01_baseline")) if m["key"] == doubtful]
    assert found["graded_by"] == "grader" and found["correct"] is True and found["doubt"] == "no answer"
    assert found["reasons"] == ["It says the same.\nPoints: 7"] and len(found["grading"]) == 1


def test_unknown_results_and_a_journal_that_is_gone_are_one_line(
    grader: GradingServer, card: MakeCard, results: Path
) -> None:
    made(results, "01_baseline", [{"problem": "What is 1?", "answer": 1}], "N=2")
    status, _, err = grade("02_nothing", card())
    assert status == 2 and "no results at" in the_error(err) and "01_baseline" in err
    (results / "journal" / "01_baseline.jsonl").unlink()
    status, _, err = grade("01_baseline", card())
    assert status == 2 and "in no journal beside it" in the_error(err) and grader.asked == 0


def test_tokens_are_shared_out_by_characters_and_unknown_where_thinking_is_not_shown() -> None:
    def of(thinking: str, answer: str, tokens: int) -> dict[str, int | None]:
        return written(Completion("", 0, thinking, answer, prompt_tokens=1, completion_tokens=tokens))

    assert of("x" * 300, "y" * 100, 100) == {"thinking": 75, "answer": 25}
    assert of("", "y" * 100, 30) == {"thinking": 0, "answer": 30}
    unknown = {"thinking": None, "answer": None}
    assert of("", "y" * 100, 5000) == unknown and of("x", "y", 0) == unknown
