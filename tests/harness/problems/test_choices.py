"""Files of multiple-choice problems."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.types import Problem
from harness.problems import sets

Q = {"question": "How much?"}


def loaded(path: Path, rows: list[dict[str, Any]]) -> tuple[Problem, ...]:
    path.write_text(json.dumps(rows))
    return sets.load(str(path)).problems


def test_rows_may_lack_a_column_of_the_problem_if_another_states_it(tmp_path: Path) -> None:
    endings = {"ctx": "A man walks", "endings": ["home.", "away."], "label": "1"}
    stem = {"question_stem": "How much?", "choices": ["12", "42"], "answerKey": "B"}
    for row, statement in ((endings, "A man walks"), (stem, "How much?")):
        (problem,) = loaded(tmp_path / "set.json", [row])
        assert (problem.answer_type, problem.answer) == ("choice", "B")
        assert f"{statement}\n\nA. " in problem.statement
    with pytest.raises(UserError, match="no column is named"):
        loaded(tmp_path / "set.json", [{"choices": ["12", "42"], "answer": "B"}])


def test_columns_of_a_csv_file_are_options(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_text("Question,A,B,C,D,Answer\nHow much?,12,24,42,56,C\n")
    (problem,) = sets.load(str(path)).problems
    assert problem.details == {"options": ["12", "24", "42", "56"]} and problem.answer == "C"


def test_a_row_may_state_another_type(tmp_path: Path) -> None:
    row = Q | {"choices": ["12", "42"], "answer": "42", "answer_type": "math"}
    (problem,) = loaded(tmp_path / "set.json", [row])
    assert (problem.answer_type, problem.answer, problem.details) == ("math", "42", {})


def test_bad_rows_are_named_in_one_error(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        Q | {"choices": ["12", "42"], "answer": 2},
        Q | {"choices": ["12", "12"], "answer": 1},
        Q | {"choices": ["12", "24"], "answer": "K"},
        Q | {"choices": ["12", "24"]},
    ]
    with pytest.raises(UserError, match=r"problems 1 \(2\) and 3 \(K\).*problem 2.*problem 4"):
        loaded(tmp_path / "set.json", rows)


def test_numbers_are_either_indices_or_texts(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        Q | {"choices": ["0", "1", "2"], "answer": 1},
        Q | {"choices": ["1", "2", "3"], "answer": 2},
    ]
    assert [problem.answer for problem in loaded(tmp_path / "set.json", rows)] == ["B", "C"]
    rows.append(Q | {"choices": ["12", "42"], "answer": 42})
    with pytest.raises(UserError, match=r"answer 42 .* but 2 may be an index in .*set\.json"):
        loaded(tmp_path / "set.json", rows)


def test_a_passage_precedes_its_question(tmp_path: Path) -> None:
    row = {"question": "Age?", "passage": "Tom is 3.", "options": ["2", "3"], "label": "B"}
    (problem,) = loaded(tmp_path / "set.json", [row])
    assert problem.statement == "Tom is 3.\n\nAge?\n\nA. 2\nB. 3"
    (problem,) = loaded(
        tmp_path / "set.json", [{**row, "options": None, "label": None, "answer": 3}]
    )
    assert problem.statement == "Tom is 3.\n\nAge?"


def test_a_picture_is_refused(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        Q | {"answer": 1, "image": None},
        Q | {"answer": 2, "image": "a.png"},
    ]
    with pytest.raises(UserError, match="'image'.* in problem 2"):
        loaded(tmp_path / "set.json", rows)
