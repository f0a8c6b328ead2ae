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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.base import terminal
from core.base.errors import UserError
from core.base.files import parse_json, read_lines
from labs.lean import download, guard, statements
from labs.lean.download import Published
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain

NAME, SPLITS = "minif2f", ("test", "valid")
EACH = 244  # theorems of a split
FILE = Published(
    "https://raw.githubusercontent.com/deepseek-ai/DeepSeek-Prover-V1.5/2c4ba9119eef74d0d611f494261b2c5bae98c69a"
    "/datasets/minif2f.jsonl",
    licence="MIT",
)
_FIELDS = ("name", "split", "formal_statement", "header")
IMPLICIT = "set_option autoImplicit true\n"
# `∑ k in s, …` is `∑ k ∈ s, …`, and `∑ k : ℤ in s, …` is `∑ k ∈ (s : Finset ℤ), …`.
_OVER = re.compile(r"([∑∏] *\w+) in ")
_OVER_TYPED = re.compile(r"([∑∏]) *(\w+) *: *([^\s,()]+) in ([^,()]+),")
_OPEN = re.compile(r"^open (?!.* in$)[\w. ]+$", re.MULTILINE)


@dataclass(frozen=True)
class Problems:
    """`opens`: lines of Lean that all of `theorems` were written behind. `left`: how many were left out, by reason."""

    theorems: list[Theorem]
    opens: str
    left: Counter[str]


def is_named(named: str) -> bool:
    return named.partition(":")[0] == NAME


def given(named: str, lean: Toolchain, folder: Path) -> tuple[list[Theorem], Toolchain]:
    """The theorems of the split that is named, fetched into `folder` where they are not there, and the Lean that opens
    what they are written behind. Raises UserError, first where there is no Mathlib."""
    split = named.partition(":")[2] or SPLITS[0]
    if split not in SPLITS:
        raise UserError(f"THEOREMS={named} is no split of miniF2F. Give {NAME} (its test problems), or {NAME}:valid")
    if not re.search(r"^import Mathlib\b", lean.head, re.MULTILINE):
        raise UserError(
            f"THEOREMS={named} is written with Mathlib, and {lean.name} has none. Set LEAN to a lake project that is "
            "built with it"
        )
    found = read(download.fetched(FILE, folder / f"{NAME}.jsonl"), split)
    if found.left:
        reasons = ", ".join(f"{why} {count}" for why, count in found.left.most_common())
        terminal.say(f"note: {found.left.total()} of {EACH} problems are left out of all rates ({reasons})")
    return found.theorems, replace(lean, head=lean.head + IMPLICIT + found.opens)


def read(path: Path, split: str) -> Problems:
    """Those of a split, in the file's order. Raises UserError where it is not the known file."""
    remedy = f"Remove it, and fetch {FILE.url} again"
    rows = []
    for number, line in enumerate(read_lines(path, "miniF2F", remedy), 1):
        row: Any = parse_json(line, f"{path}, line {number}", remedy)
        if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in _FIELDS):
            raise UserError(f"{path}, line {number} has no texts {', '.join(_FIELDS)}. {remedy}")
        rows += [row] * (row["split"] == split)
    if len(rows) != EACH or len({row["name"] for row in rows}) != EACH:
        raise UserError(f"{path} has {len(rows)} problems of {split} and not {EACH} of different names. {remedy}")
    return chosen(rows)


def chosen(rows: Sequence[dict[str, str]]) -> Problems:
    """The theorems that `rows` hold, without those that can't be searched, or are written behind other `open` lines
    than most are."""
    opens = Counter(opened(row["header"]) for row in rows).most_common(1)[0][0]
    theorems, left = [], Counter[str]()
    for row in rows:
        said = statements.theorem_in(modern(row["formal_statement"]))
        why = "no theorem" if said is None else guard.refused_statement(said[1])
        if why:
            left[why] += 1
        elif opened(row["header"]) != opens:
            left["another header"] += 1
        elif said:
            theorems.append(Theorem(row["name"], said[1]))
    return Problems(theorems, opens, left)


def modern(statement: str) -> str:
    """With sums and products over sets as Mathlib reads them today."""
    return _OVER_TYPED.sub(r"\1 \2 ∈ (\4 : Finset \3),", _OVER.sub(r"\1 ∈ ", statement))


def opened(header: str) -> str:
    """The `open` lines of a header."""
    return "".join(f"{line}\n" for line in _OPEN.findall(header))
