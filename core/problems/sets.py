"""Problem sets by name (bundled, or published on the Hugging Face hub), any other set of the hub, or a file of your
own."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.base.errors import UserError
from core.base.files import DATA, HOME
from core.problems import hub
from core.problems.aime import AIME_2024, AIME_2025
from core.problems.check import check, read_file
from core.problems.hmmt import HMMT_2025
from core.problems.imo import ANSWERBENCH
from core.problems.imo import PROOFBENCH as IMO_PROOFBENCH
from core.problems.proofbench import PROOFBENCH
from core.problems.published import Published
from core.problems.rows import READERS, Rows, Wanted, read_rows
from core.types import ANSWERS, Problem

# Sets of the embedded model, made by scripts/embedded/make_sums.py.
BUNDLED = {
    "sums": "sums of 4 products",
    "sums_hard": "sums of 6-8 products",
    "sums_card": "sums of 4 products, for the model card",
    "sums_hard_card": "sums of 6-8 products, for the model card",
    "sums_proof": "remainders of sums of 4 products, to be proved",
    "sums_star": "sums of 4 products to train on, with STaR",
    "sums_star_eval": "sums of 4 products, held out, to evaluate STaR on",
}
BUNDLED_VERSION = "2"  # raised when one of them changes (tests hold their hashes)
PUBLISHED = {each.name: each for each in (AIME_2024, AIME_2025, HMMT_2025, ANSWERBENCH, IMO_PROOFBENCH, PROOFBENCH)}
COPIES = HOME / "data" / "sets"  # a file here named for a published set is taken for it: data/sets/aime_2025.json
ONLINE = "Connect to the internet (HF_ENDPOINT names a mirror, HF_HUB_OFFLINE=1 uses what is already downloaded)"


@dataclass(frozen=True)
class ProblemSet:
    """Problems, and what results say of where they are from: `licence` as its publisher names it, `version` where a
    set has any that are known here, `revision` the commit on the hub; None where there is none."""

    name: str
    problems: tuple[Problem, ...]
    source: str
    licence: str | None = None
    version: str | None = None
    revision: str | None = None

    def __post_init__(self) -> None:
        """Raises UserError for a set of two kinds: what is asked and graded together is of one."""
        if len({problem.is_proof for problem in self.problems}) > 1:
            proof, answer = (next(p.id for p in self.problems if p.is_proof is kind) for kind in (True, False))
            raise UserError(
                f"{self.name} asks for a proof in {proof!r:.60}, for an answer in {answer!r:.60}. Make two sets of it"
            )

    @property
    def asks_for_proofs(self) -> bool:
        return any(problem.is_proof for problem in self.problems)

    @property
    def sha256(self) -> str:
        """Hash of ids, statements and answers, and of what proofs are graded by: results with different hashes are not
        comparable."""
        rows = [[p.id, p.statement, p.answer, p.answer_type] for p in self.problems]
        if self.asks_for_proofs:
            rows += [[p.solution, p.guidelines, p.grading_scheme] for p in self.problems]
        return hashlib.sha256(json.dumps(rows, ensure_ascii=True).encode()).hexdigest()

    def first(self, limit: int) -> "ProblemSet":
        """The first `limit` problems; 0 means all."""
        if limit == 0 or limit >= len(self.problems):
            return self
        return replace(self, name=f"{self.name}[:{limit}]", problems=self.problems[:limit])

    def part(self, split: str) -> "ProblemSet":
        """The problems of one of its parts. Raises UserError, with the parts there are."""
        kept = tuple(problem for problem in self.problems if problem.split == split)
        if not kept:
            parts = ", ".join(sorted({problem.split for problem in self.problems if problem.split}))
            raise UserError(f"{self.name} has no part {split!r:.80}; it has {parts or 'none'}")
        return replace(self, name=f"{self.name}:{split}", problems=kept)


def load(name: str, wanted: str = ANSWERS, constant: str = "PROBLEMS") -> ProblemSet:
    """A problem set by name ("sums", "aime_2025", …) or name:part ("imo_proofbench:Advanced"),
    "hub:owner/name[@revision][:split]", or the path of a .json, .jsonl, .csv or .parquet file; what is not known by
    name may lack answers unless they are what is `wanted` by the grader. `constant`: the one that names it.

    Raises UserError, with the place and the remedy, for an unknown name, an unreadable or malformed file, or a hub
    that can't be reached or holds another set than the one that is known.
    """
    if name in BUNDLED:
        problems = read_file(DATA / f"{name}.json")
        return ProblemSet(name, problems, f"bundled: {BUNDLED[name]}", "MIT", BUNDLED_VERSION)
    known_as, _, part = name.partition(":")
    if known_as in PUBLISHED:
        whole = _published(PUBLISHED[known_as], constant)
        return whole.part(part) if part else whole
    if name.startswith("hub:"):
        asked = hub.Spec.read(name)
        read = read_hub(asked, constant)
        problems = check(read.rows, read.place, wanted)
        return ProblemSet(asked.name, problems, read.source, read.licence, revision=read.commit)
    path = Path(os.path.expanduser(name))
    if path.suffix or path.exists():
        return ProblemSet(path.stem, read_file(path, wanted), f"file {path.name}")
    known = ", ".join([*BUNDLED, *PUBLISHED])
    raise UserError(
        f"unknown problem set {name!r}. Known sets: {known}; or give hub:owner/name, or the path of a .json, .jsonl, "
        ".csv or .parquet file"
    )


def _published(known: Published, constant: str) -> ProblemSet:
    """Load a known set: its copy in COPIES, or else the hub's. Raises UserError if it is another."""
    read = read_published(known, constant)
    problems = known.settled(check(read.rows, read.place))
    if fault := known.fault(problems):
        raise UserError(f"{known.name} from {read.origin} {fault}. {read.way_out}")
    made = ProblemSet(known.name, problems, read.source, known.licence, revision=read.commit)
    return replace(made, version=known.version(made.sha256))


