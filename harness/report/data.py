"""Load results as data, for notebooks and scripts: harness.report.data.load("02_rsa_basic")."""

import weakref
from functools import cached_property
from pathlib import Path
from typing import Any

from core.base.errors import UserError, one_line
from core.base.files import results_dir
from core.client.journal import Archive, Record
from core.types import Completion, Message
from harness.report import run_table
from harness.results import read
from harness.results.find import archive, path_of
from harness.results.model import Head, MemberResult, ProblemResult

COLUMNS = (  # fields of a member in Results.rows
    "answer",
    "correct",
    "grade",
    "doubt",
    "group",
    "parents",
    "carried_over",
    "self_score",
    "finish_reason",
    "prompt_tokens",
    "completion_tokens",
    "seconds",
    "error",
    "key",
)


class Results:
    r"""A results file in memory. `print` shows the tables that a run prints at its end, and a
    legend.

    Attributes:
        path: The file.
        name: The name of the file, without its ending.
        head: Model, engine, configuration, metrics and warnings.
        problems: The problems with their steps and members. harness/results/model.py defines the
            fields.
        missing: The number of members whose completion is in no journal, if the report page has
            looked for them.

    Example:
        >>> results = Results(folder / "02_rsa_basic.json")
        >>> print(results)  # doctest: +ELLIPSIS
        02_rsa_basic: made-up (other) on made up, n=3
        ...
        >>> results.rows[0]["majority_answer"]
        '999'
        >>> member = results.problems[0].steps[-1].members[0]
        >>> results.completion(member).text
        'Adding up, \\boxed{1}.'
        >>> results.messages(member)[0]["role"]
        'user'
    """

    def __init__(self, path: Path) -> None:
        """Read `path`. Raises UserError if the file can't be read or is not a results file."""
        head, problems = read.read(path)
        self.path = path
        self.name = one_line(path.stem, 80)
        self.head: Head = head
        self.problems: list[ProblemResult] = list(problems)
        self.missing = 0

    def __repr__(self) -> str:
        runs = len(self.head.runs.seeds) if self.head.runs else 1
        counts = [f"{len(self.problems) // runs} problems"]
        if runs > 1:
            counts.append(f"{runs} runs")
        counts.append(f"{len(self.rows)} members")
        return f"<Results of {self.head.experiment}: {', '.join(counts)}>"

    def __str__(self) -> str:
        return run_table.text(self.head.document)

    @cached_property
    def document(self) -> dict[str, Any]:
        """The head as JSON, with the file's name as experiment, because an experiment may have
        several files."""
        return self.head.document | {"experiment": self.name}

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of a table, one for each member of each step, for example for
        pandas.DataFrame(results.rows).

        Tokens are None if the server did not count them. A `carried_over` member has 0 tokens,
        because the row of an earlier step has them.
        """
        rows = []
        for problem in self.problems:
            seed = self.head.config.get("SEED") if problem.seed is None else problem.seed
            about_problem = {"problem": problem.id, "seed": seed, "reference": problem.answer}
            for step in problem.steps:
                about_step = {
                    "step": step.step,
                    "stage": step.stage,
                    "majority_answer": step.majority_answer,
                    "majority_correct": step.majority_correct,
                }
                for number, member in enumerate(step.members):
                    row = {"member": number, "side_calls": len(member.side_calls)}
                    row |= {name: getattr(member, name) for name in COLUMNS}
                    rows.append(about_problem | about_step | row)
        return rows

    def completion(self, member: MemberResult) -> Completion:
        """Return the completion of a `member`. Raises UserError if no journal has a valid
        record."""
        return self._record(member).completion

    def messages(self, member: MemberResult) -> list[Message]:
        """Return the prompt of a `member` as it was sent. Raises UserError if no journal contains
        it."""
        return self._record(member).messages or []

    def _record(self, member: MemberResult) -> Record:
        record = self._journals.record(member.key)
        if record is None:
            raise UserError(
                f"no journal in {self._journals.folder} has a valid record of {member.key}. Put "
                "the run's journal there, or run the experiment again"
            )
        return record

    @cached_property
    def _journals(self) -> Archive:
        """The journals. They stay open with this object, because a scan takes far longer than a
        lookup."""
        journals = archive(self.path, self.head.experiment)
        weakref.finalize(self, journals.__exit__)
        return journals.__enter__()


def load(name: str, folder: Path | str | None = None) -> Results:
    """Load the results of a run.

    Args:
        name: The name of the results, the beginning of the name, or the path of a .json file.
        folder: The folder of the results. The default is the folder to which runs write.

    Returns:
        The results. `print` shows their tables.

    Raises:
        UserError: If there are no such results, or they can't be read.

    Example:
        >>> load("02_rsa", folder)
        <Results of 02_rsa_basic: 3 problems, 36 members>
    """
    return Results(path_of(name, Path(folder) if folder else results_dir()))
