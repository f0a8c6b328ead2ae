"""Describe a problem set on the Hugging Face hub. aime.py, hmmt.py, imo.py and other modules define the sets."""

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
    to the name of a known version. For other hashes, results call the version "unknown"."""

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
