"""Run the format guard on a file of JSON lines: bash scripts/check_traces.sh FILE [FINAL=1]. It
counts kept rows and, by reason, dropped rows. It also counts kept rows with a false equation or a
leaked answer."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core import constants
from core.base import terminal
from core.base.errors import Parser, UserError, command
from core.base.files import draft_of
from core.base.thinking import split_thinking
from core.constants import BOXED, constant
from core.grading.kinds.math import Math
from harness.problems.columns import NAMES, cells_of, names_in, text_of
from labs.star.check import REASONS, check
from labs.star.constants import StarConstants
from labs.star.hints import is_stated_first
from labs.star.record import RATIONALISED
from labs.star.sound import false_equations
from labs.training.rows import lines

ABOUT = (
    "Check whether the solutions in a file of JSON lines have the form that STaR trains on: "
    "MIN_STEPS to MAX_STEPS non-empty lines, and then a line that begins with Final: or ends with "
    "a box. With FINAL=1, only a line that begins with Final: passes. Thinking is not checked."
)
# a row's solution is the first of these fields
TEXTS = ("output", *NAMES["proof"], "completion", "text", "answer")
KEPT, UNSOUND, HINTED = "kept", "  with a false equation", "  rationalised, answer first"


class FormConstants(StarConstants):
    """STaR's constants, with FINAL, which asks for the form of FEWSHOT=format."""

    FINAL: int = constant(0, "1: only a last line that begins with Final: states the answer", 0, 1)

    @property
    def takes_box(self) -> bool:
        return not self.FINAL and super().takes_box


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="check_traces.sh", description=ABOUT)
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help=f"JSON lines with the solution in {' or '.join(TEXTS)}",
    )
    help_text = "the form (default: MIN_STEPS=2 MAX_STEPS=8)"
    parser.add_argument("settings", nargs="*", default=[], metavar="NAME=value", help=help_text)
    parser.add_argument(
        "--kept", type=Path, metavar="OUT", help="write the kept rows to this new file"
    )
    with command():
        args = parser.parse_args(argv)
        config = constants.read(FormConstants, {}, args.settings)
        counts, firsts, kept = Counter[str](), dict[str, int](), list[str]()
        for number, line, row in lines(args.file):
            findings = _findings(row, config, f"{args.file}, line {number}")
            counts.update(findings)
            for finding in findings:
                firsts.setdefault(finding, number)
            if KEPT in findings:
                kept.append(f"{line}\n")
        if args.kept:
            with draft_of(args.kept, "the kept rows") as out:
                out.write_text("".join(kept), encoding="utf-8")
        total = sum(counts[name] for name in (KEPT, *REASONS))
        form = f"MIN_STEPS={config.MIN_STEPS} MAX_STEPS={config.MAX_STEPS}" + " FINAL=1" * (
            not config.takes_box
        )
        print(f"{args.file.name}: {total:,} rows, {form}\n")
        reasons = [reason for reason in REASONS if counts[reason]]
        rows = [
            [name, f"{counts[name]:,}", str(firsts.get(name, "-"))]
            for name in (KEPT, UNSOUND, HINTED, *reasons)
        ]
        print(terminal.aligned([["", "rows", "first line"], *rows]) + "\n")
        for reason in reasons:
            print(terminal.wrapped(f"{reason}: {REASONS[reason]}", "  "))
        if args.kept:
            print(f"written  {args.kept}")


def _findings(row: Any, config: FormConstants, where: str) -> list[str]:
    """List findings on a row: the reason to drop it, or KEPT and flaws. Raises UserError if no
    solution is found."""
    cells = cells_of(row) if isinstance(row, dict) else {}
    solution = next((cells[name] for name in TEXTS if name in cells), False)
    if not isinstance(solution, str | None):
        raise UserError(
            f"{where} needs a solution as text in a field such as output. Its fields are "
            f"{names_in(cells)}"
        )
    solution = solution or ""
    way = BOXED if config.ANSWER == "card" else config.ANSWER
    text = split_thinking(solution, None)[1]
    if reason := check(text, config.MIN_STEPS, config.MAX_STEPS, config.takes_box, way).reason:
        return [reason]
    statement = "\n".join(text_of(cells.get(name)) for name in ("instruction", *NAMES["problem"]))
    answer = Math().read(solution, way).answer or ""
    is_hinted = row.get("way") == RATIONALISED and is_stated_first(solution, answer, statement)
    return [
        KEPT,
        *([UNSOUND] if false_equations(solution) else []),
        *([HINTED] if is_hinted else []),
    ]


if __name__ == "__main__":
    main()
