"""Proofs with the points that people gave them: named sets, sets of the hub, and files of one's own."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import DATA
from core.problems import hub, sets
from core.problems.check import can_be_sent
from core.problems.columns import listed, names_in, text_of, understood
from core.problems.published import Published
from core.problems.rows import Rows, kind_of, read_rows
from core.types import MAX_POINTS, PROOF, Problem

GRADED = "GRADED"  # the constant that names a set
BUNDLED = {"sums_graded": "proofs by the embedded model, their points computed line by line"}
BUNDLED_VERSION = "1"  # raised when it changes (tests hold its hash)
END_OF_THINKING = "</think>"


@dataclass(frozen=True)
class GradedProof:
    """A proof of a `problem`, as it was written, the `points` of people, and who wrote it ("" where nobody says)."""

    problem: Problem
    text: str
    points: int
    writer: str = ""


@dataclass(frozen=True)
class GradedSet:
    """Proofs, several of a problem, and what results say of where they are from, as of a ProblemSet."""

    name: str
    proofs: tuple[GradedProof, ...]
    source: str
    licence: str | None = None
    version: str | None = None
    revision: str | None = None

    @property
    def problems(self) -> int:
        return len({proof.problem.id for proof in self.proofs})

    def about(self) -> dict[str, Any]:
        """Return what results say of the set."""
        of_set = {name: getattr(self, name) for name in ("name", "sha256", "source", "licence", "version", "revision")}
        return {"n": self.problems, "proofs": len(self.proofs), **of_set}

    @property
    def sha256(self) -> str:
        """Hash of all that is graded, and of what people gave it."""
        rows = [[*_texts(each)[:-1], each.points, each.writer] for each in self.proofs]
        return hashlib.sha256(json.dumps(rows, ensure_ascii=True).encode()).hexdigest()

    def first(self, limit: int) -> "GradedSet":
        """The proofs of the first `limit` problems; 0 means all."""
        kept = list(dict.fromkeys(proof.problem.id for proof in self.proofs))[: limit or None]
        if len(kept) == self.problems:
            return self
        proofs = tuple(proof for proof in self.proofs if proof.problem.id in set(kept))
        return replace(self, name=f"{self.name}[:{limit}]", proofs=proofs)


# Neither was at hand when this was written. Repositories, counts of rows, licences and columns were read in the sets'
# cards and in public code that reads them (2026-11).
PUBLISHED = {
    each.name: each
    for each in (
        Published(
            name="proofbench_graded",  # Ma et al. 2025, arXiv 2510.13888; its other split has no points by people
            repo="wenjiema02/ProofBench",
            rows=435,
            licence="MIT",
            columns="problem_id, problem, model_solution, expert_rating, reference_solution, marking_scheme, generator",
        ),
        Published(
            # Luong et al. 2025, arXiv 2511.01846: imobench/gradingbench.csv of github.com/google-deepmind/superhuman;
            # of the hub's copies this is one.
            name="imo_gradingbench",
            repo="Hwilner/imo-gradingbench",
            rows=1000,
            licence="CC BY 4.0",
            columns="Problem ID, Problem, Response, Points, Solution, Grading guidelines",
        ),
    )
}


def load(name: str) -> GradedSet:
    """A graded set by name, "hub:owner/name[@revision][:split]", or the path of a .json, .jsonl, .csv or .parquet file.

    Raises UserError, with the place and the remedy, for an unknown name, for a file that can't be read or lacks a
    column, for points that are no whole number from 0 to 7, and for a hub that can't be reached.
    """
    if name in BUNDLED:
        rows = read_rows(DATA / f"{name}.json")
        return GradedSet(name, check(rows, name), f"bundled: {BUNDLED[name]}", "MIT", BUNDLED_VERSION)
    if name in PUBLISHED:
        known = PUBLISHED[name]
        read = sets.read_published(known, GRADED)
        proofs = check(read.rows, read.place)
        if len(proofs) != known.rows:
            raise UserError(f"{name} from {read.source} has {len(proofs)} proofs, not {known.rows}. {read.way_out}")
        return GradedSet(name, proofs, read.source, known.licence, revision=read.commit)
    if name.startswith("hub:"):
        asked = hub.Spec.read(name)
        read = sets.read_hub(asked, GRADED)
        return GradedSet(name[4:], check(read.rows, read.place), read.source, read.licence, revision=read.commit)
    known_names = ", ".join([*BUNDLED, *PUBLISHED])
    path = Path(os.path.expanduser(name))
    if path.suffix or path.exists():
        return GradedSet(path.stem, check(read_rows(path), str(path)), f"file {path.name}")
    raise UserError(
        f"unknown graded set {name!r:.80}. Known sets: {known_names}; or give hub:owner/name, or the path of a .json, "
        ".jsonl, .csv or .parquet file"
    )


def check(rows: Rows, source: str) -> tuple[GradedProof, ...]:
    """Proofs from decoded rows, each beside the place it came from. Equal statements are one problem; two problems of
    one id (as where several contests count from 1) get ids of their own. Raises UserError."""
    found: list[GradedProof] = []
    ids: dict[str, str] = {}  # by statement
    for number, (where, columns) in enumerate(rows, 1):
        if not isinstance(columns, dict):
            raise UserError(f"{where} must be an object with a problem, a proof and its points, not {kind_of(columns)}")
        row = understood(columns)
        statement, text, points = row.get("problem"), row.get("proof"), row.get("points")
        if not isinstance(statement, str) or not (statement := statement.strip()):
            raise _lacking(where, "problem", "a text that is not empty", columns)
        if not isinstance(text, str | None):
            raise _lacking(where, "proof", "a text", columns)
        # A whole number, which CSV has as text and some files as 7.0.
        told = re.fullmatch(r"\s*([0-7])(?:\.0+)?\s*", "" if isinstance(points, bool) else str(points))
        if not told:
            raise _lacking(where, "points", f"a whole number from 0 to {MAX_POINTS}, not {points!r:.40}", columns)
        if statement not in ids:
            wished = text_of(row.get("id")) or str(number)
            ids[statement] = wished if wished not in ids.values() else f"{wished} (row {number})"
        problem = Problem(
            ids[statement],
            statement,
            text_of(row.get("answer")) or None,
            PROOF,
            solution=text_of(row.get("solution")),
            guidelines=text_of(row.get("guidelines")),
            grading_scheme=scheme_of(row.get("grading_scheme")),
        )
        written = (text or "").rpartition(END_OF_THINKING)[-1].strip()  # null is an empty proof
        proof = GradedProof(problem, written, int(told[1]), text_of(row.get("writer")))
        if not all(map(can_be_sent, _texts(proof))):
            raise UserError(f"{where} has half a character in it. Fix it there")
        found.append(proof)
    if not any(proof.text for proof in found):
        raise UserError(f"{source} holds no proofs. Give at least one, as {listed('proof')}")
    return tuple(found)


def scheme_of(cell: Any) -> str:
    """A marking scheme as text. Where it stands inside what a person wrote of a proof by it (MathArena: title,
    grading_scheme_desc, max_points beside points and desc), without what that person gave: no grader may see it."""
    items = cell
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        try:
            items = json.loads(cell)
        except ValueError:
            return text_of(cell)
    if isinstance(items, list) and items and all(isinstance(each, Mapping) and "max_points" in each for each in items):
        parts = ("title", "grading_scheme_desc", "max_points")
        return text_of([{name: each[name] for name in parts if name in each} for each in items])
    return text_of(cell)


def _lacking(where: str, name: str, what: str, columns: Mapping[str, Any]) -> UserError:
    return UserError(f"{where} needs {listed(name)}, {what}. Columns found: {names_in(columns)}")


def _texts(proof: GradedProof) -> list[str]:
    of = proof.problem
    return [of.id, of.statement, of.solution, of.guidelines, of.grading_scheme, proof.text, proof.writer]
