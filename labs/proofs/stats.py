"""Show graded lines: `bash scripts/stats.sh FILE.jsonl …` prints tables, and `bash
scripts/report.sh FILE.graded.jsonl` also writes a page (docs/proofs.md). The page is one HTML file
that needs no network. It contains the lines as packed JSON and shows texts as text nodes, so that
they can't run as code (harness/report/page.py)."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from core.base import terminal
from core.base.errors import Parser, UserError, command
from core.base.files import write_atomically
from core.base.prices import format_dollars
from core.types import GOOD, MAX_POINTS
from harness.report import page, tables
from harness.report.table import NONE, Column, Table
from harness.results.proof_points import Proved, is_good, metrics
from labs.proofs.scored import Line, Runs, read

WEB = Path(__file__).resolve().parent / "web"
NAMES = ("katex/katex.min.js", "base.js", "tables.js", "rich.js")
SCRIPTS = [*(page.WEB / name for name in NAMES), WEB / "graded.js"]
ABOUT = f"""Show statistics of graded lines: the output of grade.sh, exports of graded results \
(report.sh NAME --jsonl),
or lines of QED-Nano's evaluation. Several files, several seeds in a file, and repetitions of a \
problem are runs of one
model. The tables show mean points with 95% intervals over problems, the parts of the set, each \
run with the best and
the worst, the standard deviation over runs, the tokens, the share of truncated or empty proofs, \
and the cost. Missing
grades enter no mean. A proof is right with {GOOD} points or more."""


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="stats.sh", description=ABOUT)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl", help="graded lines")
    parser.add_argument("--markdown", action="store_true", help="print the tables in Markdown")
    with command():
        args = parser.parse_args(argv)
        print(text(read([path.expanduser() for path in args.files]), args.markdown))


def dispatch(args: Namespace, folder: Path) -> bool:
    """Print the statistics and write the page. Return False if no .jsonl file is named. Raises
    UserError."""
    files = [Path(name).expanduser() for name in args.results if name.endswith(".jsonl")]
    if not files:
        return False
    others = (
        args.live,
        args.transitions,
        args.scores,
        args.anyway,
        args.figures is not None,
        args.jsonl is not None,
        args.inspect,
    )
    if any(others) or len(files) < len(args.results):
        raise UserError(
            "with FILE.jsonl, report.sh accepts only such files, --markdown and --out. Remove the "
            "others"
        )
    runs = read(files)
    if args.markdown:
        print(text(runs, markdown=True))
        return True
    out = args.out or files[0].with_suffix(".html")
    write_atomically(out, html(runs, files[0].stem))
    print(f"{text(runs)}\n\nreport  {out} ({os.path.getsize(out) / 1e6:.1f} MB)")
    return True


def html(runs: Runs, title: str) -> Iterator[bytes]:
    """Yield the page in pieces."""
    every = [(run, line) for run, lines in runs.items() for line in lines]
    rows = [asdict(line) | {"run": run, "tokens": line.run["output_tokens"]} for run, line in every]
    tables = [table.page() for table in tables_of(runs)]
    known = {
        "title": title,
        "notes": notes(runs),
        "tables": tables,
        "rows": rows,
        "runs": len(runs),
    }
    known |= {"most": MAX_POINTS, "good": GOOD}
    return page.rendered(WEB / "graded.html", SCRIPTS, page.STYLES, known)


def text(runs: Runs, markdown: bool = False) -> str:
    """Return the tables and the notes, for a terminal or in Markdown."""
    shown_tables, more = tables_of(runs), notes(runs)
    if markdown:
        parts = [
            table.markdown() + (f"\n\n{table.legend_end}" if table.legend_end else "")
            for table in shown_tables
        ]
        return "\n\n".join([*parts, *(f"- {note}" for note in more)])
    width = terminal.columns()
    parts = [f"{table.text(width)}\n\n{table.legend(width)}".rstrip() for table in shown_tables]
    return "\n\n".join([*parts, "\n".join(terminal.wrapped(note, "  ") for note in more)]).rstrip()


def tables_of(runs: Runs) -> list[Table]:
    """Tabulate points (of all problems, over runs, and by part of the set), runs, and tokens."""
    table = tables.points_by_group(_metrics(runs))
    columns = [replace(table.columns[0], head="part"), *table.columns[1:]]
    return [replace(table, title="Points", columns=columns), over_runs(runs), tokens(runs)]


def over_runs(runs: Runs) -> Table:
    """Tabulate each run. The best and the worst run are marked if they differ."""
    means = {name: _metrics({name: lines})["points"]["value"] for name, lines in runs.items()}
    known = [mean for mean in means.values() if mean is not None]
    marks = {max(known): " (best)", min(known): " (worst)"} if len(set(known)) > 1 else {}
    columns = {
        "run": [f"{name}{marks.get(mean, '')}" for name, mean in means.items()],
        "proofs": [f"{len(lines):,}" for lines in runs.values()],
        f"points of {MAX_POINTS}": [
            NONE if mean is None else f"{MAX_POINTS * mean:.3f}" for mean in means.values()
        ],
        "%": [NONE if mean is None else f"{100 * mean:.1f}" for mean in means.values()],
        "truncated or empty": [
            f"{100 * fmean(line.is_cut for line in lines):.1f}%" for lines in runs.values()
        ],
        "tokens written": [_total(lines, "run", "output_tokens") for lines in runs.values()],
        "cost": [_total(lines, "run", "cost", format_dollars) for lines in runs.values()],
        "cost of grading": [
            _total(lines, "grading", "cost", format_dollars) for lines in runs.values()
        ],
    }
    about = f"mean points over problems, in points of {MAX_POINTS} and in %"
    return Table("Runs", [Column(head, cells) for head, cells in columns.items()], legend_end=about)


def tokens(runs: Runs) -> Table:
    """Tabulate the output tokens of proofs: least, mean and most, for all, right and wrong proofs,
    and of gradings."""
    lines = [*chain.from_iterable(runs.values())]
    graded = [line for line in lines if line.points_share is not None]
    kinds = {
        "all proofs": [line.run for line in lines],
        f"right ({GOOD} points or more)": [
            line.run for line in graded if is_good(line.points_share or 0)
        ],
        "wrong": [line.run for line in graded if not is_good(line.points_share or 0)],
        "gradings": [line.grading for line in lines],
    }
    known = [
        [count for cost in of if (count := cost["output_tokens"]) is not None]
        for of in kinds.values()
    ]
    figures: dict[str, Callable[[list[float]], float]] = {
        "least": min,
        "mean": fmean,
        "most": max,
        "sum": sum,
    }
    return Table(
        "Tokens written",
        [
            Column("texts", [*kinds]),
            Column("counted", [f"{len(of):,}" for of in known]),
            *(
                Column(name, [f"{figure(of):,.0f}" if of else NONE for of in known])
                for name, figure in figures.items()
            ),
        ],
        legend_end="output tokens, thinking included",
    )


def notes(runs: Runs) -> list[str]:
    """Return notes on proofs without points, and on runs with different problems."""
    found = tables.lines_on_missing_grades(_metrics(runs))
    if len({frozenset(line.problem for line in run) for run in runs.values()}) > 1:
        found.append("the runs have different problems, so their means are not comparable")
    return found


def _metrics(runs: Runs) -> dict[str, Any]:
    found = [
        Proved(
            line.problem,
            line.groups,
            [{"points_share": line.points_share, "grade": line.points_share, "ungraded": line.why}],
            run,
        )
        for run, lines in enumerate(runs.values())
        for line in lines
    ]
    proofs: dict[str, Any] = metrics(found, len(runs))["proofs"]
    return proofs


def _total(
    lines: Sequence[Line],
    of: str,
    name: str,
    show: Callable[[float], str] = lambda sum: f"{sum:,.0f}",
) -> str:
    """Format the sum of a cost over lines. "≥" marks a sum that lacks unknown costs."""
    every = [getattr(line, of)[name] for line in lines]
    known = [each for each in every if each is not None]
    return (
        "unknown" if not known else f"{'≥ ' if len(known) < len(every) else ''}{show(sum(known))}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
