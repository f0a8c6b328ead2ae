"""Results as lines of JSON, for other programs: `bash scripts/report.sh 02_rsa_basic --jsonl`.

A line is a problem (of merged runs, a problem of one run): the columns of the problem file, the solution that the
scaffold chose, what it took, and the whole history, from which any other candidate can be taken. One problem is in
memory at a time.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import write_atomically
from core.base.prices import Prices
from core.generate.journal import Archive, Record, from_record
from core.results import model, read
from core.results.data import archive
from core.results.model import CallCost, Head, MemberResult, ProblemResult
from core.types import Completion

STDOUT = "-"
OURS = (b'"model_solution": ', b'"cost_run": ', b'"history": ')  # of every line: they tell a file of ours


@dataclass
class Export:
    """The lines of the results in `path`. Of the problems written so far: how many, and how many `lack` a history."""

    path: Path
    problems: int = 0
    lack: int = 0
    is_partial: bool = False
    folder: Path = field(default_factory=Path)  # of the journals

    def lines(self) -> Iterator[bytes]:
        """Raises UserError for results that can't be read."""
        head, checked = read.read(self.path)
        _, rows = read.parsed(self.path)
        self.is_partial = not head.complete
        with archive(self.path, head.experiment) as journals:
            self.folder = journals.folder
            for row, problem in zip(rows, checked, strict=True):
                told = line(row, problem, head, journals)
                self.problems += 1
                self.lack += told["history"] is None
                yield json.dumps(told, ensure_ascii=True).encode() + b"\n"

    @property
    def notes(self) -> list[str]:
        notes = []
        if self.is_partial:
            notes.append(f"{self.path.name} is partial: these are the problems and the last steps that it has so far")
        if self.lack:
            notes.append(
                f"the history of {self.lack} of {self.problems} problems of {self.path.name} is null: not all of their "
                f"completions are in a journal in {self.folder}. Put the journal of the run there, and export again"
            )
        return notes


def write(path: Path, to: str) -> tuple[Export, str]:
    """Write the results in `path` as lines to the file `to` (STDOUT: standard output; "": beside the results); what
    came of it, and where, come back. Raises UserError where something else is in that place, and as `lines` does."""
    export = Export(path)
    if to == STDOUT:
        for each in export.lines():
            print(each.decode(), end="")
        sys.stdout.flush()
        return export, to
    out = Path(to) if to else path.with_suffix(".jsonl")
    if out.suffix != ".jsonl":
        raise UserError(
            f"{to!r:.200} is no .jsonl file. Name the results before --jsonl, and behind it FILE.jsonl or -"
        )
    if _is_foreign(out):
        raise UserError(f"{out} exists, and is no export. Choose another name, or move it away")
    write_atomically(out, export.lines())
    return export, str(out)


def _is_foreign(path: Path) -> bool:
    """Whether something is there that we did not write: a problem file, a journal."""
    if not path.exists():
        return False
    with suppress(OSError), open(path, "rb") as file:
        first = file.readline()
        return bool(first) and not all(name in first for name in OURS)
    return True


def line(row: dict[str, Any], problem: ProblemResult, head: Head, journals: Archive) -> dict[str, Any]:
    """A problem as an object; `row`: as it stands in the results, which may keep the `columns` of the problem file."""
    columns = row.get("columns")
    member = chosen(problem.steps[-1].members) if problem.steps else None
    kept = _kept(journals, member.cost) if member else None
    seed = {} if problem.seed is None else {"seed": problem.seed}
    return {
        "id": problem.id,
        "problem": row.get("statement"),
        "answer": problem.answer,
        **(columns if isinstance(columns, dict) else {}),
        **seed,
        **({"split": problem.split} if problem.split else {}),
        "model_solution": kept[0].text if kept else None,
        "model_answer": member.answer if member else None,
        "correct": member.correct if member else None,
        "finish_reason": _ended(member, kept[0] if kept else None) if member else None,
        **(_grade(member) | _graded(row["steps"][-1], problem.steps[-1].members.index(member)) if member else {}),
        "cost_run": cost(problem, head.prices),
        "history": history(problem, journals),
    }


def _ended(member: MemberResult, kept: Completion | None) -> str | None:
    """How the text of a member ended: "length" is one that was cut off. One that was stated at the cap was not."""
    return "forced" if kept and kept.forced is not None else member.cost.finish_reason


def _graded(step: dict[str, Any], place: int) -> dict[str, Any]:
    """What a grader has said of the member in that place of a step, as scripts/grade.sh writes it into the results."""
    stored = step["members"][place]
    if "worth" not in stored:
        return {}
    names = {
        "score": "worth",
        "ungraded": "ungraded",
        "grades": "grades",
        "grade_spread": "spread",
        "grade_reasons": "reasons",
        "schema_0": "scheme",
        "grade_cost": "grade_cost",
    }
    return {theirs: stored.get(ours) for theirs, ours in names.items()}


def _grade(member: MemberResult) -> dict[str, Any]:
    """What a proof is worth, null where nobody has graded it; nothing where right or wrong says it all."""
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
        kept = _kept(journals, call)
        if kept is None:
            return None
        completion, record = kept
        messages += [message | at for message in record.messages]
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


def _kept(journals: Archive, call: CallCost) -> tuple[Completion, Record] | None:
    record = journals.record(call.key)
    with suppress(ValueError):  # it is whole, and no completion
        return (from_record(call.key, record.completion), record) if record else None
    return None


def _sum(counts: Sequence[float | None]) -> float | None:
    return None if None in counts else sum(count for count in counts if count is not None)
