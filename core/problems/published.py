"""Describe a problem set that others publish on the Hugging Face hub; aime.py, hmmt.py, imo.py … define the sets."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.types import Problem

UNKNOWN = "unknown"  # the version if no known hash fits
TRAIN = {"": "data/train-00000-of-00001.parquet"}  # the only file of many sets


@dataclass(frozen=True)
class Published:
    """A set of `rows` problems in the data set `repo` at `revision`, a commit; without one, the newest.

    `files` maps the split of a file's problems ("" for none) to its path. Without files, the files of `splits` are read
    (hub.split_of). `licence` is None if the card names none. `versions` names known contents by ProblemSet.sha256. For
    another content, which may be corrected, results say that the version is unknown."""

    name: str
    repo: str
    rows: int
    licence: str | None
    files: Mapping[str, str] = field(default_factory=dict)
    splits: tuple[str, ...] = ("train",)
    revision: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    columns: str = "problem and answer"  # needed in a local copy

    def settled(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        """Return the problems with our ids."""
        return problems

    def fault(self, problems: tuple[Problem, ...]) -> str:
        """Return the sign that these problems are not the set, or ""."""
        if len(problems) != self.rows:
            return f"has {len(problems)} problems, not {self.rows}"
        return ""

    def version(self, sha256: str) -> str | None:
        """Return the version of a content, or None if the set has no known versions."""
        return self.versions.get(sha256, UNKNOWN) if self.versions else None

    @property
    def address(self) -> str:
        """The web address of the set."""
        where = f"https://huggingface.co/datasets/{self.repo}"
        return f"{where}/resolve/{self.revision}/{self.files['']}" if "" in self.files else where
