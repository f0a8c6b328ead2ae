"""Load problem sets that are bundled, on the Hugging Face hub, or in a local file.

`python -m harness.problems.sets aime_2025`, for setup.sh, keeps a copy of a published set and pins
it."""

import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from core.base import files
from core.base.errors import UserError, command
from core.base.files import DATA, HOME
from core.base.hub import hub_errors
from core.base.settings import similar
from core.base.terminal import heartbeat
from core.grading.kinds import named
from core.types import ANSWERS, Problem
from harness.problems import gym, hub, published
from harness.problems.check import check
from harness.problems.published import Published
from harness.problems.rows import ENDINGS, READERS, Rows, Wanted, read_rows, stream_rows

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
        proofs = [problem.id for problem in self.problems if problem.is_proof]
        answers = [problem.id for problem in self.problems if not problem.is_proof]
        if proofs and answers:
            raise UserError(
                f"{self.source} asks for a proof in {proofs[0]!r:.60}, but for an answer in "
                f"{answers[0]!r:.60}. Split the set"
            )

    @property
    def asks_for_proofs(self) -> bool:
        return any(problem.is_proof for problem in self.problems)

    @property
    def sha256(self) -> str:
        """The hash of ids, statements, answers, types, details and texts for graders, before
        options were shuffled. Compare only results with equal hashes."""
        problems = [named(p.answer_type).published(p) for p in self.problems]
        rows: list[list[Any]] = [[p.id, p.statement, p.answer, p.answer_type] for p in problems]
        rows += [[p.id, p.details] for p in problems if p.details]
        if self.asks_for_proofs:
            rows += [[p.solution, p.guidelines, p.grading_scheme] for p in problems]
        return hashlib.sha256(json.dumps(rows, ensure_ascii=True).encode()).hexdigest()

    def first(self, limit: int) -> "ProblemSet":
        """Return a set of the first `limit` problems, or of all problems if `limit` is 0."""
        if limit == 0 or limit >= len(self.problems):
            return self
        return replace(self, name=f"{self.name}[:{limit}]", problems=self.problems[:limit])

    def with_answer_form(self, answer_form: str) -> "ProblemSet":
        """Return a set whose problems have answers of the given form (core/grading/text.py)."""
        problems = tuple(replace(problem, answer_form=answer_form) for problem in self.problems)
        return replace(self, problems=problems)

    def with_shuffled_options(self, seed: int) -> "ProblemSet":
        """Return a set whose problems show their options in an order drawn from the seed."""
        problems = tuple(named(p.answer_type).shuffled(p, seed) for p in self.problems)
        return replace(self, problems=problems)

    def part(self, split: str) -> "ProblemSet":
        """Return a set of the problems in one part (their `split`). Raises UserError if there is no
        such part."""
        problems = tuple(problem for problem in self.problems if problem.split == split)
        if not problems:
            splits = {problem.split for problem in self.problems if problem.split}
            names = ", ".join(sorted(splits)) or "none"
            raise UserError(f"{self.name} has no part {split!r:.80}. Its parts: {names}")
        return replace(self, name=f"{self.name}:{split}", problems=problems)


