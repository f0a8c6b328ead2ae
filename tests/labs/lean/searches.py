"""Generate records, outcomes and trees of searches with known figures."""

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from core.base.files import storable
from labs.lean import outcome, trajectories
from labs.lean.outcome import Outcome
from labs.lean.trajectories import NEGATIVE, OFF_PATH, POSITIVE, Row

NODES = 8
SECONDS = {"lean": 1.0, "policy": 2.0, "energy": 0.0, "accept": 1.0, "all": 4.0}


def outcomes(*ats: int | None) -> list[Outcome]:
    """Make outcomes of theorems that were proved within so many nodes, or not."""
    built = Outcome(
        "run", "", "(p : Prop) : p", "", "", 8, None, [], [], [], {}, {}, {"lean": 1.0, "all": 2.0}
    )
    return [
        replace(built, name=str(n), at=at, reason="" if at else "budget")
        for n, at in enumerate(ats)
    ]


def search(
    folder: Path, name: str, at: int | None = None, energy: float | None = None, **changes: Any
) -> Outcome:
    """Write a search with a proof of one tactic, found with node `at`; None: no proof within
    NODES."""
    is_proved = at is not None
    built: dict[str, Any] = {
        "run": "one",
        "name": name,
        "statement": f"(p : Prop) : {name} → p",
        "reason": "" if is_proved else "budget",
        "why": "" if is_proved else f"{NODES} nodes",
        "nodes": NODES if at is None else at,
        "at": at,
        "proof": ["assumption"] * is_proved,
        "states": ["⊢ p"] * is_proved,
        "unique": [2, 4],
        "failures": {"Lean's error": 3},
        "counts": {"requests": 8},
        "seconds": SECONDS,
    }
    kept = Outcome(**built | changes)
    states = [row(name, 0, None, "", "p : Prop\n⊢ p", is_on=is_proved, energy=energy)]
    if at is not None:
        states.append(row(name, at, 0, "assumption", "", is_on=True))
    tree(folder, name, states)
    outcome.write(folder, kept)
    return kept


def row(
    theorem: str,
    number: int,
    parent: int | None,
    tactic: str,
    state: str,
    is_on: bool = False,
    energy: float | None = None,
) -> Row:
    return {
        "theorem_name": storable(theorem),
        "state_id": number,
        "state_pp": state,
        "tactic_applied": tactic,
        "parent_state_id": parent,
        "label": POSITIVE if is_on else NEGATIVE,
        "depth_from_root": 0 if parent is None else 1,
        "remaining_depth": OFF_PATH,
        "llm_log_prob": 0.0 if parent is None else -0.5,
        "ebm_score": energy,
        "is_proof_complete": is_on and not state,
        "timestamp_ms": 1,
    }


def tree(folder: Path, theorem: str, rows: list[Row]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    trajectories.part(folder, theorem).write_bytes(trajectories.encoded(rows))


def record(own: Path, **more: Any) -> Path:
    own.mkdir(parents=True, exist_ok=True)
    fields = {
        "schema": 1,
        "run": "one",
        "complete": True,
        "config": {"MAX_NODES": NODES, "TRAIN_NODES": 16},
    }
    (own / "record.json").write_text(json.dumps(fields | more))
    return own


def searched(folder: Path, *at: int | None, energy: float | None = None) -> None:
    """Write searches of the theorems t1, t2 and so on."""
    for number, each in enumerate(at, 1):
        search(folder, f"t{number}", each, energy)


FIRST = (4, 8, None, None, None, None, None, None)
ALONE = (None, 8, 1, 2, 3, 6, 8, None)
GUIDED = (5, 8, 1, 2, 3, 6, 8, None)


def iteration(results: Path) -> Path:
    """Write iteration 0, which learned from three theorems, two of them proved."""
    aucs = {
        "auc": {"value": 0.875, "low": 0.5, "high": 1, "n": 4},
        "auc_own": {"value": 0.75, "low": 0.5, "high": 1, "n": 2},
    }
    own = record(results / "lean" / "iteration_0", searched={"pairs": 1234}, guided=aucs)
    searched(own / "eval_before", *FIRST)
    searched(own / "trajectories", 1, 16, None)
    searched(own / "eval", *ALONE)
    searched(own / "eval_energy", *GUIDED, energy=-1.25)
    return own
