"""The format guard as a command, on any lines of JSON: bash scripts/check_traces.sh FILE [MIN_STEPS=2] [MAX_STEPS=8]

It prints how many rows hold a solution that a model may learn from by its form, and why the others do not; of those it
would keep, how many hold a false equation or begin with an answer that was given. One line is in memory at a time.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core import constants
from core.base import terminal
from core.base.arguments import Parser
from core.base.errors import UserError, command
from core.base.files import parse_json, read_lines, whole
from core.generate.generator import split_thinking
from core.grading.boxed import extract
from core.problems.columns import NAMES, cells_of, names_in, text_of
from labs.star.check import REASONS, check
from labs.star.constants import StarConstants
from labs.star.hints import is_stated_first
from labs.star.record import RATIONALISED
from labs.star.sound import false_equations

ABOUT = (
    "Say of each row of a file of JSON lines whether its solution has the form that STaR trains on: so many steps, a "
    "line each, then one last line that begins with Final:, or holds the box. Thinking in <think>…</think> is left out."
)
WHAT, FIX = "the traces", "Fix it there"
TEXTS = ("output", *NAMES["proof"], "completion", "text", "answer")  # of several in one row the first counts
NAMED = ("MIN_STEPS", "MAX_STEPS")
KEPT, UNSOUND, HINTED = "kept", "  with a false equation", "  rationalised, answer first"


@dataclass
class Tally:
    """Rows by what was found, and the number of the first line of each."""

    counts: Counter[str] = field(default_factory=Counter)
    firsts: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, number: int) -> None:
        self.counts[name] += 1
        self.firsts.setdefault(name, number)

    def table(self) -> str:
        """What is kept and what that holds, then what is dropped, by reason."""
        shown = [KEPT, UNSOUND, HINTED, *(reason for reason in REASONS if self.counts[reason])]
        rows = [[name, f"{self.counts[name]:,}", f"{self.firsts.get(name, '-')}"] for name in shown]
        return terminal.aligned([["", "rows", "first line"], *rows])


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="check_traces.sh", description=ABOUT)
    parser.add_argument("file", metavar="FILE", help=f"JSON lines; a row's solution is its {', '.join(TEXTS)}")
    parser.add_argument(
        "settings", nargs="*", metavar="NAME=value", help="MIN_STEPS=2 MAX_STEPS=8: steps of a solution"
    )
    parser.add_argument("--kept", metavar="OUT", help="write the rows that are kept, unchanged, to this new file")
    with command():
        args = parser.parse_args(argv)
        config = _config(args.settings)
        path = Path(args.file).expanduser()
        tally = _checked(path, config, Path(args.kept).expanduser() if args.kept else None)
        total = sum(tally.counts[name] for name in (KEPT, *REASONS))
        print(f"{path.name}: {total:,} rows, MIN_STEPS={config.MIN_STEPS} MAX_STEPS={config.MAX_STEPS}\n")
        print(tally.table() + "\n")
        for reason, sentence in REASONS.items():
            if tally.counts[reason]:
                print(terminal.wrapped(f"{reason}: {sentence}", "  "))
        if args.kept:
            print(f"written  {args.kept}")


def _config(settings: Sequence[str]) -> StarConstants:
    """Raises UserError."""
    rules, given = constants.rules(StarConstants), {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if name not in NAMED or not equals:
            raise UserError(f"{setting!r:.60} is not understood. Behind FILE stand MIN_STEPS=2 and MAX_STEPS=8")
        given[name] = rules[name].read(name, value)
    return StarConstants(**given)


def _checked(path: Path, config: StarConstants, out: Path | None) -> Tally:
    """What the rows of a file come to; those that are kept are written to `out`. Raises UserError; then there is no
    `out`."""
    tally = Tally()
    with ExitStack() as stack:
        kept = None
        if out:
            kept = stack.enter_context(open(stack.enter_context(whole(out, "the kept rows")), "w", encoding="utf-8"))
        for number, line, row in _rows(path):
            solution = _solution(row, f"{path}, line {number}")
            reason = check(split_thinking(solution, None)[1], config.MIN_STEPS, config.MAX_STEPS).reason
            tally.add(reason or KEPT, number)
            if reason:
                continue
            if false_equations(solution):
                tally.add(UNSOUND, number)
            answer = extract(solution, "math").answer or ""
            if row.get("way") == RATIONALISED and is_stated_first(solution, answer, _statement(row)):
                tally.add(HINTED, number)
            if kept:
                kept.write(line.rstrip("\n") + "\n")
    if not tally.counts:
        raise UserError(f"{path} holds no rows. Give lines of JSON, such as the traces of a round")
    return tally


def _rows(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The rows of a file, each with the number of its line, and the line."""
    for number, line in enumerate(read_lines(path, WHAT, "Give the path of a file of JSON lines"), 1):
        if not line.strip():
            continue
        row = parse_json(line, f"{WHAT} {path}, line {number}", FIX)
        if not isinstance(row, dict):
            raise UserError(f"{path}, line {number} is no object. A line has fields like instruction and output")
        yield number, line, row


def _solution(row: dict[str, Any], where: str) -> str:
    """The text of a row; null is an empty one. Raises UserError."""
    cells = cells_of(row)
    held = [cells[name] for name in TEXTS if name in cells]
    if not held or not isinstance(held[0], str | None):
        raise UserError(f"{where} has no text {TEXTS[0]} (or {', '.join(TEXTS[1:])}). Fields found: {names_in(row)}")
    return held[0] or ""


def _statement(row: dict[str, Any]) -> str:
    cells = cells_of(row)
    return "\n".join(text_of(cells.get(name)) for name in ("instruction", *NAMES["problem"]))


if __name__ == "__main__":
    main()
