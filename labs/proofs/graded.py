"""Load graded proofs from named sets, the hub or files. The points are from people (sums_graded:
from a program)."""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from core.base.errors import RowError, UserError
from core.types import MAX_POINTS, PROOF, Problem
from harness.problems import sets
from harness.problems.check import can_be_sent
from harness.problems.columns import (
    NAMES,
    cells_of,
    column_names,
    fields_of,
    names_in,
    plain_name,
    text_of,
)
from harness.problems.faults import Faults
from harness.problems.published import Published
from harness.problems.rows import Rows
from harness.problems.sets import ProblemSet

GRADED = "GRADED"  # the constant that names a set
BUNDLED = {
    "sums_graded": "proofs by the embedded model, with points computed line by line by a program"
}
BUNDLED_VERSION = "1"  # raise it if the bundled set changes (tests check the set's hash)
END_OF_THINKING = "</think>"


@dataclass(frozen=True)
class GradedProof:
    """A proof (`text`) of a `problem`, the `points` that it was given, and its `writer` ("" if
    unknown)."""

    problem: Problem
    text: str
    points: int
    writer: str = ""


@dataclass(frozen=True)
class GradedSet(ProblemSet):
    """Problems with graded proofs, often several of one problem."""

    proofs: tuple[GradedProof, ...] = ()

    def about(self) -> dict[str, Any]:
        """Return the set's description for results."""
        of_set = {
            name: getattr(self, name)
            for name in ("name", "sha256", "source", "licence", "version", "revision")
        }
        return {"n": len(self.problems), "proofs": len(self.proofs), **of_set}

    @property
    def sha256(self) -> str:
        """The SHA-256 hash of all ids, texts, points and writers."""
        rows = [[*_texts(each)[:-1], each.points, each.writer] for each in self.proofs]
        return hashlib.sha256(json.dumps(rows, ensure_ascii=True).encode()).hexdigest()

    def first(self, limit: int) -> "GradedSet":
        """Return the set with the proofs of its first `limit` problems only (0: all problems)."""
        kept = super().first(limit)
        ids = {problem.id for problem in kept.problems}
        proofs = tuple(proof for proof in self.proofs if proof.problem.id in ids)
        return replace(self, name=kept.name, problems=kept.problems, proofs=proofs)


# We have not seen these sets. The facts come from their cards and from public code that reads them
# (2026-11).
PUBLISHED = {
    each.name: each
    for each in (
        Published(
            # Ma et al. 2025, arXiv 2510.13888. The other split lacks people's points
            name="proofbench_graded",
            repo="wenjiema02/ProofBench",
            rows=435,
            licence="MIT",
        ),
        Published(
            # Luong et al. 2025, arXiv 2511.01846: a copy of google-deepmind/superhuman's file
            name="imo_gradingbench",
            repo="Hwilner/imo-gradingbench",
            rows=1000,
            licence="CC BY 4.0",
        ),
        Published(
            name="olympiads_graded",
            repo="lm-provers/olympiads-proof-graderbench",
            rows=0,  # the card names no number
            licence=None,
        ),
        Published(
            name="matharena_graded",
            repo="lm-provers/matharena-gradingbench",
            rows=0,
            licence=None,
        ),
    )
}


def load(name: str) -> GradedSet:
    """Load a graded set by name, "hub:owner/name[@revision][:split]", or the path of a file. Raises
    UserError."""
    read, known = (
        sets.read_set(name, GRADED, published_sets=PUBLISHED, bundled=BUNDLED),
        PUBLISHED.get(name),
    )
    proofs = check(read.rows, read.first_file)
    if known and known.rows not in (0, len(proofs)):
        raise UserError(
            f"{name} from {read.source} has {len(proofs)} proofs, not {known.rows}. {read.way_out}"
        )
    version = BUNDLED_VERSION if name in BUNDLED else None
    problems = {proof.problem.id: proof.problem for proof in proofs}
    return GradedSet(
        read.name, tuple(problems.values()), read.source, read.licence, version, read.commit, proofs
    )


def check(rows: Rows, source: str) -> tuple[GradedProof, ...]:
    """Return the proofs in decoded rows. Rows with equal statements share a problem's id. Raises
    UserError with the faults of all rows."""
    proofs: list[GradedProof] = []
    ids: dict[str, str] = {}  # by statement
    faults = Faults()
    for number, (location, columns) in enumerate(rows, 1):
        with faults.caught(location):
            proofs.append(_graded_proof(columns, number, ids))
    faults.check()
    if not any(proof.text for proof in proofs):
        raise UserError(
            f"{source} contains no proofs. Give at least one in the column {column_names('proof')}"
        )
    return tuple(proofs)


