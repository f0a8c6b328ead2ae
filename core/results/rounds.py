"""What a run in rounds (STaR) has come to, in one file beside its results: what was run, and of each round its stages.

A stage stands in the record once its files are whole. The same command goes on behind the last one; what was asked
within a stage is in the journal. Paths are given from the folder of the experiment.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.files import read_json, write_atomically
from core.results.write import now

SCHEMA = 1
NAME = "record.json"
WAYS = ("first", "retry", "rationalised")  # in which a trace came to be: the last was shown the answer
STAGES = ("collected", "trained", "evaluated")  # of a round, in their order; round 0 has the last alone
SHOWN = (("collected", "results"), ("evaluated", "greedy"))
FIX = "Move its folder away and run the command again; what was asked is in the journal"


@dataclass
class Record:
    """Of the run `label`, in the `folder` of its experiment. `head`: what it is; `rounds`: by number, of each its
    stages by name, and the `weights` that it evaluates."""

    folder: Path
    label: str
    head: dict[str, Any]
    rounds: list[dict[str, Any]] = field(default_factory=list)

    @property
    def own(self) -> Path:
        """The folder of the run itself: the record, and a folder for each round."""
        return self.folder / self.label

    @property
    def path(self) -> Path:
        return self.own / NAME

    def of(self, number: int) -> dict[str, Any]:
        """Round `number`, which is at most one more than there are."""
        if number == len(self.rounds):
            self.rounds.append({"round": number})
        return self.rounds[number]

    def stage(self, number: int, name: str) -> dict[str, Any]:
        """What is told of a stage of a round; nothing where it has not ended."""
        found: dict[str, Any] = self.rounds[number].get(name, {}) if number < len(self.rounds) else {}
        return found

    def ended(self, number: int, stage: str, told: Mapping[str, Any]) -> None:
        """A `stage` of a round is whole, and this is `told` of it. What came behind it is made anew."""
        later = STAGES[STAGES.index(stage) + 1 :]
        kept = {name: value for name, value in self.of(number).items() if name not in later}
        self.rounds[number:] = [kept | {stage: dict(told)}]
        self.save(complete=False)

    def save(self, complete: bool, **head: Any) -> None:
        self.head |= {"complete": complete, "ended": now(), **head}
        content = json.dumps(self.head | {"rounds": self.rounds}, indent=1, ensure_ascii=True)
        write_atomically(self.path, f"{content}\n".encode())

    @classmethod
    def begun(cls, folder: Path, label: str, head: dict[str, Any]) -> "Record":
        """That of the run which `head` tells: as it stands where the same run was begun before, else a new one. What
        another run left under the label is kept beside it, under when that began. Raises UserError."""
        made = cls(folder, label, {"schema": SCHEMA, "complete": False, "started": now(), "ended": None} | head)
        if made.path.exists():
            old = read(made.path)
            if old.head.get("run") == head["run"]:
                return cls(folder, label, old.head | head, old.rounds)
            _put_aside(old)
        made.own.mkdir(parents=True, exist_ok=True)
        return made


def read(path: Path) -> Record:
    """The record in `path`. Raises UserError where it is none."""
    found = read_json(path, "the record", FIX)
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not isinstance(found.get("rounds"), list):
        raise UserError(f"{path} is not a record of STaR of schema {SCHEMA}. {FIX}")
    rounds = found.pop("rounds")
    if not all(isinstance(each, dict) and each.get("round") == number for number, each in enumerate(rounds)):
        raise UserError(f"{path} does not hold rounds 0, 1, 2 … {FIX}")
    return Record(path.parent.parent, path.parent.name, found, rounds)


def is_folder(folder: Path) -> bool:
    """Whether `folder` is that of an experiment in rounds."""
    return any(folder.glob(f"*/{NAME}"))


def results(of: Record) -> list[Path]:
    """The results of a run, round by round: evaluated at temperature 0 and then collected; those that are there. (What
    SEEDS drew has its own, beside them.)"""
    names = [each.get(stage, {}).get(what) for each in of.rounds for stage, what in SHOWN]
    paths = [of.folder / f"{name}.json" for name in names if isinstance(name, str)]
    return [path for path in paths if path.parent == of.folder and path.exists()]


def records(folder: Path) -> list[Record]:
    """Those of all runs in the `folder` of an experiment, but for those put aside. Raises UserError."""
    paths = sorted(path for path in folder.glob(f"*/{NAME}") if "." not in path.parent.name)
    return [read(path) for path in paths]


def sha256(path: Path) -> str | None:
    """Of a file's content; None where it can't be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _put_aside(old: Record) -> None:
    """Give the files of `old` a name with the time when it began."""
    try:
        began = datetime.fromisoformat(str(old.head.get("started"))).astimezone(UTC).strftime("%Y%m%d-%H%M%S")
    except ValueError:
        began = "before"
    name, number = f"{old.label}.{began}", 2
    while (old.folder / name).exists():
        name, number = f"{old.label}.{began}-{number}", number + 1
    beside = sorted(old.folder.glob(f"{old.label}-round*"))
    try:
        os.rename(old.own, old.folder / name)
        for each in beside:
            os.rename(each, old.folder / name / each.name)
    except OSError as error:
        raise UserError(
            f"the earlier run {old.own} can't be put aside ({error.strerror}). Move it away, and run the same command "
            "again"
        ) from None
    print(f"note: {old.own} was another run (other constants, data or model); it is kept as {old.folder / name}")
