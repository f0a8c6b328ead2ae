"""Check the rows of a problem set and build problems from them. An error reports the faults of all
rows."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from core.base.errors import RowError, UserError
from core.base.files import storable
from core.base.settings import similar
from core.grading.kind import Kind
from core.grading.kinds import kinds, named
from core.grading.kinds.math import Math
from core.grading.kinds.proof import GRADED_BY, Proof
from core.types import ANSWERS, PROOFS, Problem
from harness.problems.columns import (
    PICTURES,
    TARGET,
    column_names,
    fields_of,
    is_empty,
    is_several,
    names_in,
    plain,
    stated_as,
    text_of,
    with_inner,
)
from harness.problems.faults import Faults

ALPACA = {"instruction", "input", "output"}  # the fields of a row to train on
ALPACAS = "Only DATA of 21_star reads such rows. For other runs, give problem and answer"
FILL_IN = "Fill it in, or delete these rows"
TEXTS = (*GRADED_BY, "solution", "split")  # for graders of proofs
NEW_IDS = "Give every problem another id, or leave out the column id, which is optional"


def check(
    rows: Sequence[tuple[str, Any]], source: str, wanted: str = ANSWERS
) -> tuple[Problem, ...]:
    """Build problems from (location, row) pairs. Raises UserError with the faults of all rows, or
    if there are no rows.

    A row has "problem" (text) and "answer" (number, text or a list of them). "id" and "answer_type"
    (a kind in core/grading/kinds) are optional. columns.py lists all fields and their names. A row
    without a type belongs to the first kind that claims it, such as "proof" if it has guidelines.
    If `wanted` is PROOFS, a row without an answer is a proof, too. The other rows are "integer" if
    no row states another type and all their answers are whole numbers from 0 to 999, else "math".

    `wanted` is the kind that the grader accepts. With ANSWERS, every row needs an answer, unless it
    is a proof."""
    if not rows:
        raise UserError(f"{source} has no problems. Add at least one")
    faults = Faults()
    drafts: list[_Draft] = []
    for number, (location, columns) in enumerate(rows, 1):
        with faults.caught(location):
            drafts.append(_Draft(location, columns, number, wanted))
    usual = _usual_kind(drafts)
    problems: list[Problem] = []
    locations: dict[str, str] = {}
    for draft in drafts:
        with faults.caught(draft.location):
            problem = draft.complete(draft.kind or usual)
            problems.append(problem)
            first = locations.setdefault(problem.id, draft.location)
            if first != draft.location:
                raise RowError("an id repeats", NEW_IDS, _repeated(problem.id, first))
    for kind in kinds().values():
        own = [draft for draft in drafts if (draft.kind or usual) is kind]
        with faults.caught(source):
            kind.check_together([(draft.problem, draft.cells) for draft in own])
    faults.check()
    return tuple(problems)


def checked(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Check Problem objects by their kinds, with their details as columns. For example, a
    statement shows its options afterwards. Raises UserError with the faults of all problems."""
    faults = Faults()
    completed: list[Problem] = []
    for number, problem in enumerate(problems, 1):
        kind = named(problem.answer_type)
        with faults.caught(f"problem {number}"):
            completed.append(kind.complete(problem, problem.details))
    faults.check()
    return tuple(completed)


class _Draft:
    """A row of a problem set, as far as its kind does not matter.

    `columns` has the data set's names, `cells` has plain names, and `fields` has ours. `kind` is
    None if the row's kind depends on the other rows. `number` is the id if the row states none.
    Raises RowError."""

    def __init__(self, location: str, columns: Any, number: int, wanted: str) -> None:
        if not isinstance(columns, dict):
            raise RowError(
                "the problem is not an object",
                'Write each problem like {"problem": "…", "answer": 42}',
            )
        self.location = location
        self.columns: dict[str, Any] = columns
        self.wanted = wanted
        self.fields = fields_of(columns)
        self.cells = with_inner(columns)
        texts: dict[str, Any] = {name: storable(text_of(self.fields.get(name))) for name in TEXTS}
        statement = _statement(self.fields.get("problem"))
        answer = _answer(self.fields.get("answer"))
        self.problem = Problem(
            _id(self, number), statement, answer, columns=plain(columns), **texts
        )
        self.kind = self._kind()
        for name in PICTURES:
            if not is_empty(self.cells.get(name)):
                raise RowError(
                    f"requests would lack the picture of the column {name!r}",
                    "Leave these rows out, or this column if the problem does not need it",
                )

    def _kind(self) -> type[Kind] | None:
        """Return the kind that the row states, or else the first kind that claims it."""
        stated = self.fields.get("answer_type")
        if stated:
            return kinds()[stated]
        other = text_of(self.cells.get("answer_type"))
        meant = similar(other.lower(), kinds())
        if meant:
            raise RowError("the answer_type is unknown", f"Did you mean {meant}?", f"{other!r:.40}")
        for kind in kinds().values():
            if not kind.claims_all and self.is_claimed(kind):
                return kind
        if self.wanted == PROOFS and self.fields.get("answer") is None:
            return Proof
        return None

    def is_claimed(self, kind: type[Kind]) -> bool:
        return kind.claims(self.problem, self.cells)

    def complete(self, kind: type[Kind]) -> Problem:
        """Return the problem of the row as a problem of this kind. Raises RowError."""
        problem = replace(self.problem, answer_type=kind.name)
        if not kind.is_proof:
            no_texts: dict[str, Any] = dict.fromkeys(TEXTS, "")
            problem = replace(problem, **no_texts)
        problem = kind.complete(problem, self.cells)
        if not problem.statement:  # a kind may find it in other columns
            raise _unreadable_statement(self)
        is_needed = self.wanted == ANSWERS or self.fields.get("answer") is not None
        if problem.answer is None and is_needed and not kind.is_proof:
            raise _unreadable_answer(self)
        return problem


