"""Graded steps as the results JSON has them (schema 1, core/results/schema.json).

Grading is apart from generation: `grade` needs completions only, so that a better extractor scores an old run anew
from its journal with no GPU.
"""

from collections.abc import Sequence
from typing import Any

from core.grading.answers import extract, groups, judge, vote
from core.types import Completion, Member, Problem

# What a member costs that stood in an earlier population already: its tokens are in the record there.
FREE = {"prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0, "seconds": 0.0}


def grade(problem: Problem, step: int, population: Sequence[Member]) -> dict[str, Any]:
    """The record of one step of one problem. Members of one "group" say the same, and the largest group is number 0."""
    members = [_member(problem, member) for member in population]
    answers = [m["answer"] for m in members]
    voted = vote(answers, problem.answer or "", problem.answer_type)
    ranks = {name: rank for rank, name in enumerate(voted.counts)}
    for m, name in zip(members, voted.names, strict=True):
        m["group"] = None if name is None else ranks[name]
    made = [m.completion for m in population if not (m.completion.error or m.completion.filtered)]
    spoken = [(c.thinking, c.text) for c in made if (c.thinking + c.text).strip()]  # silence is no repetition
    return {
        "step": step,
        "mean_accuracy": sum(m["correct"] for m in members) / len(members),
        "majority_answer": voted.answer,
        "majority_tied": list(voted.tied) if len(voted.tied) > 1 else [],
        "majority_correct": voted.score,
        "identical": len(spoken) - len(set(spoken)),
        "members": members,
    } | ({"undecided_pairs": voted.undecided} if voted.undecided else {})


def _member(problem: Problem, member: Member) -> dict[str, Any]:
    made = member.completion
    read = _read(problem, made, made.text)
    record: dict[str, Any] = {
        "answer": read["answer"],
        "correct": read["correct"],
        "doubt": _silence(made) or read["doubt"],
        "parents": member.parents,
    } | _cost(made)
    if "undecided" in read:
        record["undecided"] = True
    if made.forced is not None:
        record["unforced"] = _read(problem, made, made.answer)
    if member.carried_over:
        record |= {"again": True} | FREE
    if member.verdicts is not None:
        record |= {"score": member.self_score, "verdicts": member.verdicts}
    if member.verdicts is not None or member.side_calls:
        record["checks"] = [_cost(c) for c in member.side_calls]
    if member.notes:
        record["notes"] = member.notes
    return record


def _silence(made: Completion) -> str | None:
    """Why a completion says nothing, or not all that it would have said, where that is the server's doing."""
    return "failed" if made.error else "filtered" if made.filtered else "empty" if made.empty else None


def _cost(made: Completion) -> dict[str, Any]:
    """Where a completion is kept, what it took (None: the server counts nothing), and why it failed or is empty, if it
    did or is."""
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
    silence = _silence(made)
    return cost | ({"error": made.error} if made.error else {silence: True} if silence else {})


def _read(problem: Problem, made: Completion, text: str) -> dict[str, Any]:
    """One reading of a completion, forced or not. A comparison that math-verify could not decide counts as wrong, is
    marked as undecided, and has that for its doubt where there is no other."""
    read = extract(text, problem.answer_type, truncated=made.truncated)
    verdict = judge(read.answer, problem.answer or "", problem.answer_type)
    doubt = read.doubt
    if read.others and len(groups([read.answer, *read.others], problem.answer_type).counts) == 1:
        doubt = None  # several spellings of one answer
    if verdict is None:
        return {"answer": read.answer, "correct": False, "doubt": doubt or "undecided", "undecided": True}
    return {"answer": read.answer, "correct": verdict, "doubt": doubt}
