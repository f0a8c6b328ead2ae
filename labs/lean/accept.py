"""Decide whether a theorem is proved, by a check of the whole file in a fresh Lean process.

Lean must end with status 0 and report no error and no `sorry`. The theorem must have its given
statement, and may depend only on the classical axioms. All these checks are needed. Lean ends with
status 0 even if a proof uses `sorry`. Some versions print "does not depend on any axioms" for a
theorem that failed. A REPL accepts a proof that uses its own theorem (leanprover-community/repl
#44). A check of the theorem alone accepts helpers with `sorry` (ax-prover-base #47).
`native_decide` trusts the compiler.
"""

import asyncio
import json
import re
import signal
from collections.abc import Sequence

from core.base.errors import one_line
from labs.lean import guard
from labs.lean.theorem import GIVEN, LONGEST_ERROR, NAME, SORRY, Theorem, proof
from labs.lean.toolchain import Toolchain

SECONDS = 300.0
AXIOMS = frozenset(("propext", "Classical.choice", "Quot.sound"))
_AXIOMS = re.compile(rf"'{NAME}' (?:does not depend on any axioms|depends on axioms: \[([^\]]*)\])")


async def rejected(
    toolchain: Toolchain, theorem: Theorem, tactics: Sequence[str], seconds: float = SECONDS
) -> str:
    """Return why a proof is not accepted, or "" if it is. If the guard refuses its text, Lean does
    not read it."""
    if reason := guard.refused_proof(theorem.statement, tactics):
        return f"refused: {reason}"
    return await judged(toolchain, theorem, tactics, seconds)


async def judged(
    toolchain: Toolchain, theorem: Theorem, tactics: Sequence[str], seconds: float = SECONDS
) -> str:
    """Return why Lean rejects a proof, or "". Call it without the guard only for trusted texts and
    in tests."""
    text, line = _file(toolchain, theorem, tactics)
    try:
        status, out = await asyncio.wait_for(_run(toolchain, text, seconds), seconds)
        if status == -signal.SIGKILL:  # killed from outside, perhaps for its memory: try once more
            status, out = await asyncio.wait_for(_run(toolchain, text, seconds), seconds)
    except TimeoutError:
        return "timed out"
    return _judged(status, out, line)


def _file(toolchain: Toolchain, theorem: Theorem, tactics: Sequence[str]) -> tuple[str, int]:
    """Return the file, and the number (from 1) of its line that prints axioms. Axiom GIVEN repeats
    the statement."""
    statement = " ".join(theorem.statement.split())
    text = toolchain.head + proof(theorem.statement, tactics)
    text += f"axiom {GIVEN} {statement}\nexample : type_of% @{GIVEN} := @{NAME}\n"
    return text + f"#print axioms {NAME}\n", text.count("\n") + 1


async def _run(toolchain: Toolchain, text: str, seconds: float) -> tuple[int, str]:
    files = {"proof.lean": text}
    started = toolchain.started("--json", "proof.lean", cpu=int(4 * seconds) + 1, holding=files)
    async with started as (process, _):
        out, _ = await process.communicate()
        return process.returncode or 0, out.decode(errors="replace")


def _judged(status: int, out: str, line: int) -> str:
    """Return why Lean does not accept the file as a proof, or "" if it does."""
    messages: list[tuple[int, str, str]] = []
    for text in out.splitlines():
        try:
            message = json.loads(text)
            messages.append((message["pos"]["line"], message["severity"], message["data"]))
        except (ValueError, KeyError, TypeError):
            return f"Lean printed a line that is not a message ({one_line(text, 100)})"
    for _, severity, data in messages:
        if severity == "error":
            return one_line(data, LONGEST_ERROR) or "Lean reported an error without a text"
    if status:
        return f"Lean ended with status {status}"
    if any(SORRY.search(data) for _, _, data in messages):
        return "the proof uses sorry"
    printed = [data for message_line, _, data in messages if message_line == line]
    axioms = _AXIOMS.fullmatch(printed[0]) if len(printed) == 1 else None
    if axioms is None:
        return "Lean did not print the axioms of the proof"
    names = (axioms[1] or "").replace(",", " ").split()
    unexpected = sorted(set(names) - AXIOMS)
    return f"the proof depends on the axiom {unexpected[0]}" if unexpected else ""
