"""What is to be proved, and how a file of Lean says so."""

from collections.abc import Sequence
from dataclasses import dataclass

NAME = "qed_rsa_theorem"  # every theorem's, where it is proved: what its own name means there cannot matter
GIVEN = "given_" + NAME  # an axiom of the same statement that stands behind the proof (accept.py)


@dataclass(frozen=True)
class Theorem:
    """`name`: what it is called in a record. `statement`: binders and type, "(p q : Prop) : p → q → p ∧ q"."""

    name: str
    statement: str


def opening(statement: str) -> str:
    """The line that a proof of `statement` follows."""
    return f"theorem {NAME} {' '.join(statement.split())} := by"


def indented(tactic: str) -> str:
    """`tactic` as it stands in a `by` block."""
    return "\n".join(f"  {line}".rstrip() for line in tactic.strip("\n").rstrip().split("\n"))


def proof(statement: str, tactics: Sequence[str]) -> str:
    """The theorem with its proof, a line that does nothing at the end: what has left the block makes an error of it."""
    return "\n".join([opening(statement), *map(indented, tactics), "  skip"]) + "\n"
