"""Export results as JSON Lines for other programs: `bash scripts/report.sh 02_rsa_basic --jsonl`.

A line contains a problem of one run: its columns in the problem file, the chosen solution, the cost
and the history.
"""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import write_atomically
from core.base.prices import Prices
from core.base.terminal import say
from core.client.journal import Archive
from harness.results import read
from harness.results.find import archive
from harness.results.model import CallCost, Head, MemberResult, ProblemResult, total

STDOUT = "-"
OURS = ("model_solution", "cost_run", "history")  # fields in every line of an export
# The fields of a graded proof, by their names in the export and in the results.
GRADED = {
    "score": "points_share",
    "ungraded": "ungraded",
    "grades": "grades",
    "grade_spread": "spread",
    "grade_reasons": "reasons",
    "schema_0": "scheme",
    "grade_cost": "grade_cost",
}


def write(path: Path, to: str) -> None:
    """Write the results in `path` as lines to the file `to` ("" for a file next to the results),
    and print its name.

    Notes on missing parts go to standard error. Raises UserError if the results can't be read, or
    if `to` is not a .jsonl file, or exists and is not an export.
    """
    out = Path(to) if to else path.with_suffix(".jsonl")
    if to != STDOUT and out.suffix != ".jsonl":
        raise UserError(
            f"{to!r:.200} is not a .jsonl file. Name the results before --jsonl FILE.jsonl"
        )
    if to != STDOUT and is_foreign(out, OURS):
        raise UserError(
            f"{out} exists and is not an export of results. Choose another name, or move that file "
            "away"
        )
    head, _, problems = read.read_raw(path)
    has_history: list[bool] = []  # of each problem
    with archive(path, head.experiment) as journals:

        def lines() -> Iterator[bytes]:
            for row, problem in problems:
                fields = line(row, problem, head, journals)
                has_history.append(fields["history"] is not None)
                yield json.dumps(fields, ensure_ascii=True).encode() + b"\n"

        if to == STDOUT:
            sys.stdout.writelines(encoded.decode() for encoded in lines())
            sys.stdout.flush()
        else:
            write_atomically(out, lines())
            print(f"jsonl   {out} ({len(has_history)} lines)")
    if not head.complete:
        say(
            f"note: {path.name} is partial. The export contains the problems and steps so far",
            sys.stderr,
        )
    if not all(has_history):
        lacking = f"{has_history.count(False)} of {len(has_history)} problems of {path.name}"
        say(
            f"note: the history of {lacking} is null, because the journals in {journals.folder} "
            "lack completions. Put the journal of the run there and export again",
            sys.stderr,
        )


def is_foreign(path: Path, fields: Sequence[str]) -> bool:
    """Return whether `path` exists, and its first line lacks one of the `fields` that our lines
    have."""
    if not path.exists():
        return False
    with suppress(OSError), open(path, "rb") as file:
        first = file.readline()
        return bool(first) and not all(f'"{name}": '.encode() in first for name in fields)
    return True


def line(
    row: dict[str, Any], problem: ProblemResult, head: Head, journals: Archive
) -> dict[str, Any]:
    """Return a problem as an object. `row` is the problem as stored in the results file."""
    asked = {"problem": problem.statement, "answer": problem.answer}
    fields: dict[str, Any] = {"id": problem.id} | asked | problem.columns
    if problem.details:  # the file's columns lack the letters of options, and their order
        fields |= asked
    if problem.seed is not None:
        fields["seed"] = problem.seed
    if problem.split:
        fields["split"] = problem.split
    fields |= dict.fromkeys(("model_solution", "model_answer", "correct", "finish_reason"))
    if problem.steps:
        members = problem.steps[-1].members
        member = chosen(members)
        fields |= _solution(member, journals)
        if member.is_proof:
            stored = row["steps"][-1]["members"][members.index(member)]
            fields |= {name: stored.get(ours) for name, ours in GRADED.items()}
    fields["cost_run"] = cost(problem, head.prices)
    fields["history"] = history(problem, journals)
    return fields


def _solution(member: MemberResult, journals: Archive) -> dict[str, Any]:
    """Return the text, the answer and the grade of a member."""
    reply = journals.get(member.key)
    finish_reason = member.finish_reason
    # "length" would mean that the text is truncated. An elicited answer belongs to a reply that
    # ended.
    if reply and reply.forced is not None and reply.truncated:
        finish_reason = "forced"
    return {
        "model_solution": reply.text if reply else None,
        "model_answer": member.answer,
        "correct": member.correct,
        "finish_reason": finish_reason,
        **_grade(member),
    }


def _grade(member: MemberResult) -> dict[str, Any]:
    """Return the field `grade` (None: missing), or no field if the member is marked right or wrong
    without a grade."""
    if member.grade is None and member.correct is not None:
        return {}
    return {"grade": member.grade}


def chosen(members: Sequence[MemberResult]) -> MemberResult:
    """Choose the member of the largest group with the best self-score, then the first. Failed
    members come last."""

    def rank(member: MemberResult) -> tuple[bool, float, float]:
        group = math.inf if member.group is None else member.group
        score = -math.inf if member.self_score is None else member.self_score
        return bool(member.error), group, -score

    return min(members, key=rank)


def cost(problem: ProblemResult, prices: Prices | None) -> dict[str, float | None]:
    """Return the tokens and dollars of a problem's completions and side calls, without gradings
    (None: unknown)."""
    counts = [call.counted for step in problem.steps for call in step.new_calls]
    return {
        "input_tokens": total(prompt for prompt, _, _ in counts),
        "output_tokens": total(completion for _, _, completion in counts),
        "cost": total(prices.dollars(counted) for counted in counts) if prices else None,
    }


def history(problem: ProblemResult, journals: Archive) -> list[dict[str, Any]] | None:
    """Return the prompt and reply of each call of a problem, or None if the journals lack a call.

    Calls are ordered by step and member. Side calls follow their member. A failed request has an
    error but no reply.
    """
    messages: list[dict[str, Any]] = []
    calls = 0
    for step in problem.steps:
        for number, member in enumerate(step.members):
            for call in member.side_calls if member.carried_over else member.calls:
                at = {"call": calls, "step": step.step, "member": number}
                exchange = _exchange(member, call, at, journals)
                if exchange is None:
                    return None
                messages += exchange
                calls += 1
    return messages


def _exchange(
    member: MemberResult, call: CallCost, at: dict[str, int], journals: Archive
) -> list[dict[str, Any]] | None:
    """Return the prompt and reply of a call, or None if no journal has them. `at` has the call's
    numbers, which each message gets."""
    if call.error:
        return [{"role": "assistant", "content": None, "error": call.error} | at]
    record = journals.record(call.key)
    if record is None:
        return None
    reply: dict[str, Any] = {
        "role": "assistant",
        "content": record.completion.text,
        "thinking": record.completion.thinking,
    }
    reply |= at
    if call is member:
        reply |= {"answer": member.answer, "correct": member.correct} | _grade(member)
    else:
        reply["side_call"] = True
    reply["finish_reason"] = call.finish_reason
    return [*(message | at for message in record.messages), reply]
