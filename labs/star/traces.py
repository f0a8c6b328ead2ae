"""Store and merge the traces that a round trains on: right solutions, as JSON lines in Alpaca's columns."""

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from core.base.fields import Filled, Positive, fitted
from core.base.files import parse_json, read_lines, storable, write_atomically
from labs.star.record import RATIONALISED, WAYS, Way

WHAT = "the file of traces"
REMEDY = "Remove it, and the round writes it again"


class Trace(Struct, frozen=True):
    """A solution to train on. `problem`: its id; `round`: from 1; `way`: one of WAYS; `key`: of its completion in the
    journal; `instruction`: the prompt; `output`: the text to learn."""

    problem: Filled
    round: Positive
    way: Way
    key: Filled
    instruction: Filled
    output: Filled


def merged(rounds: Sequence[Sequence[Trace]]) -> list[Trace]:
    """Keep a trace a problem, sorted by id: the newest that was not shown the answer, else the newest of all."""
    best = {trace.problem: trace for trace in sorted(chain.from_iterable(rounds), key=_worth)}
    return [best[problem] for problem in sorted(best)]


def _worth(trace: Trace) -> tuple[Any, ...]:
    """Return the rank of a trace, of which the highest is kept. Fields after way and round only settle ties."""
    return (trace.way != RATIONALISED, trace.round, -WAYS.index(trace.way), trace.key, trace.output, trace.instruction)


def write(path: Path, traces: Iterable[Trace]) -> None:
    """Write the traces, a line each, whole or not at all; half a character becomes �. Raises UserError."""
    write_atomically(path, (_line(trace) for trace in traces))


def _line(trace: Trace) -> bytes:
    cells = {name: storable(cell) if isinstance(cell, str) else cell for name, cell in structs.asdict(trace).items()}
    row = {"instruction": cells.pop("instruction"), "input": "", "output": cells.pop("output"), **cells}
    return json.dumps(row, ensure_ascii=True).encode() + b"\n"


def read(path: Path) -> list[Trace]:
    """Read the traces of a file; other columns are ignored. Raises UserError, with the line, for a bad trace."""
    lines = ((f"{WHAT} {path}, line {number}", line) for number, line in enumerate(read_lines(path, WHAT, REMEDY), 1))
    return [
        fitted(parse_json(line, where, REMEDY), Trace, f"{where} is no trace", REMEDY)
        for where, line in lines
        if line.strip()
    ]
