"""Read miniF2F in Lean 4: THEOREMS=minif2f (its test problems) or minif2f:valid (Zheng et al., arXiv 2109.00110).

The source is a file in one commit of DeepSeek-Prover-V1.5. Each line contains a theorem and its header. The search uses
the header's `open` lines, but its own imports and limits. As in the original, autoImplicit is on, since five statements
have undeclared variables. Sums over sets are rewritten, because Mathlib dropped their older notation in August 2025.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from core.base import terminal
from core.base.errors import UserError
from labs.lean import guard
from labs.lean.theorem import Theorem
from labs.lean.theorems import decoded, fetched, theorem_in
from labs.lean.toolchain import Toolchain

NAME, SPLITS = "minif2f", ("test", "valid")
EACH = 244  # number of theorems in each split
URL = (  # MIT licence
    "https://raw.githubusercontent.com/deepseek-ai/DeepSeek-Prover-V1.5/2c4ba9119eef74d0d611f494261b2c5bae98c69a"
    "/datasets/minif2f.jsonl"
)
IMPLICIT = "set_option autoImplicit true\n"
# `∑ k in s, …` becomes `∑ k ∈ s, …`, and `∑ k : ℤ in s, …` becomes `∑ k ∈ (s : Finset ℤ), …`.
_OVER = re.compile(r"([∑∏] *\w+) in ")
_OVER_TYPED = re.compile(r"([∑∏]) *(\w+) *: *([^\s,()]+) in ([^,()]+),")
_OPEN = re.compile(r"^open (?!.* in$)[\w. ]+$", re.MULTILINE)


class Problem(Struct):
    """A line of the file: a theorem with its header."""

    name: str
    split: str
    formal_statement: str
    header: str

    @property
    def opens(self) -> str:
        """The `open` lines of the header."""
        return "".join(f"{line}\n" for line in _OPEN.findall(self.header))


def is_named(named: str) -> bool:
    return named.partition(":")[0] == NAME


def given(named: str, lean: Toolchain, folder: Path) -> tuple[list[Theorem], Toolchain]:
    """Return the theorems of a split, and `lean` with autoImplicit and the `open` lines that they need.
    A missing file is downloaded to `folder`. Raises UserError, without a download if `lean` lacks Mathlib."""
    split = named.partition(":")[2] or SPLITS[0]
    if split not in SPLITS:
        raise UserError(f"{named} is not a set of theorems. Use {NAME} (the test problems of miniF2F) or {NAME}:valid")
    if not lean.has_mathlib:
        raise UserError(f"{named} needs Mathlib. Set LEAN to a lake project with Mathlib, and unset LEAN_HEAD")
    theorems, opens, left = chosen(read(fetched(URL, folder / f"{NAME}.jsonl"), split))
    if left:
        reasons = ", ".join(f"{why} {count}" for why, count in left.most_common())
        terminal.say(f"note: all rates exclude {left.total()} of {EACH} problems ({reasons})")
    return theorems, replace(lean, head=lean.head + IMPLICIT + opens)


def read(path: Path, split: str) -> list[Problem]:
    """Read the problems of a split, in the file's order. Raises UserError if the split is incomplete."""
    remedy = "Remove the file, and run the same command again"
    rows = [row for row in decoded(path, Problem, "miniF2F", remedy, is_lines=True) if row.split == split]
    if len(rows) != EACH or len({row.name for row in rows}) != EACH:
        raise UserError(f"{path} has {len(rows)} problems of {split}, not {EACH} with different names. {remedy}")
    return rows


def chosen(rows: Sequence[Problem]) -> tuple[list[Theorem], str, Counter[str]]:
    """Return the theorems that can be searched, their common `open` lines, and counts of the rest by reason."""
    opens = Counter(row.opens for row in rows).most_common(1)[0][0]
    theorems, left = [], Counter[str]()
    for row in rows:
        found = theorem_in(modern(row.formal_statement))
        why = "no theorem" if found is None else guard.refused_statement(found[1])
        why = why or ("another header" if row.opens != opens else "")
        if found and not why:
            theorems.append(Theorem(row.name, found[1]))
        else:
            left[why] += 1
    return theorems, opens, left


def modern(statement: str) -> str:
    """Rewrite sums and products over sets in Mathlib's current notation."""
    return _OVER_TYPED.sub(r"\1 \2 ∈ (\4 : Finset \3),", _OVER.sub(r"\1 ∈ ", statement))
