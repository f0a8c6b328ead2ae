"""Load problem sets that are bundled, on the Hugging Face hub, or in a local file.

`python -m harness.problems.sets aime_2025`, for setup.sh, keeps a copy of a published set and pins
it."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from core.base import files
from core.base.errors import UserError, command
from core.base.files import DATA, HOME
from core.base.hub import reported
from core.types import ANSWERS, Problem
from harness.problems import hub, published
from harness.problems.check import check
from harness.problems.published import Published
from harness.problems.rows import READERS, Rows, Wanted, read_rows, stream_rows

BUNDLED = {  # from labs/demo/make_sums.py (for the embedded model) and labs/demo/make_words.py
    "sums": "sums of 4 products",
    "sums_hard": "sums of 6-8 products",
    "sums_card": "sums of 4 products, for the model card",
    "sums_hard_card": "sums of 6-8 products, for the model card",
    "sums_proof": "remainders of sums of 4 products, to be proved",
    "sums_star": "sums of 4 products, for STaR's training",
    "sums_star_eval": "sums of 4 products, for STaR's evaluation (held-out)",
    "words": "word problems of one, two and three steps",
    "words_train": "word problems of one, two and three steps, for STaR's training",
}
BUNDLED_VERSION = "2"  # raise it if a bundled set changes (tests check the hashes)
PUBLISHED = published.PUBLISHED  # the sets on the hub, by name
COPIES = HOME / "data" / "sets"  # local copies, named after the set: data/sets/aime_2025.json
# in COPIES: the repo, commit (revision) and sha256 of each copy that `keep` fetched
PINS = "FETCHED.json"
ONLINE = (
    "If you are offline, connect to the internet, or use the cache (HF_HUB_OFFLINE=1) or a mirror "
    "(HF_ENDPOINT)"
)


@dataclass(frozen=True)
class ProblemSet:
    """A set of problems and its origin: its `licence`, its `version` (published.UNKNOWN for an
    unknown hash), and the commit on the hub (`revision`). A missing value is None. Raises UserError
    for a mix of proofs and answers."""

    name: str
    problems: tuple[Problem, ...]
    source: str
    licence: str | None = None
    version: str | None = None
    revision: str | None = None

    def __post_init__(self) -> None:
        if len({problem.is_proof for problem in self.problems}) > 1:
            proof, answer = (
                next(p.id for p in self.problems if p.is_proof is kind) for kind in (True, False)
            )
            raise UserError(
                f"{self.source} asks for a proof in {proof!r:.60}, but for an answer in "
                f"{answer!r:.60}. Split the set"
            )

    @property
    def asks_for_proofs(self) -> bool:
        return any(problem.is_proof for problem in self.problems)

    @property
    def sha256(self) -> str:
        """The hash of ids, statements, answers, types and texts for graders. Compare only results
        with equal hashes."""
        rows = [[p.id, p.statement, p.answer, p.answer_type] for p in self.problems]
        if self.asks_for_proofs:
            rows += [[p.solution, p.guidelines, p.grading_scheme] for p in self.problems]
        return hashlib.sha256(json.dumps(rows, ensure_ascii=True).encode()).hexdigest()

    def first(self, limit: int) -> "ProblemSet":
        """Return a set of the first `limit` problems, or of all problems if `limit` is 0."""
        if limit == 0 or limit >= len(self.problems):
            return self
        return replace(self, name=f"{self.name}[:{limit}]", problems=self.problems[:limit])

    def read_as(self, way: str) -> "ProblemSet":
        """Return a set whose problems have answers that are read in the given way
        (core/grading/text.py)."""
        return replace(self, problems=tuple(replace(problem, way=way) for problem in self.problems))

    def part(self, split: str) -> "ProblemSet":
        """Return a set of the problems in one part (their `split`). Raises UserError if there is no
        such part."""
        kept = tuple(problem for problem in self.problems if problem.split == split)
        if not kept:
            parts = ", ".join(sorted({problem.split for problem in self.problems if problem.split}))
            raise UserError(f"{self.name} has no part {split!r:.80}. Its parts: {parts or 'none'}")
        return replace(self, name=f"{self.name}:{split}", problems=kept)


def load(name: str, wanted: str = ANSWERS, constant: str = "PROBLEMS") -> ProblemSet:
    """Load a problem set.

    Args:
        name: A name ("sums", "aime_2025", …), name:part ("imo_proofbench:Advanced"),
            "hub:owner/name[@revision][:split]", or the path of a .json, .jsonl, .csv or .parquet
            file.
        wanted: The kind that the grader accepts (matters for files and the hub): ANSWERS, PROOFS,
            or EITHER.
        constant: The constant that names the set. Error messages about the hub mention it.

    Raises:
        UserError: The name is unknown, or the set can't be read or fetched, has changed, or mixes
            proofs and answers.

    Example:
        >>> load("sums").problems[0].answer
        '55'
    """
    known_as, _, part = name.partition(":")
    if known_as not in PUBLISHED:
        known_as, part = name, ""
    read, known = read_set(known_as, constant), PUBLISHED.get(known_as)
    problems = check(read.rows, read.place, wanted)
    if known and (fault := known.fault(problems := known.settled(problems))):
        raise UserError(f"{known_as} from {read.source} {fault}. {read.way_out}")
    version = BUNDLED_VERSION if name in BUNDLED else None
    whole = ProblemSet(read.name, problems, read.source, read.licence, version, read.commit)
    if known:
        whole = replace(whole, version=known.version(whole.sha256))
    return whole.part(part) if part else whole


@dataclass(frozen=True)
class Read:
    """The raw rows of a set. `place` is its first file, and `source` describes its origin. Errors
    end with the advice `way_out`."""

    name: str
    rows: Rows
    place: str
    source: str
    licence: str | None = None
    commit: str | None = None
    way_out: str = ""


def read_set(
    name: str,
    constant: str = "PROBLEMS",
    wanted: Wanted | None = None,
    known: Mapping[str, Published] = PUBLISHED,
    bundled: Mapping[str, str] = BUNDLED,
) -> Read:
    """Read the rows of a set: one of `bundled` or `known`, any data set on the hub, or a file. Only
    the `wanted` columns are read. Raises UserError if it can't be read. The message names the
    `constant` that accepts a file."""
    if name in bundled:
        path = DATA / f"{name}.json"
        return Read(name, read_rows(path, wanted), str(path), f"bundled: {bundled[name]}", "MIT")
    if name in known or name.startswith("hub:"):
        return _read_published(known.get(name) or published.on_hub(name), constant, wanted)
    path = Path(os.path.expanduser(name))
    if path.suffix or (name and path.exists()):
        return Read(path.stem, read_rows(path, wanted), str(path), f"file {path.name}")
    meant = f"Did you mean hub:{name}? " if len(path.parts) == 2 else ""
    raise UserError(
        f"unknown set {name!r:.200}. {meant}Give a name ({', '.join([*bundled, *known])}), "
        "hub:owner/name, or the path of a .json, .jsonl, .csv or .parquet file"
    )


def _read_published(known: Published, constant: str, wanted: Wanted | None) -> Read:
    """Read the rows of a set from its copy in COPIES, else from the hub. A column names the split
    of a known file."""
    way_out = (
        f"{ONLINE}. Or download {known.address} as {COPIES / known.name}.parquet (or .csv, .json, "
        f".jsonl). Or set {constant}=path/to/file.json"
    )
    pin, copy, licence = _pins().get(known.name), _copy(known), known.licence
    revision = pin["revision"] if pin else known.revision
    if copy:
        paths, commit = [copy], revision if pin else None
    else:
        with reported(known.repo, way_out):
            names = [*known.files.values()]
            if not names:
                _, names, of_card = hub.listed(known.repo, revision, known.splits)
                licence = licence or of_card
            paths, commit = hub.fetched(known.repo, revision, names)
    rows: Rows = []
    for path, split in zip_longest(paths, () if copy else known.files):
        of = {"split": split} if split else {}
        rows += [
            (where, row | of if isinstance(row, dict) else row)
            for where, row in read_rows(path, wanted)
        ]
    if copy and not pin:
        way_out = (
            f"Replace {copy} by a new download of {known.address}. Or remove it, and a run fetches "
            "the set"
        )
    if pin and files.sha256(paths[0]) != pin["sha256"]:
        raise UserError(
            f"{paths[0]} differs from the file that was fetched from {pin['repo']} at commit "
            f"{pin['revision']}. Remove it and run 'bash setup.sh'. Or remove {COPIES / PINS} to "
            "use another file"
        )
    source = f"hub {known.repo} at {commit}" if commit else f"file {paths[0].name}"
    return Read(known.name, rows, str(paths[0]), source, licence, commit, way_out)


def keep(name: str) -> str:
    """Copy the only file of a published set from the hub to COPIES if no copy is there, and pin its
    commit and hash. Later reads of the set refuse another file. Return a description. Raises
    UserError."""
    known = PUBLISHED[name]
    if _copy(known) is None:
        load(name)  # checks the content of the file, which the hub client now has in its cache
        pins, read = _pins(), read_set(name)
        here = COPIES / f"{name}{Path(read.place).suffix}"
        content = Path(read.place).read_bytes()
        pin = {
            "repo": known.repo,
            "revision": read.commit,
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        # The pin is written first: after a crash between the two, the next fetch must give the same
        # file.
        files.write_atomically(
            COPIES / PINS, json.dumps(pins | {name: pin}, indent=1).encode() + b"\n"
        )
        files.write_atomically(here, content)
    return f"{name}: {load(name).source}"


def _copy(known: Published) -> Path | None:
    return next(
        (path for kind in READERS if (path := COPIES / f"{known.name}{kind}").exists()), None
    )


def _pins() -> dict[str, dict[str, str]]:
    """Return the pins of fetched copies by the set's name. Raises UserError if PINS can't be
    read."""
    path, remedy = COPIES / PINS, "Remove it, and run 'bash setup.sh' again"
    pins: dict[str, dict[str, str]] = (
        files.read_json(path, "the list of fetched sets", remedy) if path.exists() else {}
    )
    return pins


def stream_hub(asked: Published) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a set on the hub, with their places. A file is fetched when its first row
    is needed. Raises UserError if the data set, the split or a file can't be found, fetched or
    read."""
    with reported(asked.repo, ONLINE):
        commit, names, _ = hub.listed(asked.repo, asked.revision, asked.splits)
    for name in names:
        with reported(asked.repo, ONLINE):
            [path], _ = hub.fetched(asked.repo, commit, [name])
        yield from stream_rows(path)


if __name__ == "__main__":
    with command():
        print(keep(sys.argv[1]), file=sys.stderr)