def _usual_kind(drafts: Sequence[_Draft]) -> type[Kind]:
    """Return the kind of the rows that neither state a kind nor are claimed by one."""
    others = [draft for draft in drafts if draft.kind is None]
    stated = {draft.fields.get("answer_type") for draft in drafts}
    for kind in kinds().values():
        is_alone = stated <= {None, kind.name}
        if kind.claims_all and is_alone and all(draft.is_claimed(kind) for draft in others):
            return kind
    return Math


def _statement(cell: Any) -> str:
    """Return a statement, or "" for a missing or unreadable one."""
    return cell.strip() if isinstance(cell, str) and _is_text(cell) else ""


def _unreadable_statement(row: _Draft) -> RowError:
    """Return the error of a row whose statement is missing, or no text."""
    name, cell = stated_as(row.columns, "problem")
    if not name and row.columns.keys() >= ALPACA:
        return RowError("the columns are instruction, input and output", ALPACAS)
    if not name:
        return _no_column(row, "problem")
    if is_empty(cell):
        return RowError("the problem is empty", FILL_IN)
    return RowError(
        f"the problem (column {name!r:.40}) is not a text",
        "Give a text without lone surrogates (\\ud800 to \\udfff), or a list with one user message",
        f"{cell!r:.40}",
    )


def _no_column(row: _Draft, ours: str) -> RowError:
    columns = names_in(row.columns, 8)
    return RowError(
        f"no column is named {column_names(ours)}",
        f"Add it, or rename a column. The columns are {columns}",
    )


def _id(row: _Draft, number: int) -> str:
    id_ = row.fields.get("id", number)
    is_valid = isinstance(id_, (int, str)) and not isinstance(id_, bool)
    if not is_valid or not _is_text(str(id_)):
        raise RowError(
            'an "id" is not a whole number or a text',
            "Correct it, or leave out the column, which is optional",
            f"{id_!r:.40}",
        )
    return str(id_)


def _repeated(id_: str, first: str) -> str:
    """Describe an id that the row at the location `first` has too."""
    _, _, place = first.rpartition(", ")
    return f"{id_!r:.40} of {place}"


def _answer(cell: Any) -> str | None:
    """Return an answer as text, or None for a missing answer and for one of another type."""
    is_valid = isinstance(cell, (int, float, str)) and not isinstance(cell, bool)
    text = str(cell).strip() if is_valid else ""
    return text if _is_text(text) else None


def _unreadable_answer(row: _Draft) -> RowError:
    """Return the error of a row whose answer is missing, or no number or text."""
    name, cell = stated_as(row.columns, "answer")
    if not name:
        return _no_column(row, "answer")
    if is_empty(cell):
        return RowError("the answer is empty", FILL_IN)
    if name == TARGET and is_several(cell):
        return RowError(
            "the target lists several answers",
            "A problem has one reference answer here. Keep one",
            f"{cell!r:.40}",
        )
    if isinstance(cell, str):
        return RowError(
            f"the answer (column {name!r:.40}) has no final answer",
            "Give the final answer alone, or after #### at the end of the solution",
        )
    return RowError(
        f"the answer (column {name!r:.40}) is not a number, a text or a list of them",
        "Give the final answer alone",
        f"{cell!r:.40}",
    )


def _is_text(text: str) -> bool:
    return can_be_sent(text) and bool(text.strip())


def can_be_sent(text: str) -> bool:
    """Return whether `text` can be sent as UTF-8. Lone surrogates cannot, but JSON may contain
    them."""
    return re.search("[\ud800-\udfff]", text) is None
