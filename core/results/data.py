"""Results as data, for notebooks and scripts of one's own: core.results.load("02_rsa_basic")."""

import weakref
from functools import cached_property
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.generate.journal import Archive, Record, from_record
from core.results import read
from core.results.model import Head, MemberResult, ProblemResult
from core.types import Completion, Message

COLUMNS = (  # of a member, in Results.rows
    "answer", "correct", "grade", "doubt", "group", "parents", "carried_over", "self_score", "finish_reason",
    "prompt_tokens", "completion_tokens", "seconds", "error", "key",
)  # fmt: skip


class Results:
    """A results file, all of it in memory. `head`: model, engine, configuration, metrics and warnings; `problems`:
    each with its steps, and those with their members (core/results/model.py)."""

    def __init__(self, path: Path) -> None:
        """Read `path`. Raises UserError if it can't be read, or is no results file."""
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
        """List a row for each member of each step: pandas.DataFrame(results.rows). `seed`: of its run. Tokens are None
        if the server counted none; those of a member `carried_over` are in the step that it was made in."""
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
                "side_calls": len(member.side_calls),
                **{name: getattr(member, name) for name in COLUMNS},
            }
            for problem in self.problems
            for step in problem.steps
            for place, member in enumerate(step.members)
        ]

    def completion(self, member: MemberResult) -> Completion:
        """Return the completion: thinking, answer, and how it ended. Raises UserError if no journal holds it."""
        return from_record(member.cost.key, self._record(member).completion)

    def messages(self, member: MemberResult) -> list[Message]:
        """Return the prompt as it was sent."""
        return self._record(member).messages or []

    def _record(self, member: MemberResult) -> Record:
        record = self._journals.record(member.cost.key)
        if record is None:
            raise UserError(f"the completion {member.cost.key} is in no journal in {self._journals.folder}")
        return record

    @cached_property
    def _journals(self) -> Archive:
        """Open the journals, which stay open as long as this object: scanning them takes far longer than a look."""
        journals = archive(self.path, self.head.experiment)
        weakref.finalize(self, journals.__exit__)
        return journals.__enter__()


def archive(path: Path, experiment: str) -> Archive:
    """Return the journals beside the results file in `path`, or beside a folder above it: a comparison keeps its runs
    in one, and STaR its earlier runs in one more."""
    for folder in path.resolve().parents[:3]:
        if (folder / "journal").is_dir():
            inside = path.resolve().relative_to(folder).parts
            return Archive(folder / "journal", inside[0] if len(inside) > 1 else experiment)
    return Archive(path.parent / "journal", experiment)
