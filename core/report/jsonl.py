"""Results as lines of JSON, for other programs: `bash scripts/report.sh 02_rsa_basic --jsonl`.

A line is a problem (of merged runs, a problem of one run): the columns of the problem file, the solution that the
scaffold chose, what it took, and the whole history, from which any other candidate can be taken. One problem is in
memory at a time.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import write_atomically
from core.base.prices import Prices
from core.generate.journal import Archive
from core.report.texts import kept
from core.results import model, read
from core.results.data import archive
from core.results.model import CallCost, Head, MemberResult, ProblemResult

STDOUT = "-"
OURS = (b'"model_solution": ', b'"cost_run": ', b'"history": ')  # of every line: they tell a file of ours
# Fields of a graded proof: their names in the export, and in the results (scripts/grade.sh writes them).
GRADED = {
    "score": "worth",
    "ungraded": "ungraded",
    "grades": "grades",
    "grade_spread": "spread",
    "grade_reasons": "reasons",
    "schema_0": "scheme",
    "grade_cost": "grade_cost",
}


def write(path: Path, to: str) -> tuple[str, int, list[str]]:
    """Write the results in `path` as lines to the file `to` (STDOUT: standard output; "": beside the results). Return
    its name, the number of lines, and notes on what is missing. Raises UserError if something else is in that place, or
    the results can't be read."""
    out = Path(to) if to else path.with_suffix(".jsonl")
    if to != STDOUT and out.suffix != ".jsonl":
        raise UserError(
            f"{to!r:.200} is no .jsonl file. Name the results before --jsonl, and behind it FILE.jsonl or -"
        )
    if to != STDOUT and _is_foreign(out):
        raise UserError(f"{out} exists, and is no export. Choose another name, or move it away")
    head, checked = read.read(path)
    _, rows = read.parsed(path)
    lacks: list[bool] = []  # of each problem, whether it has no history
    with archive(path, head.experiment) as journals:

        def lines() -> Iterator[bytes]:
            for row, problem in zip(rows, checked, strict=True):
                made = line(row, problem, head, journals)
                lacks.append(made["history"] is None)
                yield json.dumps(made, ensure_ascii=True).encode() + b"\n"

        if to == STDOUT:
            sys.stdout.writelines(each.decode() for each in lines())
            sys.stdout.flush()
        else:
            write_atomically(out, lines())
        notes, folder = [], journals.folder
    if not head.complete:
        notes.append(f"{path.name} is partial: these are the problems and the last steps that it has so far")
    if any(lacks):
        notes.append(
            f"the history of {sum(lacks)} of {len(lacks)} problems of {path.name} is null: not all of their "
            f"completions are in a journal in {folder}. Put the journal of the run there, and export again"
        )
    return str(to if to == STDOUT else out), len(lacks), notes


def _is_foreign(path: Path) -> bool:
    """Whether something is there that we did not write: a problem file, a journal."""
    if not path.exists():
        return False
    with suppress(OSError), open(path, "rb") as file:
        first = file.readline()
        return bool(first) and not all(name in first for name in OURS)
    return True


def line(row: dict[str, Any], problem: ProblemResult, head: Head, journals: Archive) -> dict[str, Any]:
    """Return a problem as an object. `row`: as it is stored in the results, perhaps with the `columns` of its file."""
    columns = row.get("columns")
    made: dict[str, Any] = {"id": problem.id, "problem": row.get("statement"), "answer": problem.answer}
    made |= columns if isinstance(columns, dict) else {}
    made |= {} if problem.seed is None else {"seed": problem.seed}
    made |= {"split": problem.split} if problem.split else {}
    made |= dict.fromkeys(("model_solution", "model_answer", "correct", "finish_reason"))
    if problem.steps:
        members = problem.steps[-1].members
        member = chosen(members)
        found = kept(journals, member.key)
        is_forced = found and found[0].forced is not None  # "length" would be a text that was cut off
        made |= {"model_solution": found[0].text if found else None, "model_answer": member.answer}
        made |= {"correct": member.correct, "finish_reason": "forced" if is_forced else member.finish_reason}
        made |= _grade(member)
        stored = row["steps"][-1]["members"][members.index(member)]
        if member.points:
            made |= {name: stored.get(ours) for name, ours in GRADED.items()}
    return made | {"cost_run": cost(problem, head.prices), "history": history(problem, journals)}


def _grade(member: MemberResult) -> dict[str, Any]:
    """Return the grade of a proof, null if it has none; nothing if right or wrong says it all."""
    return {} if member.grade is None and member.correct is not None else {"grade": member.grade}


def chosen(members: Sequence[MemberResult]) -> MemberResult:
    """The member of the last population that a problem's solution is: of those that say what the vote says (all, where
    there is none) the one with the best self-score, else the first."""

    def rank(member: MemberResult) -> tuple[bool, float, float]:
        group = float("inf") if member.group is None else member.group
        return bool(member.cost.error), group, -(member.self_score or 0)

    return min(members, key=rank)


def cost(problem: ProblemResult, prices: model.Prices | None) -> dict[str, float | None]:
    """What all completions of a problem took: tokens read and written, None where the server did not count them all;
    dollars, None where prices are not known either."""
    calls = [call for _, _, call, _ in _calls(problem)]
    counted = [(call.prompt_tokens, call.cached_tokens, call.completion_tokens) for call in calls]
    known = Prices(**prices) if prices else None
    dollars = [known.dollars(each) for each in counted] if known else [None]
    return {
        "input_tokens": _sum([prompt for prompt, _, _ in counted]),
        "output_tokens": _sum([completion for _, _, completion in counted]),
        "cost": _sum(dollars),
    }


def history(problem: ProblemResult, journals: Archive) -> list[dict[str, Any]] | None:
    """All messages of a problem as they were sent, and the reply behind those of each `call`: step by step, member by
    member, side calls (reviews, summaries …) behind their member. None where no journal holds one of them. A request
    that failed was not kept; its error stands for it."""
    messages: list[dict[str, Any]] = []
    for number, (step, place, call, member) in enumerate(_calls(problem)):
        at = {"call": number, "step": step, "member": place}
        if call.error:
            messages.append({"role": "assistant", "content": None, "error": call.error} | at)
            continue
        if (found := kept(journals, call.key)) is None:
            return None
        completion, sent = found
        messages += [message | at for message in sent]
        said = {"role": "assistant", "content": completion.text, "thinking": completion.thinking}
        graded = (
            {"answer": member.answer, "correct": member.correct} | _grade(member) if member else {"side_call": True}
        )
        messages.append(said | at | graded | {"finish_reason": call.finish_reason})
    return messages


def _calls(problem: ProblemResult) -> Iterator[tuple[int, int, CallCost, MemberResult | None]]:
    """Each completion of a problem once: step, place of its member, what it took, and the member that it is, if it is
    one."""
    for step in problem.steps:
        for place, member in enumerate(step.members):
            if not member.carried_over:
                yield step.step, place, member.cost, member
            for call in member.side_calls:
                yield step.step, place, call, None


def _sum(counts: Sequence[float | None]) -> float | None:
    return None if None in counts else sum(count for count in counts if count is not None)
