"""Find a row's problem, answer and other fields under the column names that data sets use."""

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from core.types import PROOF

# This project's name of a column, and all accepted names. The first of these names that a row has
# counts. Case, blanks and hyphens do not matter ("Problem ID" is problem_id). A dot separates a
# column from a field inside it.
NAMES = {
    "id": ("id", "problem_id", "problem_idx", "question_id", "unique_id"),
    "problem": ("problem", "question", "statement", "problem_statement", "prompt"),
    "answer": (
        *(
            "answer",
            "short_answer",
            "final_answer",
            "expected_answer",
            "reference_answer",
            "ground_truth",
        ),
        "reward_model.ground_truth",  # data sets for verl, whose prompt is a list of messages
    ),
    "answer_type": ("answer_type",),
    "solution": ("solution", "reference_solution"),  # for graders of proofs, as the next two
    "guidelines": ("guidelines", "grading_guidelines"),
    "grading_scheme": ("grading_scheme", "marking_scheme", "rubric", "rubrics"),
    "split": ("split",),
    # Graded proofs: the text, the points from human graders, and the author.
    "proof": ("model_solution", "response", "proof", "student_solution"),
    "points": ("points", "human_points", "expert_rating", "human_score"),
    "writer": ("writer", "generator", "model_name"),
}
# the values of "answer_type". Data sets also have others, such as "Numerical"
TYPES = ("integer", "math", PROOF)
# a row with one of these and without a type asks for a proof
GRADED_BY = ("guidelines", "grading_scheme")


def understood(row: dict[str, Any]) -> dict[str, Any]:
    """Return `row`'s statement, final answer and other fields by our names. Only "problem" and
    "answer" may be None. A type that is not in TYPES is omitted."""
    # exact names first
    cells = cells_of(row) | {name: cell for name, cell in row.items() if name == plain_name(name)}
    for outer, cell in list(cells.items()):
        if isinstance(cell, Mapping):
            cells |= {f"{outer}.{plain_name(inner)}": value for inner, value in cell.items()}
    found = {}
    for ours, names in NAMES.items():
        held = [cells[name] for name in names if name in cells]
        if held and (held[0] is not None or ours in ("problem", "answer")):
            found[ours] = held[0]
    if "problem" in found:
        is_question = found["problem"] is cells.get("question")
        found["problem"] = _statement(found["problem"], cells.get("body") if is_question else None)
    if "answer" in found:
        found["answer"] = _final(found["answer"])
    if "answer_type" in found:
        stated = str(found.pop("answer_type")).strip().lower()
        found |= {"answer_type": stated} if stated in TYPES else {}
    return found


def cells_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row's fields by plain name (see plain_name). Of fields with the same plain name, the
    first counts."""
    return {plain_name(name): cell for name, cell in reversed(row.items())}


def names_in(row: Mapping[str, Any], most: int = 12) -> str:
    """Return at most `most` of a row's column names as text for an error, or "none"."""
    return ", ".join(repr(str(name)[:40]) for name in list(row)[:most]) or "none"


def listed(ours: str) -> str:
    """Return a column's name in this project, with the other accepted names in parentheses."""
    return f'"{ours}" (or {", ".join(name for name in NAMES[ours] if name != ours)})'


def plain(value: Any) -> Any:
    """Copy a value for JSON. Bytes (such as images), nan and inf become None. Values of other types
    become text."""
    if isinstance(value, Mapping):
        return {str(name): plain(cell) for name, cell in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(cell) for cell in value]
    if isinstance(value, (bytes, bytearray)) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


@lru_cache(1024, typed=True)
def plain_name(name: object) -> str:
    """Return a column's name in lower case, with "_" instead of blanks and hyphens."""
    return re.sub(r"[\s_-]+", "_", str(name).strip().lower())


def text_of(cell: Any) -> str:
    """Convert a text, number, list (a line for each item) or object ("name: value") to text. Other
    types become ""."""
    if isinstance(cell, (list, tuple)):
        return "\n".join(filter(None, map(text_of, cell)))
    if isinstance(cell, Mapping):
        return "; ".join(
            f"{name}: {text}" for name, value in cell.items() if (text := text_of(value))
        )
    return (
        str(cell).strip()
        if isinstance(cell, (str, int, float)) and not isinstance(cell, bool)
        else ""
    )


def _final(answer: Any) -> Any:
    """Return the final answer of GSM8K's solutions ("#### 1,234" is 1234), and 35 for 35.0. Other
    answers stay. A solution with calculations such as <<2*3=6>>, but without "####", becomes None.
    A list of one is its item, as in OlympiadBench. A list of several is one answer with several
    values ("2, 5, 11")."""
    if isinstance(answer, (list, tuple)):
        return _of_list([_final(item) for item in answer])
    if isinstance(answer, float) and answer.is_integer():
        return int(answer)
    if not isinstance(answer, str):
        return answer
    if "####" in answer:
        return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", answer.rpartition("####")[2].strip())
    if re.search("<<[^<>]*=[^<>]*>>", answer):
        return None
    return answer.strip()[:-2] if re.fullmatch(r"\s*-?[0-9]+\.0\s*", answer) else answer


def _of_list(items: list[Any]) -> Any:
    """Return the only item, or the texts of all items with commas between them. The result is None
    for an empty list, and for one with an item that is no number or text."""
    if len(items) == 1:
        return items[0]
    texts = [text_of(item) for item in items if not isinstance(item, Mapping)]
    return ", ".join(texts) if all(texts) and len(texts) == len(items) else None


def _statement(problem: Any, body: Any = None) -> Any:
    """Return the statement: SVAMP's `body` and question, the only user message of a list, or else
    `problem` itself."""
    if body is not None and not isinstance(body, str):
        return None
    if isinstance(problem, str) and body and body.strip() and body.strip() not in problem:
        body = body.strip()
        return f"{body}{'' if body[-1] in '.?!,:;' else '.'} {problem.strip()}"
    if not isinstance(problem, list) or not all(
        isinstance(message, Mapping) for message in problem
    ):
        return problem
    asked = [message.get("content") for message in problem if message.get("role") == "user"]
    return asked[0] if len(asked) == 1 else problem
