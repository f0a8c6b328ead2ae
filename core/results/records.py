"""Graded steps as the results JSON has them (schema 1, core/results/schema.json).

Grading is apart from generation, and records apart from grading: a record is made of members and their grades.
"""

from collections.abc import Sequence
from typing import Any

from core.types import Completion, Grade, Graded, Member, Stage

# The cost of a member that was in an earlier population already: its tokens are in the record there.
FREE = {"prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0, "seconds": 0.0}


def record(step: int, population: Sequence[Member], graded: Graded) -> dict[str, Any]:
    """Return the record of one step of one problem. Members of one "group" say the same, and the largest group is
    number 0. Members that nobody has graded have no mean."""
    members = [_member(member, grade) for member, grade in zip(population, graded.grades, strict=True)]
    for m, group in zip(members, graded.groups, strict=False):
        m["group"] = group
    made = [m.completion for m in population if not (m.completion.error or m.completion.filtered)]
    with_text = [(c.thinking, c.text) for c in made if (c.thinking + c.text).strip()]  # silence is no repetition
    values = [grade.value for grade in graded.grades if grade.value is not None]
    return {
        "step": step,
        **({"stage": population.name} if isinstance(population, Stage) else {}),
        "mean_accuracy": sum(values) / len(values) if values else None,
        "majority_answer": graded.answer,
        "majority_tied": list(graded.tied) if len(graded.tied) > 1 else [],
        "majority_correct": graded.score,
        "identical": len(with_text) - len(set(with_text)),
        "members": members,
    } | ({"undecided_pairs": graded.undecided_pairs} if graded.undecided_pairs else {})


def _member(member: Member, grade: Grade) -> dict[str, Any]:
    made = member.completion
    read = _reading(grade)
    record: dict[str, Any] = read | {"doubt": _silence(made) or read["doubt"], "parents": member.parents} | _cost(made)
    if grade.unforced is not None:
        record["unforced"] = _reading(grade.unforced)
    if grade.before_waits:
        taken = zip(grade.before_waits, made.tokens_before_waits, strict=True)
        record["before_waits"] = [_reading(each) | {"completion_tokens": tokens or None} for each, tokens in taken]
    if grade.side_calls:
        record["grading"] = [_cost(call) for call in grade.side_calls]
    if member.carried_over:
        record |= {"again": True} | FREE
    if member.verdicts is not None:
        record |= {"score": member.self_score, "verdicts": member.verdicts}
    if member.verdicts is not None or member.side_calls:
        record["checks"] = [_cost(c) for c in member.side_calls]
    if member.notes:
        record["notes"] = member.notes
    return record


def _reading(grade: Grade) -> dict[str, Any]:
    """Return the fields of a grade: "grade" and "reason" only if "correct" does not say it all. "grade" and "correct"
    are null if nobody has graded it."""
    correct = None if grade.value is None else grade.value == 1
    reading: dict[str, Any] = {"answer": grade.answer, "correct": correct, "doubt": grade.doubt}
    if grade.value not in (0, 1):
        reading["grade"] = grade.value
    if grade.reason:
        reading["reason"] = grade.reason
    return reading | ({"undecided": True} if grade.is_undecided else {})


def _silence(made: Completion) -> str | None:
    """Return why a completion says nothing, or not all that it would have said, if that is the server's doing."""
    return "failed" if made.error else "filtered" if made.filtered else "empty" if made.empty else None


def _cost(made: Completion) -> dict[str, Any]:
    """Return the key of a completion, what it took (None: the server counts nothing), and why it failed or is empty, if
    it did or is."""
    prompt, cached, completion = made.counted
    cost: dict[str, Any] = {
        "finish_reason": made.finish_reason,
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "completion_tokens": completion,
        "seconds": made.seconds,
        "seed": made.seed,
        "key": made.key,
    }
    if made.not_forced:
        cost["not_forced"] = made.not_forced
    if made.not_waited:
        cost["not_waited"] = made.not_waited
    silence = _silence(made)
    return cost | ({"error": made.error} if made.error else {silence: True} if silence else {})
