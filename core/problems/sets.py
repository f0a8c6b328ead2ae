"""Problem sets by name (bundled, or from the Hugging Face hub), or a file of your own."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from core.errors import UserError
from core.files import DATA
from core.problems import aime
from core.problems.check import read_file
from core.types import Problem

# Sets of the embedded model, made by scripts/embedded/make_sums.py.
BUNDLED = {
    "sums": "sums of 4 products",
    "sums_hard": "sums of 6-8 products",
    "sums_card": "sums of 4 products, for the model card",
    "sums_hard_card": "sums of 6-8 products, for the model card",
}


@dataclass(frozen=True)
class ProblemSet:
    name: str
    problems: tuple[Problem, ...]
    source: str

    @property
    def sha256(self) -> str:
        """Hash of ids, statements and answers: results with different hashes are not comparable."""
        rows = [[p.id, p.statement, p.answer, p.answer_type] for p in self.problems]
        return hashlib.sha256(json.dumps(rows, ensure_ascii=True).encode()).hexdigest()

    def first(self, limit: int) -> "ProblemSet":
        """The first `limit` problems; 0 means all."""
        if limit == 0 or limit >= len(self.problems):
            return self
        return ProblemSet(f"{self.name}[:{limit}]", self.problems[:limit], self.source)


def load(name: str, needs_answers: bool = True) -> ProblemSet:
    """A problem set by name ("sums", "aime_2025", …) or by the path of a .json or .jsonl file, whose
    problems may lack answers unless the grader `needs_answers`.

    Raises UserError, with the place and the remedy, for an unknown name, an unreadable or malformed file, or a hub
    that can't be reached.
    """
    if name in BUNDLED:
        return ProblemSet(name, read_file(DATA / f"{name}.json"), f"bundled: {BUNDLED[name]}")
    if name == "aime_2025":
        return ProblemSet("aime_2025", *aime.load())
    path = Path(os.path.expanduser(name))
    if path.suffix.lower() in (".json", ".jsonl"):
        return ProblemSet(path.stem, read_file(path, needs_answers), f"file {path.name}")
    if path.suffix or path.exists():
        raise UserError(
            f"problem set {name!r:.200}: {path.suffix or 'such a file'} is not read. Give a .json file (a list of "
            'objects with "problem" and "answer") or a .jsonl file (such an object a line)'
        )
    known = ", ".join([*BUNDLED, "aime_2025"])
    raise UserError(f"unknown problem set {name!r}. Known sets: {known}; or give the path of a .json or .jsonl file")
