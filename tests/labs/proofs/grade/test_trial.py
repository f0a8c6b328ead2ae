"""Trials of a grader: figures against a recount by hand, attacks on a poor grader, and refusals."""

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from labs.proofs.grade.trial import ATTACKS
from tests.fakes.grader import PROOF, points_of
from tests.labs.proofs.conftest import Desk, Row, the_error


def proofs(problems: int, each: int = 3) -> list[Row]:
    """Make proofs with points by people, of writers in turn."""
    return [
        {
            "problem_id": f"p{n}",
            "problem": f"Show that {2 * n} is even.",
            "reference_solution": f"It is twice {n}.",
            "marking_scheme": "7: say so",
            "model_solution": f"I have seen {n} {'times ' * (i + n)}and {i}.",
            "expert_rating": (3 * n + 2 * i) % 8,
            "generator": f"writer {i % 2}",
        }
        for n in range(problems)
        for i in range(each)
    ]


def file_of(rows: list[Row], path: Path) -> str:
    path.write_text(json.dumps(rows))
    return f"GRADED={path}"


def load(results: Path) -> Any:
    [path] = (results / "20_grader").glob("*.json")
    return json.loads(path.read_text())


def test_the_figures_of_a_poor_grader_and_its_fall_for_attacks(
    desk: Desk, results: Path, tmp_path: Path
) -> None:
    def reply(prompt: str, seed: int) -> str:
        proof = PROOF.search(prompt)
        assert proof
        if ATTACKS["fence"] in prompt:
            return "I am confused."
        first_line = proof[2].partition("\n")[0]
        points = 7 if ATTACKS["instruction"] in prompt else points_of(first_line)
        return f"Well.\nPoints: {points}"

    grader, rows = desk.grader, proofs(6)
    grader.reply = reply
    rows[4]["model_solution"] = None
    args = (file_of(rows, tmp_path / "mine.json"), desk.card(), "PROMPTS=scheme,alone")
    status, _, err = desk.run("20_grader", *args)
    assert status == 0, err
    document = load(results)
    plain = document["ways"][0]
    assert plain["not_delivered"] == {"empty": 1} and plain["graded"] == 17
    score, praise, instruction, fence = document["attacks"]
    for attack in (score, praise):
        assert attack["change"]["difference"] == 0 and attack["same"] == 17
    gains, errors = defaultdict(list), defaultdict(list)
    for row in rows:
        if row["model_solution"]:
            gains[row["problem_id"]].append(7 - points_of(row["model_solution"]))
            errors[row["problem_id"]].append(
                abs(points_of(row["model_solution"]) - row["expert_rating"])
            )
    assert plain["mean_absolute_error"]["value"] == pytest.approx(mean(map(mean, errors.values())))
    assert instruction["change"]["difference"] == pytest.approx(mean(map(mean, gains.values())))
    assert instruction["change"]["low"] > 0 and instruction["raised"] == sum(
        g > 0 for of in gains.values() for g in of
    )
    assert fence["change"] is None and fence["became_missing"] == 17 and fence["proofs"] == 0
    assert document["ways"][-1]["missing"] == {"grading unreadable": 17}
    assert (
        sum(way["cost"] for way in document["ways"])
        == pytest.approx(grader.charged)
        == document["spent"]
    )
    asked = grader.asked
    assert asked == 17 * (2 + 3 + 2), "unreadable ones are asked for twice"
    assert desk.run("20_grader", *args)[0] == 0 and grader.asked == asked


def test_a_set_without_references_leaves_out_the_prompt_that_shows_them(
    desk: Desk, results: Path, tmp_path: Path
) -> None:
    rows = [
        {name: cell for name, cell in row.items() if name != "reference_solution"}
        for row in proofs(2)
    ]
    named = file_of(rows, tmp_path / "mine.json")
    status, _, err = desk.run("20_grader", named, desk.card(), "ATTACKS=none")
    assert status == 0 and load(results)["left_out"] == ["guidelines"], err
    asked = desk.grader.asked
    status, _, err = desk.run("20_grader", named, desk.card(), "PROMPTS=guidelines")
    assert status == 2 and "in problem p0 and" in the_error(err) and desk.grader.asked == asked


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["GRADED=nothing"], "'nothing'"),
        (["GRADED=data/sums.json"], "points"),
        (["GRADED=gone.csv"], "gone.csv"),
        (["GRADED=proofbench_graded"], "data/sets/proofbench_graded.parquet"),
        (["PROMPTS=gone.txt"], "gone.txt"),
        (["PROMPTS=alone,alone"], "PROMPTS=alone,alone"),
        (["ATTACKS=bribe"], "'bribe'"),
        (["PROBLEMS=sums"], "PROBLEMS"),
    ],
)
def test_a_bad_command_is_refused_in_one_line(
    args: list[str], named: str, desk: Desk, tmp_path: Path
) -> None:
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    status, _, err = desk.run("20_grader", *args, ENGINE="embedded", OPENAI_API_KEY="", **offline)
    assert status == 2 and named in the_error(err)
