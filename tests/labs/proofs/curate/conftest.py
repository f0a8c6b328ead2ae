"""A model that is asked about rows, its card, and both commands as a user gives them."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ended, python
from tests.fakes.grader import GradingServer
from tests.labs.proofs.grade.conftest import card, grader

__all__ = ["card", "grader"]
Row = dict[str, Any]

SCHEME = """Two ways are open.

Checkpoints:
- 2 points: reduces to $n$ odd
Chain: by induction
- 5 points: the step
Chain: by descent
- 1 point: a least one
- 4 points: a smaller one
No credit:
- tries of small cases
Deductions:
- 1 point: leaves out n = 0"""
VERDICT = """It leaves out a case.

Incomplete: no
Difficulty: 7
Gaps: **yes**
Wrong: no
Disagreement: yes
Computational: no"""
REPLIES = {"schemes": SCHEME, "filter": VERDICT}
COLUMNS = {
    "schemes": ["grading_scheme"],
    "filter": ["incomplete", "difficulty", "gaps", "wrong", "disagreement", "computational"],
}
FOUND = {"schemes": 1, "filter": 6}


@pytest.fixture(params=["schemes", "filter"])
def tool(request: pytest.FixtureRequest, grader: GradingServer) -> str:
    """Each of both tools, with a model that says what it should."""
    grader.reply = lambda prompt, seed: REPLIES[str(request.param)]
    return str(request.param)


def curate(tool: str, *args: str, **changes: str) -> tuple[int, str, str]:
    """Run a command to its end: status, standard output, standard error."""
    return ended(python("-m", f"labs.proofs.curate.{tool}", *args, **changes))


def rows(count: int, **more: Any) -> list[Row]:
    return [
        {"n": n, "problem": f"Show that {2 * n} is even.", "solution": f"It is twice {n}.", "metadata": {"path": "A/B"}}
        | more
        for n in range(count)
    ]


def out_of(path: Path, tool: str) -> Path:
    return path.with_suffix(f".{tool}.jsonl")


def the_error(err: str) -> str:
    """The one line that a user's error is; a bar may stand above it."""
    lines = [line for line in err.splitlines() if not line.startswith(("schemes ", "filter "))]
    assert len(lines) == 1 and lines[0].startswith("error: ") and "Traceback" not in err, err
    return lines[0]