def _graded_proof(columns: Any, number: int, ids: dict[str, str]) -> GradedProof:
    """Return the proof of a row. `ids` has the ids of problems by statement, and gets a new
    problem's id. Raises RowError."""
    row = read_row(_renamed(columns))
    statement = row["problem"]
    text = row.get("proof")
    points = row.get("points")
    if not isinstance(text, str | None):
        raise lacking("proof", "a text", columns)
    # CSV files store numbers as text, and some files store 7 points as 7.0.
    digits = "" if isinstance(points, bool) else str(points)
    whole = re.fullmatch(r"\s*([0-7])(?:\.0+)?\s*", digits)
    if not whole:
        raise lacking(
            "points", f"a whole number from 0 to {MAX_POINTS}", columns, f"{points!r:.40}"
        )
    if statement not in ids:
        wished = text_of(row.get("id")) or str(number)
        ids[statement] = wished if wished not in ids.values() else f"{wished} (row {number})"
    texts: dict[str, Any] = {name: text_of(row.get(name)) for name in ("solution", "guidelines")}
    scheme = scheme_of(row.get("grading_scheme"))
    answer = text_of(row.get("answer")) or None
    problem = Problem(ids[statement], statement, answer, PROOF, grading_scheme=scheme, **texts)
    written = (text or "").rpartition(END_OF_THINKING)[-1].strip()  # null is an empty proof
    proof = GradedProof(problem, written, int(whole[1]), text_of(row.get("writer")))
    if not all(map(can_be_sent, _texts(proof))):
        raise RowError("a text contains a lone surrogate (\\ud800 to \\udfff)", "Remove it")
    return proof


def read_row(columns: Any) -> dict[str, Any]:
    """Return a row's columns under our names. Raises RowError if the row is no object or lacks a
    statement."""
    if not isinstance(columns, dict):
        raise RowError("the row is not an object", "Write an object with columns like problem")
    row = fields_of(columns)
    statement = row.get("problem")
    if not isinstance(statement, str) or not statement.strip():
        raise lacking("problem", "a text that is not empty", columns)
    return row | {"problem": statement.strip()}


def _renamed(columns: Any) -> Any:
    """Return a row of QED-Nano's graded sets with our names of its columns. Other rows do not
    change.

    Olympiads have the problem in `text` and the marking scheme in `schema_0`. MathArena's rows have
    the scheme in `details` and the proof in `answer`. If a row also has a column with a name of
    ours, that column counts."""
    if not isinstance(columns, dict):
        return columns
    cells = cells_of(columns)
    lacks = {ours for ours, names in NAMES.items() if not any(name in cells for name in names)}
    renamed = {}
    if "problem" in lacks:
        renamed["text"] = "problem"
    if {"guidelines", "grading_scheme"} <= lacks:
        renamed["details" if "details" in cells else "schema_0"] = "grading_scheme"
    if "proof" in lacks and "details" in cells:  # elsewhere, an answer is a final answer
        renamed["answer"] = "proof"
    return {renamed.get(plain_name(name), name): cell for name, cell in columns.items()}


def scheme_of(cell: Any) -> str:
    """Return a marking scheme as text. Of MathArena's objects, only title, description and maximum
    are kept."""
    items = cell
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        with suppress(ValueError):
            items = json.loads(cell)
    objects = []
    if isinstance(items, list):
        objects = [item for item in items if isinstance(item, Mapping)]
    if not any("max_points" in item for item in objects):
        return text_of(cell)
    parts = ("title", "grading_scheme_desc", "max_points")
    return text_of([{name: item[name] for name in parts if name in item} for item in objects])


def lacking(name: str, expected: str, columns: Mapping[str, Any], cell: str = "") -> RowError:
    """Return the error of a row whose column `name` is missing, or is not the `expected` value, but
    `cell`."""
    return RowError(
        f"the column {column_names(name)} is missing or is not {expected}",
        f"The columns are {names_in(columns)}",
        cell,
    )


def _texts(proof: GradedProof) -> list[str]:
    of = proof.problem
    return [
        of.id,
        of.statement,
        of.solution,
        of.guidelines,
        of.grading_scheme,
        proof.text,
        proof.writer,
    ]
