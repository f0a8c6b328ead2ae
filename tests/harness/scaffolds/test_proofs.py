"""Proofs from end to end: written by any scaffold, recorded without grades, and shown as
ungraded."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.base.files import ROOT
from core.constants import read
from core.grading.ungraded import ungraded
from core.types import ANSWERS, EITHER, PROOFS, Completion, Grade, Graded, Member, Problem, Scaffold
from harness.experiment_file import experiments_by_scaffold, scaffold_named
from harness.problems import sets
from harness.report import jsonl, page
from harness.report.data import Results
from harness.results.metrics import RunMetrics
from harness.results.records import record
from harness.results.warnings import is_ungraded
from harness.run import solve, solve_sync
from harness.scaffolds.majority import MAJORITY
from harness.scaffolds.stopping import RSA_ADAPTIVE
from harness.session import equal_compute
from harness.session.checks import check_kind
from harness.session.regrade import regrade
from tests.fakes.model import PROOF, SIZES, Wayward, every_scaffold, run


def test_their_results_are_ungraded_and_are_exported_as_rows_of_the_set(
    server: Any, results: Path
) -> None:
    sizes: dict[str, Any] = {"LIMIT": 2, "N": 3, "K": 2, "T": 1, "grader": ungraded}
    found = solve_sync(scaffold_named("rsa"), "sums_proof", name="proofs", **sizes)
    with pytest.raises(UserError, match=r"proofs.json"):
        regrade(found.path)
    member = page.data([Results(found.path)])["runs"][0]["problems"][0]["steps"][0]["members"][0]
    assert (
        "correct" not in member
        and "grade" not in member
        and {row["grade"] for row in found.rows} == {None}
    )
    jsonl.write(found.path, str(results / "out.jsonl"))
    lines = [json.loads(line) for line in (results / "out.jsonl").read_text().splitlines()]
    rows = json.loads((ROOT / "data" / "sums_proof.json").read_text())
    for line, row in zip(lines, rows[:2], strict=True):
        assert line.items() >= row.items() and line["model_solution"].strip()
        assert line["grade"] is line["correct"] is line["model_answer"] is None
        asked = [message["content"] for message in line["history"] if message["role"] == "user"]
        assert len(asked) == 6 and all(
            "proof" in text and "boxed" not in text.split("Candidate")[0] for text in asked
        )
        assert not any(row["grading_guidelines"] in text for text in asked)


@every_scaffold
def test_what_any_scaffold_yields_is_recorded_without_grades(scaffold: Scaffold[Any]) -> None:
    figures = RunMetrics(1)
    for t, population in enumerate(run(scaffold, Wayward(seed=0), PROOF, **SIZES)):
        graded = asyncio.run(ungraded(PROOF, population, None))  # type: ignore[arg-type]
        figures.add(0, json.loads(json.dumps(record(t, population, graded))))
    figures.finished = [True]
    metrics = json.loads(json.dumps(figures.metrics(1.0), allow_nan=False))
    assert is_ungraded({"metrics": metrics}) and figures.progress == ""
    assert metrics.get("verification", {}).get("auc") is None


def test_graded_members_have_a_mean_and_the_others_are_left_out() -> None:
    """Grades are points / 7. The score of a population without a vote is their mean."""
    members = [Member(Completion(f"{i:032x}", i, answer="so")) for i in range(3)]
    got = record(0, members, Graded([Grade(1.0), Grade(3 / 7), Grade(None)], score=5 / 7))
    assert got["mean_accuracy"] == pytest.approx(5 / 7) == got["majority_correct"]
    assert [m["correct"] for m in got["members"]] == [True, False, None]
    figures = RunMetrics(2)
    figures.add(0, got)
    figures.add(1, record(0, members, Graded([Grade(None)] * 3, None)))
    (step,) = figures.metrics(1.0)["steps"]
    assert step["mean_accuracy"]["n"] == 1 and step["mean_accuracy"]["value"] == pytest.approx(
        5 / 7
    )


def test_what_is_not_whole_is_told_apart_before_any_grade() -> None:
    cut = Member(Completion("0" * 32, 0, thinking="hm", finish_reason="length"))
    empty, failed = (
        Member(Completion("1" * 32, 1, finish_reason="stop")),
        Member(Completion("2" * 32, 2, error="no")),
    )
    graded = asyncio.run(ungraded(PROOF, [cut, empty, failed], None))  # type: ignore[arg-type]
    assert [m["doubt"] for m in record(0, [cut, empty, failed], graded)["members"]] == [
        "truncated",
        "empty",
        "failed",
    ]


def test_a_scaffold_keeps_what_its_own_experiment_sets_and_overrides_change_it() -> None:
    for name, experiment in experiments_by_scaffold().items():
        entry = equal_compute.entry(experiment)
        for chosen in (name, experiment):
            config = read(scaffold_named(chosen).constants, {"SCAFFOLD": chosen}, ["MAX_TOKENS=99"])
            assert vars(config).items() >= entry.constants.items() and config.MAX_TOKENS == 99
    assert read(scaffold_named("rsa").constants, {}, ["N=5"]).N == 5
    with pytest.raises(UserError, match="'T'"):
        read(scaffold_named("nomos").constants, {}, ["T=3"])
    with pytest.raises(UserError, match="SCAFFOLD=stopping"):
        scaffold_named("stopping")


@pytest.mark.parametrize(
    ("problems", "wanted", "instead", "words"),
    [
        ("sums_proof", ANSWERS, "", "18_proofs"),
        ("sums", PROOFS, "", "19_answers"),
        ("sums_proof", PROOFS, MAJORITY.for_proofs, "SCAFFOLD=best_of"),
        ("sums_proof", PROOFS, RSA_ADAPTIVE.for_proofs, "SCAFFOLD=rsa"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(
    problems: str, wanted: str, instead: str, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        check_kind("x", sets.load(problems, EITHER), wanted, instead)


async def short(problem: Problem, population: Any, ask: Any) -> Graded:
    return Graded([Grade(0.5) for _ in population], 0.5)


def test_a_grader_of_ones_own_may_take_proofs_and_a_vote_may_not(
    engine: Any, results: Path
) -> None:
    rows = [{"problem": "Prove that 6*7 is even.", "guidelines": "7 for all of it"}]
    few: dict[str, Any] = {"N": 2, "K": 2, "T": 1, "MAX_TOKENS": 50, "grader": short}
    found = asyncio.run(solve(scaffold_named("rsa"), rows, **few))
    assert found.head.metrics.steps[-1].mean_accuracy.value == 0.5
    with pytest.raises(UserError, match="SCAFFOLD=best_of"):
        asyncio.run(solve(scaffold_named("majority"), rows, N=2, grader=short))
