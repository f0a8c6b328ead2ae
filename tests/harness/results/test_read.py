"""Reading results: typed, checked, one problem at a time; and from a notebook."""

import doctest
import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from harness.report import data
from harness.results import read
from harness.results.model import CallCost, Reading
from tests.helpers import documents, reports


def saved(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_the_examples_of_the_documentation_are_true(tmp_path: Path) -> None:
    found = doctest.testmod(data, extraglobs={"folder": reports.results(tmp_path)})
    assert found.attempted and not found.failed


def test_a_file_is_read_into_types_in_the_words_of_the_project(tmp_path: Path) -> None:
    fields = {
        "undecided": True,
        "doubt": "truncated",
        "side_calls": [documents.cost(None, error="x")],
        "self_score": 0.5,
        "verdicts": [0.5, None],
        "carried_over": True,
        "unforced": {"answer": None, "correct": False, "doubt": "truncated"},
    }
    step = documents.step(0, [documents.member(7, [2, 0], **fields)])
    document = documents.document([documents.problem("p", [step])], [documents.metrics_of_step(4)])
    head, problems = read.read(saved(tmp_path / "a.json", document))
    assert (head.experiment, head.complete, head.metrics.steps[0].step) == ("x", True, 4)
    assert head.document["metrics"]["steps"][0]["mean_accuracy"] == documents.RATE
    member = next(problems).steps[0].members[0]
    cost: dict[str, Any] = {
        "key": documents.KEY,
        "finish_reason": "stop",
        "prompt_tokens": 10,
        "cached_tokens": 5,
    }
    call = CallCost(**cost, completion_tokens=None, seconds=1.0, error="x")
    assert member.calls == [member, call]
    assert not call.is_counted
    assert member.doubts == ["truncated", "undecided"]
    assert (member.completion_tokens, member.parents, member.carried_over) == (7, [2, 0], True)
    assert (member.self_score, member.unforced) == (0.5, Reading(answer=None, correct=False))


WRONG: dict[str, list[Any]] = {
    "key": ["x" * 32, None],
    "answer": [7],
    "completion_tokens": [-1, 1e400, True],
    "seconds": ["1"],
    "parents": [[-1], None],
    "group": ["0"],
    "verdicts": [[2]],
    "side_calls": [[{}]],
    "notes": [[None]],
    "unforced": [{}],
    "error": [["x"]],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in WRONG.items() for value in values]
)
def test_a_wrong_value_of_a_member_is_refused_in_a_line_and_earlier_problems_are_read(
    tmp_path: Path, field: str, value: Any
) -> None:
    good, bad = documents.member(), documents.member(group=0, self_score=1) | {field: value}
    problems = [
        documents.problem(str(i), [documents.step(0, [one])]) for i, one in enumerate((good, bad))
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(documents.document(problems)).replace("Infinity", "1e400"))
    _, found = read.read(path)
    assert next(found).id == "0"
    with pytest.raises(
        UserError, match=rf"problem 2: .*`\$\.steps\[0\]\.members\[0\]\.{field}"
    ) as raised:
        next(found)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 300


@pytest.mark.parametrize("schema", [2, "1", None, True, [1]])
def test_another_schema_is_refused(tmp_path: Path, schema: Any) -> None:
    with pytest.raises(UserError):
        read.read(saved(tmp_path / "a.json", documents.document(schema=schema)))
