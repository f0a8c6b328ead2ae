"""Build the records of graded steps in the results JSON (schema 1, harness/results/schema.json)."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from core.base.errors import UserError
from core.types import SCORER, Completion, Grade, Graded, Member, NamedPopulation, ScorerCompletion

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
    is the largest. Raises UserError if a grade is no number in [0, 1]."""
    graded = _with_plain_numbers(graded)
    members = []
    for member, grade in zip(population, graded.grades, strict=True):
        members.append(_member(member, grade))
    for fields, group in zip(members, graded.groups, strict=False):
        fields["group"] = group
    values = [grade.value for grade in graded.grades if grade.value is not None]
    fields = {"step": step}
    if isinstance(population, NamedPopulation):
        fields["stage"] = population.name
        if population.is_partial:
            fields["partial"] = True
    fields |= {
        "mean_accuracy": sum(values) / len(values) if values else None,
        "majority_answer": graded.answer,
        "majority_tied": list(graded.tied) if len(graded.tied) > 1 else [],
        "majority_correct": graded.score,
        "identical": _identical(population),
        "members": members,
    }
    if graded.undecided_pairs:
        fields["undecided_pairs"] = graded.undecided_pairs
    return fields


def _with_plain_numbers(graded: Graded) -> Graded:
    """Return the grades with Python's numbers. A grader may give numbers of numpy or torch. Raises
    UserError."""
    grades = [replace(grade, value=_number(grade.value)) for grade in graded.grades]
    return replace(graded, grades=grades, score=_number(graded.score))


def _number(value: Any) -> float | None:
    if value is None:
        return None
    is_number = hasattr(value, "__float__")
    number = float(value) if is_number else math.nan
    if not 0 <= number <= 1:
        given = str(number) if is_number else repr(value)
        raise UserError(
            f"the grader gave {given:.200}. A grade must be a number from 0 to 1, or None"
        )
    return number


def _identical(population: Sequence[Member]) -> int:
    """Count the members whose text repeats another one's. Failed and empty members don't count."""
    texts = []
    for member in population:
        completion = member.completion
        if completion.error or completion.filtered:
            continue
        if completion.thinking.strip() or completion.text.strip():
            texts.append((completion.thinking, completion.text))
    return len(texts) - len(set(texts))


def _member(member: Member, grade: Grade) -> dict[str, Any]:
    completion = member.completion
    fields = _reading(grade)
    silence = _silence(completion)
    if silence:
        fields["doubt"] = SILENCES[silence]
    fields["parents"] = member.parents
    fields |= _cost(completion)
    if grade.unforced is not None:
        fields["unforced"] = _reading(grade.unforced)
    if grade.before_waits:
        fields["before_waits"] = _before_waits(completion, grade.before_waits)
    if grade.side_calls:
        fields["grading_calls"] = [_cost(call) for call in grade.side_calls]
    if member.carried_over:
        fields |= {"carried_over": True} | FREE
    if member.self_score is not None or member.verdicts is not None:
        fields["self_score"] = _finite(member.self_score)
    if member.verdicts is not None:
        fields["verdicts"] = member.verdicts
    if member.verdicts is not None or member.side_calls:
        fields["side_calls"] = [_cost(call) for call in member.side_calls]
    if member.notes:
        fields["notes"] = member.notes
    return fields


def _before_waits(completion: Completion, grades: Sequence[Grade]) -> list[dict[str, Any]]:
    """Return the reading before each wait, with the completion tokens up to it."""
    readings = []
    for grade, tokens in zip(grades, completion.tokens_before_waits, strict=True):
        readings.append(_reading(grade) | {"completion_tokens": tokens or None})
    return readings


def _finite(score: float | None) -> float | None:
    """Return a score as a number for JSON, or None if it is missing, nan or infinite. Reward models
    may return a number of numpy or torch."""
    if score is None:
        return None
    number = float(score)
    return number if math.isfinite(number) else None


def _reading(grade: Grade) -> dict[str, Any]:
    """Return the fields of a grade. Only a value of 1 is correct. The field "grade" exists only if
    the value is not 0 or 1."""
    correct = None if grade.value is None else grade.value == 1
    fields: dict[str, Any] = {"answer": grade.answer, "correct": correct, "doubt": grade.doubt}
    if grade.value not in (0, 1):
        fields["grade"] = grade.value
    if grade.reason:
        fields["reason"] = grade.reason
    if grade.is_undecided:
        fields["undecided"] = True
    return fields


def _silence(completion: Completion) -> str | None:
    """Return the kind of a completion without an answer (SILENCES), or None for all others, also
    truncated ones."""
    for kind in SILENCES:
        if getattr(completion, kind):
            return kind
    return None


def _cost(completion: Completion) -> dict[str, Any]:
    """Return a completion's key, seed, tokens and seconds, and its end: finish reason, context,
    error or silence."""
    prompt, cached, written = completion.counted
    fields: dict[str, Any] = {
        "finish_reason": completion.finish_reason,
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "completion_tokens": written,
        "seconds": completion.seconds,
        "seed": completion.seed,
        "key": completion.key,
    }
    if isinstance(completion, ScorerCompletion):
        fields["by"] = SCORER
    if completion.context:
        fields["context"] = completion.context
    if completion.not_forced:
        fields["not_forced"] = completion.not_forced
    if completion.not_waited:
        fields["not_waited"] = completion.not_waited
    silence = _silence(completion)
    if completion.error:
        fields["error"] = completion.error
    elif silence:
        fields[silence] = True
    return fields
