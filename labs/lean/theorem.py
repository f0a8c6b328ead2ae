"""Define theorems, the states and steps of proofs, verdicts, and the file that Lean reads."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

NAME = "qed_rsa_theorem"  # of each theorem in Lean's file, so that its own name cannot matter
GIVEN = "given_" + NAME  # an axiom with the same statement, after the proof (accept.py)
LONGEST_ERROR = 300  # characters
SORRY = re.compile(r"declaration uses .sorry.")


@dataclass(frozen=True)
class Theorem:
    """A theorem: its name in records, and binders and type such as "(p q : Prop) : p → q → p ∧ q"."""

    name: str
    statement: str


@dataclass(frozen=True)
class State:
    """A proof state. `pp`: the goals as Lean prints them, separated by an empty line; "" if none is left."""

    pp: str
    goals: int = 1


@dataclass(frozen=True)
class Step:
    """The result of a tactic: a state, or an error in a line ("refused: …", "timed out", "died", Lean's message)."""

    state: State | None
    error: str = ""


@dataclass(frozen=True)
class Verdict:
    """A verdict of Lean on a proof, and the reason if it is rejected."""

    proved: bool
    reason: str = ""


def opening(statement: str) -> str:
    return f"theorem {NAME} {' '.join(statement.split())} := by"


def proof(statement: str, tactics: Sequence[str]) -> str:
    """Return the theorem with its proof. It ends with `skip`, which is an error outside the `by` block."""
    lines = [line for tactic in tactics for line in tactic.strip("\n").rstrip().split("\n")]
    return "\n".join([opening(statement), *(f"  {line}".rstrip() for line in lines), "  skip"]) + "\n"
