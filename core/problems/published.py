"""Define published problem sets on the Hugging Face hub. aime.py, imo.py and school.py define sets with checks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.types import Problem

UNKNOWN = "unknown"  # the version of a set whose hash is not known
TRAIN = {"": "data/train-00000-of-00001.parquet"}  # many data sets have only this file


@dataclass(frozen=True)
class Published:
    """A set of `rows` problems in the data set `repo`, at the commit `revision` or (if it is "") at the newest commit.

    `files` maps the split of a file's problems ("" for no split) to the file's path. If `files` is empty, the files of
    `splits` are read (hub.split_of). `licence` is None if the card names no licence. `versions` maps ProblemSet.sha256
    to the name of a known version. For other hashes, results call the version "unknown".

    Revisions and file names are from public code that uses them (2026-11). The hub itself was not checked."""

    name: str
    repo: str
    rows: int
    licence: str | None
    files: Mapping[str, str] = field(default_factory=dict)
    splits: tuple[str, ...] = ("train",)
    revision: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    columns: str = "problem and answer"  # the columns that a local copy needs

    def settled(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        """Return the problems with this project's ids and splits."""
        return problems

    def fault(self, problems: tuple[Problem, ...]) -> str:
        """Return the reason why these problems are not the published set, or ""."""
        if len(problems) != self.rows:
            return f"has {len(problems)} problems, not {self.rows}"
        return ""

    def version(self, sha256: str) -> str | None:
        """Return the version with this hash, else UNKNOWN. If no version of the set is known, return None."""
        return self.versions.get(sha256, UNKNOWN) if self.versions else None

    @property
    def address(self) -> str:
        """The web address of the set's only file, or else of the data set's page."""
        where = f"https://huggingface.co/datasets/{self.repo}"
        return f"{where}/resolve/{self.revision}/{self.files['']}" if "" in self.files else where


# HMMT, February 2025: answers are numbers or expressions.
# MathArena's data set. The RSA paper's code reads data/hmmt25/test.parquet instead. This file is on GitHub, but in no
# known data set of the hub. PROBLEMS=path/to/test.parquet can read it, because it has verl's columns.
HMMT_2025 = Published(
    name="hmmt_2025",
    repo="MathArena/hmmt_feb_2025",
    rows=30,
    licence="CC BY-NC-SA 4.0",
    files=TRAIN,
    revision="6fdc4277120810ff75aa22d2d5489b91f7a262a1",
)
# MATH-500 (Lightman et al. 2023, arXiv 2305.20050): answers are LaTeX.
MATH500 = Published(
    name="math500",
    repo="HuggingFaceH4/MATH-500",
    rows=500,
    licence=None,  # the card was not checked (its source, openai/prm800k, is MIT)
    files={"": "test.jsonl"},
    revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
    columns="problem, answer and unique_id",
)
# OpenR1-Math-220k (Open R1, 2025), with problems for STaR's training. Some problems have no answer.
OPENR1 = Published(
    name="openr1",
    repo="open-r1/OpenR1-Math-220k",
    rows=0,  # not checked (the page says 93.7k and 131k)
    licence="Apache 2.0",
    splits=("train", "extended/train"),  # the subsets default (in data/) and extended
    revision="e4e141ec9dea9f8326f4d347be56105859b2bd68",
    columns="problem, answer, question_type and uuid",
)
# ProofBench (Ma et al. 2025): olympiad problems with grading schemes for proofs.
PROOFBENCH = Published(
    name="proofbench",
    repo="lm-provers/ProofBench",
    rows=145,
    licence="MIT",  # the licence of wenjiema02/ProofBench, the source (this copy's card was not checked)
    files={split: f"data/{split}-00000-of-00001.parquet" for split in ("24_25", "other")},
    columns="problem_id, problem, solution, grading_scheme and split",
    revision="c9ef8ca58c1711c4e3f1415755fc1a5286610c61",
)
