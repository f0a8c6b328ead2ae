"""Graded results: the grades and the new figures go into the file, and a copy of the old file is
kept."""

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from core.client.journal import Journal
from core.types import Completion
from harness.report import report as reporting
from labs.proofs.grade.stored import written
from tests.conftest import run
from tests.fakes.grader import points_of
from tests.fakes.server import ScriptedServer
from tests.helpers.once import once
from tests.helpers.runs import load
from tests.labs.proofs.conftest import Desk, Row, read, the_error

PROOFS = [
    {"id": f"p{i}", "problem": f"Show that {i} is {i}.", "grading_scheme": f"7: say {i}"}
    for i in range(3)
]
ANSWERS = [{"id": f"p{i}", "problem": f"What is {i}?", "answer": i} for i in range(3)]
SMALL = ("SCAFFOLD=baseline", "N=4", "RUNS=1")
Make = Callable[..., None]


@pytest.fixture
def make(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Return `make(experiment, problems, *args)`, which leaves the results of a run; each run is
    made once."""

    def make(experiment: str, problems: list[Row], *args: str) -> None:
        def ran(folder: Path) -> None:
            path = folder / "problems.json"
            path.write_text(json.dumps(problems))
            with closing(ScriptedServer()) as server:
                places = {"BASE_URL": server.url, "RESULTS_DIR": str(folder)}
                status, _, err = run(experiment, f"PROBLEMS={path}", *args, **places)
            assert status == 0, err

        name = "-".join((experiment, *args)).replace("=", "")
        shutil.copytree(once(tmp_path_factory, name, ran), results, dirs_exist_ok=True)

    return make


def members(document: Row, step: int = -1) -> list[Row]:
    return [
        member for problem in document["problems"] for member in problem["steps"][step]["members"]
    ]


def completions(results: Path, name: str) -> dict[str, Row]:
    return {line["key"]: line["completion"] for line in read(results / "journal" / f"{name}.jsonl")}


def rewrite(journal: Path, changes: dict[str, Row]) -> None:
    """Write the journal with other completions under some keys."""
    lines = read(journal)
    journal.unlink()
    with Journal(journal) as made:
        for line in lines:
            made.put(
                Completion(line["key"], **line["completion"] | changes.get(line["key"], {})),
                line["messages"],
            )


def test_grades_go_into_the_results_and_the_figures_follow(
    desk: Desk, results: Path, make: Make
) -> None:
    make("18_proofs", PROOFS, *SMALL)
    before, replies = load(results, "18_proofs"), completions(results, "18_proofs")
    status, out, err = desk.run("grade", "18_proofs", desk.card())
    assert status == 0, err
    after = load(results, "18_proofs")
    found = members(after)
    assert [m["grade"] for m in found] == [points_of(replies[m["key"]]["answer"]) for m in found]
    assert [m["points_share"] for m in found] == [m["grade"] / 7 for m in found]
    assert all(
        m["graded_by"] == "grader" and m["reasons"][0].endswith(f"Points: {m['grade']}")
        for m in found
    )
    assert [m["scheme"] for m in found] == [f"7: say {i}" for i in range(3) for _ in range(4)]
    value = sum(m["points_share"] for m in found) / len(found)
    for figure in (
        after["metrics"]["proofs"]["points"],
        after["metrics"]["steps"][-1]["mean_accuracy"],
    ):
        assert figure["value"] == pytest.approx(value) and figure["n"] == 3
    assert after["metrics"]["steps"][-1]["majority_accuracy"]["value"] == pytest.approx(value), (
        "a fair draw"
    )
    assert f"all 3 {100 * value:.1f} [" in " ".join(out.split()) and after["grader"] == "by_model"
    kept = [json.loads(path.read_text()) for path in results.glob("18_proofs.2*.json")]
    assert kept == [before]
    texts = [
        (problem["id"], m["key"])
        for problem in after["problems"]
        for m in problem["steps"][-1]["members"]
    ]
    asked = {(problem, replies[key]["answer"]) for problem, key in texts}
    assert len(asked) == desk.grader.asked, "the same proof is graded once"
    assert desk.run("grade", "18_proofs", desk.card())[0] == 0 and desk.grader.asked == len(asked)
    assert load(results, "18_proofs")["problems"] == after["problems"]


def test_exports_have_the_grades_in_both_shapes_and_can_be_graded_again(
    desk: Desk, results: Path, make: Make
) -> None:
    make("18_proofs", PROOFS, *SMALL)
    out = results / "18_proofs.graded.jsonl"
    out.write_text("mine\n")
    status, _, err = desk.run("grade", "18_proofs", desk.card(), "SHAPE=qed")
    assert status == 2 and out.name in the_error(err) and desk.grader.asked == 0
    out.unlink()
    status, said, err = desk.run("grade", "18_proofs", desk.card(), "SHAPE=qed")
    assert status == 0 and str(out) in said, err
    lines, document, asked = read(out), load(results, "18_proofs"), desk.grader.asked
    assert [line["score"] for line in lines] == [
        points_of(line["model_solution"]) for line in lines
    ]
    assert all({"cost_run", "history", "grade_cost", "id"} <= line.keys() for line in lines)
    assert (
        "SHAPE" not in document["grading"]["config"] and members(document)[0]["grade"] is not None
    )
    reporting.main(["18_proofs", "--jsonl"])
    ours = read(path := results / "18_proofs.jsonl")
    assert (
        [row["grade"] for row in ours]
        == [line["score"] for line in lines]
        == [7 * row["score"] for row in ours]
    )
    assert [row["schema_0"] for row in ours] == [f"7: say {i}" for i in range(3)]
    assert all(row["grade_cost"]["cost"] > 0 and row["finish_reason"] == "stop" for row in ours)
    out.unlink()
    assert desk.run("grade", str(path), desk.card())[0] == 0 and desk.grader.asked == asked, (
        "they are graded already"
    )
    assert [row["grade"] for row in read(out)] == [row["grade"] for row in ours]


def test_all_populations_are_graded_if_that_is_asked_for(
    desk: Desk, results: Path, make: Make
) -> None:
    make("18_proofs", PROOFS, "SCAFFOLD=refinement", "N=2", "ROUNDS=2", "RUNS=1")
    assert desk.run("grade", "18_proofs", desk.card())[0] == 0
    document = load(results, "18_proofs")
    assert [m.get("grade") for step in (0, 1) for m in members(document, step)] == [None] * 12
    assert all(m["grade"] is not None for m in members(document, 2))
    assert desk.run("grade", "18_proofs", desk.card(), "STEPS=all")[0] == 0
    document = load(results, "18_proofs")
    assert all(m["grade"] is not None for step in range(3) for m in members(document, step))
    steps = document["metrics"]["steps"]
    assert [step["mean_accuracy"]["n"] for step in steps] == [3, 3, 3] and document["grading"][
        "graded"
    ] == 18
    assert document["metrics"]["proofs"]["points"]["value"] == pytest.approx(
        steps[-1]["mean_accuracy"]["value"]
    )


def test_missing_grades_are_in_no_mean_and_a_proof_that_was_cut_off_is_0_in_it(
    desk: Desk, results: Path, make: Make
) -> None:
    make("18_proofs", PROOFS, *SMALL)
    cut, gone = (member["key"] for member in members(load(results, "18_proofs"))[:2])
    changes: dict[str, Row] = {
        cut: {"finish_reason": "length"},
        gone: {"answer": "worthless to say"},
    }
    rewrite(results / "journal" / "18_proofs.jsonl", changes)
    desk.grader.reply = lambda prompt, seed: "Hm." if "worthless" in prompt else "Points: 6"
    status, _, err = desk.run("grade", "18_proofs", desk.card())
    assert status == 0, err
    document = load(results, "18_proofs")
    found = members(document)
    assert [m["grade"] for m in found] == [None, None] + [6] * 10
    assert document["grading"]["not_delivered"] == {"cut off": 1}
    assert document["grading"]["missing"] == {"grading unreadable": 1}
    assert (found[0]["points_share"], found[0]["ungraded"]) == (0, "cut off")
    assert (found[1]["points_share"], found[1]["ungraded"], found[1]["grades"]) == (
        None,
        "grading unreadable",
        [None],
    )
    mean = document["metrics"]["steps"][-1]["mean_accuracy"]["value"]
    assert mean == pytest.approx(((0 + 6 + 6) / 21 + 6 / 7 + 6 / 7) / 3)


def test_of_answers_the_grader_is_asked_for_those_in_doubt(
    desk: Desk, results: Path, make: Make
) -> None:
    make("01_baseline", ANSWERS, "N=4")
    before = load(results, "01_baseline")
    status, _, err = desk.run("grade", "01_baseline", desk.card())
    assert status == 0 and desk.grader.asked == 0, err
    after = load(results, "01_baseline")
    assert {m["graded_by"] for m in members(after)} == {"math-verify"}
    names = ("answer", "correct", "doubt", "key", "group")
    assert [[m[n] for n in names] for m in members(after)] == [
        [m[n] for n in names] for m in members(before)
    ]
    assert (
        after["metrics"]["steps"] == before["metrics"]["steps"]
        and after["grading"]["by_math_verify"] == 12
    )
    doubtful = next(m["key"] for m in members(after) if not m["correct"])
    rewrite(
        results / "journal" / "01_baseline.jsonl",
        {doubtful: {"answer": "I would say that it is so."}},
    )
    desk.grader.reply = lambda prompt, seed: "It says the same.\nPoints: 7"
    status, _, err = desk.run("grade", "01_baseline", desk.card())
    assert status == 0 and desk.grader.asked == 1, err
    [found] = [m for m in members(load(results, "01_baseline")) if m["key"] == doubtful]
    assert (
        found["graded_by"] == "grader"
        and found["correct"] is True
        and found["doubt"] == "no answer"
    )
    assert found["reasons"] == ["It says the same.\nPoints: 7"] and len(found["grading_calls"]) == 1


def test_tokens_are_shared_out_by_characters_and_unknown_if_thinking_is_not_shown() -> None:
    def of(thinking: str, answer: str, tokens: int) -> dict[str, Any]:
        return written(
            Completion("", 0, thinking, answer, prompt_tokens=1, completion_tokens=tokens)
        )

    assert of("x" * 300, "y" * 100, 100) == {"thinking": 75, "answer": 25}
    assert of("", "y" * 100, 30) == {"thinking": 0, "answer": 30}
    unknown = {"thinking": None, "answer": None}
    assert of("", "y" * 100, 5000) == unknown and of("x", "y", 0) == unknown
