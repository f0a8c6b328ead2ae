"""Store and merge traces, which a round trains on. A file has JSON lines with Alpaca's columns and
more columns."""

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from core.base.errors import UserError, one_line
from core.base.files import storable, write_atomically
from labs.star.record import RATIONALISED, WAYS, Way

OMITTED = {"system": "", "right_parents": None}  # columns that are left out with this value


class Trace(Struct, frozen=True):
    """A solution to train on."""

    problem: str  # the problem's id
    round: int  # from 1
    way: Way
    key: str  # of the completion in the journal
    instruction: str  # the prompt, without a hint or examples
    output: str  # the text to learn
    system: str = ""  # the system message of the prompt
    right_parents: int | None = None  # of an aggregation: the number of its right candidates


def merged(rounds: Sequence[Sequence[Trace]]) -> list[Trace]:
    """Keep a trace for each problem, sorted by id: the newest without a hint, or else the newest
    rationalised trace."""
    best = {trace.problem: trace for trace in sorted(chain.from_iterable(rounds), key=_worth)}
    return [best[problem] for problem in sorted(best)]


def _worth(trace: Trace) -> tuple[Any, ...]:
    """Return the sort key of a trace. The trace with the highest key is kept. The last three fields
    only break ties."""
    return (
        trace.way != RATIONALISED,
        trace.round,
        -WAYS.index(trace.way),
        trace.key,
        trace.output,
        trace.instruction,
    )


def write(path: Path, traces: Iterable[Trace]) -> None:
    """Write traces to `path`, one on each line, or nothing on an error. Lone surrogates become �.
    Raises UserError."""
    write_atomically(path, (_line(trace) for trace in traces))


def _line(trace: Trace) -> bytes:
    cells = {
        name: storable(cell) if isinstance(cell, str) else cell
        for name, cell in structs.asdict(trace).items()
    }
    row = {
        "instruction": cells.pop("instruction"),
        "input": "",
        "output": cells.pop("output"),
        **cells,
    }
    row = {name: cell for name, cell in row.items() if not _is_omitted(name, cell)}
    return json.dumps(row, ensure_ascii=True).encode() + b"\n"


def _is_omitted(name: str, cell: Any) -> bool:
    return name in OMITTED and cell == OMITTED[name]


def read(path: Path) -> list[Trace]:
    """Read the traces in `path`. Other columns are ignored. Raises UserError if the file is missing
    or damaged."""
    try:
        return [msgspec.json.decode(line, type=Trace) for line in path.read_bytes().splitlines()]
    except (OSError, msgspec.MsgspecError) as error:
        raise UserError(
            f"the traces {path} can't be read ({one_line(str(error), 300)}). Remove the file and "
            "run the same command again. It writes the file anew"
        ) from None
