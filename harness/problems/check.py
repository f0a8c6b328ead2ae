"""Check the rows of a problem set and build problems from them. An error reports the faults of all
rows."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from core.base.errors import RowError, UserError
from core.base.files import storable
from core.types import ANSWERS, MAX_ANSWER_CHARS, PROOF, PROOFS, Problem
from harness.problems.columns import (
    GRADED_BY,
    TARGET,
    column_names,
    fields_of,
    is_empty,
    is_several,
    names_in,
    plain,
    stated_as,
    text_of,
)
from harness.problems.faults import Faults

ALPACA = {"instruction", "input", "output"}  # the fields of a row to train on
ALPACAS = "Only DATA of 21_star reads such rows. For other runs, give problem and answer"
FILL_IN = "Fill it in, or delete these rows"
NEW_IDS = "Give every problem another id, or leave out the column id, which is optional"


def check(
    rows: Sequence[tuple[str, Any]], source: str, wanted: str = ANSWERS
) -> tuple[Problem, ...]:
    """Build problems from (location, row) pairs. Raises UserError with the faults of all rows, or
    if there are no rows.

    A row has "problem" (text) and "answer" (number, text or a list of them). "id" and "answer_type"
    ("integer", "math" or "proof") are optional, and other types count as none. columns.py lists all
    fields and their names. A row without a type asks for a proof if it has guidelines or a grading
    scheme. If `wanted` is PROOFS, it also does so without an answer. Other rows without a type are
    "math". If no row states "math" and every answer is a whole number from 0 to 999, they are
    "integer" instead.

    `wanted` is the kind that the grader accepts. With ANSWERS, every row needs an answer, unless it
    is a proof."""
    if not rows:
        raise UserError(f"{source} has no problems. Add at least one")
    parsed = [_Row(location, row) for location, row in rows]
    are_integers = all(row.may_be_integer for row in parsed)
    faults = Faults()
    problems: list[Problem] = []
    locations: dict[str, str] = {}
    for number, row in enumerate(parsed, 1):
        with faults.caught(row.location):
            problem = _problem(row, number, wanted, are_integers)
            problems.append(problem)
            first = locations.setdefault(problem.id, row.location)
            if first != row.location:
                raise RowError("an id repeats", NEW_IDS, _repeated(problem.id, first))
    faults.check()
    return tuple(problems)


class _Row:
    """A row of a problem set. `columns` has the data set's names, and `fields` has ours."""

    def __init__(self, location: str, columns: Any) -> None:
        self.location = location
        self.columns = columns
        self.fields = fields_of(columns) if isinstance(columns, dict) else {}

    @property
    def may_be_integer(self) -> bool:
        is_math = self.fields.get("answer_type") == "math"
        return not is_math and _is_whole(self.fields.get("answer"))


def _problem(row: _Row, number: int, wanted: str, are_integers: bool) -> Problem:
    """Build the problem of a row. `number` is its id, if the row states no id. Raises RowError."""
    if not isinstance(row.columns, dict):
        raise RowError(
            "the problem is not an object",
            'Write each problem like {"problem": "…", "answer": 42}',
        )
    statement = _statement(row)
    answer_type = row.fields.get("answer_type", _usual_type(row, wanted, are_integers))
    answer = _answer(row, answer_type, is_needed=wanted == ANSWERS and answer_type != PROOF)
    names = (*GRADED_BY, "solution", "split") if answer_type == PROOF else ()  # for graders
    texts: dict[str, Any] = {name: storable(text_of(row.fields.get(name))) for name in names}
    id_ = _id(row, number)
    return Problem(id_, statement, answer, answer_type, plain(row.columns), **texts)


def _statement(row: _Row) -> str:
    statement = row.fields.get("problem")
    if isinstance(statement, str) and _is_text(statement):
        return statement.strip()
    name, cell = stated_as(row.columns, "problem")
    if not name and row.columns.keys() >= ALPACA:
        raise RowError("the columns are instruction, input and output", ALPACAS)
    if not name:
        raise _no_column(row, "problem")
    if is_empty(cell):
        raise RowError("the problem is empty", FILL_IN)
    raise RowError(
        f"the problem (column {name!r:.40}) is not a text",
        "Give a text without lone surrogates (\\ud800 to \\udfff), or a list with one user message",
        f"{cell!r:.40}",
    )


def _no_column(row: _Row, ours: str) -> RowError:
    columns = names_in(row.columns, 8)
    return RowError(
        f"no column is named {column_names(ours)}",
        f"Add it, or rename a column. The columns are {columns}",
    )


def _usual_type(row: _Row, wanted: str, are_integers: bool) -> str:
    """Return the type of a row that states none."""
    is_answered = row.fields.get("answer") is not None
    is_graded = any(text_of(row.fields.get(name)) for name in GRADED_BY)
    if is_graded or (wanted == PROOFS and not is_answered):
        return PROOF
    return "integer" if are_integers and is_answered else "math"


def _id(row: _Row, number: int) -> str:
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


def _answer(row: _Row, answer_type: str, is_needed: bool) -> str | None:
    """Return a row's answer as text, or None if it is missing and not needed. Raises RowError if it
    is invalid."""
    answer = row.fields.get("answer")
    if not is_needed:
        is_missing = answer is None or (answer_type == PROOF and not text_of(answer))
        if is_missing:
            return None
    is_valid = isinstance(answer, (int, float, str)) and not isinstance(answer, bool)
    if not is_valid or not _is_text(str(answer)):
        raise _unreadable_answer(row)
    text = str(answer).strip()
    if answer_type == PROOF:
        return text
    if len(text) > MAX_ANSWER_CHARS or text in ("nan", "inf", "-inf"):
        raise RowError(
            f"the answer is nan, inf or over {MAX_ANSWER_CHARS} characters",
            "Give the final answer alone",
            f"{text:.40}",
        )
    if answer_type != "integer":
        return text
    if not _is_whole(text):
        raise RowError(
            'the answer_type is "integer", but the answer is not an integer from 0 to 999',
            'Correct it, or give the answer_type "math"',
            f"{text!r:.40}",
        )
    return str(int(text))


def _unreadable_answer(row: _Row) -> RowError:
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


def answer_type_of(answers: Iterable[Any]) -> str:
    """Return "integer" if all answers are whole numbers from 0 to 999, else "math"."""
    return "integer" if all(map(_is_whole, answers)) else "math"


def _is_whole(answer: Any) -> bool:
    text = str(answer).strip()
    return re.fullmatch(r"[0-9]{1,20}", text) is not None and int(text) <= 999


def _is_text(text: str) -> bool:
    return can_be_sent(text) and bool(text.strip())


def can_be_sent(text: str) -> bool:
    """Return whether `text` can be sent as UTF-8. Lone surrogates cannot, but JSON may contain
    them."""
    return re.search("[\ud800-\udfff]", text) is None
