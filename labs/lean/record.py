"""What stands in the folder of a run: its record, its table and its proofs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import read_json, write_atomically
from core.constants import rules
from core.results import provenance
from core.results.write import now, put_aside
from labs.lean import figures, toolchain
from labs.lean.constants import LeanConstants
from labs.lean.outcome import Outcome
from labs.lean.policy import ASKED
from labs.lean.theorem import proof
from labs.lean.toolchain import Toolchain

SCHEMA = 1
RECORD, TABLE, PROOFS = "record.json", "table.txt", "proofs.json"  # in the folder of a run
NO_GO = 0.05  # a baseline whose whole interval is below this leaves nothing to learn from


@dataclass
class Record:
    """What stands in `folder`/record.json: what was run, and once it is complete what came of it."""

    folder: Path
    told: dict[str, Any]

    @classmethod
    def begun(cls, folder: Path, run: str, config: LeanConstants, lean: Toolchain, where: str) -> "Record":
        """That of a `run`, which goes on where the same was begun before; another run that lies in `folder` is put
        aside under the time when it began. Raises UserError."""
        told = {
            "schema": SCHEMA,
            "run": run,
            "complete": False,
            "started": now(),
            "theorems": where,
            "lean": lean.name,
            **toolchain.open_cage(),
            "config": {name: getattr(config, name) for name in rules(type(config))},
            "provenance": provenance.collect((ASKED,)),
        }
        if (path := folder / RECORD).exists():
            before = read_json(path, "the record", "Move its folder away")
            if isinstance(before, dict) and before.get("run") == run:
                return cls(folder, before | {"complete": False})
            kept = put_aside(folder, before.get("started") if isinstance(before, dict) else None)
            print(f"note: {folder} was another run (other constants, theorems or model); it is kept as {kept}")
        made = cls(folder, told)
        made.save(complete=False)
        return made

    def save(self, complete: bool, **more: Any) -> None:
        self.told |= {"complete": complete, "ended": now(), **more}
        write_atomically(self.folder / RECORD, json.dumps(self.told, indent=1).encode() + b"\n")


def read(folder: Path, name: str = RECORD) -> dict[str, Any]:
    """The record in a folder. Raises UserError."""
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
