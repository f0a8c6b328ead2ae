"""Read proofs from lines of JSON, and write the same lines with their grades to a new file in the same folder."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import opened, write_atomically
from core.base.prices import Prices
from core.problems.check import answer_type_of, can_be_sent
from core.problems.columns import NAMES, cells_of, names_in, text_of
from core.problems.rows import FIX, read_rows
from core.report import tables
from core.results.points import Worths, groups_of
from core.types import PROOF, Completion, Problem
from labs.proofs.grade import figures
from labs.proofs.grade.asking import Item
from labs.proofs.graded import lacking, read_row
from labs.proofs.proofs import Points

Shape = Callable[[dict[str, Any], bool], dict[str, Any]]  # converts a graded line (shape.py). True: of a proof


class Lines:
    """The proofs in a .jsonl file. `folder` contains the journal of the gradings."""

    def __init__(self, path: Path, folder: Path, shape: Shape | None = None) -> None:
        """Read the lines. `shape` converts graded lines. Raises UserError if a line is invalid, or if an unrelated file
        would be replaced."""
        self.path, self.name, self.folder, self._shape = path, path.stem, folder, shape
        self.out = path.with_suffix(".graded.jsonl")
        check_free(self.out, "grade.sh", ("grade", "grade_cost", "schema_0"))
        rows = read_rows(path)
        found = [(where, row, read_row(where, row)) for where, row in rows]
        answers = [named["answer"] for *_, named in found if named.get("answer") is not None]
        self._rows = [row for _, row in rows]
        self._items = [
            Item(_problem(where, row, named, number, answer_type_of(answers)), _proof(where, row))
            for number, (where, row, named) in enumerate(found, 1)
        ]

    def items(self) -> Iterator[Item]:
        return iter(self._items)

    def write(self, points: Sequence[Points], about: dict[str, Any], prices: Prices | None) -> tuple[Path, str]:
        """Write every line with its grade. Returns the new file's path and a table for the terminal."""
        worths, lines = Worths(), []
        for row, item, each in zip(self._rows, self._items, points, strict=True):
            worths.add(item.problem.id, groups_of(item.problem.split, row), [figures.worth(each)])
            graded = {**row, **fields(each, prices), "grader": about["model"]["name"]}
            graded = self._shape(graded, item.problem.is_proof) if self._shape else graded
            lines.append(json.dumps(graded, ensure_ascii=True).encode() + b"\n")
        write_atomically(self.out, lines)
        return self.out, tables.points_table(worths.metrics()["proofs"])


def _problem(where: str, row: dict[str, Any], named: dict[str, Any], number: int, of_answers: str) -> Problem:
    """Return the problem in a line. `named` has its fields by our names. `of_answers` is the file's answer type."""
    names = ("solution", "guidelines", "grading_scheme", "split")
    texts: dict[str, Any] = {name: text_of(named.get(name)) for name in names}
    answer, answer_type = text_of(named.get("answer")), named.get("answer_type")
    if answer_type not in (PROOF, "integer", "math"):
        is_answer = answer and not (texts["guidelines"] or texts["grading_scheme"])
        answer_type = of_answers if is_answer else PROOF
    if answer_type != PROOF and not answer:
        raise UserError(f"{where} asks for an answer. Add the field answer. Fields found: {names_in(row)}")
    name = str(named.get("id", number))
    if not (name and can_be_sent(name)):
        raise UserError(f"{where} has an id that is empty, or contains a lone surrogate (\\ud800 to \\udfff). {FIX}")
    return Problem(name, named["problem"], answer or None, answer_type, **texts)


def _proof(where: str, row: dict[str, Any]) -> Completion:
    """Return the proof in a line. A null proof counts as empty. Exported lines also have a `finish_reason`."""
    cells = cells_of(row)
    texts = [cells[name] for name in NAMES["proof"] if name in cells]  # the first of NAMES counts
    if not texts or not isinstance(texts[0], str | None):
        raise lacking(where, "proof", "a text", row)
    reason = row.get("finish_reason")
    return Completion("", 0, "", texts[0] or "", finish_reason=reason if isinstance(reason, str) else "stop")


def fields(points: Points, prices: Prices | None) -> dict[str, Any]:
    """Return the new fields of a line. Means are over `score` (0 to 1), which is None if the grade is missing."""
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
        "grade_cost": figures.cost(points.calls, prices),
    }


def check_free(path: Path, script: str, fields: Sequence[str]) -> None:
    """Raise UserError if `path` exists and `script` did not write it: its first line lacks one of the `fields`."""
    if path.exists():
        with opened(path, "the file", "Move it away") as file:
            first = file.readline()
        if first and not all(f'"{name}": '.encode() in first for name in fields):
            raise UserError(f"{path} exists, and {script} did not write it. Move it away")
