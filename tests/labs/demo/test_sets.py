"""Problem sets: bundled, from the hub (checked against the key), or a user's own file with clear
errors."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.base.files import DATA
from core.types import EITHER, PROOFS, Problem
from harness.problems import sets
from harness.problems.check import ALPACAS, check
from labs.demo import make_sums, make_words, sums

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "aime_2025.json"
IMO = SHARED.with_name("imo_proofbench_v2.csv")


def write(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


SUMS = [name for name in sets.BUNDLED if name not in make_words.SIZES]

# Of a set that changes, the version must be raised: sets.BUNDLED_VERSION.
HASHES = {
    "sums": "ae4ffc8a1cc081c0a14f0c3ed8913c89d4545c42f8152179e333f3b7f870ea0a",
    "sums_hard": "6cc74d40fc4924a4aedbbca9392ea90456bb154ae8f5f74b0be16fac981e0407",
    "sums_card": "3294c2743a9c2442f23ab87ff64f4a679fe0a5d1ebf101baec8c80c309c18a43",
    "sums_hard_card": "5484ed041127b807e3cc501d941971a859d1e462aa3fb08ecc0369b96e30979f",
    "sums_proof": "f954c6bc03dfc8a2fc1abe4a7ee0aabc7aafb6ab08c12f0c2eb5711b31e956b4",
    "sums_star": "8050be12090fc8227a2e7a1927baade3290e671927a45a833afd5ebbcf33fc87",
    "sums_star_eval": "5587eea99dfb3d221a87b5be4320f9abd70d5628f11f67202cf39d740e174a71",
}


@pytest.mark.parametrize("name", SUMS)
def test_bundled_sets_are_what_their_script_makes_right_and_held_out_or_to_train_on(
    name: str,
) -> None:
    loaded = sets.load(name)
    is_proof = name in make_sums.PROOFS
    makers = (make_sums.rows, make_sums.BUNDLED), (make_sums.proof_rows, make_sums.PROOFS)
    star = make_sums.star_rows, make_sums.STAR
    (rows,) = (make(name, *drawn[name]) for make, drawn in (*makers, star) if name in drawn)
    assert (
        loaded.problems == check([("row", row) for row in rows], name)
        and loaded.asks_for_proofs is is_proof
    )
    assert (loaded.sha256, loaded.version, loaded.licence) == (
        HASHES[name],
        sets.BUNDLED_VERSION,
        "MIT",
    )
    assert loaded.first(3).licence == "MIT" and loaded.first(3).version == sets.BUNDLED_VERSION
    for problem in loaded.problems:
        text = problem.statement.split(" when ")[1].split(" is divided by 1000")[0]
        terms = [sums.Term(*map(int, product.split("*"))) for product in text.split(" + ")]
        assert (
            sums.is_held_out(terms)
            is sums.is_held_out(terms[::-1])
            is (name not in make_sums.TO_TRAIN_ON)
        )
        remainder = str(sum(a * b for a, b in terms) % 1000)
        assert (
            problem.statement.endswith(f" is {remainder}.")
            if is_proof
            else problem.answer == remainder
        )
        assert all(2 <= a <= 9 and 12 <= b <= 99 and a * b >= 100 for a, b in terms)


def test_a_file_of_ones_own_in_json_or_jsonl(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "problem": " 1+1? ", "answer": 2},
        {"problem": "x?", "answer": "\\frac12", "note": "more fields are welcome"},
        {"problem": "y?", "answer": "007", "answer_type": "integer"},
        {"problem": "z?", "answer": 1024},
        {"problem": "w?", "answer": 0.5},
    ]
    loaded = sets.load(write(tmp_path / "mine.json", rows))
    for name in ("mine.jsonl", "lines.json"):  # JSON lines, whatever the name
        lines = sets.load(write(tmp_path / name, "\n".join(map(json.dumps, rows)) + "\n\n"))
        assert (
            loaded.problems == lines.problems
            and loaded.name == "mine"
            and loaded.sha256 == lines.sha256
        )
    (tmp_path / "bom.json").write_text(json.dumps(rows), encoding="utf-8-sig")
    assert sets.load(str(tmp_path / "bom.json")).problems == loaded.problems
    assert loaded.problems[0] == Problem("a", "1+1?", "2", "math")
    assert [p.id for p in loaded.problems] == ["a", "2", "3", "4", "5"]
    assert [(p.answer, p.answer_type) for p in loaded.problems[1:]] == [
        ("\\frac12", "math"),
        ("7", "integer"),
        ("1024", "math"),
        ("0.5", "math"),
    ]
    assert (
        len(loaded.first(2).problems) == 2
        and loaded.first(2).name == "mine[:2]"
        and loaded.first(0) == loaded
    )


@pytest.mark.parametrize(
    ("rows", "types"),
    [
        ([{"answer": 2}, {"answer": "007"}, {"answer": 999}], ["integer"] * 3),
        ([{"answer": 2}, {"answer": 1000}], ["math"] * 2),
        ([{"answer": 2}, {"answer": r"\frac12"}, {"answer": 7}], ["math"] * 3),
        ([{"answer": 2}, {"answer": -1}], ["math"] * 2),
        ([{"answer": 2}, {"answer": 0.5}], ["math"] * 2),
        (
            [{"answer": 2, "answer_type": "integer"}, {"answer": r"\pi"}, {"answer": 3}],
            ["integer", "math", "math"],
        ),
        ([{"answer": 2, "answer_type": "math"}, {"answer": 3}], ["math"] * 2),
        ([{"answer": 2, "answer_type": "integer"}, {"answer": 3}], ["integer"] * 2),
        (
            [{"answer": 2, "answer_type": "Numerical"}, {"answer": 3, "answer_type": None}],
            ["integer"] * 2,
        ),
        (
            [
                {"answer": r"\pi", "answer_type": "Expression"},
                {"answer": 3, "answer_type": "Integer"},
            ],
            ["math", "integer"],
        ),
    ],
)
def test_the_set_chooses_how_its_answers_are_judged(
    rows: list[dict[str, Any]], types: list[str]
) -> None:
    found = check([(f"row {n}", {"problem": "x?", **row}) for n, row in enumerate(rows)], "a file")
    assert [problem.answer_type for problem in found] == types


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("", ""),
        ({"x": {"problem": "x", "answer": 1}}, 'no column is named "problem"'),
        ("3", "must be a list"),
        ([], ""),
        ([3], "in problem 1."),
        ([{"answer": 1}], 'no column is named "problem"'),
        ([{"instruction": "Solve.", "input": "1+1?", "output": "Final: 2"}], ALPACAS),
        ([{"problem": "x", "answer": None}], "the answer is empty in problem 1."),
        ('[{"problem": "x", "answer": NaN}]', "NaN"),
        ([{"problem": "x", "answer": "9" * 1001}], "problem 1 "),
        ('[{"problem": "\\ud800", "answer": 1}]', "the problem (column 'problem')"),
        ([{"problem": "x", "answer": True}], "in problem 1 (True)"),
        ([{"problem": "x", "answer": "1000", "answer_type": "integer"}], "0 to 999"),
        ([{"problem": "x", "answer": 1, "id": []}], '"id"'),
        ([{"problem": "x", "answer": 1, "id": "a"}] * 2, "'a'"),
        ("[" * 100000, ""),
        ('{"problem": "x", "answer": 1}\n\n{"problem": "y", ans\n', "line 3 "),
        ('{"problem": "1+1?", "answer": 2}\n{"problem": "1+2?"}\n', "in line 2."),
    ],
)
def test_a_malformed_file_is_told_with_its_place(tmp_path: Path, content: Any, place: str) -> None:
    name = "bad.jsonl" if isinstance(content, str) and "}\n" in content else "bad.json"
    with pytest.raises(UserError) as raised:
        sets.load(write(tmp_path / name, content))
    assert place in str(raised.value) and name in str(raised.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("aime_2023", "sums"),
        ("owner/set", "hub:owner/set"),
        *((name, Path(name).suffix) for name in ("mine.xlsx", "mine.json.gz", "a.JSON5", "f.d")),
    ],
)
def test_an_unknown_name_or_kind_is_told_what_there_is(name: str, words: str) -> None:
    with pytest.raises(UserError, match=rf"{words}.*\.json"):
        sets.load(name)


@pytest.mark.skipif(not SHARED.exists(), reason="no local copy of AIME 2025 beside this checkout")
def test_a_local_copy_of_aime_2025_agrees_with_the_key() -> None:
    key = json.loads((DATA / "aime_2025_key.json").read_text())["answers"]
    assert {p.id: int(p.answer or -1) for p in sets.load(str(SHARED)).problems} == key


@pytest.mark.parametrize(
    ("row", "proof"),
    [
        ({"answer_type": "proof"}, {}),
        (
            {"answer_type": "proof", "answer": "a", "solution": " s "},
            {"answer": "a", "solution": "s"},
        ),
        ({"Grading guidelines": "g", "Short Answer": "  "}, {"guidelines": "g"}),
        ({"grading_guidelines": "g", "answer": 7}, {"guidelines": "g", "answer": "7"}),
        (
            {"grading_scheme": "s", "problem_idx": 4, "split": "24_25"},
            {"grading_scheme": "s", "id": "4", "split": "24_25"},
        ),
        (
            {"grading_scheme": [{"title": "begin", "points": 2}, {"title": "end", "points": 5}]},
            {"grading_scheme": "title: begin; points: 2\ntitle: end; points: 5"},
        ),
        (
            {"marking_scheme": "m", "reference_solution": "r"},
            {"grading_scheme": "m", "solution": "r"},
        ),
    ],
)
def test_a_problem_asks_for_a_proof_that_says_so_or_what_one_earns(
    tmp_path: Path, row: dict[str, Any], proof: dict[str, Any]
) -> None:
    (found,) = sets.load(write(tmp_path / "proof.json", [{"problem": "Prove it."} | row])).problems
    assert found == replace(Problem("1", "Prove it.", None, "proof"), **proof)


def test_a_missing_answer_is_refused_unless_the_grader_needs_none(tmp_path: Path) -> None:
    path = write(tmp_path / "open.json", [{"problem": "Prove it.", "solution": "so"}])
    with pytest.raises(UserError, match="in problem 1"):
        sets.load(path)
    assert (
        sets.load(path, wanted=PROOFS).asks_for_proofs
        and not sets.load(path, wanted=EITHER).asks_for_proofs
    )
    mixed = write(
        tmp_path / "mixed.json", [{"problem": "1+1?", "answer": 2}, {"problem": "Prove it."}]
    )
    assert [problem.answer for problem in sets.load(mixed, wanted=EITHER).problems] == ["2", None]


def test_a_set_is_of_one_kind(tmp_path: Path) -> None:
    rows = [{"problem": "Prove it.", "answer_type": "proof"}, {"problem": "1+1?", "answer": 2}]
    with pytest.raises(UserError, match="both.json .*'1'.*'2'"):
        sets.load(write(tmp_path / "both.json", rows))


def test_what_proofs_are_graded_by_is_in_the_hash_of_their_set(tmp_path: Path) -> None:
    row = {"problem": "Prove it.", "answer_type": "proof"}
    rows = [row, row | {"solution": "s"}, row | {"guidelines": "g"}, row | {"grading_scheme": "g"}]
    assert len({sets.load(write(tmp_path / "one.json", [each])).sha256 for each in rows}) == 4


@pytest.mark.skipif(not IMO.exists(), reason="no local copy of IMO-ProofBench beside this checkout")
def test_a_local_copy_of_imo_proofbench_is_version_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sets, "COPIES", tmp_path)
    (tmp_path / "imo_proofbench.csv").write_bytes(IMO.read_bytes())
    loaded = sets.load("imo_proofbench")
    assert loaded.version == "v2" and Counter(p.split for p in loaded.problems) == {
        "Basic": 30,
        "Advanced": 30,
    }
    assert all(
        p.is_proof and p.solution and p.guidelines and not p.grading_scheme for p in loaded.problems
    )
