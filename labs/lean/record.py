"""The files in the folder of a run: its record, its table and its proofs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from core.base.errors import UserError
from core.base.files import read_json, write_atomically
from core.constants import rules
from core.results import provenance, stages
from core.results.write import now
from labs.lean import figures, toolchain
from labs.lean.constants import LeanConstants
from labs.lean.outcome import Outcome
from labs.lean.policy import ASKED
from labs.lean.theorem import proof
from labs.lean.toolchain import Toolchain

TABLE, PROOFS = "table.txt", "proofs.json"  # in the folder of a run
NO_GO = 0.05  # a baseline whose whole interval is below this leaves nothing to learn from


class Record(stages.Record):
    """The record of searches, or of an iteration in stages."""

    STAGES = ("searched", "trained", "evaluated", "guided")  # and "guided_before", from which none of them follows
    PRODUCTS: ClassVar = {"trained": "digest"}

    @classmethod
    def begun(cls, folder: Path, run: str, config: LeanConstants, lean: Toolchain, where: str) -> "Record":
        """Begin or resume a `run` on the theorems of `where`. Another run in `folder` is put aside. Raises
        UserError."""
        head = {
            "schema": 1,
            "run": run,
            "complete": False,
            "started": now(),
            "theorems": where,
            "lean": lean.name,
            **toolchain.open_cage(),
            "config": {name: getattr(config, name) for name in rules(type(config))},
            "provenance": provenance.collect((ASKED,)),
        }
        record = cls.begin(folder, head, lambda path: cls(folder, read(folder)), {"complete": False}, "theorems")
        if not record.path.exists():
            record.save(complete=False)
        return record


def read(folder: Path, name: str = stages.NAME) -> dict[str, Any]:
    """Read the record in a folder. Raises UserError."""
    found = read_json(folder / name, "the record", "Move its folder away, and run the same command again")
    if not isinstance(found, dict):
        raise UserError(f"{folder / name} is no record. Move its folder away, and run the same command again")
    return found


def keep(folder: Path, outcomes: Sequence[Outcome], made: dict[str, Any]) -> None:
    """Write the table, and each proof as Lean reads it."""
    write_atomically(folder / TABLE, f"{figures.table(made)}\n".encode())
    proofs = [
        {"name": each.name, "statement": each.statement, "proof": each.proof, "lean": proof(each.statement, each.proof)}
        for each in outcomes
        if each.is_proved
    ]
    content = json.dumps({"theorems": proofs}, indent=1, ensure_ascii=False)
    write_atomically(folder / PROOFS, f"{content}\n".encode())
