"""Check the rows of a problem set and build problems from them. Errors name the row and the
fault."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from core.base.errors import UserError
from core.base.files import storable
from core.types import ANSWERS, MAX_ANSWER_CHARS, PROOF, PROOFS, Problem
from harness.problems.columns import GRADED_BY, column_names, fields_of, names_in, plain, text_of

ALPACA = {"instruction", "input", "output"}  # the fields of a row to train on
ALPACAS = ". Only DATA of 21_star reads such rows. For other runs, give problem and answer"


def check(
    rows: Sequence[tuple[str, Any]], source: str, wanted: str = ANSWERS
) -> tuple[Problem, ...]:
    """Build problems from (location, row) pairs. Raises UserError for an invalid row, or if there
    are no rows.

    A row has "problem" (text) and "answer" (number, text or a list of them). "id" and "answer_type"
    ("integer", "math" or "proof") are optional, and other types count as none. columns.py lists all
    fields and their names. A row without a type asks for a proof if it has guidelines or a grading
    scheme. If `wanted` is PROOFS, it also does so without an answer. Other rows without a type are
    "math". If no row states "math" and every answer is a whole number from 0 to 999, they are
    "integer" instead.

    `wanted` is the kind that the grader accepts. With ANSWERS, every row needs an answer, unless it
    is a proof."""
    parsed = [_Row(location, row) for location, row in rows]
    are_integers = all(row.may_be_integer for row in parsed)
    problems: list[Problem] = []
    locations: dict[str, str] = {}
    for number, row in enumerate(parsed, 1):
        problem = _problem(row, number, wanted, are_integers)
        if problem.id in locations:
            raise UserError(
                f"{row.location} repeats the id {problem.id!r:.80} of {locations[problem.id]}. "
                "Give "
                'every problem a different "id"'
            )
        locations[problem.id] = row.location
        problems.append(problem)
    if not problems:
        raise UserError(f"{source} has no problems. Add at least one")
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

    @property
    def column_names(self) -> str:
        return names_in(self.columns, 8)


def _problem(row: _Row, number: int, wanted: str, are_integers: bool) -> Problem:
    """Build the problem of a row. `number` is its id, if the row states no id."""
    if not isinstance(row.columns, dict):
        raise UserError(f'{row.location} must be an object like {{"problem": "…", "answer": 42}}')
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
    advice = ALPACAS if row.columns.keys() >= ALPACA else ""
    raise UserError(
        f"{row.location} needs {column_names('problem')}, a non-empty text without lone surrogates "
        f"(\\ud800 to \\udfff). Its fields: {row.column_names}{advice}"
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
        raise UserError(
            f'{row.location} has an invalid "id" {id_!r:.80}. Give a whole number or non-empty '
            "UTF-8 "
            "text"
        )
    return str(id_)


def _answer(row: _Row, answer_type: str, is_needed: bool) -> str | None:
    """Return a row's answer as text, or None if it is missing and not needed. Raises UserError if
    it is invalid."""
    answer = row.fields.get("answer")
    if not is_needed:
        is_missing = answer is None or (answer_type == PROOF and not text_of(answer))
        if is_missing:
            return None
    is_valid = isinstance(answer, (int, float, str)) and not isinstance(answer, bool)
    if not is_valid or not _is_text(str(answer)):
        raise UserError(
            f"{row.location} needs {column_names('answer')}, a number, UTF-8 text or a list of "
            f"them. In a solution it follows ####. Its fields: {row.column_names}"
        )
    text = str(answer).strip()
    if answer_type == PROOF:
        return text
    if len(text) > MAX_ANSWER_CHARS or text in ("nan", "inf", "-inf"):
        raise UserError(
            f'{row.location} has "answer" {text:.40}, which is nan, inf or over {MAX_ANSWER_CHARS} '
            "characters"
        )
    if answer_type != "integer":
        return text
    if not _is_whole(text):
        raise UserError(
            f'{row.location} has type "integer", but its answer {text!r} is not an integer from 0 '
            "to 999"
        )
    return str(int(text))


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
