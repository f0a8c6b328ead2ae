"""Compute statistics of graded lines: `bash scripts/stats.sh FILE.jsonl …` (docs/proofs.md)."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from core.base import terminal
from core.base.arguments import Parser
from core.base.errors import command
from core.base.prices import shown
from core.report import tables
from core.report.table import NONE, Column, Table
from core.results.points import Worths, is_good
from core.types import GOOD, MAX_POINTS
from labs.proofs.scored import Line, Runs, read

ABOUT = f"""Show statistics of graded lines: the output of grade.sh, exports of graded results (report.sh NAME --jsonl),
or lines of QED-Nano's evaluation. Several files, several seeds in a file, and repetitions of a problem are runs of one
model. The tables show mean points with 95% intervals over problems, the parts of the set, each run with the best and
the worst, the standard deviation over runs, the tokens, the share of truncated or empty proofs, and the cost. Missing
grades enter no mean. A proof is right with {GOOD} points or more."""


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="stats.sh", description=ABOUT)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl", help="graded lines")
    parser.add_argument("--markdown", action="store_true", help="print the tables in Markdown")
    with command():
        args = parser.parse_args(argv)
        print(text(read([path.expanduser() for path in args.files]), args.markdown))


def text(runs: Runs, markdown: bool = False) -> str:
    """Return the tables and the notes, for a terminal or in Markdown."""
    shown_tables, more = tables_of(runs), notes(runs)
    if markdown:
        parts = [table.markdown() + (f"\n\n{table.about}" if table.about else "") for table in shown_tables]
        return "\n\n".join([*parts, *(f"- {note}" for note in more)])
    width = terminal.columns()
    parts = [f"{table.text(width)}\n\n{table.legend(width)}".rstrip() for table in shown_tables]
    return "\n\n".join([*parts, "\n".join(terminal.wrapped(note, "  ") for note in more)]).rstrip()


def tables_of(runs: Runs) -> list[Table]:
    """Tabulate points by part, runs, and tokens."""
    return [points(runs), over_runs(runs), tokens(runs)]


def points(runs: Runs) -> Table:
    """Tabulate the points of all problems, over runs, and by part of the set."""
    table = tables.worths(_metrics(runs))
    return replace(table, title="Points", columns=[replace(table.columns[0], head="part"), *table.columns[1:]])


def over_runs(runs: Runs) -> Table:
    """Tabulate each run. The best and the worst run are marked if they differ."""
    means = [_mean(lines) for lines in runs.values()]
    known = [mean for mean in means if mean is not None]
    best, worst = (max(known), min(known)) if known else (None, None)
    marks = [
        "" if best == worst or mean is None else " (best)" if mean == best else " (worst)" if mean == worst else ""
        for mean in means
    ]
    rows = list(runs.values())
    return Table(
        "Runs",
        [
            Column("run", [f"{name}{mark}" for name, mark in zip(runs, marks, strict=True)]),
            Column("proofs", [f"{len(lines):,}" for lines in rows]),
            Column(f"points of {MAX_POINTS}", [NONE if mean is None else f"{MAX_POINTS * mean:.3f}" for mean in means]),
            Column("%", [NONE if mean is None else f"{100 * mean:.1f}" for mean in means]),
            Column("truncated or empty", [_share(lines) for lines in rows]),
            Column("tokens written", [_total(lines, "run", "output_tokens") for lines in rows]),
            Column("cost", [_total(lines, "run", "cost", shown) for lines in rows]),
            Column("cost of grading", [_total(lines, "grading", "cost", shown) for lines in rows]),
        ],
        about=f"mean points over problems, in points of {MAX_POINTS} and in %",
    )


def tokens(runs: Runs) -> Table:
    """Tabulate the output tokens of proofs: least, mean and most, for all, right and wrong proofs, and of gradings."""
    lines = [*chain.from_iterable(runs.values())]
    right = [line for line in lines if line.worth is not None and is_good(line.worth)]
    wrong = [line for line in lines if line.worth is not None and not is_good(line.worth)]
    counts = [[line.run["output_tokens"] for line in of] for of in (lines, right, wrong)]
    counts.append([line.grading["output_tokens"] for line in lines])
    known = [[count for count in of if count is not None] for of in counts]
    figures: tuple[tuple[str, Callable[[Sequence[float]], float]], ...] = (
        ("least", min),
        ("mean", lambda of: sum(of) / len(of)),
        ("most", max),
        ("sum", sum),
    )
    return Table(
        "Tokens written",
        [
            Column("texts", ["all proofs", f"right ({GOOD} points or more)", "wrong", "gradings"]),
            Column("counted", [f"{len(of):,}" for of in known]),
            *(Column(name, [f"{figure(of):,.0f}" if of else NONE for of in known]) for name, figure in figures),
        ],
        about="output tokens, thinking included",
    )


def notes(runs: Runs) -> list[str]:
    """Return notes on proofs without points, on the cost, and on runs with different problems."""
    lines = [*chain.from_iterable(runs.values())]
    found = tables.lacking(_metrics(runs))
    cost = [(what, _total(lines, of, "cost", shown)) for what, of in (("proofs", "run"), ("gradings", "grading"))]
    found += [f"cost: {', '.join(f'{dollars} for the {what}' for what, dollars in cost)}"]
    if len({frozenset(line.problem for line in run) for run in runs.values()}) > 1:
        found.append("the runs have different problems, so their means are not comparable")
    return found


def _metrics(runs: Runs) -> dict[str, object]:
    worths = Worths(len(runs))
    for run, lines in enumerate(runs.values()):
        for line in lines:
            member = {"worth": line.worth, "grade": line.worth, "ungraded": line.why}
            worths.add(line.problem, line.groups, [member], run)
    return worths.metrics()["proofs"]  # type: ignore[no-any-return]


def _mean(lines: Sequence[Line]) -> float | None:
    """Return the mean over problems of a run's points, as a share, or None if all grades are missing."""
    by_problem: dict[str, list[float]] = {}
    for line in lines:
        if line.worth is not None:
            by_problem.setdefault(line.problem, []).append(line.worth)
    means = [sum(of) / len(of) for of in by_problem.values()]
    return sum(means) / len(means) if means else None


def _share(lines: Sequence[Line]) -> str:
    cut = sum(line.is_cut for line in lines)
    return f"{cut:,} ({100 * cut / len(lines):.1f}%)"


def _total(lines: Sequence[Line], of: str, name: str, show: Callable[[float], str] = lambda sum: f"{sum:,.0f}") -> str:
    """Format the sum of a cost over lines. "≥" marks a sum that lacks unknown costs."""
    every = [getattr(line, of)[name] for line in lines]
    known = [each for each in every if each is not None]
    return "unknown" if not known else f"{'≥ ' if len(known) < len(every) else ''}{show(sum(known))}"


if __name__ == "__main__":
    main(sys.argv[1:])
