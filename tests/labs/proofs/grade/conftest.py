"""A grader, its card, and the command as a user gives it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ended, python
from tests.fakes.grader import GradingServer

Row = dict[str, Any]
Grade = Callable[..., tuple[int, str, str]]


@pytest.fixture
def grader() -> Iterator[GradingServer]:
    made = GradingServer()
    yield made
    made.revive()
    made.close()


@pytest.fixture
def card(grader: GradingServer, tmp_path: Path) -> Callable[..., str]:
    """`card(more, price)` writes the grader's card; the argument that names it comes back."""

    def write(more: str = "", price: bool = True) -> str:
        path = tmp_path / "strict.toml"
        table = '[price]\nread = 1.0\ncached = 0.1\nwritten = 10.0\non = "2026-11-23"\n' if price else ""
        path.write_text(f'base_url = "{grader.url}"\nmodel = "strict"\n{more}\n{table}')
        return f"GRADER={path}"

    return write


def grade(*args: str, **changes: str) -> tuple[int, str, str]:
    """Run the command to its end: status, standard output, standard error."""
    return ended(python("-m", "labs.proofs.grade.cli", *args, **changes))


def rows(count: int, **more: Any) -> list[Row]:
    """Proofs, three of each problem."""
    return [
        {
            "problem_idx": f"p{n // 3}",
            "problem": f"Show that {2 * (n // 3)} is even.",
            "grading_scheme": f"{n // 3 % 7}: a start\n{7 - n // 3 % 7}: the rest",
            "model_solution": f"It is twice {n // 3}, as I have seen {n} times.\nPoints: 7",
            **more,
        }
        for n in range(count)
    ]


def written(path: Path, lines: list[Row]) -> str:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


def graded(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.with_suffix(".graded.jsonl").read_text().splitlines()]


def the_error(err: str) -> str:
    """The one line that a user's error is."""
    lines = [line for line in err.splitlines() if not line.startswith("grade ")]
    assert len(lines) == 1 and lines[0].startswith("error: ") and "Traceback" not in err, err
    return lines[0]
