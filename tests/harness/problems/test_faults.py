"""Bad rows and names of problem sets: one error names all of them, with the remedy."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import RowError, UserError, one_line
from core.types import Problem
from harness.problems import sets
from harness.problems.faults import MOST_FAULTS, MOST_PLACES, Faults, listed
from harness.run import problems_of
from tests.conftest import run

ROW = {"problem": "1+1?", "answer": 2}


def error_of(path: Path, content: str) -> str:
    """Return the error for a file, without its path at the beginning."""
    path.write_text(content)
    with pytest.raises(UserError) as raised:
        sets.load(str(path))
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert message.count(str(path)) == 1
    assert message == one_line(message)
    return message.removeprefix(f"{path}: ")


def lines(*rows: Any) -> str:
    return "\n".join(map(json.dumps, rows))


def test_a_run_names_all_rows_with_an_empty_answer(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("id,question,answer\n1,a?,\n2,b?,5\n3,c?, \n4,d?,\n")
    status, out, err = run("01_baseline", f"PROBLEMS={path}")
    assert (status, out) == (2, "")
    assert err == (
        f"error: {path}: the answer is empty in lines 2, 4 and 5. "
        "Fill it in, or delete these rows\n"
    )


def test_rows_are_grouped_by_fault_and_few_faults_are_described(tmp_path: Path) -> None:
    bad = [
        {"problem": "", "answer": 2},
        ROW | {"answer": None},
        ROW | {"answer": {"value": 2}},
        3,
        ROW | {"answer": []},
        ROW | {"id": 1.5},
    ]
    error = error_of(tmp_path / "mine.jsonl", lines(ROW, *bad))
    assert "problem is empty in line 2." in error
    assert "answer is empty in lines 3 and 6." in error
    assert "in line 4 ({'value': 2})." in error
    assert "line 5" not in error
    assert error.endswith("There are 2 more faults")


def test_repeated_ids_are_all_named_with_the_row_they_repeat(tmp_path: Path) -> None:
    rows = [ROW | {"id": id_} for id_ in ("a", "b", "a", "c", "b")]
    error = error_of(tmp_path / "mine.jsonl", lines(*rows))
    assert "in lines 3 ('a' of line 1) and 5 ('b' of line 2)." in error
    assert error.endswith("leave out the column id, which is optional")


def test_all_rows_with_a_wrong_number_of_cells_are_named(tmp_path: Path) -> None:
    error = error_of(tmp_path / "mine.csv", 'problem,answer\n1,2,3\n"x\n?",1\n\ny\nz,1\n')
    assert "in lines 2 (3) and 6 (1)." in error


def test_all_lines_that_are_not_json_are_named(tmp_path: Path) -> None:
    content = f'{json.dumps(ROW)}\n{{"problem": \nx\n{json.dumps(ROW)}\n{{"answer": NaN}}\n'
    error = error_of(tmp_path / "mine.jsonl", content)
    assert "in lines 2 (" in error
    assert "column 1), " not in error.partition("3 (")[0]
    assert "3 (Expecting value, column 1)" in error
    assert "5 (NaN is not a number)" in error


def test_each_file_of_a_set_is_named_once() -> None:
    faults = Faults()
    for location in ("a.json, problem 2", "b, c.json, problem 1", "a.json, problem 7"):
        with faults.caught(location):
            raise RowError("the answer is empty", "Fill it in")
    faults.add("a.json, problem 8", RowError("an id repeats", "Change it"))
    with pytest.raises(UserError) as raised:
        faults.check()
    assert str(raised.value) == (
        "a.json: the answer is empty in problems 2 and 7. Fill it in. "
        "An id repeats in problem 8. Change it. "
        "b, c.json: the answer is empty in problem 1. Fill it in"
    )


def test_a_list_of_problems_has_no_file_to_name() -> None:
    with pytest.raises(UserError, match=r"^the answer is empty in problems 1 and 3\. "):
        problems_of([{"problem": "x", "answer": ""}, ROW, {"problem": "y", "answer": ""}])


def test_problem_objects_are_checked_by_their_kinds() -> None:
    options = {"options": ["12", "42"]}
    question = Problem("p", "How much?", "42", "choice", details=options)
    (problem,) = problems_of([question])
    assert (problem.statement, problem.answer) == ("How much?\n\nA. 12\nB. 42", "B")
    assert problems_of([problem]) == (problem,)
    faulty = [replace(question, answer="K"), question, replace(question, details={})]
    with pytest.raises(UserError, match=r"no option in problem 1 \(K\).*No column .*problem 3"):
        problems_of(faulty)
    with pytest.raises(UserError, match="the row has no task in problem 1"):
        problems_of([Problem("p", "How much?", "42", "task")])
    with pytest.raises(UserError, match="'maths' is not one of"):
        problems_of([Problem("p", "How much?", "42", "maths")])
    entry = {"question": "1 + 2 =", "answer": "3", "metadata": {}}
    details = {"scorer": "chain_sum", "entry": entry, "parameters": {"min_terms": 2}}
    task = Problem("p", "How much?", "3", "task", details=details)
    assert problems_of([task]) == (task,)


def test_other_errors_are_not_caught_and_no_fault_is_no_error() -> None:
    faults = Faults()
    faults.check()
    with pytest.raises(UserError, match="no row"), faults.caught("a.json, problem 1"):
        raise UserError("no row")
    assert not faults


def test_a_thousand_bad_rows_are_a_short_error(tmp_path: Path) -> None:
    rows = [ROW | {"answer": None}] * 1000
    error = error_of(tmp_path / "mine.jsonl", lines(*rows))
    assert f"lines 1, 2, 3, 4, 5 and {1000 - MOST_PLACES} more" in error
    assert len(error) < 200


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "1"), (2, "1 and 2"), (5, "1, 2, 3, 4 and 5"), (7, "1, 2, 3, 4, 5 and 2 more")],
)
def test_places_are_listed(count: int, text: str) -> None:
    assert listed([str(number) for number in range(1, count + 1)]) == text


def test_the_most_faults_leave_out_one() -> None:
    faults = Faults()
    for number in range(MOST_FAULTS + 1):
        faults.add(f"a.csv, line {number}", RowError(f"fault {number} occurs", "Mend it"))
    with pytest.raises(UserError, match=r"There is 1 more fault$"):
        faults.check()


INSPECT = {"input": "1+1?", "target": "2"}
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}]


@pytest.mark.parametrize(
    "row",
    [
        INSPECT | {"id": 7, "metadata": {"level": 1}},
        INSPECT | {"target": ["2"]},
        INSPECT | {"input": CHAT},
        {"question": "1+1?", "target": 2},
        {"question": "1+1?", "input": "no", "answer": 2, "target": "no"},
    ],
)
def test_rows_of_inspect_ai_are_read(tmp_path: Path, row: Mapping[str, Any]) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(lines(row))
    (problem,) = sets.load(str(path)).problems
    assert (problem.statement, problem.answer) == ("1+1?", "2")
    assert problem.columns == row


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (INSPECT | {"target": ["2", "two"]}, "the target lists several answers"),
        (INSPECT | {"target": []}, "the answer is empty"),
        (INSPECT | {"input": [*CHAT, *CHAT]}, "the problem (column 'input')"),
        ({"input": "1+1?"}, 'no column is named "answer"'),
        ({"target": "2"}, 'no column is named "problem"'),
        ({"question": "1+1?", "answer": None, "target": 2}, "the answer is empty"),
        ({"instruction": "Add.", "input": "1+1?", "output": "2"}, "21_star"),
        ({"instruction": "Add.", "input": "1+1?", "output": "2", "target": "2"}, "21_star"),
    ],
)
def test_rows_like_inspect_ai_s_that_are_unclear_are_refused(
    tmp_path: Path, row: Mapping[str, Any], words: str
) -> None:
    assert words in error_of(tmp_path / "mine.jsonl", lines(row))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("aime2025", "aime_2025"),
        ("AIME_2025", "aime_2025"),
        ("mmlu-pro", "mmlu_pro"),
        ("olympiad", "olympiadbench"),
        ("svmp:train", "svamp:train"),
        ("owner/name", "hub:owner/name"),
        ("mine", ""),
    ],
)
def test_an_unknown_set_is_answered_by_the_name_that_is_meant(name: str, meant: str) -> None:
    with pytest.raises(UserError) as raised:
        sets.load(name)
    assert (f"Did you mean {meant}? " in str(raised.value)) == bool(meant)
