"""Proofs with the points that people gave them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from harness.problems import sets
from harness.problems.rows import read_rows
from labs.demo import make_graded, sums
from labs.demo.make_sums import proof_rows
from labs.proofs import graded
from labs.proofs.graded import PUBLISHED, check, scheme_of

# Of a set that changes, the version must be raised: graded.BUNDLED_VERSION.
HASH = "5f37d42ade313f2b604ecff0e689c8c1b723de98fe870225a4028fac1d6db8f1"


def test_the_bundled_proofs_are_of_held_out_problems_and_have_the_points_of_their_lines() -> None:
    made = graded.load("sums_graded")
    assert (made.sha256, made.version, made.licence, len(made.problems)) == (
        HASH,
        graded.BUNDLED_VERSION,
        "MIT",
        40,
    )
    rows = proof_rows("sums_graded", make_graded.SEED, make_graded.PROBLEMS, *make_graded.TERMS)
    asked = {
        row["id"]: (row["problem"], row["solution"], row["grading_guidelines"]) for row in rows
    }
    others = {p.statement for name in sets.BUNDLED for p in sets.load(name).problems}
    for proof in made.proofs:
        of = proof.problem
        assert (
            asked[of.id] == (of.statement, of.solution, of.guidelines)
            and of.statement not in others
        )
        terms = [sums.Term(*map(int, each)) for each in re.findall(r"(\d)\*(\d\d)", of.statement)]
        assert sums.is_held_out(terms)
        right = 0
        for (a, b), line in zip(terms, proof.text.split("\n"), strict=False):
            right += bool(re.match(rf"{a}\*{b}={a * b}(,|$)", line))
        assert proof.points == round(7 * right / len(terms)) == sums.points_of(terms, proof.text)
        assert f"{proof.points} " in of.guidelines, "what the guidelines say"


def test_limit_is_of_problems_with_all_their_proofs() -> None:
    whole = graded.load("sums_graded")
    few = whole.first(2)
    assert (
        few.name == "sums_graded[:2]"
        and len(few.problems) == 2
        and few.proofs == whole.proofs[: len(few.proofs)]
    )
    assert whole.first(0) == whole == whole.first(99)


def test_points_may_be_text_or_a_whole_float_and_thinking_is_no_part_of_a_proof() -> None:
    row = {"problem": "x", "proof": "<think>hm</think>\nSo.", "rubric": "7: all"}
    found = check([("row", row | {"points": points}) for points in ("7", 7.0, " 3 ")], "a file")
    assert [(proof.points, proof.text) for proof in found] == [(7, "So."), (7, "So."), (3, "So.")]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        *(
            ({"points": wrong}, "expert_rating")
            for wrong in ("7.5", 4.5, "-1", "8", 8, "", "٣", [7], True, None)
        ),
        ({"proof": 3}, "model_solution"),
        ({"proof": None}, "model_solution"),
        ({"proof": "\ud800"}, "row"),
        ({"problem": " "}, "problem"),
    ],
)
def test_a_row_that_can_t_be_taken_is_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=named):
        check([("row", {"problem": "x", "proof": "So.", "points": 7} | change)], "a file")


def test_equal_statements_are_one_problem_and_ids_that_begin_anew_are_told_apart() -> None:
    rows = [
        {"problem_idx": 1, "problem": text, "proof": "So.", "points": 1} for text in ("a", "b", "a")
    ]
    assert [p.problem.id for p in check([("row", row) for row in rows], "a file")] == [
        "1",
        "1 (row 2)",
        "1",
    ]


def test_no_grader_is_shown_what_people_gave_by_the_scheme() -> None:
    given = {"points": 2, "desc": "He began well"}
    details = [{"title": "Start", "grading_scheme_desc": "begins", "max_points": 3} | given]
    for cell in (details, json.dumps(details)):
        assert scheme_of(cell) == "title: Start; grading_scheme_desc: begins; max_points: 3"
    assert scheme_of([*details, {"title": "Rest", "points": 4}, 4]).endswith(
        "max_points: 3\ntitle: Rest"
    )
    assert scheme_of([{"title": "All", "points": 7}]) == "title: All; points: 7"
    assert scheme_of("[not JSON") == "[not JSON" and scheme_of(None) == ""


OLYMPIADS = {
    "problem_id": "a", "text": "Show it.", "model_solution": "So.", "points": 5, "solution": (
        "Thus."
    ),
    "schema_0": [{"title": "All", "points": 7}],
}  # fmt: skip
MATHARENA = {
    "problem_idx": 1, "problem": "Show it.", "answer": "So.", "points": 5,
    "details": [{"title": "All", "grading_scheme_desc": "x", "max_points": 7, "points": 5}],
}  # fmt: skip


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize(
    ("name", "row", "scheme"),
    [
        ("olympiads_graded", OLYMPIADS, "title: All; points: 7"),
        ("matharena_graded", MATHARENA, "title: All; grading_scheme_desc: x; max_points: 7"),
        ("matharena_graded", MATHARENA | {"details": json.dumps(MATHARENA["details"])},
         "title: All; grading_scheme_desc: x; max_points: 7"),
    ],
)  # fmt: skip
def test_sets_of_qed_nano_are_read_by_name_and_by_path(
    name: str,
    row: dict[str, Any],
    scheme: str,
    is_named: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sets, "COPIES", tmp_path)
    (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    [proof] = graded.load(name if is_named else str(tmp_path / f"{name}.jsonl")).proofs
    of = proof.problem
    assert (of.statement, proof.text, proof.points, of.grading_scheme) == (
        "Show it.",
        "So.",
        5,
        scheme,
    )
    assert of.answer is None, "the proof is no final answer"


def test_columns_with_our_names_precede_and_a_final_answer_is_no_proof() -> None:
    own = {"problem": "Ours.", "proof": "Ours.", "guidelines": "7: all"}
    [proof] = check([("row", OLYMPIADS | own | {"answer": "42", "details": "x"})], "a file")
    of = proof.problem
    assert (of.statement, proof.text, of.guidelines, of.grading_scheme, of.answer) == (
        "Ours.", "So.", "7: all", "", "42",
    )  # fmt: skip
    with pytest.raises(UserError, match="model_solution"):
        check([("row", {"problem": "How much is 6*7?", "answer": "42", "points": 7})], "a file")


def test_a_published_set_is_read_from_a_local_copy_and_must_be_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets, "COPIES", tmp_path)
    (tmp_path / "imo_gradingbench.csv").write_text(
        "Grading ID,Problem ID,Problem,Solution,Grading guidelines,Response,Points,Reward\n"
        "GB-1,PB-1,Show.,So.,7: all,It is.,6,Almost\n"
    )
    with pytest.raises(UserError, match="1000"):
        graded.load("imo_gradingbench")
    [proof] = check(read_rows(tmp_path / "imo_gradingbench.csv"), "a file")
    of = proof.problem
    assert (proof.text, proof.points, of.guidelines, of.solution) == ("It is.", 6, "7: all", "So.")


def test_no_graded_set_has_the_name_of_a_problem_set() -> None:
    assert not {*PUBLISHED, *graded.BUNDLED} & {*sets.PUBLISHED, *sets.BUNDLED}
