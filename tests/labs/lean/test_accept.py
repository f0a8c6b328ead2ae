"""Test the acceptance of proofs with real Lean: proofs, and all known false ones."""

import asyncio
import json
import signal
from typing import Any

import pytest

from labs.lean import accept as acceptance
from labs.lean.accept import judged, rejected
from labs.lean.theorem import GIVEN, NAME, Theorem
from labs.lean.toolchain import Toolchain

PAIR = "(p q : Prop) : p → q → p ∧ q"
FALSE = ": False"

PROOFS = [
    (PAIR, ["intro hp hq", "constructor", "exact hp", "assumption"]),
    (PAIR, ["intro hp hq", "constructor\n· exact hp\n· exact hq"]),
    ("(p : Prop) : p ∨ ¬p", ["exact Classical.em p"]),  # by three axioms
    ("(p q : Prop) : (p ↔ q) → p = q", ["intro h", "rw [h]"]),  # by propext
    (
        "(n : Nat) : 0 + n = n",
        ["induction n with | zero => rfl | succ n ih => rw [Nat.add_succ, ih]"],
    ),
]

# Texts that the guard would refuse, or that are wrong: what Lean alone makes of them.
TRAPS = [
    (PAIR, []),
    (PAIR, ["intro hp hq", "exact hp"]),  # an error; Lean adds the theorem, with sorryAx
    (PAIR, ["intro hp hq", "constructor", "exact hp"]),
    (PAIR, ["intro hp hq", "sorry"]),
    (FALSE, ["admit"]),
    (FALSE, ["exact (sorryAx False false)"]),
    (FALSE, ["have helper : False := by sorry", "exact helper"]),
    (FALSE, [f"exact {NAME}"]),  # itself
    (PAIR, [f"exact {NAME} p q"]),
    (FALSE, [f"exact {GIVEN}"]),
    (FALSE, ["exact lcProof"]),
    (FALSE, ["stop"]),
    # Another theorem of the same name, an axiom, a notation that makes the statement another one.
    (FALSE, [f"trivial\ntheorem {NAME} : True := by", "trivial"]),
    (FALSE, ["exact cheat\naxiom cheat : False"]),
    (FALSE, [f"trivial\nend X\nnamespace X\ntheorem {NAME} : True := by", "trivial"]),
    (FALSE, ["trivial\nmacro_rules | `(False) => `(True)\ntheorem other : True := by", "trivial"]),
    (FALSE, ["assumption /-", "-/"]),
    (FALSE, ["trivial --"]),
    (FALSE, ["exact (by trivial)", '#eval "proved"']),
    (FALSE, [f"trivial\n#print axioms {NAME}\n#exit"]),  # nothing behind it is read
    (PAIR, ["intro hp hq", "exact ⟨hp, hq⟩", f"#print axioms {NAME}\n#exit"]),
]


@pytest.mark.parametrize(("statement", "tactics"), PROOFS)
def test_proofs_are_accepted(lean: Toolchain, statement: str, tactics: list[str]) -> None:
    assert asyncio.run(rejected(lean, Theorem("a", statement), tactics)) == ""


def test_none_of_the_traps_is_accepted(lean: Toolchain) -> None:
    async def body() -> None:
        gate = asyncio.Semaphore(2)

        async def one(statement: str, tactics: list[str]) -> None:
            async with gate:
                why = await judged(lean, Theorem("a", statement), tactics)
            assert why and "\n" not in why, (statement, tactics)

        await asyncio.gather(*(one(*trap) for trap in TRAPS))

    asyncio.run(body())


def test_an_axiom_of_ones_own_is_no_proof(lean: Toolchain) -> None:
    head = lean.head + "axiom cheat : False\n"
    other = Toolchain(lean.program, head, "with an axiom", lean.variables)
    assert asyncio.run(rejected(other, Theorem("a", FALSE), ["exact cheat"])).endswith(" cheat")


@pytest.mark.parametrize("text", ["", "\n", "unsolved goals"])
def test_an_error_is_no_proof_even_without_a_text(text: str) -> None:
    output = [("error", 1, text), ("information", 2, f"'{NAME}' does not depend on any axioms")]
    lines = [
        json.dumps({"severity": kind, "pos": {"line": line}, "data": data})
        for kind, line, data in output
    ]
    assert acceptance._judged(0, lines[1], 2) == "" and acceptance._judged(0, "\n".join(lines), 2)


def test_it_takes_no_longer_than_it_may(lean: Toolchain) -> None:
    assert (
        asyncio.run(rejected(lean, Theorem("a", ": True"), ["trivial"], seconds=0.05))
        == "timed out"
    )


def test_a_check_that_is_killed_from_outside_is_run_again(
    lean: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, runs = acceptance._run, list[int]()

    async def mortal(*args: Any) -> tuple[int, str]:
        runs.append(len(runs))
        return await real(*args) if runs[-1] else (-signal.SIGKILL, "")

    monkeypatch.setattr(acceptance, "_run", mortal)
    assert not asyncio.run(rejected(lean, Theorem("a", ": True"), ["trivial"])) and len(runs) == 2
