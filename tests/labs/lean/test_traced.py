"""Test walks along traced proofs in real Lean: states on the path and off it, rejected proofs, and
a second walk."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from core.base.errors import UserError
from core.client.journal import Journal
from core.engines.need import Need
from harness.session.session import Session
from labs.lean import pairs, served, traced, trajectories
from labs.lean.constants import LeanConstants
from labs.lean.pairs import Pair
from labs.lean.search import START, Candidate, Failed, Found
from labs.lean.session import Workers
from labs.lean.theorem import State, Theorem
from labs.lean.toolchain import Toolchain
from labs.lean.traced import Walking
from labs.lean.trajectories import NEGATIVE, POSITIVE

THEOREMS = [
    Theorem("right", "(p q : Prop) : p → (q ∨ p)"),
    Theorem("false", "(p q : Prop) : p → (q ∨ p)"),
]
PROOFS = {"right": ["intro h1", "right", "assumption"], "false": ["intro h1", "left", "assumption"]}
CONFIG = LeanConstants(MAX_NODES=4, CANDIDATES=4, MAX_TOKENS=64, PROBES="exfalso")


async def proposed(state: State) -> list[Candidate] | Failed:
    """Propose the proof's tactic, one that leaves the path, one to the same state, one to the end,
    and bad ones."""
    if "h1" not in state.pp:
        return [
            ("intro  h1", -0.5),
            ("intro h2", -1.0),
            ("intro h1; skip", -1.5),
            ("run_tac", -3.0),
        ]
    if "∨" in state.pp:
        return [("left", -1.0), ("exact Or.inr h1", -2.5), ("exact h1", -3.0)]
    return Failed("the server is busy")


def test_tactics_that_leave_a_proof_are_off_its_path_and_a_rejected_proof_gives_no_states(
    lean: Toolchain,
) -> None:
    async def walks() -> list[Found]:
        async with Workers(lean, 1) as workers:
            walking = Walking(Session("", CONFIG, Path(), None), lean, Path(), proofs=PROOFS)  # type: ignore[arg-type]
            return [
                await walking._found(each, workers.world(each, proposed), CONFIG)
                for each in THEOREMS
            ]

    right, false = asyncio.run(walks())
    rows = trajectories.rows(right, 0)
    on, off = ([row for row in rows if row["label"] == label] for label in (POSITIVE, NEGATIVE))
    assert [row["tactic_applied"] for row in on] == ["", *PROOFS["right"]]
    assert [row["remaining_depth"] for row in on] == [3, 2, 1, 0] and on[-1]["is_proof_complete"]
    assert [row["llm_log_prob"] for row in on[1:]] == [
        -0.5,
        CONFIG.PROBE_LOGPROB,
        CONFIG.PROBE_LOGPROB,
    ]
    assert {(row["tactic_applied"], row["parent_state_id"]) for row in off} == {
        *(("intro h2", 0), ("left", 1)),
        *(("exfalso", 0), ("exfalso", 2)),  # in the states 1 and 2 it reaches the same state
    }
    assert not trajectories.rows(false, 0) and false.reason == START


def test_a_walk_by_the_tiny_policy_is_stored_and_not_repeated(
    lean: Toolchain, tmp_path: Path
) -> None:
    pairs.write(
        tmp_path / "pairs.jsonl",
        [Pair(name, "⊢ p", each) for name, of in PROOFS.items() for each in of],
    )
    proofs = traced.given(str(tmp_path / "pairs.jsonl"), THEOREMS)
    assert proofs == PROOFS
    with (
        served.policy(Need(0, 64, 0), tmp_path) as server,
        Journal(tmp_path / "journal.jsonl") as journal,
    ):
        config = replace(CONFIG, CANDIDATES=16, TEMPERATURE=1.5)
        session = Session("", config, tmp_path, journal, server)
        walking = Walking(session, lean, tmp_path / "traced", proofs=proofs)
        first = walking.of(THEOREMS)
        kept = len(journal)
        assert walking.of(THEOREMS) == first and len(journal) == kept
    assert [each.is_proved for each in first] == [True, False]
    labels = Counter(row["label"] for row in trajectories.read(tmp_path / "traced").to_pylist())
    assert labels[POSITIVE] == 4 and labels[NEGATIVE] > 0


def test_proofs_of_other_theorems_are_refused(tmp_path: Path) -> None:
    pairs.write(tmp_path / "pairs.jsonl", [Pair("other", "⊢ p", "assumption")])
    with pytest.raises(UserError, match="TRAIN_THEOREMS"):
        traced.given(str(tmp_path / "pairs.jsonl"), THEOREMS)
    assert "TRACED" in traced.key(str(tmp_path / "pairs.jsonl")) and not traced.key("none")
    with pytest.raises(UserError, match="pairs.jsonl"):
        traced.key(str(tmp_path / "missing"))
