"""The words of proof search: a theorem, the states and steps of its proof, a verdict, and the file that Lean reads."""

from collections.abc import Sequence
from dataclasses import dataclass

NAME = "qed_rsa_theorem"  # every theorem's, where it is proved: what its own name means there cannot matter
GIVEN = "given_" + NAME  # an axiom of the same statement that stands behind the proof (accept.py)


@dataclass(frozen=True)
class Theorem:
    """`name`: what it is called in a record. `statement`: binders and type, "(p q : Prop) : p → q → p ∧ q"."""

    name: str
    statement: str


@dataclass(frozen=True)
class State:
    """What is left to prove. `pp`: the goals as Lean prints them, an empty line between two; "" if none is left."""

    pp: str
    goals: int = 1


@dataclass(frozen=True)
class Step:
    """The result of a tactic: the next state, or an error in one line ("refused: …", "timed out", "died", Lean's first
    message)."""

    state: State | None
    error: str = ""


@dataclass(frozen=True)
class Verdict:
    """Whether Lean proved a theorem, and the reason if it did not."""

    proved: bool
    reason: str = ""


def opening(statement: str) -> str:
    """The line that a proof of `statement` follows."""
    return f"theorem {NAME} {' '.join(statement.split())} := by"


def indented(tactic: str) -> str:
    """`tactic` as it stands in a `by` block."""
    return "\n".join(f"  {line}".rstrip() for line in tactic.strip("\n").rstrip().split("\n"))


def proof(statement: str, tactics: Sequence[str]) -> str:
    """The theorem with its proof, a line that does nothing at the end: what has left the block makes an error of it."""
    return "\n".join([opening(statement), *map(indented, tactics), "  skip"]) + "\n"
