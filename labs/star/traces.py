"""What a round trains on: solutions that were right, as JSON lines in Alpaca's columns, and how rounds are merged."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import parse_json, read_lines, storable, write_atomically
from core.problems.rows import kind_of
from labs.star.record import RATIONALISED, WAYS

WHAT = "the file of traces"
REMEDY = "Remove it, and the round makes it again"


@dataclass(frozen=True)
class Trace:
    """A solution to train on: of which `problem` (its id), found in which `round`, from 1, and in which of WAYS; the
    `key` of its completion in the journal; the prompt, as `instruction`, and what is to be said, as `output`."""

    problem: str
    round: int
    way: str
    key: str
    instruction: str
    output: str


def merged(rounds: Sequence[Sequence[Trace]]) -> list[Trace]:
    """One trace a problem, in the order of their ids: the newest that was found without being shown the answer, else
    the newest of all. Equal traces make an equal list, in whatever order they come."""
    best: dict[str, Trace] = {}
    for trace in (each for traces in rounds for each in traces):
        known = best.get(trace.problem)
        if known is None or _worth(trace) > _worth(known):
            best[trace.problem] = trace
    return [best[problem] for problem in sorted(best)]


def _worth(trace: Trace) -> tuple[Any, ...]:
    """Of two traces the larger is kept; what stands behind way and round only settles ties."""
    return (trace.way != RATIONALISED, trace.round, -WAYS.index(trace.way), trace.key, trace.output, trace.instruction)


def write(path: Path, traces: Iterable[Trace]) -> None:
    """The traces, a line each, whole or not at all; half a character becomes �. Raises UserError where the disk
    refuses."""
    write_atomically(path, (_line(trace) for trace in traces))


def _line(trace: Trace) -> bytes:
    told = {name: storable(cell) if isinstance(cell, str) else cell for name, cell in asdict(trace).items()}
    row = {"instruction": told.pop("instruction"), "input": "", "output": told.pop("output"), **told}
    return json.dumps(row, ensure_ascii=True).encode() + b"\n"


def read(path: Path) -> list[Trace]:
    """The traces of a file, in order; columns that are not ours are passed over. Raises UserError, with the line, for
    what is none."""
    lines = ((f"{WHAT} {path}, line {number}", line) for number, line in enumerate(read_lines(path, WHAT, REMEDY), 1))
    return [_trace(where, parse_json(line, where, REMEDY)) for where, line in lines if line.strip()]


def _trace(where: str, row: Any) -> Trace:
    if not isinstance(row, dict):
        raise UserError(f"{where} must be an object, not {kind_of(row)}. {REMEDY}")
    cells: dict[str, Any] = {each.name: row.get(each.name) for each in fields(Trace)}
    for name, cell in cells.items():
        is_right = type(cell) is int and cell >= 1 if name == "round" else isinstance(cell, str) and bool(cell.strip())
        if not is_right or (name == "way" and cell not in WAYS):
            wanted = {"round": "a whole number from 1", "way": f"one of {', '.join(WAYS)}"}.get(name, "a text")
            raise UserError(f'{where} has "{name}" {cell!r:.60}, which is not {wanted}. {REMEDY}')
    if row.get("input"):
        raise UserError(f'{where} has an "input", and traces have none: all of a prompt is its "instruction". {REMEDY}')
    return Trace(**cells)
