"""Look at results: one HTML file, and the same figures as text. `bash scripts/report.sh [RESULTS …]`.

Without names, the newest results of each experiment are taken (the partial ones of runs that have no complete ones).
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from core.base.arguments import Parser
from core.base.errors import UserError, command, one_line
from core.base.files import read_text, results_dir
from core.base.terminal import columns, wrapped
from core.report import compare, jsonl, page, plot, tables
from core.report.labels import labels
from core.report.page import Run
from core.results import labs
from core.results.find import comparison, found
from core.results.warnings import is_ungraded


def show(runs: Sequence[Run], path: Path, anyway: bool = False) -> None:
    """Print the tables of `runs`; `anyway`: compare them across problem sets and models, too."""
    for run in runs:
        print(tables.steps_table(run.document).text(columns()))
        if is_ungraded(run.document):
            pass  # the table says so
        elif proofs := run.document["metrics"]["proofs"]:
            print("\n".join(["", tables.points_table(proofs), *tables.lacking(proofs)]))
        elif len(run.head.metrics.steps) == 1:
            print(f"\n{tables.pass_table(run.document)}")
        else:
            lost, won = fates(run)
            counted = ", counted in each run" if run.head.runs else ""
            came = f"majority right at t=0 and wrong at the end: {lost} problems; the reverse: {won}{counted}"
            print(f"\n{wrapped(came)}")
        if waits := tables.waits_table(run.document):
            print(f"\n{waits}")
        for warning in run.head.warnings:
            print(wrapped(f"note: {one_line(warning)}", "  "))
        print()
    if len(runs) > 1:
        try:
            print(compare.table([compare.read(str(run.path), path.parent) for run in runs], anyway) + "\n")
        except UserError as error:
            print(wrapped(f"note: not compared: {one_line(str(error))}", "  ") + "\n")


def fates(run: Run) -> tuple[int, int]:
    """(lost, won): problems whose majority was right at t=0 and is not at the end, and the reverse."""
    ends = [[(step.majority_correct or 0) > 0.5 for step in (p.steps[0], p.steps[-1])] for p in run.problems if p.steps]
    return sum(first and not last for first, last in ends), sum(last and not first for first, last in ends)


def figures(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Draw accuracy and, of several runs, the frontier, each as PNG and SVG. Results without grades are left out, and
    a note says so."""
    drawn = []
    for run in runs:
        if is_ungraded(run.document):
            print(f"note: {run.name} is not graded, so that there is nothing to draw of it", file=sys.stderr)
    runs = [run for run in runs if not is_ungraded(run.document) and run.head.metrics.steps]
    for ending in ("png", "svg"):
        for run in runs:
            what = "points" if tables.is_of_proofs(run.document) else "accuracy"
            drawn.append(folder / f"{run.name}-{what}.{ending}")
            plot.plot(run.document, drawn[-1])
        if len(runs) > 1:
            drawn.append(folder / f"frontier.{ending}")
            names = labels(runs, 60)
            named = [run.document | {"experiment": name} for run, name in zip(runs, names, strict=True)]
            plot.frontier(named, drawn[-1])
    return drawn


def lines(paths: Sequence[Path], to: str) -> None:
    """Results as lines of JSON, each beside its own file, or those of one in `to`."""
    if to and len(paths) > 1:
        raise UserError(
            f"{len(paths)} results are meant, and one file is named. Name one of the results: NAME --jsonl {to}"
        )
    for path in paths:
        out, count, notes = jsonl.write(path, to)
        for note in notes:
            print(f"note: {one_line(note)}", file=sys.stderr)
        if out != jsonl.STDOUT:
            print(f"jsonl   {out} ({count} lines)")


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="report.sh", description="Look at results: an HTML page, and tables.")
    parser.add_argument(
        "results",
        nargs="*",
        help="names of results, or paths of .json files; default: the newest of each experiment (older have a date); "
        + "; ".join(entry["named"] for entry in labs.registry().values() if "named" in entry),
    )
    parser.add_argument("--out", type=Path, help="the HTML file (default: beside the results)")
    parser.add_argument("--all-inside", action="store_true", help="put all texts into the page, however large it gets")
    parser.add_argument("--anyway", action="store_true", help="compare across problem sets and models, too")
    parser.add_argument("--live", action="store_true", help="serve the page on 127.0.0.1 and refresh it during a run")
    parser.add_argument("--port", type=int, default=30200, help="for --live (default: 30200; 0 takes any)")
    parser.add_argument(
        "--figures",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="DIR",
        help="PNG and SVG instead (default: in figures)",
    )
    parser.add_argument(
        "--jsonl",
        nargs="?",
        const="",
        metavar="FILE",
        help="instead, a line of JSON for each problem: columns of the problem file, model_solution (the text of the "
        "member that the last vote chose), cost_run, and history, with every candidate and whether it is right "
        "(default: NAME.jsonl beside the results; - is standard output)",
    )
    parser.add_argument(
        "--markdown", action="store_true", help="of STaR and of lean, the tables for a document instead"
    )
    parser.add_argument("--inspect", type=Path, metavar="DIR", help="logs for inspect_ai's viewer instead")
    with command():
        args = parser.parse_args(argv)
        folder = results_dir()
        if any(lab.answers(args, folder) for lab in labs.reports()):
            return None
        if args.live:
            from core.report import live

            return live.serve(args.results, folder, args.port)
        if args.jsonl is not None:
            return lines(found(args.results, folder), args.jsonl)
        if args.markdown:
            raise UserError("--markdown is of experiments in rounds. Name one, such as 21_star")
        runs, compared = [page.read(path) for path in found(args.results, folder)], comparison(args.results, folder)
        lab = labs.report_of(compared) if compared else None
        if args.figures is not None:
            target = args.figures if args.figures != Path() else folder / "figures"
            drawn = lab.figures(compared, target) if lab and compared else figures(runs, target)
            print("\n".join(f"figure  {path}" for path in drawn))
        elif args.inspect:
            try:
                from core.report import inspect_log
            except ImportError:
                raise UserError(
                    "--inspect needs inspect_ai, which is not installed. Run: bash setup.sh inspect"
                ) from None
            for path in inspect_log.write(runs, args.inspect):
                print(f"log     {path}")
            print(f"look at them with: inspect view --log-dir {args.inspect}")
        else:
            one = compared.name if compared else runs[0].name if len(runs) == 1 else "report"
            out = args.out or (folder if compared else runs[0].path.parent) / f"{one}.html"
            if lab and compared:
                made = page.write(runs, out, args.all_inside, view=lab.page(compared, runs))
                print(lab.show(compared))
            elif compared:
                table = read_text(compared / "table.txt", "the table", "Run the comparison again")
                made = page.write(runs, out, args.all_inside, table)
                print(table.rstrip())
            else:
                made = page.write(runs, out, args.all_inside)
                show(runs, out, args.anyway)
            for run in runs:
                if run.missing:
                    lacking = f"{run.missing} completions of {run.name} are in no journal; their texts are not shown"
                    print(wrapped(f"note: {lacking}", "  "))
            print(f"report  {made[0]} ({os.path.getsize(made[0]) / 1e6:.1f} MB)")
            if len(made) > 1:
                print(f"texts   {made[1]} (keep it beside the report; --all-inside makes it one file)")


if __name__ == "__main__":
    main(sys.argv[1:])
