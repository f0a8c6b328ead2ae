"""Check that a lake project with Mathlib works: `python -m labs.lean.mathlib`, for `bash setup.sh mathlib`."""

import asyncio
import time

from core.base.errors import UserError, command
from core.base.terminal import say
from labs.lean import toolchain
from labs.lean.accept import accept
from labs.lean.session import Session
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain

THEOREM = Theorem("check", "(a b : Real) : a + b = b + a")  # Lean knows the real numbers from Mathlib only
PROOF = "exact add_comm a b"


async def check(lean: Toolchain) -> None:
    """Raise UserError unless a Lean server proves THEOREM, and a fresh process accepts the proof."""
    if not lean.has_mathlib:
        raise UserError(f"{lean.name} has no compiled Mathlib. Run 'lake exe cache get' in the folder that LEAN names")
    session = Session(lean)
    try:
        step = await session.run(THEOREM.statement, [PROOF])
    finally:
        await session.end()
    why = step.error or ("goals are left" if step.state and step.state.pp else "")
    if why := why or (await accept(lean, THEOREM, [PROOF])).reason:
        raise UserError(
            f"{lean.name} does not prove {THEOREM.statement} ({why}). Run 'lake exe cache get!' in its folder"
        )


def main() -> None:
    """Check the Lean that LEAN names, and print its name and the duration of the check."""
    began, lean = time.monotonic(), toolchain.find()
    asyncio.run(check(lean))
    say(f"{lean.name} proves a theorem about real numbers ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    with command():
        main()
