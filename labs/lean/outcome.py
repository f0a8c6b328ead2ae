"""What a search of one theorem has come to, in a file of its own: what tables, training and a search that goes on need
of it. All nodes are in the parquet file of the same name (trajectories.py)."""

import json
from collections import Counter
from pathlib import Path

from msgspec import Struct, structs

from core.base.fields import Amount, Count, fitted
from core.base.files import read_json, write_atomically
from labs.lean import trajectories
from labs.lean.pairs import Pair
from labs.lean.search import Found
from labs.lean.theorem import Theorem

REMEDY = "Remove it, and run the same command again"


class Outcome(Struct, frozen=True, forbid_unknown_fields=True):
    """`run`: all that the search follows from. `reason` and `why` as in Found. `at`: nodes that the search had applied
    with the proof's end; None without a proof. `proof`: tactics, with the `states` they stand in. `unique` by expanded
    state; `seconds` by what took them; `counts` of the policy's requests."""

    run: str
    name: str
    statement: str
    reason: str
    why: str
    nodes: Count
    at: Count | None
    proof: list[str]
    states: list[str]
    unique: list[Count]
    failures: dict[str, Count]
    counts: dict[str, Count]
    seconds: dict[str, Amount]

    @classmethod
    def of(cls, run: str, theorem: Theorem, found: Found, counts: Counter[str]) -> "Outcome":
        return cls(
            run=run,
            name=theorem.name,
            statement=theorem.statement,
            reason=found.reason,
            why=found.why,
            nodes=found.applied,
            at=found.path[-1] if found.path else None,
            proof=found.tactics,
            states=[found.nodes[number].state or "" for number in found.path[:-1]],
            unique=list(found.unique),
            failures=dict(found.failures),
            counts=dict(counts),
            seconds={name: round(value, 3) for name, value in found.seconds.items()},
        )

    @property
    def is_proved(self) -> bool:
        return self.at is not None

    @property
    def pairs(self) -> list[Pair]:
        """Those of its proof."""
        return [Pair(self.name, *each) for each in zip(self.states, self.proof, strict=True)]


def path_of(folder: Path, theorem: str) -> Path:
    return trajectories.part(folder, theorem).with_suffix(".json")


def write(folder: Path, outcome: Outcome) -> None:
    """Raises UserError."""
    write_atomically(path_of(folder, outcome.name), json.dumps(structs.asdict(outcome)).encode() + b"\n")


def read(folder: Path, theorem: Theorem, run: str) -> Outcome | None:
    """What the same search has left in `folder`; None where it was another, or has not ended."""
    path = path_of(folder, theorem.name)
    if not path.exists() or not path.with_suffix(".parquet").exists():
        return None
    outcome = _read(path)
    return outcome if (outcome.run, outcome.statement) == (run, theorem.statement) else None


def all_in(folder: Path) -> list[Outcome]:
    """What all searches in `folder` that have ended came to; none where there is no such folder. Raises UserError."""
    files = (path for path in sorted(folder.glob("*.json")) if not path.name.startswith("."))
    return [_read(path) for path in files if path.with_suffix(".parquet").exists()]


def _read(path: Path) -> Outcome:
    return fitted(read_json(path, "the file of a search", REMEDY), Outcome, f"{path} holds no search", REMEDY)
