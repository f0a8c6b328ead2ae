"""miniF2F in Lean 4: THEOREMS=minif2f, its test problems, or minif2f:valid. (Zheng et al., https://arxiv.org/abs/2109.00110)

The file is that of DeepSeek-Prover-V1.5 at one commit: a JSON object a line, with the theorem as Lean has it
(`formal_statement`, "theorem NAME BINDERS : TYPE := by") and what stands before it (`header`). Of the header, its
`open` lines go into the head of our files; the imports are the toolchain's own, and the limits ours. Names that five
statements leave free are variables, as they were where the file was written (autoImplicit); and sums over a set are
written as Mathlib has written them since 2024: since August 2025 it knows no other way.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from core.base import terminal
from core.base.errors import UserError
from labs.lean import guard, statements
from labs.lean.download import decoded, fetched
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain

NAME, SPLITS = "minif2f", ("test", "valid")
EACH = 244  # theorems of a split
URL = (  # MIT
    "https://raw.githubusercontent.com/deepseek-ai/DeepSeek-Prover-V1.5/2c4ba9119eef74d0d611f494261b2c5bae98c69a"
    "/datasets/minif2f.jsonl"
)
IMPLICIT = "set_option autoImplicit true\n"
# `∑ k in s, …` is `∑ k ∈ s, …`, and `∑ k : ℤ in s, …` is `∑ k ∈ (s : Finset ℤ), …`.
_OVER = re.compile(r"([∑∏] *\w+) in ")
_OVER_TYPED = re.compile(r"([∑∏]) *(\w+) *: *([^\s,()]+) in ([^,()]+),")
_OPEN = re.compile(r"^open (?!.* in$)[\w. ]+$", re.MULTILINE)


class Problem(Struct):
    """A line of the file."""

    name: str
    split: str
    formal_statement: str
    header: str

    @property
    def opens(self) -> str:
        """Return the `open` lines of its header."""
        return "".join(f"{line}\n" for line in _OPEN.findall(self.header))


def is_named(named: str) -> bool:
    return named.partition(":")[0] == NAME


def given(named: str, lean: Toolchain, folder: Path) -> tuple[list[Theorem], Toolchain]:
    """Return the theorems of the named split, fetched into `folder` if they are missing, and `lean` with the `open`
    lines that they need. Raises UserError, first if there is no Mathlib."""
    split = named.partition(":")[2] or SPLITS[0]
    if split not in SPLITS:
        raise UserError(f"THEOREMS={named} is no split of miniF2F. Give {NAME} (its test problems), or {NAME}:valid")
    if not re.search(r"^import Mathlib\b", lean.head, re.MULTILINE):
        raise UserError(
            f"THEOREMS={named} is written with Mathlib, and {lean.name} has none. Set LEAN to a lake project that is "
            "built with it"
        )
    theorems, opens, left = chosen(read(fetched(URL, folder / f"{NAME}.jsonl"), split))
    if left:
        reasons = ", ".join(f"{why} {count}" for why, count in left.most_common())
        terminal.say(f"note: {left.total()} of {EACH} problems are left out of all rates ({reasons})")
    return theorems, replace(lean, head=lean.head + IMPLICIT + opens)


def read(path: Path, split: str) -> list[Problem]:
    """Read the problems of a split, in the file's order. Raises UserError for another file."""
    remedy = f"Remove it, and fetch {URL} again"
    rows = [row for row in decoded(path, Problem, "miniF2F", remedy, is_lines=True) if row.split == split]
    if len(rows) != EACH or len({row.name for row in rows}) != EACH:
        raise UserError(f"{path} has {len(rows)} problems of {split} and not {EACH} of different names. {remedy}")
    return rows


def chosen(rows: Sequence[Problem]) -> tuple[list[Theorem], str, Counter[str]]:
    """Return the theorems that can be searched, the `open` lines of most, and the numbers and reasons of the others.
    Problems with other `open` lines are left out."""
    opens = Counter(row.opens for row in rows).most_common(1)[0][0]
    theorems, left = [], Counter[str]()
    for row in rows:
        said = statements.theorem_in(modern(row.formal_statement))
        why = "no theorem" if said is None else guard.refused_statement(said[1])
        why = why or ("another header" if row.opens != opens else "")
        if said and not why:
            theorems.append(Theorem(row.name, said[1]))
        else:
            left[why] += 1
    return theorems, opens, left


def modern(statement: str) -> str:
    """Rewrite sums and products over sets as Mathlib reads them today."""
    return _OVER_TYPED.sub(r"\1 \2 ∈ (\4 : Finset \3),", _OVER.sub(r"\1 ∈ ", statement))
