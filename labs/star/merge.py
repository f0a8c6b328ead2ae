"""Merge files of traces, from several rounds or people, and keep one trace of each problem: bash
scripts/traces.sh."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.base import terminal
from core.base.errors import Parser, UserError, command
from core.base.fields import fitted
from core.base.files import draft_of
from labs.star.alpaca import shaped, statement_of
from labs.star.record import FIRST, WAYS
from labs.star.statements import hash_of
from labs.star.traces import Trace, merged
from labs.training.rows import FORM, Line, lines

ABOUT = (
    "Merge files of traces, from several rounds or people. One trace of each problem is kept: "
    "without a hint rather than rationalised, and then from the latest round. Problems are equal "
    "as in a run's DATA (docs/star.md#data)."
)
OTHERS = "another trace of the problem is kept"


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="traces.sh", description=ABOUT)
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="JSON lines with instruction and output"
    )
    parser.add_argument(
        "--out", required=True, type=Path, metavar="OUT", help="the new file with the kept rows"
    )
    parser.add_argument(
        "--alpaca",
        action="store_true",
        help="write the form in instruction, the problem in input, and Final: in output",
    )
    with command():
        args = parser.parse_args(argv)
        every = [_read(path, *each, args.alpaca) for path in args.files for each in lines(path)]
        dropped = Counter(reason for _, _, reason in every if reason)
        found = {trace: line for trace, line, reason in every if not reason}
        best = set(merged([[*found]]))
        kept = [line for trace, line in found.items() if trace in best]
        dropped[OTHERS] = len(every) - len(kept) - dropped.total()
        counts = [[name, f"{count:,}"] for name, count in dropped.items() if count]
        if not kept:
            reasons = ", ".join(map(": ".join, counts))
            raise UserError(
                f"no trace is left to write ({reasons or 'the files have no rows'}). Give other "
                "files"
            )
        with draft_of(args.out, "the kept traces") as draft:
            draft.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        print(f"{args.out.name}: {len(kept):,} of {len(every):,} rows\n")
        print(terminal.aligned([["", "rows"], ["kept", f"{len(kept):,}"], *counts]))
        print(f"written  {args.out}")


def _read(path: Path, number: int, line: str, row: Any, alpaca: bool) -> tuple[Trace, str, str]:
    """Return a row's trace (its problem is the hash of its statement), the line to write, and why
    it can't be written ("": it can). Raises UserError for a row of another form."""
    found = fitted(row, Line, f"{path}, line {number} is not a trace", FORM)
    statement, solution, reason = (
        statement_of(found.instruction, found.input or ""),
        found.output,
        "",
    )
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
    return trace, line, reason


if __name__ == "__main__":
    main()
