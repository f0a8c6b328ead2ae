"""What is known here of a problem set that others publish on the Hugging Face hub. One family of sets a file: aime.py,
hmmt.py, imo.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.types import Problem

UNKNOWN = "unknown"  # a content that no hash here is of
TRAIN = {"": "data/train-00000-of-00001.parquet"}  # the file of many sets


@dataclass(frozen=True)
class Published:
    """A set: `rows` problems under `licence` (None: its card names none), in `files` of the data set `repo` at
    `revision`, a commit. Each file comes with the split that its problems belong to, "" for none. Without files, the
    problems are in those of `splits` (hub.split_of); without a revision, as they are on the day.

    `versions`: names of contents by ProblemSet.sha256, the hash of ids, statements, answers and their types as they
    are read. Others are no error, for a set may be corrected; results then say that the version is unknown."""

    name: str
    repo: str
    rows: int
    licence: str | None
    files: Mapping[str, str] = field(default_factory=dict)
    splits: tuple[str, ...] = ("train",)
    revision: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    columns: str = "problem and answer"  # that a local copy needs

    def settled(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        """The problems under the ids that they have here."""
        return problems

    def fault(self, problems: tuple[Problem, ...]) -> str:
        """What shows that these problems are not the set, in words; "" where nothing does."""
        if len(problems) != self.rows:
            return f"has {len(problems)} problems and not {self.rows}"
        return ""

    def version(self, sha256: str) -> str | None:
        """The version of a content; None for a set of which no version is known here."""
        return self.versions.get(sha256, UNKNOWN) if self.versions else None

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        where = f"https://huggingface.co/datasets/{self.repo}"
        return f"{where}/resolve/{self.revision}/{self.files['']}" if "" in self.files else where
