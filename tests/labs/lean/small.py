"""Share theorems and constants of small searches, and list the processes below a process."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.golden.cases import INPUTS, LEAN

LEARNED = (
    ("identity", "(p : Prop) : p → p"),
    ("falsity", "(p q : Prop) : False → (p ∧ q)"),
    ("succ", "(n : Nat) : n + 1 = 1 + n"),
    ("right", "(p q : Prop) : p → (q ∨ p)"),
)
HELD_OUT = (
    ("first", "(p q : Prop) : p → (q → p)"),
    ("four", "(n : Nat) : n + 4 = 4 + n"),
    ("false", "(p : Prop) : p"),
)
BASELINE = (f"THEOREMS={INPUTS}/theorems.json", *LEAN)  # as the golden case
TIMES = ("seconds", "seconds_to_proof")


def written(folder: Path, *theorems: tuple[str, str]) -> str:
    """Write theorems to a file, and return the constant that names it."""
    folder.mkdir(exist_ok=True)
    path = folder / "mine.json"
    path.write_text(
        json.dumps({"theorems": [{"name": name, "statement": what} for name, what in theorems]})
    )
    return f"THEOREMS={path}"


def figures(results: Path) -> dict[str, Any]:
    """Read the figures of a baseline, without times."""
    record = json.loads((results / "lean" / "baseline" / "record.json").read_text())
    return {name: value for name, value in record["figures"].items() if name not in TIMES}


def born(pid: int) -> str:
    """Return when a process began, which distinguishes it from a later one with its number; "" if
    it has ended."""
    with suppress(OSError):
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state == "Z" else rest[18]
    return ""


def below(pid: int) -> list[int]:
    """List the children of a process, and their children."""
    found = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").glob("*"):
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *below(child)]
    return found


def leans(pid: int) -> list[int]:
    """List the Leans below a process: the server, then its worker."""
    found = []
    for child in below(pid):
        with suppress(OSError):
            found += [child] * (b"libleanshared" in Path(f"/proc/{child}/cmdline").read_bytes())
    return found
