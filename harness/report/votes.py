"""Compute the vote of the first samples of a run with a single step, which is its curve against
tokens."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.report.data import Results
from harness.results.model import MemberResult, StepResult, total
from harness.results.over_runs import rate


def curve(run: Results) -> list[dict[str, Any]]:
    """Return the accuracy of the vote over the first 1, 2, 4, 8 … samples of each problem. Each
    point has the tokens of its samples, None if unknown. Return [] for a run with several steps, a
    single sample, or another rule than the vote."""
    populations = [problem.steps for problem in run.problems if problem.steps]
    steps = [step for steps in populations for step in steps]
    samples = min((len(step.members) for step in steps), default=0)
    has_votes = len(steps) == len(populations) and all(map(_is_vote, steps))
    if samples < 2 or not has_votes:
        return []
    sizes = [2**power for power in range(samples.bit_length()) if 2**power < samples]
    return [_point(run, steps, size) for size in (*sizes, samples)]


def _point(run: Results, steps: Sequence[StepResult], size: int) -> dict[str, Any]:
    runs = run.document.get("runs") or {"by": "mean", "seeds": [0]}
    scores = [score(step.members[:size]) for step in steps]
    table = np.array(scores).reshape(-1, len(runs["seeds"]))
    calls = [call for step in steps for member in step.members[:size] for call in member.calls]
    return {
        "samples": size,
        "tokens": total(call.completion_tokens for call in calls),
        "majority_accuracy": rate(table, runs["by"]),
    }


def _is_vote(step: StepResult) -> bool:
    """Return whether the step's score is the score of a vote over its members."""
    graded = step.majority_correct is not None
    return graded and abs(score(step.members) - (step.majority_correct or 0.0)) < 1e-9


def score(members: Sequence[MemberResult]) -> float:
    """Score the vote over `members`: the mean grade of the groups of equal answers that have the
    most members. Without an answer, the score is 0."""
    votes: Counter[int | None] = Counter(
        member.group for member in members if member.group is not None
    )
    most = max(votes.values(), default=0)
    grades = {}
    for member in members:
        if votes[member.group] == most:
            grades[member.group] = _grade(member)
    return sum(grades.values()) / len(grades) if most else 0.0


def _grade(member: MemberResult) -> float:
    if member.grade is not None:
        return float(member.grade)
    return 1.0 if member.correct else 0.0
