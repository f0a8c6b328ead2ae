"""Graded lines as QED-Nano's evaluation writes them."""

from pathlib import Path
from typing import Any

from labs.proofs.scored import Runs, read
from tests.labs.proofs.conftest import Row, written

COST = {"input_tokens": 10, "output_tokens": 20, "cost": 0.5}


def theirs(points: int | None, number: int = 0, **more: Any) -> Row:
    """Return a line as QED-Nano's evaluation writes it."""
    return {
        "question_id": f"PB-{'Basic' if number % 2 else 'Advanced'}-{number:03}",
        "problem": f"Show that {number} is {number}.",
        "solution": "Clear.",
        "model_solution": f"It is {number}.",
        "cost_run": COST | {"output_tokens": 100 + 10 * number},
        "schema_0": [{"title": "Proof Grade", "desc": "Points.", "points": 7}],
        "grade": [{"points": points, "desc": f"I give {points}."}],
        "grade_cost": COST,
        "score": points,
        **more,
    }


def scored(folder: Path, *files: list[Row]) -> Runs:
    return read([Path(written(folder / f"run-{n}.jsonl", lines)) for n, lines in enumerate(files)])
