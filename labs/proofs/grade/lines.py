"""Proofs as lines of JSON, whoever made them: a line each, with the problem, what it is graded by, and the proof.

What is graded goes into a new file beside it: the line as it was, with the grade.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import write_atomically
from core.base.prices import Prices
from core.problems.check import answer_type_of, can_be_sent
from core.problems.columns import NAMES, cells_of, names_in, text_of, understood
from core.problems.rows import FIX, read_rows
from core.report import tables
from core.results.points import Worths, groups_of
from core.types import PROOF, Completion, Problem
from labs.proofs.grade import figures
from labs.proofs.grade.asking import Item
from labs.proofs.grade.figures import cost
from labs.proofs.proofs import Points

PROOFS = NAMES["proof"]  # of several in one line the first counts
OURS = ("grade", "grade_cost", "schema_0")  # of every line: they tell a file of ours


class Lines:
    """The proofs in a .jsonl file. Its journal lies in `folder`."""

    def __init__(self, path: Path, folder: Path) -> None:
        """Raises UserError for a line that is not as it should be, or if the new file would replace another one."""
        self.path, self.name, self.folder = path, path.stem, folder
        self.out = path.with_suffix(".graded.jsonl")
        if is_foreign(self.out, OURS):
            raise UserError(f"{self.out} exists, and is not of grade.sh. Move it away")
        rows = read_rows(path)
        for where, row in rows:
            if not isinstance(row, dict):
                raise UserError(
                    f"{where} is no object. A line has fields like problem, grading_scheme and model_solution"
                )
        answers = [understood(row).get("answer") for _, row in rows]
        answer_type = answer_type_of(answer for answer in answers if answer is not None)
        self._rows = [row for _, row in rows]
        self._items = [
            Item(_problem(where, row, number, answer_type), _proof(where, row))
            for number, (where, row) in enumerate(rows, 1)
        ]

    def items(self) -> Iterator[Item]:
        """Yield the proofs."""
        return iter(self._items)

    def write(self, points: Sequence[Points], about: dict[str, Any], prices: Prices | None) -> tuple[Path, str]:
        """Write every line with its grade; return the path of the new file, and a table."""
        worths = Worths()
        lines = []
        for row, item, each in zip(self._rows, self._items, points, strict=True):
            worths.add(item.problem.id, groups_of(item.problem.split, row), [figures.worth(each)])
            graded = {**row, **fields(each, prices), "grader": about["model"]["name"]}
            lines.append(json.dumps(graded, ensure_ascii=True).encode() + b"\n")
        write_atomically(self.out, lines)
        return self.out, tables.points_table(worths.metrics()["proofs"])


def _problem(where: str, row: dict[str, Any], number: int, of_answers: str) -> Problem:
    """Return the problem in a line. `of_answers`: the type of the answers in the file."""
    said = understood(row)
    statement = said.get("problem")
    if not isinstance(statement, str) or not statement.strip():
        raise UserError(f"{where} has no problem (or Problem, question, statement). Fields found: {names_in(row)}")
    names = ("solution", "guidelines", "grading_scheme", "split")
    texts: dict[str, Any] = {name: text_of(said.get(name)) for name in names}
    answer = text_of(said.get("answer"))
    answer_type = said.get("answer_type")
    if answer_type not in (PROOF, "integer", "math"):
        is_answer = answer and not (texts["guidelines"] or texts["grading_scheme"])
        answer_type = of_answers if is_answer else PROOF
    if answer_type != PROOF and not answer:
        raise UserError(
            f"{where} asks for an answer, and has none that is known to be right. Fields found: {names_in(row)}"
        )
    name = str(said.get("id", number))
    if not (name and can_be_sent(name)):
        raise UserError(f"{where} has an id with half a character in it. {FIX}")
    return Problem(name, statement.strip(), answer or None, answer_type, **texts)


def _proof(where: str, row: dict[str, Any]) -> Completion:
    """What is to be graded. An export of ours tells in finish_reason how it ended; null is no proof."""
    cells = cells_of(row)
    held = [cells[name] for name in PROOFS if name in cells]
    if not held or not isinstance(held[0], str | None):
        raise UserError(
            f"{where} has no text {PROOFS[0]} (or {', '.join(PROOFS[1:])}) to be graded. Fields found: {names_in(row)}"
        )
    reason = row.get("finish_reason")
    return Completion("", 0, "", held[0] or "", finish_reason=reason if isinstance(reason, str) else "stop")


def fields(points: Points, prices: Prices | None) -> dict[str, Any]:
    """What a line gains. `score` is what counts, in [0, 1]; null with a null `grade` is missing."""
    return {
        "grade": points.grade,
        "score": figures.worth(points)["worth"],
        "ungraded": points.ungraded or points.missing,
        "graded_by": points.by if points.gradings else None,
        "grades": [each.points for each in points.gradings],
        "grade_spread": points.spread,
        "grade_reasons": [each.reason for each in points.gradings],
        "schema_0": points.scheme or None,
        "self_evaluation_left_out": points.left_out,
        "grade_cost": cost(points.calls, prices),
    }


def is_foreign(path: Path, ours: Sequence[str]) -> bool:
    """Whether something is there that we did not write: each line of what we did has the fields `ours`."""
    if not path.exists():
        return False
    try:
        with open(path, "rb") as file:
            first = file.readline()
    except OSError:
        return True
    return bool(first) and not all(f'"{name}": '.encode() in first for name in ours)
