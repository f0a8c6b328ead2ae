"""Compute the vote of the first samples of a run with a single step, which is its curve against
tokens."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.report.data import Results
from harness.results.model import MemberResult, StepResult, total
from harness.results.over_runs import rate
from harness.results.voting import vote_score


def curve(run: Results) -> list[dict[str, Any]]:
    """Return the accuracy of the vote over the first 1, 2, 4, 8 … samples of each problem. Each
    point has the tokens of its samples, None if unknown. Return [] for a run with several steps, a
    single sample, or another rule than the vote."""
    steps = []
    for problem in run.problems:
        steps += problem.steps
        if len(problem.steps) > 1:
            return []
    samples = min((len(step.members) for step in steps), default=0)
    if samples < 2 or not all(map(_is_vote, steps)):
        return []
    points = []
    size = 1
    while size < samples:
        points.append(_point(run, steps, size))
        size *= 2
    return [*points, _point(run, steps, samples)]


def _point(run: Results, steps: Sequence[StepResult], size: int) -> dict[str, Any]:
    """Return the figures of the first `size` samples of each problem."""
    runs = run.document.get("runs") or {"by": "mean", "seeds": [0]}
    scores = []
    tokens = []
    for step in steps:
        first = step.members[:size]
        scores.append(score(first))
        for member in first:
            tokens += [call.completion_tokens for call in member.calls]
    table = np.array(scores).reshape(-1, len(runs["seeds"]))
    return {
        "samples": size,
        "tokens": total(tokens),
        "majority_accuracy": rate(table, runs["by"]),
    }


def _is_vote(step: StepResult) -> bool:
    """Return whether the step's score is the score of a vote over its members."""
    if step.majority_correct is None:
        return False
    return math.isclose(score(step.members), step.majority_correct, abs_tol=1e-9)


def score(members: Sequence[MemberResult]) -> float:
    """Score the vote over `members`."""
    return vote_score(members, list(map(_grade, members)))


def _grade(member: MemberResult) -> float:
    if member.grade is not None:
        return float(member.grade)
    return 1.0 if member.correct else 0.0
