"""Find a row's problem, answer and other fields under the column names that data sets use."""

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from core.grading.kinds import kinds

# inspect_ai's columns. "input" is the problem if no other column is, and if the row has no
# "instruction". A list as the "target" has several answers, of which any counts.
INPUT = "input"
TARGET = "target"
INSTRUCTION = "instruction"  # Alpaca's column of the task, whose "input" is data for it
BODY = "body"  # SVAMP's column of the story before its question
PASSAGES = ("passage", "article", "context", "premise")  # texts before a question
# columns of pictures, which a request lacks
PICTURES = ("image", "images", "image_1", "decoded_image", "picture", "figure", "figures")
# This project's name of a column, and all accepted names. The first of these names that a row has
# counts. Case, blanks and hyphens do not matter ("Problem ID" is problem_id). A dot separates a
# column from a field inside it.
NAMES = {
    "id": ("id", "problem_id", "problem_idx", "question_id", "unique_id", "record_id"),
    "problem": ("problem", "question", "statement", "problem_statement", "prompt"),
    "answer": (
        "answer",
        "short_answer",
        "final_answer",
        "expected_answer",
        "reference_answer",
        "ground_truth",
        TARGET,
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


def fields_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return `row`'s statement, final answer and other fields by our names. Only "problem" and
    "answer" may be None. Answer types of other projects, such as "Numerical", are omitted."""
    cells = with_inner(row)
    fields: dict[str, Any] = {}
    for ours in NAMES:
        name = _name_in(cells, ours)
        if not name:
            continue
        cell = cells[name]
        if cell is not None or ours in ("problem", "answer"):
            fields[ours] = cell
    if "problem" in fields:
        is_question = fields["problem"] is cells.get("question")
        fields["problem"] = _statement(fields["problem"], cells if is_question else {})
    if "answer" in fields:
        has_alternatives = _name_in(cells, "answer") == TARGET and is_several(fields["answer"])
        fields["answer"] = None if has_alternatives else _final(fields["answer"])
    if "answer_type" in fields:
        answer_type = str(fields.pop("answer_type")).strip().lower()
        if answer_type in kinds():
            fields["answer_type"] = answer_type
    return fields


def stated_as(row: dict[str, Any], ours: str) -> tuple[str, Any]:
    """Return the name and the content of the column that states a field, as in the file. Return
    ("", None) if there is none."""
    cells = with_inner(row)
    name = _name_in(cells, ours)
    return name, cells.get(name)


def is_empty(cell: Any) -> bool:
    """Return whether a cell states nothing: no value, a blank text, or an empty list."""
    return cell is None or cell == [] or (isinstance(cell, str) and not cell.strip())


def is_several(cell: Any) -> bool:
    """Return whether a cell is a list of two or more items."""
    return isinstance(cell, (list, tuple)) and len(cell) > 1


def is_usual(name: str) -> bool:
    """Return whether a column of this name states one of our fields."""
    return plain_name(name) == INPUT or any(plain_name(name) in names for names in NAMES.values())


def _name_in(cells: Mapping[str, Any], ours: str) -> str:
    """Return the first of a field's names in `cells`, or ""."""
    for name in NAMES[ours]:
        if name in cells:
            return name
    if ours == "problem" and INPUT in cells and INSTRUCTION not in cells:
        return INPUT
    return ""


def with_inner(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row's fields by plain name, and the fields inside of objects ("outer.inner"). Exact
    names precede names that become equal to them."""
    cells = cells_of(row)
    for name, cell in row.items():
        if name == plain_name(name):
            cells[name] = cell
    for outer, cell in list(cells.items()):
        if isinstance(cell, Mapping):
            for inner, value in cell.items():
                cells[f"{outer}.{plain_name(inner)}"] = value
    return cells


def cells_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row's fields by plain name (see plain_name). Of fields with the same plain name, the
    first counts."""
    return {plain_name(name): cell for name, cell in reversed(row.items())}


def names_in(row: Mapping[str, Any], limit: int = 12) -> str:
    """Return at most `limit` of a row's column names as text for an error, or "none"."""
    names = [str(name)[:40] for name in list(row)[:limit]]
    return ", ".join(map(repr, names)) or "none"


def column_names(ours: str) -> str:
    """Return a column's name in this project, with the other accepted names in parentheses."""
    others = ", ".join(name for name in NAMES[ours] if name != ours)
    return f'"{ours}" (or {others})'


def plain(value: Any) -> Any:
    """Copy a value for JSON. Bytes (such as images), nan and inf become None. Values of other types
    become text."""
    if isinstance(value, Mapping):
        return {str(name): plain(cell) for name, cell in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(cell) for cell in value]
    if value is None or isinstance(value, (bytes, bytearray)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str)) else str(value)


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
        texts = {name: text_of(value) for name, value in cell.items()}
        return "; ".join(f"{name}: {text}" for name, text in texts.items() if text)
    if isinstance(cell, (str, int, float)) and not isinstance(cell, bool):
        return str(cell).strip()
    return ""


def text_in(cell: Any) -> str:
    """Return the text in a cell, or "" for a cell of another type."""
    return cell.strip() if isinstance(cell, str) else ""


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
        final = answer.rpartition("####")[2].strip()
        return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", final)
    if re.search("<<[^<>]*=[^<>]*>>", answer):
        return None
    if re.fullmatch(r"\s*-?[0-9]+\.0\s*", answer):
        return answer.strip().removesuffix(".0")
    return answer


def _of_list(items: list[Any]) -> Any:
    """Return the only item, or the texts of all items with commas between them. The result is None
    for an empty list, and for one with an item that is no number or text."""
    if len(items) == 1:
        return items[0]
    texts = ["" if isinstance(item, Mapping) else text_of(item) for item in items]
    return ", ".join(texts) if texts and all(texts) else None


def _statement(problem: Any, cells: Mapping[str, Any]) -> Any:
    """Return the statement: the only user message of a list, or else `problem`. The text that a
    question is about precedes it: SVAMP's "body", or a passage in `cells`."""
    body = cells.get(BODY)
    if body is not None and not isinstance(body, str):
        return None
    body = (body or "").strip()
    if isinstance(problem, str) and body and body not in problem:
        stop = "" if body.endswith((".", "?", "!", ",", ":", ";")) else "."
        return f"{body}{stop} {problem.strip()}"
    passage = next(filter(None, (text_in(cells.get(name)) for name in PASSAGES)), "")
    if isinstance(problem, str) and passage and passage not in problem:
        return f"{passage}\n\n{problem.strip()}"
    if isinstance(problem, list) and all(isinstance(message, Mapping) for message in problem):
        texts = [message.get("content") for message in problem if message.get("role") == "user"]
        if len(texts) == 1:
            return texts[0]
    return problem
