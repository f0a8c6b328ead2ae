"""What a search of one theorem has come to, in a file of its own: what tables, training and a search that goes on need
of it. All nodes are in the parquet file of the same name (trajectories.py)."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import amount, read_json, write_atomically
from core.results.read import count_of, counts_of, text_of
from labs.lean import trajectories
from labs.lean.pairs import Pair
from labs.lean.search import Found
from labs.lean.theorem import Theorem

REMEDY = "Remove it, and run the same command again"


@dataclass(frozen=True)
class Outcome:
    """`run`: all that the search follows from. `reason` and `why` as in Found. `at`: nodes that the search had applied
    with the proof's end; None without a proof. `proof`: tactics, with the `states` they stand in. `unique` by expanded
    state; `seconds` by what took them; `counts` of the policy's requests."""

    run: str
    name: str
    statement: str
    reason: str
    why: str
    nodes: int
    at: int | None
    proof: list[str]
    states: list[str]
    unique: list[int]
    failures: dict[str, int]
    counts: dict[str, int]
    seconds: dict[str, float]

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
    write_atomically(path_of(folder, outcome.name), json.dumps(asdict(outcome)).encode() + b"\n")


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
    found = read_json(path, "the file of a search", REMEDY)
    try:
        outcome = Outcome(**found)
        _check(outcome)
        is_its = path_of(path.parent, outcome.name) == path
    except (TypeError, ValueError, AttributeError, KeyError):
        is_its = False
    if not is_its:
        raise UserError(f"{path} holds no search. {REMEDY}")
    return outcome


def _check(outcome: Outcome) -> None:
    """Raises TypeError, ValueError, KeyError or AttributeError where a field is not as it is written."""
    for text in (outcome.run, outcome.name, outcome.statement, outcome.reason, outcome.why):
        text_of(text)
    for text in (*outcome.proof, *outcome.states):
        text_of(text)
    for count in (outcome.nodes, *outcome.unique, *([] if outcome.at is None else [outcome.at])):
        count_of(count)
    counts_of(outcome.failures)
    counts_of(outcome.counts)
    for seconds in (outcome.seconds["all"], *outcome.seconds.values()):
        amount(seconds)
    if not len(outcome.states) == len(outcome.proof) == (outcome.at is not None) * len(outcome.proof):
        raise ValueError("a proof has a state for each tactic")


def summed(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Of all together: reasons, failures, requests and seconds, added up."""

    def added(each: Iterable[dict[str, Any]]) -> dict[str, Any]:
        total: Counter[str] = Counter()
        for of in each:
            total.update(of)
        return dict(total.most_common())

    return {
        "reasons": added({outcome.reason: 1} for outcome in outcomes if outcome.reason),
        "failures": added(outcome.failures for outcome in outcomes),
        "requests": added(outcome.counts for outcome in outcomes),
        "seconds": {name: round(value, 1) for name, value in added(of.seconds for of in outcomes).items()},
    }
