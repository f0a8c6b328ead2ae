"""Results as data, for notebooks and scripts of one's own: core.results.load("02_rsa_basic")."""

import weakref
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.generate.journal import Archive, Record, from_record
from core.results import read
from core.results.model import Head, MemberResult, ProblemResult
from core.types import Completion, Message


class Results:
    """A results file, all of it in memory. `head`: model, engine, configuration, metrics and warnings; `problems`:
    each with its steps, and those with their members (core/results/read.py)."""

    def __init__(self, path: Path) -> None:
        """Raises UserError where `path` can't be read, or is no results file."""
        self.path = path
        head, problems = read.read(path)
        self.head: Head = head
        self.problems: list[ProblemResult] = list(problems)

    def __repr__(self) -> str:
        runs = len(self.head.runs.seeds) if self.head.runs else 1
        of = f", {runs} runs" if runs > 1 else ""
        return (
            f"<Results of {self.head.experiment}: {len(self.problems) // runs} problems{of}, {len(self.rows)} members>"
        )

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each member of each step: pandas.DataFrame(results.rows). `seed`: of its run. Tokens are None where
        the server counted none; those of a member `carried_over` stand in the step that it was made in."""
        return [
            {
                "problem": problem.id,
                "seed": self.head.config["SEED"] if problem.seed is None else problem.seed,
                "reference": problem.answer,
                "step": step.step,
                "stage": step.stage,
                "majority_answer": step.majority_answer,
                "majority_correct": step.majority_correct,
                "member": place,
                "answer": member.answer,
                "correct": member.correct,
                "grade": member.grade,
                "doubt": member.doubt,
                "group": member.group,
                "parents": member.parents,
                "carried_over": member.carried_over,
                "self_score": member.self_score,
                "finish_reason": member.cost.finish_reason,
                "prompt_tokens": member.cost.prompt_tokens,
                "completion_tokens": member.cost.completion_tokens,
                "side_calls": len(member.side_calls),
                "seconds": member.cost.seconds,
                "error": member.cost.error,
                "key": member.cost.key,
            }
            for problem in self.problems
            for step in problem.steps
            for place, member in enumerate(step.members)
        ]

    def completion(self, member: MemberResult) -> Completion:
        """What the model said: thinking, answer, and how it ended. Raises UserError where no journal holds it."""
        return from_record(member.cost.key, self._record(member).completion)

    def messages(self, member: MemberResult) -> list[Message]:
        """Return the prompt as it was sent. Raises UserError if no journal holds it."""
        return self._record(member).messages

    def _record(self, member: MemberResult) -> Record:
        record = self._journals.record(member.cost.key)
        if record is None:
            self._journals.refresh()  # a run may go on in the meantime
            record = self._journals.record(member.cost.key)
        if record is None:
            raise UserError(f"the completion {member.cost.key} is in no journal in {self._journals.folder}")
        return record

    @cached_property
    def _journals(self) -> Archive:
        """Open until this is forgotten: scanning them takes far longer than a look."""
        with ExitStack() as opened:
            journals = opened.enter_context(archive(self.path, self.head.experiment))
            weakref.finalize(self, opened.pop_all().close)
            return journals


def archive(path: Path, experiment: str) -> Archive:
    """The journals beside the results file in `path`, or beside a folder that it lies in: a comparison keeps those of
    its runs in one, and STaR its earlier runs in one more."""
    for folder in path.resolve().parents[:3]:
        if (folder / "journal").is_dir():
            inside = path.resolve().relative_to(folder).parts
            return Archive(folder / "journal", inside[0] if len(inside) > 1 else experiment)
    return Archive(path.parent / "journal", experiment)
