"""Show results as one HTML file and as text: `bash scripts/report.sh [RESULTS …]`.

Without names, the report shows the newest results of each experiment, or partial results if none
are complete.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from core.base.errors import Parser, UserError, command, one_line
from core.base.files import results_dir
from core.base.terminal import say, wrapped
from harness.report import compare, jsonl, page, plot, tables
from harness.report.data import Results
from harness.results import registry
from harness.results.find import comparison, comparisons, found
from harness.results.warnings import is_ungraded


def show(runs: Sequence[Results], anyway: bool = False) -> None:
    """Print the tables of `runs` and compare the runs. `anyway` compares them even if problem sets
    or models differ."""
    for run in runs:
        print(tables.text(run.document, has_legend=run is runs[-1]))
        if (
            len(run.head.metrics.steps) > 1
            and not run.head.metrics.proofs
            and not is_ungraded(run.document)
        ):
            ends = [
                (problem.steps[0], problem.steps[-1]) for problem in run.problems if problem.steps
            ]
            were_right = [tuple((step.majority_correct or 0) > 0.5 for step in of) for of in ends]
            lost, won = were_right.count((True, False)), were_right.count((False, True))
            counted = ", counted in each run" if run.head.runs else ""
            text = (
                f"majority right at t=0 and wrong at the end: {lost} problems, the reverse: "
                f"{won}{counted}"
            )
            print(f"\n{wrapped(text)}")
        for warning in run.head.warnings:
            print(wrapped(f"note: {one_line(warning)}", "  "))
        print()
    if len(runs) > 1:
        try:
            print(compare.table([compare.result(run) for run in runs], anyway) + "\n")
        except UserError as error:
            print(wrapped(f"note: not compared: {one_line(str(error))}", "  ") + "\n")


def figures(runs: Sequence[Results], folder: Path) -> list[Path]:
    """Draw accuracy or points of each graded run as PNG and SVG. For several graded runs, also draw
    their frontier."""
    for run in runs:
        if is_ungraded(run.document):
            say(f"note: {run.name} is not graded, so it has no figure", sys.stderr)
    drawn, runs = (
        [],
        [run for run in runs if not is_ungraded(run.document) and run.head.metrics.steps],
    )
    for ending in ("png", "svg"):
        for run in runs:
            what = "points" if tables.is_of_proofs(run.document) else "accuracy"
            drawn.append(folder / f"{run.name}-{what}.{ending}")
            plot.plot(run.document, drawn[-1])
        if len(runs) > 1:
            drawn.append(folder / f"frontier.{ending}")
            names = tables.labels(runs, 60)
            named = [
                run.document | {"experiment": name} for run, name in zip(runs, names, strict=True)
            ]
            plot.frontier(named, drawn[-1])
    return drawn


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="report.sh", description="Show results as an HTML page and as tables.")
    add = parser.add_argument
    add(
        "results",
        nargs="*",
        help="names of results or comparisons, or paths of .json files (default: each experiment's newest results). "
        + ". ".join(entry["named"] for entry in registry.entries().values() if "named" in entry),
    )
    add("--out", type=Path, help="the HTML file (default: next to the first results)")
    add(
        "--all-inside", action="store_true", help="put all texts into the page, whatever their size"
    )
    add(
        "--anyway",
        action="store_true",
        help="also print comparisons across problem sets and models",
    )
    add(
        "--live",
        action="store_true",
        help="serve the page on 127.0.0.1 and refresh it during a run",
    )
    add("--port", type=int, default=30200, help="port of --live (default: 30200, 0: any free port)")
    add(
        "--figures",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="DIR",
        help="only draw PNG and SVG (default: figures)",
    )
    add(
        "--jsonl",
        nargs="?",
        const="",
        metavar="FILE",
        help="only write JSON Lines. Each line has a problem's columns, model_solution (a text with the last vote's "
        "answer, or a proof), cost_run, and history (all prompts and replies, with grades). FILE "
        "can be - for standard output (default: NAME.jsonl next to the results)",
    )
    add(
        "--markdown",
        action="store_true",
        help="only print tables in Markdown (for STaR runs, lean and FILE.jsonl)",
    )
    add("--inspect", type=Path, metavar="DIR", help="only write logs for inspect_ai's viewer")
    with command():
        args = parser.parse_args(argv)
        folder = results_dir()
        if registry.dispatch(args, folder):
            return None
        if args.live:
            from harness.report import live

            return live.serve(args.results, folder, args.port)
        if args.jsonl is not None:
            paths = found(args.results, folder)
            if args.jsonl and len(paths) > 1:
                raise UserError(
                    f"--jsonl {args.jsonl} accepts one results file, not {len(paths)}. Name one "
                    "before it"
                )
            for path in paths:
                jsonl.write(path, args.jsonl)
            return None
        compared = comparison(args.results, folder)
        lab = registry.report_of(compared) if compared else None
        if args.markdown:
            if not (lab and compared):
                raise UserError(
                    "--markdown accepts only STaR runs, lean or FILE.jsonl. Example: 21_star "
                    "--markdown"
                )
            return print(lab.markdown(compared))
        runs = [Results(path) for path in found(args.results, folder)]
        if args.figures is not None:
            target = args.figures if args.figures != Path() else folder / "figures"
            drawn = lab.figures(compared, target) if lab and compared else figures(runs, target)
            print("\n".join(f"figure  {path}" for path in drawn))
        elif args.inspect:
            try:
                from harness.report import inspect_log
            except ImportError:
                raise UserError(
                    "--inspect needs inspect_ai, which is not installed. Run: bash setup.sh inspect"
                ) from None
            for path in inspect_log.write(runs, args.inspect):
                print(f"log     {path}")
            print(f"view them with: .venv/bin/inspect view --log-dir {args.inspect}")
        else:
            one = compared.name if compared else runs[0].name if len(runs) == 1 else "report"
            out = args.out or (folder if compared else runs[0].path.parent) / f"{one}.html"
            view = lab.page(compared, runs) if lab and compared else None
            paths = page.write(runs, out, args.all_inside, None if lab else compared, view)
            if compared:
                print(lab.show(compared) if lab else page.table_of(compared).rstrip())
            else:
                show(runs, args.anyway)
            if not args.results and (others := ", ".join(sorted(comparisons(folder)))):
                print(wrapped(f"note: not shown without their names: {others}", "  "))
            for run in runs:
                if run.missing:
                    lacking = (
                        f"{run.missing} completions of {run.name} are in no journal. Their texts "
                        "are not shown"
                    )
                    print(wrapped(f"note: {lacking}", "  "))
            print(f"report  {paths[0]} ({os.path.getsize(paths[0]) / 1e6:.1f} MB)")
            if len(paths) > 1:
                print(
                    f"texts   {paths[1]} (keep the folder next to the report, or use --all-inside "
                    "for one file)"
                )


if __name__ == "__main__":
    main(sys.argv[1:])
