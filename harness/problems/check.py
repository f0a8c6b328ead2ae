"""Check the rows of a problem set and build problems from them. Errors name the row and the
fault."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from core.base.errors import UserError
from core.base.files import storable
from core.types import ANSWERS, MAX_ANSWER_CHARS, PROOF, PROOFS, Problem
from harness.problems.columns import GRADED_BY, listed, names_in, plain, text_of, understood

ALPACA = {"instruction", "input", "output"}  # the fields of a row to train on
ALPACAS = ". Only DATA of 21_star reads such rows. For other runs, give problem and answer"


def check(
    rows: Sequence[tuple[str, Any]], source: str, wanted: str = ANSWERS
) -> tuple[Problem, ...]:
    """Build problems from (place, row) pairs. Raises UserError for an invalid row, or if there are
    no rows.

    A row has "problem" (text) and "answer" (number, text or a list of them). "id" and "answer_type"
    ("integer", "math" or "proof") are optional, and other types count as none. columns.py lists all
    fields and their names. A row without a type asks for a proof if it has guidelines or a grading
    scheme. If `wanted` is PROOFS, it also does so without an answer. Other rows without a type are
    "math". If no row states "math" and every answer is a whole number from 0 to 999, they are
    "integer" instead.

    `wanted` is the kind that the grader accepts. With ANSWERS, every row needs an answer, unless it
    is a proof."""
    problems: list[Problem] = []
    read = [understood(row) if isinstance(row, dict) else {} for _, row in rows]
    whole = all(_is_whole(row.get("answer")) and row.get("answer_type") != "math" for row in read)
    seen: dict[str, str] = {}
    for number, ((where, columns), row) in enumerate(zip(rows, read, strict=True), 1):
        if not isinstance(columns, dict):
            raise UserError(f'{where} must be an object like {{"problem": "…", "answer": 42}}')
        statement = row.get("problem")
        if not isinstance(statement, str) or not _is_text(statement):
            raise UserError(
                f"{where} needs {listed('problem')}, a non-empty text without lone surrogates "
                "(\\ud800 to \\udfff). Its fields: "
                f"{names_in(columns, 8)}{ALPACAS if columns.keys() >= ALPACA else ''}"
            )
        is_answered = row.get("answer") is not None
        is_proof = any(text_of(row.get(name)) for name in GRADED_BY) or (
            wanted == PROOFS and not is_answered
        )
        usual = PROOF if is_proof else "integer" if whole and is_answered else "math"
        answer_type = row.get("answer_type", usual)
        answer = _answer(
            where, columns, row, answer_type, is_needed=wanted == ANSWERS and answer_type != PROOF
        )
        id_ = row.get("id", number)
        if isinstance(id_, bool) or not isinstance(id_, (int, str)) or not _is_text(str(id_)):
            raise UserError(
                f'{where} has an invalid "id" {id_!r:.80}. Give a whole number or non-empty UTF-8 '
                "text"
            )
        id_ = str(id_)
        if id_ in seen:
            raise UserError(
                f"{where} repeats the id {id_!r:.80} of {seen[id_]}. Give every problem a "
                'different "id"'
            )
        seen[id_] = where
        names = (*GRADED_BY, "solution", "split") if answer_type == PROOF else ()
        texts = {name: storable(text_of(row.get(name))) for name in names}  # for graders
        problems.append(
            Problem(id_, statement.strip(), answer, answer_type, plain(columns), **texts)
        )
    if not problems:
        raise UserError(f"{source} has no problems. Add at least one")
    return tuple(problems)


def _answer(
    where: str, columns: dict[str, Any], row: dict[str, Any], answer_type: str, is_needed: bool
) -> str | None:
    """Return a row's answer as text, or None if it is missing and not needed. Raises UserError if
    it is invalid."""
    answer = row.get("answer")
    if not is_needed and (answer is None or (answer_type == PROOF and not text_of(answer))):
        return None
    if (
        isinstance(answer, bool)
        or not isinstance(answer, (int, float, str))
        or not _is_text(str(answer))
    ):
        raise UserError(
            f"{where} needs {listed('answer')}, a number, UTF-8 text or a list of them. In a "
            f"solution it follows ####. Its fields: {names_in(columns, 8)}"
        )
    answer = str(answer).strip()
    if answer_type == PROOF:
        return answer
    if len(answer) > MAX_ANSWER_CHARS or answer in ("nan", "inf", "-inf"):
        raise UserError(
            f'{where} has "answer" {answer:.40}, which is nan, inf or over {MAX_ANSWER_CHARS} '
            "characters"
        )
    if answer_type == "integer":
        if not _is_whole(answer):
            raise UserError(
                f'{where} has type "integer", but its answer {answer!r} is not an integer from 0 '
                "to 999"
            )
        answer = str(int(answer))
    return answer


def answer_type_of(answers: Iterable[Any]) -> str:
    """Return "integer" if all answers are whole numbers from 0 to 999, else "math"."""
    return "integer" if all(map(_is_whole, answers)) else "math"


def _is_whole(answer: Any) -> bool:
    return (
        re.fullmatch(r"\s*[0-9]{1,20}\s*", str(answer)) is not None
        and int(str(answer).strip()) <= 999
    )


def _is_text(text: str) -> bool:
    return can_be_sent(text) and bool(text.strip())


def can_be_sent(text: str) -> bool:
    """Return whether `text` can be sent as UTF-8. Lone surrogates cannot, but JSON may contain
    them."""
    return re.search("[\ud800-\udfff]", text) is None
