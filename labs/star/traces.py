"""What a round trains on: solutions that were right, as JSON lines in Alpaca's columns, and how rounds are merged."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from core.base.fields import Filled, Positive, fitted
from core.base.files import parse_json, read_lines, storable, write_atomically
from labs.star.record import RATIONALISED, WAYS, Way

WHAT = "the file of traces"
REMEDY = "Remove it, and the round makes it again"


class Trace(Struct, frozen=True):
    """A solution to train on: of which `problem` (its id), found in which `round`, from 1, and in which of WAYS; the
    `key` of its completion in the journal; the prompt, as `instruction`, and what is to be said, as `output`."""

    problem: Filled
    round: Positive
    way: Way
    key: Filled
    instruction: Filled
    output: Filled


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
    told = {name: storable(cell) if isinstance(cell, str) else cell for name, cell in structs.asdict(trace).items()}
    row = {"instruction": told.pop("instruction"), "input": "", "output": told.pop("output"), **told}
    return json.dumps(row, ensure_ascii=True).encode() + b"\n"


def read(path: Path) -> list[Trace]:
    """The traces of a file, in order; columns that are not ours are passed over. Raises UserError, with the line, for
    what is none."""
    lines = ((f"{WHAT} {path}, line {number}", line) for number, line in enumerate(read_lines(path, WHAT, REMEDY), 1))
    return [
        fitted(parse_json(line, where, REMEDY), Trace, f"{where} is no trace", REMEDY)
        for where, line in lines
        if line.strip()
    ]
