"""Check that a lake project with Mathlib works: `python -m labs.lean.mathlib`, for `bash setup.sh
mathlib`."""

import asyncio
import time

from core.base.errors import UserError, command
from core.base.terminal import say
from labs.lean import toolchain
from labs.lean.accept import rejected
from labs.lean.session import steps
from labs.lean.theorem import Theorem

# Lean knows the real numbers from Mathlib only
THEOREM = Theorem("check", "(a b : Real) : a + b = b + a")
PROOF = "exact add_comm a b"


def main() -> None:
    """Raise UserError unless a server of the Lean that LEAN names proves THEOREM, and a fresh
    process accepts it."""
    began, lean = time.monotonic(), toolchain.find()
    if not lean.has_mathlib:
        raise UserError(
            f"{lean.name} has no compiled Mathlib. Run 'lake exe cache get' in the folder that "
            "LEAN names"
        )
    (step,) = steps(lean, 1, [(THEOREM.statement, [PROOF])])
    if why := step.error or asyncio.run(rejected(lean, THEOREM, [PROOF])):
        raise UserError(
            f"{lean.name} does not prove {THEOREM.statement} ({why}). Run 'lake exe cache get!' "
            "there"
        )
    say(f"{lean.name} proves a theorem about real numbers ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    with command():
        main()