@dataclass(frozen=True)
class Read:
    """The `rows` of a set as they are, and its `place`, the first file. `source` and `origin` say in words where they
    are from, and `way_out` what to do if something is wrong. Commit and licence: None if the hub does not tell them."""

    rows: Rows
    place: str
    source: str
    origin: str
    way_out: str
    commit: str | None = None
    licence: str | None = None


def read_published(known: Published, constant: str = "PROBLEMS", wanted: Wanted | None = None) -> Read:
    """Read the rows of a known set from its copy in COPIES, or else from the hub; with `wanted`, without their other
    columns. Raises UserError, which tells of the `constant` that takes a file."""
    way_out = (
        f"{ONLINE}, or give a local copy, one file with the columns {known.columns}: {known.address} as "
        f"{COPIES / known.name}.parquet (or .csv, .json, .jsonl), or {constant}=path/to/{known.name}.json"
    )
    copy = next((path for kind in READERS if (path := COPIES / f"{known.name}{kind}").exists()), None)
    if copy:
        return Read(read_rows(copy, wanted), str(copy), f"file {copy.name}", str(copy), way_out)
    with hub.told(known.name, way_out):
        if known.files:
            found = hub.fetched(known.repo, known.revision, known.files.values())
        else:
            found = hub.fetched_splits(known.repo, known.revision, known.splits)
    return _of_hub(found, known.repo, way_out, wanted, list(known.files))


def read_hub(asked: hub.Spec, constant: str = "PROBLEMS", wanted: Wanted | None = None) -> Read:
    """Read the rows of any set of the hub."""
    way_out = f"{ONLINE}, or download a file of it and give {constant}=path/to/file.parquet (or .csv, .json, .jsonl)"
    with hub.told(asked.repo, way_out):
        found = hub.fetched_splits(asked.repo, asked.revision, [asked.split])
    return _of_hub(found, asked.repo, way_out, wanted)


def _of_hub(found: hub.Found, repo: str, way_out: str, wanted: Wanted | None, splits: Sequence[str] = ()) -> Read:
    """Read fetched files. `splits`: of the problems of each, which then say so."""
    rows = []
    for number, path in enumerate(found.paths):
        of = {"split": splits[number]} if splits and splits[number] else {}
        rows += [(where, row | of if isinstance(row, dict) else row) for where, row in read_rows(path, wanted)]
    source = f"hub {repo} at {found.commit}"
    return Read(rows, str(found.paths[0]), source, "the hub", way_out, found.commit, found.licence)
