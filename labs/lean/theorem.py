"""Define theorems, proof states, results of tactics, and the file that Lean reads."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

NAME = "qed_rsa_theorem"  # every theorem's name in Lean's file, so that its own name has no effect
GIVEN = "given_" + NAME  # an axiom after the proof with the same statement (accept.py)
LONGEST_ERROR = 300  # characters
SORRY = re.compile(r"declaration uses .sorry.")


@dataclass(frozen=True)
class Theorem:
    """A theorem. `statement`: binders and type, such as "(p q : Prop) : p → q → p ∧ q". Lean does
    not see `name`."""

    name: str
    statement: str


@dataclass(frozen=True)
class State:
    """A proof state. `pp`: the goals as Lean prints them, separated by empty lines, or "" if none
    is left."""

    pp: str
    goals: int = 1


@dataclass(frozen=True)
class Step:
    """The result of a tactic: a state, or a one-line `error` such as "refused: …", "timed out" or
    Lean's message."""

    state: State | None
    error: str = ""


def opening(statement: str) -> str:
    return f"theorem {NAME} {' '.join(statement.split())} := by"


def proof(statement: str, tactics: Sequence[str]) -> str:
    """Return a theorem and proof as Lean text. The last line `skip` is an error if a tactic ended
    the `by` block."""
    lines = [line for tactic in tactics for line in tactic.strip("\n").rstrip().split("\n")]
    return (
        "\n".join([opening(statement), *(f"  {line}".rstrip() for line in lines), "  skip"]) + "\n"
    )