def load(name: str, wanted: str = ANSWERS, constant: str = "PROBLEMS") -> ProblemSet:
    """Load a problem set.

    Args:
        name: A name ("sums", "aime_2025", …), name:part ("imo_proofbench:Advanced"),
            "hub:owner/name[@revision][:split]", "gym:task[:size=100,…]" (gym.py), or the path of a
            .json, .jsonl, .csv, .tsv or .parquet file.
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
    if name.startswith(gym.PREFIX):
        return _of_gym(name)
    set_name, _, part = name.partition(":")
    if set_name not in PUBLISHED:
        set_name = name
        part = ""
    read = read_set(set_name, constant)
    published_set = PUBLISHED.get(set_name)
    problems = check(read.rows, read.first_file, wanted)
    if published_set:
        problems = published_set.settled(problems)
        fault = published_set.fault(problems)
        if fault:
            raise UserError(f"{set_name} from {read.source} {fault}. {read.way_out}")
    version = BUNDLED_VERSION if name in BUNDLED else None
    problem_set = ProblemSet(read.name, problems, read.source, read.licence, version, read.commit)
    if published_set:
        version = published_set.version(problem_set.sha256)
        problem_set = replace(problem_set, version=version)
    return problem_set.part(part) if part else problem_set


def _of_gym(address: str) -> ProblemSet:
    with heartbeat(f"making the problems of {address}"):
        problems = gym.problems_of(address)
    return ProblemSet(address, problems, gym.SOURCE, gym.LICENCE, gym.version())


@dataclass(frozen=True)
class Read:
    """The raw rows of a set. `first_file` is its first file, and `source` describes its origin.
    Errors end with the advice `way_out`."""

    name: str
    rows: Rows
    first_file: str
    source: str
    licence: str | None = None
    commit: str | None = None
    way_out: str = ""


def read_set(
    name: str,
    constant: str = "PROBLEMS",
    wanted: Wanted | None = None,
    published_sets: Mapping[str, Published] = PUBLISHED,
    bundled: Mapping[str, str] = BUNDLED,
) -> Read:
    """Read the rows of a set: one of `bundled` or `published_sets`, any data set on the hub, or a
    file. Only the `wanted` columns are read. Raises UserError if it can't be read. The message
    names the `constant` that accepts a file."""
    if name in bundled:
        path = DATA / f"{name}.json"
        return Read(name, read_rows(path, wanted), str(path), f"bundled: {bundled[name]}", "MIT")
    if name in published_sets or name.startswith("hub:"):
        return _read_published(published_sets.get(name) or published.on_hub(name), constant, wanted)
    path = Path(os.path.expanduser(name))
    if path.suffix or (name and path.exists()):
        return Read(path.stem, read_rows(path, wanted), str(path), f"file {path.name}")
    meant = _meant(name, [*bundled, *published_sets])
    raise UserError(
        f"unknown set {name!r:.200}. {meant}Give a name "
        f"({', '.join([*bundled, *published_sets])}), hub:owner/name, gym:task, or the path of a "
        f"{ENDINGS} file"
    )


def _meant(name: str, names: Collection[str]) -> str:
    """Return "Did you mean NAME? " for an unknown set, or "" if it resembles none of `names`."""
    if len(Path(name).parts) == 2:
        return f"Did you mean hub:{name}? "
    stem, colon, part = name.partition(":")
    set_name = similar(stem.lower(), names)
    return f"Did you mean {set_name}{colon}{part:.80}? " if set_name else ""


def _read_published(published_set: Published, constant: str, wanted: Wanted | None) -> Read:
    """Read the rows of a set from its copy in COPIES, else from the hub. A column names the split
    of a known file."""
    way_out = (
        f"{ONLINE}. Or download {published_set.address} as {COPIES / published_set.name}.parquet "
        f"(or .csv, .tsv, .json, .jsonl). Or set {constant}=path/to/file.json"
    )
    pin = _pins().get(published_set.name)
    copy = _copy(published_set)
    licence = published_set.licence
    revision = pin["revision"] if pin else published_set.revision
    if copy:
        paths = [copy]
        commit = revision if pin else None
    else:
        with hub_errors(published_set.repo, way_out), _fetching(published_set):
            names = list(published_set.files.values())
            if not names:
                _, names, card_licence = hub.listed(
                    published_set.repo, revision, published_set.splits
                )
                licence = licence or card_licence
            paths, commit = hub.fetched(published_set.repo, revision, names)
    rows: Rows = []
    splits = [] if copy else published_set.files  # empty if the hub listed the files
    for path, split in zip_longest(paths, splits):
        rows += _with_split(read_rows(path, wanted), split)
    if copy and not pin:
        way_out = (
            f"Replace {copy} by a new download of {published_set.address}. Or remove it, and a run "
            "fetches the set"
        )
    if pin and files.sha256(paths[0]) != pin["sha256"]:
        raise UserError(
            f"{paths[0]} differs from the file that was fetched from {pin['repo']} at commit "
            f"{pin['revision']}. Remove it and run 'bash setup.sh'. Or remove {COPIES / PINS} to "
            "use another file"
        )
    source = f"hub {published_set.repo} at {commit}" if commit else f"file {paths[0].name}"
    return Read(published_set.name, rows, str(paths[0]), source, licence, commit, way_out)


def _fetching(published_set: Published) -> AbstractContextManager[None]:
    """Return the heartbeat of the requests for a set on the hub."""
    return heartbeat(f"fetching {published_set.repo} from the Hugging Face hub")


def _with_split(rows: Rows, split: str | None) -> Rows:
    """Return the rows with `split` in a column, if it is a text."""
    if not split:
        return rows
    return [
        (location, {**row, "split": split} if isinstance(row, dict) else row)
        for location, row in rows
    ]


def keep(name: str) -> str:
    """Copy the only file of a published set from the hub to COPIES if no copy is there, and pin its
    commit and hash. Later reads of the set refuse another file. Return a description. Raises
    UserError."""
    published_set = PUBLISHED[name]
    if _copy(published_set) is None:
        load(name)  # checks the content of the file, which the hub client now has in its cache
        read = read_set(name)
        source = Path(read.first_file)
        content = source.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        pin = {"repo": published_set.repo, "revision": read.commit, "sha256": digest}
        pins = json.dumps({**_pins(), name: pin}, indent=1) + "\n"
        # The pin is written first: after a crash between the two, the next fetch must give the same
        # file.
        files.write_atomically(COPIES / PINS, pins.encode())
        files.write_atomically(COPIES / f"{name}{source.suffix}", content)
    return f"{name}: {load(name).source}"


def _copy(published_set: Published) -> Path | None:
    for ending in READERS:
        path = COPIES / f"{published_set.name}{ending}"
        if path.exists():
            return path
    return None


def _pins() -> dict[str, dict[str, str]]:
    """Return the pins of fetched copies by the set's name. Raises UserError if PINS can't be
    read."""
    path = COPIES / PINS
    if not path.exists():
        return {}
    remedy = "Remove it, and run 'bash setup.sh' again"
    pins: dict[str, dict[str, str]] = files.read_json(path, "the list of fetched sets", remedy)
    return pins


def stream_hub(published_set: Published) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a set on the hub, with their places. A file is fetched when its first row
    is needed. Raises UserError if the data set, the split or a file can't be found, fetched or
    read."""
    with hub_errors(published_set.repo, ONLINE), _fetching(published_set):
        commit, names, _ = hub.listed(
            published_set.repo, published_set.revision, published_set.splits
        )
    for name in names:
        with hub_errors(published_set.repo, ONLINE), _fetching(published_set):
            paths, _ = hub.fetched(published_set.repo, commit, [name])
        yield from stream_rows(paths[0])


if __name__ == "__main__":
    with command():
        print(keep(sys.argv[1]), file=sys.stderr)
