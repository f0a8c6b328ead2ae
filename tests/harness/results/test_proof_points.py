"""The points of proofs, against values by hand: of one run, of several, and with missing grades."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.base.errors import UserError
from harness.results import read
from harness.results.merge import merge
from harness.results.metrics import of_rows
from harness.results.proof_points import Proved, groups_of, is_good, metrics, values
from tests.helpers import documents
from tests.helpers.documents import VALIDATOR
from tests.helpers.graded import document

Points = list[list[float | str]]  # of the proofs of each problem; or why there are none


def proof(points: float | str, thinking: int | None = 30) -> dict[str, Any]:
    """Return a member as scripts/grade.sh writes it."""
    tokens = {"thinking": thinking, "answer": None if thinking is None else 10}
    found = documents.member(40, answer=None, correct=points == 7, written=tokens)
    if isinstance(points, str):
        points_share = 0 if points in ("cut off", "empty") else None
        return found | {
            "grade": None,
            "points_share": points_share,
            "ungraded": points,
            "correct": None if points_share is None else False,
        }
    found |= {"grade": points, "points_share": points / 7, "graded_by": "grader"}
    return found | {"grades": [int(points)], "reasons": ["So."]}


def row(id: str, points: list[float | str], **more: Any) -> dict[str, Any]:
    members = [proof(each) for each in points]
    known = [m["points_share"] for m in members if m["points_share"] is not None]
    mean = sum(known) / len(known) if known else None
    step = documents.step(0, members) | {
        "mean_accuracy": mean,
        "majority_correct": mean,
        "majority_answer": None,
    }
    return documents.problem(id, [step]) | {"answer": None, "answer_type": "proof"} | more


def shares(*runs: Points, by: str = "mean") -> dict[str, Any]:
    proofs = [
        Proved(f"p{number}", {}, [proof(each) for each in points], run)
        for run, of in enumerate(runs)
        for number, points in enumerate(of)
    ]
    found: dict[str, Any] = metrics(proofs, len(runs), by)["proofs"]
    return found


def test_means_over_problems_count_undelivered_proofs_as_0_and_skip_missing_grades() -> None:
    found = shares([[7, 6], ["cut off", 5], ["grading unreadable"], ["empty"]])
    assert (
        found["points"]["value"] == pytest.approx((13 / 14 + 5 / 14 + 0) / 3)
        and found["points"]["n"] == 3
    )
    assert found["good"]["value"] == pytest.approx((1 + 0 + 0) / 3)
    assert found["full"]["value"] == pytest.approx((0.5 + 0 + 0) / 3)
    assert (found["proofs"], found["graded"]) == (6, 3) and "runs" not in found
    assert found["not_delivered"] == {"cut off": 1, "empty": 1} and found["missing"] == {
        "grading unreadable": 1
    }
    assert found["written"]["right"] == {"proofs": 2, "thinking": 30, "answer": 10}
    assert found["written"]["wrong"]["proofs"] == 3, "a truncated proof is wrong"
    assert shares([[7]])["written"]["wrong"] == {"proofs": 0, "thinking": None, "answer": None}


@pytest.mark.parametrize(
    ("by", "points"),
    [("mean", [(7 + 4) / 14, 6 / 7]), ("max", [1.0, 6 / 7]), ("min", [4 / 7, 6 / 7])],
)
def test_several_runs_of_a_problem_have_the_merged_value_of_the_graded_ones(
    by: str, points: list[float]
) -> None:
    found = shares([[7], [6]], [[4], ["grading failed"]], by=by)
    assert found["points"]["value"] == pytest.approx(np.mean(points)) and found["points"]["n"] == 2
    over = found["runs"]["points"]
    assert over["values"] == pytest.approx([13 / 14, 4 / 7]), "for any merge"
    assert over["std"] == pytest.approx(np.std(over["values"], ddof=1))
    run: Points = [[7, 3], ["cut off", 6], ["filtered", 1]]
    one, three = shares(run), shares(run, run, run, by=by)
    assert all(
        one[name]["value"] == pytest.approx(three[name]["value"])
        for name in ("points", "good", "full")
    )


def test_a_mean_of_gradings_is_good_from_six_points_on() -> None:
    assert is_good(6 / 7) and is_good((6 + 6 + 6) / 3 / 7) and not is_good(5.99 / 7)
    assert values([1.0, None]) == (1.0, 1.0, 1.0) and values([None]) is None


def test_problems_are_grouped_by_the_columns_that_they_have() -> None:
    columns = {"Level": "IMO-easy", "Category": " Algebra ", "Split": "Basic", "Source": "x"}
    assert groups_of("", columns) == {"split": "Basic", "level": "IMO-easy", "category": "Algebra"}
    assert (
        groups_of("24_25", columns)["split"] == "24_25"
        and groups_of("", {"level": None, "category": ""}) == {}
    )
    proofs = [
        Proved(f"p{number}", {"level": level}, [proof(points)])
        for number, (level, points) in enumerate([("easy", 7), ("easy", 5), ("hard", 0)])
    ]
    levels = metrics(proofs)["proofs"]["groups"]["level"]
    found = {name: (of["points"]["value"], of["points"]["n"]) for name, of in levels.items()}
    assert found == {"easy": (pytest.approx(6 / 7), 2), "hard": (0, 1)}


GRADING: dict[str, Any] = {
    "ended": "2026-11-23T00:00:00+00:00",
    "model": {"name": "strict", "sha256": None},
    "engine": {"kind": "other", "version": None, "origin": "o"},
    "config": {"GRADES": 1, "SEED": 0, "TEMPERATURE": 0.7},
    **dict.fromkeys(
        (
            "proofs",
            "problems",
            "graded",
            "gradings",
            "input_tokens",
            "output_tokens",
            "asked_again",
        ),
        2,
    ),
    **dict.fromkeys(("by_math_verify", "self_evaluations"), 0)
    | dict.fromkeys(("prompt", "cost", "spread")),
    **{
        "prompts_sha256": "1" * 64,
        "missing": {"filtered": 1},
        "missing_gradings": {},
        "not_delivered": {},
    },
}


def graded_run(path: Path, points: Points, seed: int, **grading: Any) -> Path:
    rows = [
        row(f"p{number}", each, columns={"Level": "ab"[number % 2]})
        for number, each in enumerate(points)
    ]
    run = document(rows, config={"SEED": seed}, grader="by_model")
    run["metrics"] |= of_rows([rows]).metrics(1.0)
    run["grading"] = GRADING | grading
    path.write_text(json.dumps(run))
    return path


@pytest.mark.parametrize(
    ("by", "value"), [("mean", (5.5 + 6 + 0) / 21), ("max", 13 / 21), ("min", 10 / 21)]
)
def test_graded_files_merge_and_grades_missing_in_one_run_come_from_the_other(
    tmp_path: Path, by: str, value: float
) -> None:
    one = graded_run(tmp_path / "a.json", [[7], [6], ["cut off"]], 0)
    two = graded_run(tmp_path / "b.json", [[4], ["filtered"], [0]], 1, gradings=3)
    path, found = merge([one, two], "both", tmp_path, by)
    VALIDATOR.validate(json.loads(path.read_text()))
    proofs, [step] = found["metrics"]["proofs"], found["metrics"]["steps"]
    assert proofs["points"]["value"] == pytest.approx(value) and proofs["points"]["n"] == 3
    assert step["mean_accuracy"] == pytest.approx(proofs["points"]), "one definition"
    assert step["runs"]["mean_accuracy"]["values"] == pytest.approx(
        proofs["runs"]["points"]["values"]
    )
    assert set(proofs["groups"]["level"]) == {"a", "b"}
    head, _ = read.read(path)
    assert head.metrics.proofs and head.metrics.proofs.runs and not head.grading, (
        "the gradings differ"
    )


def test_other_graders_prompts_and_constants_are_not_merged(tmp_path: Path) -> None:
    one = graded_run(tmp_path / "a.json", [[7]], 0)
    others: list[dict[str, Any]] = [
        {"model": {"name": "mild", "sha256": None}},
        {"prompts_sha256": "2" * 64},
    ]
    for number, other in enumerate(others, 1):
        two = graded_run(tmp_path / f"{number}.json", [[4]], number, **other)
        with pytest.raises(UserError, match="grader's"):
            merge([one, two], "both", tmp_path)
    two = graded_run(
        tmp_path / "c.json", [[4]], 3, config=GRADING["config"] | {"GRADES": 3, "SEED": 9}
    )
    with pytest.raises(UserError, match=r"GRADES \(1; 3\)$"):
        merge([one, two], "both", tmp_path)
