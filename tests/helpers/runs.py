"""Results of runs as tests read them, and problems for runs."""

import json
from pathlib import Path
from typing import Any

from tests.helpers.documents import VALIDATOR

TIMES = {
    "started",
    "ended",
    "seconds",
    "generation_seconds",
    "cached_tokens",
    "cached",
    "reused",
    "reused_by",
}
REUSE = " from the journal were matched only by "  # in a warning
TWO: list[dict[str, Any]] = [
    {"problem": "What is 1+1?", "answer": 2},
    {"id": "second", "problem": "What is 2+1?", "answer": "3"},
]


def load(folder: Path, name: str) -> dict[str, Any]:
    """Read the results `name` in `folder`, and check them against the schema."""
    document: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    VALIDATOR.validate(document)
    return document


def timeless(value: Any) -> Any:
    """Return `value` without times, counts of the journal and cached tokens: a resumed run has the
    rest in common."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in TIMES}
    if isinstance(value, list):
        return [timeless(item) for item in value if not (isinstance(item, str) and REUSE in item)]
    return value


def journal_lines(folder: Path, name: str) -> list[str]:
    return (folder / "journal" / f"{name}.jsonl").read_text().splitlines()


def answer_texts(folder: Path, name: str) -> dict[str, str]:
    """Return the answer texts in a journal by their keys."""
    records = [json.loads(line) for line in journal_lines(folder, name)]
    return {
        record["key"]: record["completion"]["forced"] or record["completion"]["answer"]
        for record in records
    }
