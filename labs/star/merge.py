"""Merge files of traces, from several rounds or people, and keep one trace of each problem: bash scripts/traces.sh."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base import terminal
from core.base.arguments import Parser
from core.base.errors import UserError, command
from core.base.fields import fitted
from core.base.files import whole
from core.constants import AUTO
from core.generate.generator import split_thinking
from core.grading.answers import judge
from core.grading.boxed import canonical
from core.grading.text import read
from labs.star import check
from labs.star.alpaca import shaped, statement_of
from labs.star.record import FIRST, WAYS
from labs.star.statements import hash_of
from labs.star.traces import Trace, worth
from labs.training.rows import FORM, Line, lines

ABOUT = (
    "Merge files of traces, from several rounds or people. One trace of each problem is kept: without a hint rather "
    "than rationalised, and then from the latest round. Problems are equal as in a run's DATA (docs/star.md#data)."
)
# Reasons to drop a trace, with explanations. The first reason that applies is reported.
REASONS = {
    "two answers": "traces of the problem state different answers, so that all of them are dropped",
    "another trace": "another trace of the problem is kept",
}
ALL_REASONS = REASONS | check.REASONS


@dataclass(frozen=True)
class Read:
    """A row with its file, its text to write and its trace. `reason`: why it can't be written, or ""."""

    path: Path
    line: str
    trace: Trace
    reason: str = ""


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="traces.sh", description=ABOUT)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON lines with instruction and output")
    parser.add_argument("--out", required=True, type=Path, metavar="OUT", help="the new file with the kept rows")
    parser.add_argument(
        "--alpaca",
        action="store_true",
        help="write the form in instruction, the problem in input, and Final: in output",
    )
    with command():
        args = parser.parse_args(argv)
        every = [_read(path, *each, args.alpaca) for path in args.files for each in lines(path)]
        kept, dropped = chosen(every)
        counts = ", ".join(f"{reason}: {count:,}" for reason, count in dropped.items())
        if not kept:
            raise UserError(f"no trace is left to write ({counts or 'the files have no rows'}). Give other files")
        with whole(args.out, "the kept traces") as draft:
            draft.write_text("".join(f"{each.line}\n" for each in kept), encoding="utf-8")
        sources = Counter(str(each.path) for each in kept)
        table = {"kept": len(kept)} | {f"  of {path}": sources[str(path)] for path in args.files} | dropped
        shown = [[name, f"{count:,}"] for name, count in table.items()]
        print(f"{args.out.name}: {len(kept):,} of {len(every):,} rows\n")
        print(terminal.aligned([["", "rows"], *shown]) + "\n")
        for reason in dropped:
            print(terminal.wrapped(f"{reason}: {ALL_REASONS[reason]}", "  "))
        print(f"written  {args.out}")


def chosen(every: Sequence[Read]) -> tuple[list[Read], dict[str, int]]:
    """Return the rows to keep, in their order, and the number of dropped rows by reason."""
    counts = Counter(each.reason for each in every if each.reason)
    groups: dict[str, list[int]] = {}
    for place, each in enumerate(every):
        if not each.reason:
            groups.setdefault(each.trace.problem, []).append(place)
    places = []
    for same in groups.values():
        if _clash([every[place].trace for place in same]):
            counts["two answers"] += len(same)
        else:
            counts["another trace"] += len(same) - 1
            places.append(max(same, key=lambda place: worth(every[place].trace)))
    return [every[place] for place in sorted(places)], {why: n for why in ALL_REASONS if (n := counts[why])}


def _clash(traces: Iterable[Trace]) -> bool:
    """Return whether traces state different answers. Equal values in other spellings do not differ."""
    found = (read(split_thinking(trace.output, None)[1], AUTO, "math").answer for trace in traces)
    first, *others = [answer for answer in found if answer is not None] or [""]
    different = [each for each in others if canonical(each, "math") != canonical(first, "math")]
    return any(not judge(each, first, "math") for each in different)


def _read(path: Path, number: int, line: str, row: Any, alpaca: bool) -> Read:
    """Read a row as a trace whose problem is the hash of its statement. Raises UserError for a row of another form."""
    found = fitted(row, Line, f"{path}, line {number} is not a trace", FORM)
    statement, solution, reason = statement_of(found.instruction, found.input or ""), found.output, ""
    if alpaca:
        new, reason = shaped(statement, solution)
        line, solution = json.dumps(new, ensure_ascii=True), new.get("output", solution)
    since: Any = row.get("round")
    way: Any = row.get("way")
    trace = Trace(
        problem=hash_of(statement),
        round=since if type(since) is int else 1,
        way=way if way in WAYS else FIRST,
        key=str(row.get("key", "")),
        instruction="",
        output=solution,
    )
    return Read(path, line, trace, reason)


if __name__ == "__main__":
    main()
