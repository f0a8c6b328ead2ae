"""Report searches in Lean for report.sh (harness/results/registry.py): tables as text, and a page
with theorems and trees.

It reads only files that searches wrote. The page is one HTML file that needs no network. The page
contains a model's texts as packed JSON and shows them as text nodes, so that they can't run as code
(harness/report/page.py).
"""

import os
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import write_atomically
from harness.report import page, texts
from labs.lean import trajectories
from labs.lean.outcome import Outcome
from labs.lean.searches import Report, Searches, read
from labs.lean.tables import markdown, show, tables
from labs.lean.theorem import proof
from labs.lean.trajectories import POSITIVE

NAME = "lean"  # the name of all searches for report.sh, and their folder in the results
WEB = Path(__file__).resolve().parent / "web"
SCRIPTS = (page.WEB / "base.js", page.WEB / "tables.js", WEB / "tree.js", WEB / "lean.js")
STYLES = (page.WEB / "report.css", page.WEB / "tables.css", WEB / "lean.css")
# the fields of outcomes that the page shows
SHOWN = ("name", "statement", "nodes", "at", "reason", "why", "failures")
PART = 20  # so many theorems' trees are packed together. A browser unpacks them on demand


def dispatch(args: Namespace, folder: Path) -> bool:
    """Print the tables and write the page. Return False if `args.results` lacks NAME. Raises
    UserError."""
    if NAME not in args.results:
        return False
    others = (
        args.live,
        args.transitions,
        args.scores,
        args.anyway,
        args.figures is not None,
        args.jsonl is not None,
        args.inspect,
        args.results[1:],
    )
    if any(others):
        raise UserError(
            f"report.sh {NAME} accepts only --markdown or --out FILE. Remove all other arguments"
        )
    report = read(folder / NAME)
    if args.markdown:
        print(markdown(report))
    else:
        out = args.out or folder / NAME / "report.html"
        write_atomically(out, html(report))
        print(f"{show(report)}\n\nreport  {out} ({os.path.getsize(out) / 1e6:.1f} MB)")
    return True


def html(report: Report) -> Iterator[bytes]:
    """Yield the page in pieces. Raises UserError if a search's tree can't be read."""
    numbers = {searches.label: number for number, searches in enumerate(report.searches)}
    parts: list[tuple[str, str]] = []
    for number, searches in enumerate(report.searches):
        parts += _trees(number, searches)
    data = {
        "notes": report.notes,
        "tables": [table.page(numbers) for table in tables(report)],
        "runs": list(map(_run, report.searches)),
    }
    return page.rendered(WEB / "lean.html", SCRIPTS, STYLES, data, parts)


def _run(searches: Searches) -> dict[str, Any]:
    """Return the page's data about searches."""
    theorems = [_theorem(i, outcome) for i, outcome in enumerate(searches.outcomes)]
    return {"name": searches.label, "nodes": searches.nodes, "theorems": theorems}


def _theorem(i: int, outcome: Outcome) -> dict[str, Any]:
    lean = proof(outcome.statement, outcome.proof) if outcome.is_proved else None
    return {name: getattr(outcome, name) for name in SHOWN} | {
        "proved": outcome.is_proved,
        "tactics": len(outcome.proof),
        "seconds": outcome.seconds["all"],
        "lean": lean,
        "expanded": len(outcome.unique),
        "part": i // PART,
    }


def _trees(number: int, searches: Searches) -> Iterator[tuple[str, str]]:
    """Yield parts of the packed trees of searches, with ids such as "t0-3"."""
    for begin in range(0, len(searches.outcomes), PART):
        part = searches.outcomes[begin : begin + PART]
        trees = {i: _tree(searches, theorem) for i, theorem in enumerate(part, begin)}
        yield f"t{number}-{begin // PART}", texts.packed(trees).decode()


def _tree(searches: Searches, theorem: Outcome) -> list[list[Any]]:
    """Return a row for each state: number, parent, tactic, goals, log probability, energy, whether
    on the path."""
    rows = trajectories.read(trajectories.part(searches.folder, theorem.name)).to_pylist()
    return [
        [
            row["state_id"],
            row["parent_state_id"],
            row["tactic_applied"],
            row["state_pp"],
            round(row["llm_log_prob"], 6),
            row["ebm_score"],
            row["label"] == POSITIVE,
        ]
        for row in rows
    ]
