"""Problems from files and decoded rows, checked on the way in: what is wrong is said with its place and what to do."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.files import parse_json, read_text
from core.types import MAX_ANSWER_CHARS, Problem

FIX = "Fix it there"


def read_file(path: Path, needs_answers: bool = True) -> tuple[Problem, ...]:
    text = read_text(path, "problem file", "Check the path in PROBLEMS")
    if path.suffix.lower() == ".jsonl" or _are_lines(text):
        lines = [(f"{path}, line {n}", line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
        rows = [(where, parse_json(line, f"problem file {where}", FIX)) for where, line in lines]
    else:
        whole = parse_json(text, f"problem file {path}", FIX)
        if not isinstance(whole, list):
            raise UserError(f"problem file {path} must hold a list of problems, not {_kind(whole)}")
        rows = [(f"{path}, problem {n}", row) for n, row in enumerate(whole, 1)]
    return check(rows, str(path), needs_answers)


def _are_lines(text: str) -> bool:
    """Whether a text is JSON lines, whatever its file is called: two objects, a line each."""
    try:
        first, second = (json.loads(line) for line in [line for line in text.splitlines() if line.strip()][:2])
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and isinstance(second, dict)


def check(rows: Sequence[tuple[str, Any]], source: str, needs_answers: bool = True) -> tuple[Problem, ...]:
    """Problems from decoded rows, each beside the place it came from. A row is an object with "problem" (text) and
    "answer" (whole number or text), and optionally "id" and "answer_type" ("integer" or "math"). Rows without a type
    get that of the set: "integer" where every answer is a whole number from 0 to 999 and no row says "math", as AIME's
    are; else "math", also for a 42 among fractions, whose box may rightly hold 6 times 7. Unless it
    `needs_answers`, a set may be graded otherwise than by them, and rows may leave them out."""
    problems: list[Problem] = []
    whole = all(
        _is_whole(row.get("answer")) and row.get("answer_type") != "math" for _, row in rows if isinstance(row, dict)
    )
    seen: dict[str, str] = {}
    for number, (where, row) in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise UserError(f'{where} must be an object like {{"problem": "…", "answer": 42}}, not {_kind(row)}')
        statement = row.get("problem")
        if not isinstance(statement, str) or not _is_text(statement):
            raise UserError(f'{where} needs "problem", a text that is not empty. Fields found: {_fields(row)}')
        answer = row.get("answer")
        is_open = answer is None and not needs_answers
        if is_open:
            answer = ""
        elif isinstance(answer, bool) or not isinstance(answer, (int, float, str)) or not _is_text(str(answer)):
            raise UserError(f'{where} needs "answer", a number or a text. Fields found: {_fields(row)}')
        answer = str(answer).strip()
        if len(answer) > MAX_ANSWER_CHARS or answer in ("nan", "inf", "-inf"):
            raise UserError(f'{where} has an "answer" that nothing can be compared with: {answer:.40}')
        answer_type = row.get("answer_type", "integer" if whole and not is_open else "math")
        if answer_type not in ("integer", "math"):
            raise UserError(f'{where} has "answer_type" {answer_type!r:.80}; it is "integer" (0-999) or "math"')
        if answer_type == "integer" and not is_open:
            if not _is_whole(answer):
                raise UserError(f'{where} has "answer_type" "integer", but its answer {answer!r} is not 0-999')
            answer = str(int(answer))
        id_ = row.get("id", number)
        if isinstance(id_, bool) or not isinstance(id_, (int, str)) or not _is_text(str(id_)):
            raise UserError(f'{where} has "id" {id_!r:.80}; an id is a text or a whole number')
        id_ = str(id_)
        if id_ in seen:
            raise UserError(f'{where} repeats the id {id_!r:.80} of {seen[id_]}. Give every problem an "id" of its own')
        seen[id_] = where
        problems.append(Problem(id_, statement.strip(), None if is_open else answer, answer_type))
    if not problems:
        raise UserError(f"{source} holds no problems. Give at least one")
    return tuple(problems)


def answer_type_of(answers: Iterable[Any]) -> str:
    """The type of a set whose rows name none: "integer" where every answer is a whole number from 0 to 999."""
    return "integer" if all(map(_is_whole, answers)) else "math"


def _is_whole(answer: Any) -> bool:
    """Whether `answer` is a whole number from 0 to 999, as AIME's are."""
    return re.fullmatch(r"\s*[0-9]{1,20}\s*", str(answer)) is not None and int(answer) <= 999


def _is_text(text: str) -> bool:
    """Whether `text` says something and can be sent: JSON may hold half a surrogate pair, which is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return bool(text.strip())


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _fields(row: dict[str, Any]) -> str:
    return (", ".join(repr(str(key)[:40]) for key in list(row)[:8]) or "none").replace("\n", " ")
