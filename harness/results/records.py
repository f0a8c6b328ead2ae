"""Build the records of graded steps in the results JSON (schema 1, harness/results/schema.json)."""

import math
from collections.abc import Sequence
from typing import Any

from core.types import Completion, Grade, Graded, Member, Stage

# The properties of completions that have no answer, with the doubt that results name.
SILENCES = {
    "error": "failed",
    "filtered": "filtered",
    "only_calls": "only a tool call",
    "only_thinks": "only thinking",
    "empty": "empty",
}
# The cost of a carried-over member. Its tokens are in an earlier record.
FREE = {"prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0, "seconds": 0.0}


def record(step: int, population: Sequence[Member], graded: Graded) -> dict[str, Any]:
    """Return the record of a step of a problem. Members with equal answers share a "group". Group 0
    is the largest."""
    members = [
        _member(member, grade) for member, grade in zip(population, graded.grades, strict=True)
    ]
    for m, group in zip(members, graded.groups, strict=False):
        m["group"] = group
    whole = [m.completion for m in population if not (m.completion.error or m.completion.filtered)]
    # empty texts don't count
    with_text = [(c.thinking, c.text) for c in whole if (c.thinking + c.text).strip()]
    values = [grade.value for grade in graded.grades if grade.value is not None]
    return {
        "step": step,
        **({"stage": population.name} if isinstance(population, Stage) else {}),
        **({"partial": True} if isinstance(population, Stage) and population.is_partial else {}),
        "mean_accuracy": sum(values) / len(values) if values else None,
        "majority_answer": graded.answer,
        "majority_tied": list(graded.tied) if len(graded.tied) > 1 else [],
        "majority_correct": graded.score,
        "identical": len(with_text) - len(set(with_text)),
        "members": members,
    } | ({"undecided_pairs": graded.undecided_pairs} if graded.undecided_pairs else {})


def _member(member: Member, grade: Grade) -> dict[str, Any]:
    completion, read = member.completion, _reading(grade)
    silence = _silence(completion)
    record: dict[str, Any] = read | {"doubt": SILENCES[silence] if silence else read["doubt"]}
    record["parents"] = member.parents
    record |= _cost(completion)
    if grade.unforced is not None:
        record["unforced"] = _reading(grade.unforced)
    if grade.before_waits:
        taken = zip(grade.before_waits, completion.tokens_before_waits, strict=True)
        record["before_waits"] = [
            _reading(each) | {"completion_tokens": tokens or None} for each, tokens in taken
        ]
    if grade.side_calls:
        record["grading_calls"] = [_cost(call) for call in grade.side_calls]
    if member.carried_over:
        record |= {"carried_over": True} | FREE
    if member.self_score is not None or member.verdicts is not None:
        record["self_score"] = _finite(member.self_score)
    if member.verdicts is not None:
        record["verdicts"] = member.verdicts
    if member.verdicts is not None or member.side_calls:
        record["side_calls"] = [_cost(c) for c in member.side_calls]
    if member.notes:
        record["notes"] = member.notes
    return record


def _finite(score: float | None) -> float | None:
    """Return a score as a number for JSON, or None if it is missing, nan or infinite. Reward models
    may return a number of numpy or torch."""
    number = math.nan if score is None else float(score)
    return number if math.isfinite(number) else None


def _reading(grade: Grade) -> dict[str, Any]:
    """Return the fields of a grade. The field "grade" exists only if the value is not 0 or 1."""
    correct = None if grade.value is None else grade.value == 1
    reading: dict[str, Any] = {"answer": grade.answer, "correct": correct, "doubt": grade.doubt}
    if grade.value not in (0, 1):
        reading["grade"] = grade.value
    if grade.reason:
        reading["reason"] = grade.reason
    return reading | ({"undecided": True} if grade.is_undecided else {})


def _silence(completion: Completion) -> str | None:
    """Return the kind of a completion without an answer (SILENCES), or None for all others, also
    truncated ones."""
    return next((kind for kind in SILENCES if getattr(completion, kind)), None)


def _cost(completion: Completion) -> dict[str, Any]:
    """Return a completion's key, seed, tokens and seconds, and its end: finish reason, context,
    error or silence."""
    prompt, cached, written = completion.counted
    cost: dict[str, Any] = {
        "finish_reason": completion.finish_reason,
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "completion_tokens": written,
        "seconds": completion.seconds,
        "seed": completion.seed,
        "key": completion.key,
    }
    if completion.context:
        cost["context"] = completion.context
    cost |= {
        name: why for name in ("not_forced", "not_waited") if (why := getattr(completion, name))
    }
    silence = _silence(completion)
    return cost | (
        {"error": completion.error} if completion.error else {silence: True} if silence else {}
    )
