"""Show results as one HTML file and as text: `bash scripts/report.sh [RESULTS …]`.

Without names, the command lists the results. With --all, it shows the newest results of each
experiment, or partial results if none are complete.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from core.base.errors import Parser, UserError, command, one_line
from core.base.files import results_dir
from core.base.terminal import heartbeat, say, wrapped
from harness.report import (
    compare,
    jsonl,
    page,
    plot,
    run_table,
    scores_table,
    tables,
    transitions_table,
    votes,
)
from harness.report.data import Results
from harness.report.listing import Listing
from harness.results import registry, textless
from harness.results.find import comparison, comparisons, results_files
from harness.results.model import StepResult, has_scores
from harness.results.warnings import is_ungraded

JSONL = (
    "only write JSON Lines. Each line has a problem's columns, model_solution (a text with the "
    "last vote's answer, or a proof), cost_run, and history (all prompts and replies, with "
    "grades). FILE can be - for standard output (default: NAME.jsonl next to the results)"
)

ABOUT = (
    "List all results, or show some as an HTML page and as tables, with a legend of the columns."
)


def show(runs: Sequence[Results], anyway: bool = False) -> None:
    """Print the tables of `runs` and compare the runs. `anyway` compares them even if problem sets
    or models differ."""
    for run in runs:
        print(run_table.text(run.document, has_legend=run is runs[-1]))
        has_answers = not run.head.metrics.proofs and not is_ungraded(run.document)
        if len(run.head.metrics.steps) > 1 and has_answers:
            print(f"\n{wrapped(_changes(run))}")
        for warning in run.head.warnings:
            print(wrapped(f"note: {one_line(warning)}", "  "))
        print()
    if len(runs) > 1:
        try:
            print(compare.table([compare.result(run) for run in runs], anyway) + "\n")
        except UserError as error:
            print(wrapped(f"note: not compared: {one_line(str(error))}", "  ") + "\n")


def _changes(run: Results) -> str:
    """Count the problems whose vote was wrong in the first step and is right in the last, and the
    reverse. A vote on answers with scores is right if it has the full score."""
    are_scores = has_scores(run.document)
    lost = 0
    won = 0
    for problem in run.problems:
        if not problem.steps:
            continue
        was_right = _is_right(problem.steps[0], are_scores)
        is_right = _is_right(problem.steps[-1], are_scores)
        if was_right and not is_right:
            lost += 1
        elif is_right and not was_right:
            won += 1
    counted = ", counted in each run" if run.head.runs else ""
    change = "wrong at t=0 and right at the end"
    if are_scores:
        change = "without the full score at t=0 and with it at the end"
    return f"majority {change}: {won} problems, the reverse: {lost}{counted}"


def _is_right(step: StepResult, are_scores: bool) -> bool:
    score = step.majority_correct or 0
    return score == 1 if are_scores else score > 0.5


def figures(runs: Sequence[Results], folder: Path) -> list[Path]:
    """Draw accuracy or points of each graded run as PNG and SVG. For several graded runs, also draw
    their frontier."""
    graded = []
    for run in runs:
        if is_ungraded(run.document):
            say(f"note: {run.name} is not graded, so it has no figure", sys.stderr)
        elif run.head.metrics.steps:
            graded.append(run)
    names = tables.labels(graded, 60)
    named = [run.document | {"experiment": name} for run, name in zip(graded, names, strict=True)]
    all_votes = [votes.curve(run) for run in graded]
    paths = []
    for ending in ("png", "svg"):
        for run, curve in zip(graded, all_votes, strict=True):
            metric = tables.accuracy_or_score(run.document)
            if tables.is_of_proofs(run.document):
                metric = "points"
            paths.append(folder / f"{run.name}-{metric}.{ending}")
            plot.plot(run.document, paths[-1], curve)
        if len(graded) > 1:
            paths.append(folder / f"frontier.{ending}")
            plot.frontier(named, all_votes, paths[-1])
    return paths


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(prog="report.sh", description=ABOUT)
    add = parser.add_argument
    names = [entry["named"] for entry in registry.entries().values() if "named" in entry]
    kinds = "names of results or comparisons, or paths of .json files (default: list all results)"
    add("results", nargs="*", help=". ".join([kinds, *names]))
    add("--all", action="store_true", help="show the newest results of each name on one page")
    add("--out", type=Path, help="the HTML file (default: next to the first results)")
    add("--all-inside", action="store_true", help="put all texts into the page, of any size")
    add("--anyway", action="store_true", help="also compare across problem sets and models")
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
    add("--jsonl", nargs="?", const="", metavar="FILE", help=JSONL)
    add("--markdown", action="store_true", help="only print the tables, in Markdown")
    add(
        "--transitions",
        action="store_true",
        help="only print how often aggregations of right and wrong candidates are right",
    )
    add(
        "--scores",
        action="store_true",
        help="only print how well scores tell right from wrong candidates, and what they choose",
    )
    add("--inspect", type=Path, metavar="DIR", help="only write logs for inspect_ai's viewer")
    add(
        "--without-texts",
        type=Path,
        metavar="DIR",
        help="only write the results without statements and texts, to publish them",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    with command():
        args = parser().parse_args(argv)
        folder = results_dir()
        if registry.dispatch(args, folder):
            return
        if args.live:
            from harness.report import live

            live.serve(args.results, folder, args.port)
        elif args.jsonl is not None:
            _write_lines(args, folder)
        elif args.without_texts:
            with heartbeat("writing results without texts"):
                paths = textless.write(results_files(args.results, folder), args.without_texts)
            print("\n".join(f"results {path}" for path in paths))
        else:
            _report(args, folder)


def _write_lines(args: argparse.Namespace, folder: Path) -> None:
    paths = results_files(args.results, folder)
    if args.jsonl and len(paths) > 1:
        raise UserError(
            f"--jsonl {args.jsonl} accepts one results file, not {len(paths)}. Name one before it"
        )
    with heartbeat("writing JSON Lines"):
        for path in paths:
            jsonl.write(path, args.jsonl)


def _report(args: argparse.Namespace, folder: Path) -> None:
    """Print Markdown, draw figures, write logs, or write the page and print its tables."""
    compared = comparison(args.results, folder)
    lab = registry.report_of(compared) if compared else None
    if lab and compared and args.markdown:
        print(lab.markdown(compared))
        return
    if _asks_for_list(args):
        listing = Listing.of_folder(folder)
        print(listing.markdown() if args.markdown else listing.text())
        return
    with heartbeat("reading results"):
        runs = [Results(path) for path in results_files(args.results, folder)]
    if args.figures is not None:
        target = folder / "figures" if args.figures == Path() else args.figures
        with heartbeat(f"drawing figures in {target}"):
            paths = lab.figures(compared, target) if lab and compared else figures(runs, target)
        print("\n".join(f"figure  {path}" for path in paths))
    elif args.inspect:
        _write_logs(runs, args.inspect)
    elif args.transitions:
        formatted = transitions_table.markdown if args.markdown else transitions_table.text
        print(formatted(runs))
    elif args.scores:
        formatted = scores_table.markdown if args.markdown else scores_table.text
        print(formatted(runs))
    elif args.markdown:
        print(markdown(runs, compared, args.anyway))
    else:
        _write_page(args, folder, runs, compared, lab)


def _asks_for_list(args: argparse.Namespace) -> bool:
    """Return whether the arguments name no results and ask for no page or file of all results."""
    asks_for_page = args.all or args.out or args.all_inside or args.anyway
    asks_for_files = args.figures is not None or args.inspect
    asks_for_table = args.transitions or args.scores
    return not (args.results or asks_for_page or asks_for_files or asks_for_table)


def markdown(runs: Sequence[Results], compared: Path | None, anyway: bool = False) -> str:
    """Format the tables of `runs` in Markdown, and their comparison. The table of a comparison's
    folder is a block of text."""
    if compared:
        return f"```\n{page.table_of(compared).rstrip()}\n```"
    parts = []
    for run in runs:
        parts.append(run_table.markdown(run.document))
        parts += [f"- {one_line(warning)}" for warning in run.head.warnings]
    if len(runs) > 1:
        try:
            parts.append(compare.markdown([compare.result(run) for run in runs], anyway))
        except UserError as error:
            parts.append(f"- not compared: {one_line(str(error))}")
    return "\n\n".join(parts)


def _write_logs(runs: Sequence[Results], folder: Path) -> None:
    try:
        from harness.report import inspect_log
    except ImportError:
        raise UserError(
            "--inspect needs inspect_ai, which is not installed. Run: bash setup.sh inspect"
        ) from None
    with heartbeat(f"writing logs to {folder}"):
        paths = inspect_log.write(runs, folder)
    for path in paths:
        print(f"log     {path}")
    print(f"view them with: .venv/bin/inspect view --log-dir {folder}")


def _write_page(
    args: argparse.Namespace,
    folder: Path,
    runs: Sequence[Results],
    compared: Path | None,
    lab: registry.Report | None,
) -> None:
    """Write the page, and print its tables, notes and path."""
    out = args.out or _page_path(folder, runs, compared)
    with heartbeat(f"writing {out}"):
        view = lab.page(compared, runs) if lab and compared else None
        paths = page.write(runs, out, args.all_inside, None if lab else compared, view)
    if not compared:
        show(runs, args.anyway)
    elif lab:
        print(lab.show(compared))
    else:
        print(page.table_of(compared).rstrip())
    others = ", ".join(sorted(comparisons(folder)))
    if others and not args.results:
        print(wrapped(f"note: not shown without their names: {others}", "  "))
    for run in runs:
        if run.missing:
            lacking = f"{run.missing} completions of {run.name} are in no journal"
            print(wrapped(f"note: {lacking}. Their texts are not shown", "  "))
    print(f"report  {paths[0]} ({os.path.getsize(paths[0]) / 1e6:.1f} MB)")
    if len(paths) > 1:
        advice = "keep the folder next to the report, or use --all-inside for one file"
        print(f"texts   {paths[1]} ({advice})")


def _page_path(folder: Path, runs: Sequence[Results], compared: Path | None) -> Path:
    """Return the default path of the page."""
    if compared:
        return folder / f"{compared.name}.html"
    name = runs[0].name if len(runs) == 1 else "report"
    return runs[0].path.parent / f"{name}.html"


if __name__ == "__main__":
    main(sys.argv[1:])
