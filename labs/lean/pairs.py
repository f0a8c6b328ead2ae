"""What a policy is trained on: a state and a tactic that a proof takes there, as rows of JSON lines (training/rows.py),
asked as the search asks."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import parse_json, read_lines, write_atomically
from labs.lean.policy import asked
from labs.lean.search import plain

WHAT, REMEDY = "the pairs", "Remove the file, and run the same command again"


@dataclass(frozen=True)
class Pair:
    """`state`: goals as text. `theorem`: whose proof it is."""

    theorem: str
    state: str
    tactic: str


def merged(parts: Iterable[Sequence[Pair]]) -> list[Pair]:
    """Those of all `parts`, each state and tactic once."""
    once = {(plain(pair.state), pair.tactic): pair for part in parts for pair in part}
    return sorted(once.values(), key=lambda pair: (pair.theorem, pair.state, pair.tactic))


def write(path: Path, pairs: Iterable[Pair]) -> None:
    """An object a line: what a training reads, and the pair itself. Raises UserError."""
    write_atomically(path, (f"{json.dumps(_row(pair), ensure_ascii=True)}\n".encode() for pair in pairs))


def read(path: Path) -> list[Pair]:
    """Raises UserError."""
    made = []
    for number, line in enumerate(read_lines(path, WHAT, REMEDY), 1):
        row = parse_json(line, f"{path} line {number}", REMEDY)
        found = [row.get(name) for name in ("theorem", "state", "output")] if isinstance(row, dict) else [None]
        if not all(isinstance(each, str) for each in found):
            raise UserError(f"{path} line {number} holds no pair of a state and a tactic. {REMEDY}")
        made.append(Pair(*map(str, found)))
    return made


def _row(pair: Pair) -> dict[str, Any]:
    return {
        "instruction": asked(pair.state)[0]["content"],
        "input": "",
        "output": pair.tactic,
        "theorem": pair.theorem,
        "state": pair.state,
    }
