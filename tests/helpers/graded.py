"""Results made up for tests from completions that are graded as in a run."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema

from core.results import provenance, warnings, write
from core.results.metrics import RunMetrics
from core.types import Completion, Member, Problem
from tests.fakes.model import graded_step
from tests.helpers import documents
from tests.helpers.documents import SCHEMA

PROBLEM = Problem("p", "?", "42")


def member(answer: str, **changes: Any) -> Member:
    """A member that says `answer` in 10 tokens."""
    made: dict[str, Any] = {
        "finish_reason": "stop",
        "completion_tokens": 10,
        "prompt_tokens": 5,
        "seconds": 0.5,
    } | changes
    return Member(Completion("0" * 32, 1, "thought", answer, **made))


def graded(populations: list[list[list[Member]]], complete: bool = True) -> list[dict[str, Any]]:
    """Grade [problem][step][member], as problems are in the results."""
    return [
        row(f"p{i}", [graded_step(PROBLEM, t, population) for t, population in enumerate(steps)], finished=complete)
        for i, steps in enumerate(populations)
    ]


def row(id: str, steps: Sequence[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    fields = {"id": id, "statement": "?", "answer": "42", "answer_type": "integer", "finished": True}
    return fields | changes | {"steps": list(steps)}


def figures(rows: list[dict[str, Any]], order: Sequence[int] = ()) -> RunMetrics:
    """The figures of `rows`, whose populations come problem by problem in `order`."""
    made = RunMetrics(len(rows))
    for i in order or range(len(rows)):
        for record in rows[i]["steps"]:
            made.add(i, record)
        made.finished[i] = rows[i]["finished"]
    return made


def document(rows: list[dict[str, Any]], complete: bool = True) -> dict[str, Any]:
    """A results document with these problems, checked against the schema."""
    found = figures(rows)
    made: dict[str, Any] = documents.document(
        rows,
        experiment="09_test",
        complete=complete,
        config={"N": 2},
        provenance=provenance.collect(),
        metrics=found.metrics(1.0),
    )
    made["warnings"] = warnings.of_run(made, found.commonest_error)
    jsonschema.validate(made, SCHEMA)
    return made


def save(made: dict[str, Any], folder: Path) -> Path:
    """Save a whole document as a run does."""
    rows = []
    for each in made["problems"]:
        fields = {name: value for name, value in each.items() if name != "steps"}
        rows.append(write.laid_out(fields, (json.dumps(step).encode() for step in each["steps"])))
    return write.save({key: value for key, value in made.items() if key != "problems"}, rows, folder)
