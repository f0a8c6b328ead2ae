"""What the columns of a data set are called, in one table, and what a row says under those names."""

import math
import re
from collections.abc import Mapping
from typing import Any

# Ours, and what others call it; of several in one row the first counts. Capitals, blanks and hyphens make no
# difference ("Problem ID" is problem_id), and a dot leads into a column that holds fields of its own.
NAMES = {
    "id": ("id", "problem_id", "problem_idx", "question_id", "unique_id"),
    "problem": ("problem", "question", "statement", "problem_statement", "prompt"),
    "answer": (
        "answer",
        "short_answer",
        "final_answer",
        "expected_answer",
        "reference_answer",
        "ground_truth",
        "reward_model.ground_truth",  # as training sets for verl have it; their prompt is a list of messages
    ),
    "answer_type": ("answer_type",),
    # Of problems that ask for a proof: what graders are shown.
    "solution": ("solution", "reference_solution"),
    "guidelines": ("guidelines", "grading_guidelines"),
    "grading_scheme": ("grading_scheme", "marking_scheme", "rubric", "rubrics"),
    "split": ("split",),
    # Of proofs that are there: the text, the points that people gave it, and who wrote it.
    "proof": ("model_solution", "response", "proof", "student_solution"),
    "points": ("points", "human_points", "expert_rating", "human_score"),
    "writer": ("writer", "generator", "model_name"),
}
GRADED_BY = ("guidelines", "grading_scheme")  # who has one of these asks for a proof


def understood(row: dict[str, Any]) -> dict[str, Any]:
    """What `row` says under our names; what is missing there is missing here. An empty id or answer_type is none."""
    cells = cells_of(row)
    cells |= {name: cell for name, cell in row.items() if name == plain_name(name)}  # but for ours as we write them
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
        found["problem"] = _said(found["problem"], cells.get("body") if is_question else None)
    answer = found.get("answer")
    if isinstance(answer, str) and "####" in answer:  # GSM8K's worked solutions end so
        found["answer"] = answer.rpartition("####")[2].strip()
    elif isinstance(answer, float) and answer.is_integer():
        found["answer"] = int(answer)
    return found


def cells_of(row: dict[str, Any]) -> dict[str, Any]:
    """The cells of a row under their plain names; of equal ones the first counts."""
    return {plain_name(name): cell for name, cell in reversed(row.items())}


def names_in(row: Mapping[str, Any], most: int = 12) -> str:
    """The names of a row's columns, for an error; "none" where it has none."""
    return ", ".join(repr(str(name)[:40]) for name in list(row)[:most]) or "none"


def listed(ours: str) -> str:
    """Our name of a column and, in brackets, the others that are understood."""
    return f'"{ours}" (or {", ".join(name for name in NAMES[ours] if name != ours)})'


def plain(value: Any) -> Any:
    """Copy a cell so that JSON can hold it: other kinds as text, bytes (pictures) and what is no number as null."""
    if isinstance(value, Mapping):
        return {str(name): plain(cell) for name, cell in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(cell) for cell in value]
    if isinstance(value, (bytes, bytearray)) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def plain_name(name: object) -> str:
    """A column's name without what makes no difference."""
    return re.sub(r"[\s_-]+", "_", str(name).strip().lower())


def text_of(cell: Any) -> str:
    """A cell as text: of a list its items, a line each, of an object its fields; "" of what is none of them."""
    if isinstance(cell, (list, tuple)):
        return "\n".join(filter(None, map(text_of, cell)))
    if isinstance(cell, Mapping):
        return "; ".join(f"{name}: {told}" for name, value in cell.items() if (told := text_of(value)))
    return str(cell).strip() if isinstance(cell, (str, int, float)) and not isinstance(cell, bool) else ""


def _said(problem: Any, body: Any = None) -> Any:
    """The statement in a prompt that is a list of messages: the text of its one user. SVAMP's have their `body` in a
    column of its own."""
    if isinstance(problem, str) and isinstance(body, str) and body.strip() and body.strip() not in problem:
        body = body.strip()
        return f"{body}{'' if body[-1] in '.?!,:;' else '.'} {problem.strip()}"
    if not isinstance(problem, list) or not all(isinstance(message, Mapping) for message in problem):
        return problem
    said = [message.get("content") for message in problem if message.get("role") == "user"]
    return said[0] if len(said) == 1 else problem
