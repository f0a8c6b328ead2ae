"""The index: what is near proposes, and a baseline is searched with it beside the policy, by real Lean."""

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import UserError
from labs.lean import pairs
from labs.lean.index import Index, bag
from labs.lean.pairs import Pair
from labs.lean.search import merged
from labs.lean.session import State
from labs.lean.taught import taught
from labs.lean.toolchain import Toolchain
from tests.conftest import run

KNOWN = [
    Pair("a", "p q : Prop\nh1 : p\nh2 : q\n⊢ p ∧ q", "exact ⟨h1, h2⟩"),
    Pair("b", "p q : Prop\nh1 : p ∧ q\n⊢ p", "exact h1.left"),
    Pair("b", "p q : Prop\nh1 : p ∧ q\n⊢ p", "rcases h1 with ⟨h2, h3⟩"),
    Pair("c", "n : Nat\n⊢ n + 1 = 1 + n", "rw [Nat.add_comm]"),
]


def proposed(state: str, known: list[Pair] = KNOWN, count: int = 8) -> list[tuple[str, float]]:
    return asyncio.run(Index(known, count)(State(state, 1)))


def test_the_tactics_of_the_nearest_state_come_first() -> None:
    assert [tactic for tactic, _ in proposed("m : Nat\n⊢ m + 2 = 2 + m", count=1)] == ["rw [Nat.add_comm]"]
    assert [tactic for tactic, _ in proposed(KNOWN[1].state, count=2)] == ["exact h1.left", "rcases h1 with ⟨h2, h3⟩"]
    assert len(proposed(KNOWN[0].state)) == len(KNOWN)
    assert Index(KNOWN, 1).cosines(KNOWN[0].state)[0] == pytest.approx(1)


STATES = st.text(st.sampled_from("pqh12 ∧⊢:\n+NatProp"), min_size=1, max_size=40)


@given(
    st.lists(st.builds(Pair, st.just("t"), STATES, st.text(min_size=1, max_size=5)), min_size=1),
    STATES,
    st.integers(1, 9),
)
def test_any_states_have_cosines_and_log_probabilities_in_order(known: list[Pair], state: str, count: int) -> None:
    index = Index([pair for pair in known if bag(pair.state)] or KNOWN, count)
    near = index.cosines(state)
    assert np.isfinite(near).all() and (near >= 0).all() and (near <= 1 + 1e-9).all()
    found = asyncio.run(index(State(state, 1)))
    logprobs = [logprob for _, logprob in found]
    assert 0 < len(found) <= count and len({tactic for tactic, _ in found}) == len(found)
    assert logprobs == sorted(logprobs, reverse=True) and math.isclose(sum(map(math.exp, logprobs)), 1)
    assert merged(found)


def test_the_taught_lemmas_are_known_as_lean_shows_them(lean: Toolchain) -> None:
    known = taught(lean, 2)
    assert len({pair.theorem for pair in known}) > 100 and all("⊢" in pair.state for pair in known)


@pytest.mark.usefixtures("lean")
def test_a_baseline_is_compared_with_the_index_by_theorem(tmp_path: Path) -> None:
    theorems = [
        ("and", "(p q : Prop) : p → q → p ∧ q"),
        ("left", "(p q : Prop) : p ∧ q → p"),
        ("false", "(p : Prop) : p"),
    ]
    (mine := tmp_path / "mine.json").write_text(
        json.dumps({"theorems": [{"name": name, "statement": said} for name, said in theorems]})
    )
    known = [
        *KNOWN,
        Pair("x", "p q : Prop\n⊢ p → q → p ∧ q", "intro h1 h2"),
        Pair("y", "p q : Prop\n⊢ p ∧ q → p", "intro h1"),
    ]
    pairs.write(index := tmp_path / "known.jsonl", [*known, Pair("left", "p : Prop\n⊢ p", "its own")])
    command = ("23_lean_baseline", f"THEOREMS={mine}", f"INDEX={index}", "MAX_NODES=12")
    status, out, err = run(*command, RESULTS_DIR=str(tmp_path))
    assert status == 0, err
    assert "index of 6 pairs of known.jsonl, without a model: " in out and "points (" in out
    folder = tmp_path / "lean" / "baseline"
    found: dict[str, Any] = json.loads((folder / "record.json").read_text())
    assert found["complete"] and found["index"]["pairs"] == 6 and found["index"]["figures"]["theorems"] == 3
    assert (folder / "index" / "table.txt").exists() and found["index"]["figures"]["reasons"]
    proved = {each["name"] for each in json.loads((folder / "index" / "proofs.json").read_text())["theorems"]}
    assert proved == {"and", "left"}
    again, out, err = run(*command, RESULTS_DIR=str(tmp_path))
    assert again == 0 and json.loads((folder / "record.json").read_text())["index"] == found["index"], err


@pytest.mark.usefixtures("lean")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "can't be read"),
        ("", "holds no pair"),
        ("{]\n", "line 1 is not valid JSON"),
        ('{"theorem": "t", "state": 3, "output": "x"}\n', "line 1 holds no pair"),
    ],
)
def test_another_index_is_one_line_before_any_search(content: str | None, said: str, tmp_path: Path) -> None:
    (mine := tmp_path / "mine.json").write_text('{"theorems": [{"name": "a", "statement": ": True"}]}')
    index = tmp_path / "index.jsonl"
    if content is not None:
        index.write_text(content)
    status, _, err = run("23_lean_baseline", f"THEOREMS={mine}", f"INDEX={index}", RESULTS_DIR=str(tmp_path))
    assert status == 2 and said in err and err.count("error: ") == 1 and not (tmp_path / "lean").exists(), err


def test_pairs_that_are_no_texts_are_refused(tmp_path: Path) -> None:
    (path := tmp_path / "a.jsonl").write_text("[1]\n")
    with pytest.raises(UserError, match="holds no pair"):
        pairs.read(path)
