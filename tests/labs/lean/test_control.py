"""Test the control without a model: near states propose, and the policy is compared by theorem."""

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from core.base.errors import UserError
from labs.lean import control
from labs.lean.constants import ControlledConstants
from labs.lean.control import Index, of_lemmas
from labs.lean.pairs import Pair
from labs.lean.theorem import State, Theorem
from labs.lean.theorems import TRAIN
from labs.lean.toolchain import Toolchain

KNOWN = [
    Pair("a", "p q : Prop\nh1 : p\nh2 : q\n⊢ p ∧ q", "exact ⟨h1, h2⟩"),
    Pair("b", "p q : Prop\nh1 : p ∧ q\n⊢ p", "exact h1.left"),
    Pair("b", "p q : Prop\nh1 : p ∧ q\n⊢ p", "rcases h1 with ⟨h2, h3⟩"),
    Pair("c", "n : Nat\n⊢ n + 1 = 1 + n", "rw [Nat.add_comm]"),
]


def proposed(state: str, known: list[Pair] = KNOWN, count: int = 8) -> list[tuple[str, float]]:
    return asyncio.run(Index(known, count)(State(state)))


def test_the_tactics_of_the_nearest_state_come_first() -> None:
    assert [tactic for tactic, _ in proposed("m : Nat\n⊢ m + 2 = 2 + m", count=1)] == [
        "rw [Nat.add_comm]"
    ]
    assert [tactic for tactic, _ in proposed(KNOWN[1].state, count=2)] == [
        "exact h1.left",
        "rcases h1 with ⟨h2, h3⟩",
    ]
    found = [logprob for _, logprob in proposed(KNOWN[0].state)]
    assert len(found) == len(KNOWN) and found == sorted(found, reverse=True)
    assert math.isclose(sum(map(math.exp, found)), 1)
    assert Index(KNOWN, 1).cosines(KNOWN[0].state)[0] == pytest.approx(1)


def test_the_pairs_of_lemmas_are_known_as_lean_shows_them(lean: Toolchain) -> None:
    lemmas = [
        row for row in json.loads(TRAIN.read_text(encoding="utf-8"))["theorems"] if row["teach"]
    ][::20]
    *known, wrong = of_lemmas(lean, 2, [*lemmas, lemmas[0] | {"proof": lemmas[1]["proof"]}])
    assert [[pair.tactic for pair in pairs] for pairs in known] == [row["proof"] for row in lemmas]
    assert all("⊢" in pair.state for pairs in known for pair in pairs) and not wrong


def test_a_baseline_is_compared_with_the_index_by_theorem(baseline: Path) -> None:
    folder = baseline / "lean" / "baseline"
    record = json.loads((folder / "record.json").read_text())
    found = record["index"]
    assert record["complete"] and (found["of"], found["pairs"], found["states"]) == (
        "known.jsonl",
        4,
        4,
    )
    assert found["figures"]["theorems"] == found["gain"]["n"] == 4
    assert (folder / "index" / "table.txt").exists()
    proved = {
        each["name"]
        for each in json.loads((folder / "index" / "proofs.json").read_text())["theorems"]
    }
    assert proved == {"identity", "falsity"}
    assert "4 pairs of known.jsonl" in (baseline / "printed").read_text()


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        '{"theorem": "t", "state": 3, "output": "x"}\n',
        '{"theorem": "searched", "state": "s", "output": "x"}\n',
    ],
)
def test_another_index_is_refused(content: str | None, lean: Toolchain, tmp_path: Path) -> None:
    path = tmp_path / "index.jsonl"
    if content is not None:
        path.write_text(content)
    config = ControlledConstants(INDEX=str(path))
    with pytest.raises(UserError, match=str(path)):
        control.given(config, [Theorem("searched", ": True")], lean)
    assert control.given(replace(config, INDEX="auto", THEOREMS="mine.json"), [], lean) is None
