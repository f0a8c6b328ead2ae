"""Proofs with the points that people gave them: named sets, sets of the hub, and files of one's own."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import DATA
from core.problems import hub, sets
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

    @property
    def sha256(self) -> str:
        """Hash of all that is graded, and of what people gave it."""
        rows = [
            [p.id, p.statement, p.solution, p.guidelines, p.grading_scheme, each.text, each.points, each.writer]
            for each in self.proofs
            for p in (each.problem,)
        ]
        return hashlib.sha256(json.dumps(rows, ensure_ascii=True).encode()).hexdigest()

    def first(self, limit: int) -> "GradedSet":
        """The proofs of the first `limit` problems; 0 means all."""
        kept = list(dict.fromkeys(proof.problem.id for proof in self.proofs))[: limit or None]
        if len(kept) == self.problems:
            return self
        proofs = tuple(proof for proof in self.proofs if proof.problem.id in set(kept))
        return replace(self, name=f"{self.name}[:{limit}]", proofs=proofs)


@dataclass(frozen=True)
class PublishedProofs(Published):
    """A set of `rows` proofs. `called`: columns that have other names here, by theirs."""

    called: Mapping[str, str] = field(default_factory=dict)


# None of these was at hand when this was written. Repositories, counts of rows, licences and columns were read in the
# sets' cards and in public code that reads them (2026-11); commits, and the names of files, nowhere.
PUBLISHED = {
    each.name: each
    for each in (
        PublishedProofs(
            name="proofbench_graded",  # Ma et al. 2025, arXiv 2510.13888; its other split has no points by people
            repo="wenjiema02/ProofBench",
            rows=435,
            licence="MIT",
            columns="problem_id, problem, model_solution, expert_rating, reference_solution, marking_scheme, generator",
        ),
        PublishedProofs(
            # Luong et al. 2025, arXiv 2511.01846: imobench/gradingbench.csv of github.com/google-deepmind/superhuman;
            # of the hub's copies this is one.
            name="imo_gradingbench",
            repo="Hwilner/imo-gradingbench",
            rows=1000,
            licence="CC BY 4.0",
            columns="Problem ID, Problem, Response, Points, Solution, Grading guidelines",
        ),
        PublishedProofs(
            name="olympiads_graded",
            repo="lm-provers/olympiads-proof-graderbench",
            rows=0,  # nobody says how many
            licence=None,
            columns="problem_id, text (the problem), model_solution, points, solution, schema_0 (the scheme)",
            called={"text": "problem", "schema_0": "grading_scheme"},
        ),
        PublishedProofs(
            name="matharena_graded",
            repo="lm-provers/matharena-gradingbench",
            rows=0,
            licence=None,
            columns="problem_idx, problem, answer (the proof), points, details (the scheme)",
            called={"answer": "proof", "details": "grading_scheme"},
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
        proofs = check(read.rows, read.place, known.called)
        if known.rows and len(proofs) != known.rows:
            raise UserError(f"{name} from {read.origin} has {len(proofs)} proofs and not {known.rows}. {read.way_out}")
        return GradedSet(name, proofs, read.source, known.licence, revision=read.commit)
    if name.startswith("hub:"):
        asked = hub.Spec.read(name)
        read = sets.read_hub(asked, GRADED)
        return GradedSet(name[4:], check(read.rows, read.place), read.source, read.licence, revision=read.commit)
    known_names = ", ".join([*BUNDLED, *PUBLISHED])
    if name.partition(":")[0] in (*sets.BUNDLED, *sets.PUBLISHED):
        raise UserError(f"{name} holds problems, and no proofs that people have graded. {GRADED} takes {known_names}")
    path = Path(os.path.expanduser(name))
    if path.suffix or path.exists():
        return GradedSet(path.stem, check(read_rows(path), str(path)), f"file {path.name}")
    raise UserError(
        f"unknown graded set {name!r:.80}. Known sets: {known_names}; or give hub:owner/name, or the path of a .json, "
        ".jsonl, .csv or .parquet file"
    )


def check(rows: Rows, source: str, called: Mapping[str, str] | None = None) -> tuple[GradedProof, ...]:
    """Proofs from decoded rows, each beside the place it came from. Equal statements are one problem; two problems of
    one id (as where several contests count from 1) get ids of their own. Raises UserError."""
    found: list[GradedProof] = []
    ids: dict[str, str] = {}  # by statement
    for number, (where, columns) in enumerate(rows, 1):
        if not isinstance(columns, dict):
            raise UserError(f"{where} must be an object with a problem, a proof and its points, not {kind_of(columns)}")
        row = understood({(called or {}).get(str(name), name): cell for name, cell in columns.items()})
        statement = _needed(where, "problem", columns, row)
        if "proof" not in row and "points" not in row and row.get("answer") is not None:
            raise UserError(
                f"{where} has an answer, and no proof with the points that people gave it: "
                f"Columns found: {names_in(columns)}"
            )
        points = _points(where, columns, row)
        text = row.get("proof")
        if not isinstance(text, str | None) or (text is None and not _has_proof(columns, called)):
            raise UserError(f"{where} needs {listed('proof')}, a text. Columns found: {names_in(columns)}")
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
        written = (text or "").rpartition(END_OF_THINKING)[-1].strip()
        proof = GradedProof(problem, written, points, text_of(row.get("writer")))
        _check_sendable(where, proof)
        found.append(proof)
    if not found:
        raise UserError(f"{source} holds no proofs. Give at least one")
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


def _needed(where: str, name: str, columns: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{where} needs {listed(name)}, a text that is not empty. Columns found: {names_in(columns)}")
    return value.strip()


def _points(where: str, columns: Mapping[str, Any], row: Mapping[str, Any]) -> int:
    """What people gave: a whole number, which CSV has as text and some files as 7.0."""
    if "points" not in row:
        raise UserError(
            f"{where} needs {listed('points')}: what people gave, 0 to {MAX_POINTS}. Columns found: {names_in(columns)}"
        )
    value = row["points"]
    told = re.fullmatch(r"\s*(\d)(?:\.0+)?\s*", "" if isinstance(value, bool) else str(value), re.ASCII)
    if not told or int(told[1]) > MAX_POINTS:
        raise UserError(f"{where} has points {value!r:.40}; people give a whole number from 0 to {MAX_POINTS}")
    return int(told[1])


def _has_proof(columns: Mapping[str, Any], called: Mapping[str, str] | None) -> bool:
    """Whether there is a column for the proof: null in it is an empty one."""
    filled = {(called or {}).get(str(name), name): "" if cell is None else cell for name, cell in columns.items()}
    return "proof" in understood(filled)


def _check_sendable(where: str, proof: GradedProof) -> None:
    """JSON may hold half a surrogate pair, which is no character."""
    of = proof.problem
    try:
        "".join((of.id, of.statement, of.solution, of.guidelines, of.grading_scheme, proof.text, proof.writer)).encode()
    except UnicodeEncodeError:
        raise UserError(f"{where} has half a character in it. Fix it there") from None
