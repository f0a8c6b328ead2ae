"""Build results for tests from completions that are graded as in a run."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from core.types import Completion, Member, Problem
from harness.results import provenance, warnings, write
from harness.results.metrics import RunMetrics
from tests.fakes.model import graded_step
from tests.helpers import documents
from tests.helpers.documents import VALIDATOR

PROBLEM = Problem("p", "?", "42")
collected = lru_cache(provenance.collect)


def member(answer: str, **changes: Any) -> Member:
    """Return a member with this `answer` of 10 tokens."""
    fields: dict[str, Any] = {
        "finish_reason": "stop",
        "completion_tokens": 10,
        "prompt_tokens": 5,
        "seconds": 0.5,
    }
    return Member(Completion("0" * 32, 1, "thought", answer, **fields | changes))


def graded(populations: list[list[list[Member]]], complete: bool = True) -> list[dict[str, Any]]:
    """Grade [problem][step][member], as problems are in the results."""
    return [
        row(
            f"p{i}",
            [graded_step(PROBLEM, t, population) for t, population in enumerate(steps)],
            finished=complete,
        )
        for i, steps in enumerate(populations)
    ]


def row(id: str, steps: Sequence[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    fields = {
        "id": id,
        "statement": "?",
        "answer": "42",
        "answer_type": "integer",
        "finished": True,
    }
    return fields | changes | {"steps": list(steps)}


def figures(rows: list[dict[str, Any]], order: Sequence[int] = ()) -> RunMetrics:
    """Return the figures of `rows`, whose populations come problem by problem in `order`."""
    found = RunMetrics(len(rows))
    for i in order or range(len(rows)):
        for record in rows[i]["steps"]:
            found.add(i, record)
        found.finished[i] = rows[i]["finished"]
    return found


def document(
    rows: list[dict[str, Any]], complete: bool = True, seconds: float = 1.0, **parts: Any
) -> dict[str, Any]:
    """Return a results document with these problems, checked against the schema. `parts` add to its
    parts."""
    found = figures(rows)
    fields = {"experiment": "09_test", "config": {"N": 2}, "provenance": collected()} | parts
    run: dict[str, Any] = documents.document(
        rows, complete=complete, metrics=found.metrics(seconds), **fields
    )
    run["warnings"] = warnings.of_run(run, found.commonest_error)
    VALIDATOR.validate(run)
    return run


def save(run: dict[str, Any], folder: Path) -> Path:
    """Save a complete document as a run does."""
    rows = map(write.stored, run["problems"])
    return write.save({key: value for key, value in run.items() if key != "problems"}, rows, folder)
