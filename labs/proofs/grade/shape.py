"""Write graded lines in the shape of QED-Nano's evaluation (SHAPE=qed), for its statistics and its viewer.

Graders give points for the whole proof, so `grade` and `schema_0` have one item each."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.base.files import write_atomically
from core.report import jsonl
from core.results import read
from core.results.find import archive
from core.types import MAX_POINTS, PROOF
from labs.proofs.grade.lines import check_free

OURS, QED = SHAPES = ("ours", "qed")
# The fields that only our lines have.
OWN = ("ungraded", "graded_by", "grades", "grade_spread", "grade_reasons", "self_evaluation_left_out", "correct")


def qed(line: Mapping[str, Any], is_proof: bool) -> dict[str, Any]:
    """Convert a graded line. `score` becomes the points of 7, or 0 or 1 for an answer. A missing grade stays None."""
    most, share = MAX_POINTS if is_proof else 1, line.get("score", line.get("correct"))
    points: float | None = None if share is None else round(share * most, 6)
    points = int(points) if points is not None and points == int(points) else points
    title, about = ("Proof", "Points for the proof") if is_proof else ("Answer", "Whether the answer is right")
    words = "\n\n".join(line.get("grade_reasons") or []) or line.get("ungraded") or ""
    return {
        **{name: value for name, value in line.items() if name not in OWN},
        "schema_0": [{"title": title, "desc": line.get("schema_0") or about, "points": most}],
        "grade": [{"points": points, "desc": words}],
        "grade_cost": line.get("grade_cost"),
        "score": points,
    }


def place(path: Path) -> Path:
    """Return the file for the lines of the results in `path`. Raises UserError if another program wrote it."""
    out = path.with_name(f"{path.name.partition('.')[0]}.graded.jsonl")
    check_free(out, "grade.sh", ("grade", "grade_cost", "schema_0"))
    return out


def export(path: Path) -> Path:
    """Write a line for each problem and run of the graded results in `path`, and return the new file's path."""
    head, _, both = read.read_raw(path)
    with archive(path, head.experiment) as journals:
        lines = (
            qed(jsonl.line(row, problem, head, journals), row.get("answer_type") == PROOF) for row, problem in both
        )
        write_atomically(out := place(path), (json.dumps(line, ensure_ascii=True).encode() + b"\n" for line in lines))
    return out
