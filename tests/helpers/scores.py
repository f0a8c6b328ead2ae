"""A grader with partial credit, and runs whose answers it scores."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from core.eval import extract_answer, groups
from core.grading.kinds.math import Math
from core.rsa import RSA
from core.types import Ask, Grade, Graded, Population, Problem
from harness.run import solve_sync

SCORES = {"1": 0.4, "2": 1.0, "3": 0.01}  # by answer, 0 for all others
ROWS: Sequence[dict[str, Any]] = [
    {"id": f"p{number}", "problem": f"What is {number}?", "answer": "2"} for number in range(4)
]


async def by_table(problem: Problem, population: Population, ask: Ask) -> Graded:
    """Score answers by SCORES. A vote scores the mean of the tied answers."""
    answers = [extract_answer(member.completion.answer) for member in population]
    grades = []
    for answer in answers:
        doubt = None if answer else "no answer"
        grades.append(Grade(SCORES.get(answer or "", 0.0), answer, doubt))
    vote = groups(answers, Math())
    ranks = {name: rank for rank, name in enumerate(vote.counts)}
    return Graded(
        grades,
        fmean(SCORES.get(name, 0.0) for name in vote.tied) if vote.tied else 0.0,
        vote.tied[0] if vote.tied else None,
        vote.tied,
        tuple(None if name is None else ranks[name] for name in vote.names),
    )


def scored(folder: Path, name: str = "scored", **constants: Any) -> Path:
    """Run RSA at the server in BASE_URL, and return the path of the results."""
    sizes = {"N": 4, "K": 2, "T": 1, "MAX_TOKENS": 100} | constants
    rows = list(ROWS)
    return solve_sync(RSA, rows, name=name, folder=folder, grader=by_table, **sizes).path
