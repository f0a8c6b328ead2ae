"""Read proofs from lines of JSON, and write lines with grades, also in the shape of QED-Nano's
evaluation."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import RowError, UserError
from core.base.files import write_atomically
from core.base.prices import Prices
from core.grading.kinds import named
from core.grading.kinds.math import Math
from core.types import MAX_POINTS, PROOF, Completion, Problem
from harness.problems.check import can_be_sent
from harness.problems.columns import NAMES, cells_of, text_of
from harness.problems.faults import Faults
from harness.problems.rows import FIX, read_rows
from harness.report import jsonl, tables
from harness.results import read
from harness.results.find import archive
from harness.results.proof_points import Proved, groups_of, metrics
from labs.proofs.grade.asking import Item, Source
from labs.proofs.graded import lacking, read_row
from labs.proofs.proofs import Points, fields

Row = dict[str, Any]
OURS, QED = SHAPES = ("ours", "qed")
OWN = (
    "ungraded",
    "graded_by",
    "grades",
    "grade_spread",
    "grade_reasons",
    "self_evaluation_left_out",
    "correct",
)
NAMES_IN_LINES = {ours: name for name, ours in jsonl.GRADED.items()}


def source(path: Path, folder: Path, is_qed: bool = False) -> Source:
    """Return the proofs in a .jsonl file. `folder` contains the journal of the gradings, and
    `is_qed` selects the shape of the graded lines. Raises UserError if a line is invalid, or if an
    unrelated file would be replaced."""
    place(stem := path.with_suffix(""))
    rows: list[Row] = []
    items: list[Item] = []
    faults = Faults()
    for number, (location, row) in enumerate(read_rows(path), 1):
        with faults.caught(location):
            rows.append(row)
            items.append(Item(_problem(read_row(row), number), _proof(row)))
    faults.check()

    def write(
        points: Sequence[Points], about: Row, prices: Prices | None
    ) -> tuple[str, dict[str, Path]]:
        proofs, lines = list[Proved](), []
        for row, item, each in zip(rows, items, points, strict=True):
            of_grade = fields(each, prices)
            proofs.append(Proved(item.problem.id, groups_of(item.problem.split, row), [of_grade]))
            graded = row | {
                NAMES_IN_LINES.get(name, name): value for name, value in of_grade.items()
            }
            graded |= {"schema_0": each.scheme or None, "grader": about["model"]["name"]}
            lines.append(qed(graded, item.problem.is_proof) if is_qed else graded)
        return tables.points_table(metrics(proofs)["proofs"]), {"graded": _write(stem, lines)}

    return Source(path.stem, folder, items, write)


def _problem(columns: Row, number: int) -> Problem:
    """Return the problem in a line. `columns` has its fields by our names. Raises RowError."""
    names = ("solution", "guidelines", "grading_scheme", "split")
    texts: Row = {name: text_of(columns.get(name)) for name in names}
    answer = text_of(columns.get("answer"))
    is_answer = answer and not (texts["guidelines"] or texts["grading_scheme"])
    answer_type = columns.get("answer_type") or (Math.name if is_answer else PROOF)
    name = str(columns.get("id", number))
    if not (name and can_be_sent(name)):
        fault = "the id is empty, or contains a lone surrogate (\\ud800 to \\udfff)"
        raise RowError(fault, FIX)
    return Problem(name, columns["problem"], answer or None, answer_type, **texts)


def _proof(row: Row) -> Completion:
    """Return the proof in a line. A null proof counts as empty. Exported lines also have a
    `finish_reason`. Raises RowError."""
    cells = cells_of(row)
    texts = [cells[name] for name in NAMES["proof"] if name in cells]  # the first of NAMES counts
    if not texts or not isinstance(texts[0], str | None):
        raise lacking("proof", "a text", row)
    reason = row.get("finish_reason")
    return Completion(
        "", 0, "", texts[0] or "", finish_reason=reason if isinstance(reason, str) else "stop"
    )


def qed(line: Mapping[str, Any], is_proof: bool) -> Row:
    """Convert a graded line to the shape of QED-Nano's evaluation. `score` becomes the points of 7,
    or 0 or 1 for an answer. A missing grade stays None. `grade` and `schema_0` get one item,
    because points are for the whole proof."""
    most, share = MAX_POINTS if is_proof else 1, line.get("score", line.get("correct"))
    points: float | None = None if share is None else round(share * most, 6)
    points = int(points) if points is not None and points == int(points) else points
    title, about = (
        ("Proof", "Points for the proof") if is_proof else ("Answer", "Whether the answer is right")
    )
    words = "\n\n".join(line.get("grade_reasons") or []) or line.get("ungraded") or ""
    return {
        **{name: value for name, value in line.items() if name not in OWN},
        "schema_0": [{"title": title, "desc": line.get("schema_0") or about, "points": most}],
        "grade": [{"points": points, "desc": words}],
        "grade_cost": line.get("grade_cost"),
        "score": points,
    }


def place(path: Path) -> Path:
    """Return the file for the graded lines of `path`, without its ending. Raises UserError if a
    file is in the way."""
    out = path.with_name(f"{path.name}.graded.jsonl")
    check_free(out, "grade.sh", ("grade", "grade_cost", "schema_0"))
    return out


def export(path: Path) -> Path:
    """Write a line for each problem and run of the graded results in `path` (SHAPE=qed), and return
    the new file."""
    head, _, both = read.read_raw(path)
    with archive(path, head.experiment) as journals:
        lines = (
            qed(jsonl.line(row, problem, head, journals), _is_proof(row)) for row, problem in both
        )
        return _write(stem_of(path), lines)


def _is_proof(row: Row) -> bool:
    return named(row.get("answer_type", PROOF)).is_proof


def stem_of(path: Path) -> Path:
    """Return the path of results without the ending and the time of a kept copy."""
    return path.with_name(path.name.partition(".")[0])


def _write(path: Path, lines: Iterable[Row]) -> Path:
    write_atomically(
        out := place(path), (json.dumps(line, ensure_ascii=True).encode() + b"\n" for line in lines)
    )
    return out


def check_free(path: Path, script: str, fields: Sequence[str]) -> None:
    """Raise UserError if `path` exists and `script` did not write it: its first line lacks one of
    the `fields`."""
    if jsonl.is_foreign(path, fields):
        raise UserError(f"{path} exists, and {script} did not write it. Move it away")
