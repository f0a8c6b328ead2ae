"""The report of searches in Lean, for report.sh (core/results/labs.py): tables as text, and a page with their theorems
and the tree of each search.

The page is one HTML file that needs no network; what a model wrote goes in as packed JSON and comes out as text nodes
(core/report/page.py says more)."""

import json
import math
import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import write_atomically
from core.base.terminal import columns, wrapped
from core.report import page, texts
from core.report.table import Table
from core.results.write import now
from labs.lean import summary, theorem, trajectories
from labs.lean.outcome import Outcome
from labs.lean.summary import LEGEND, Report, Searches, tables
from labs.lean.trajectories import POSITIVE

NAME = "lean"  # all searches in Lean, and their folder in the results
WEB = Path(__file__).resolve().parent / "web"
SCRIPTS = (page.WEB / "base.js", page.WEB / "tables.js", WEB / "lean.js")
PART = 1_000_000  # characters of the trees that are packed together, about: a browser unpacks them when one is opened


def answers(args: Namespace, folder: Path) -> bool:
    """Print the tables of the searches, and write the page, if NAME is among the results. Raises UserError."""
    if NAME not in args.results:
        return False
    others = (args.live, args.anyway, args.figures is not None, args.jsonl is not None, args.inspect, args.results[1:])
    if any(others):
        raise UserError(f"{NAME} stands alone, with --markdown or --out FILE at most. Leave out the rest")
    found = summary.read(folder / NAME)
    if args.markdown:
        print("\n\n".join([*(table.markdown() for table in tables(found)), _noted([*found.notes, *LEGEND])]))
    else:
        out = args.out or folder / NAME / "report.html"
        write_atomically(out, html(found))
        print(f"{show(found)}\n\nreport  {out} ({os.path.getsize(out) / 1e6:.1f} MB)")
    return True


def is_folder(folder: Path) -> bool:
    """Return False: report.sh shows searches under NAME only, and they are no results of an experiment."""
    return False


# Text


def show(found: Report) -> str:
    """Write all tables as text beside the searches. Return them, fit for the terminal."""
    made, notes, path = tables(found), [*found.notes, *LEGEND], found.folder / "tables.txt"
    whole, fits = (_text(made, notes, width) for width in (0, columns()))
    write_atomically(path, f"{whole}\n".encode())
    return fits if fits == whole else f"{fits}\nall figures: {path}"


def overview(folder: Path) -> str:
    """Format what the iterations in the folder `lean` of results gained, for the terminal. Raises UserError."""
    found = summary.read(folder)
    return _text(summary.over_iterations(found) or summary.by_nodes(found), found.notes, columns())


def _text(made: Sequence[Table], notes: Sequence[str], width: int) -> str:
    parts = [*(table.text(width) for table in made), wrapped(_noted(notes), "  ", width)]
    return "\n\n".join(filter(None, parts))


def _noted(notes: Sequence[str]) -> str:
    return "\n".join(f"note: {line}" for line in notes)


# The page


def html(found: Report) -> Iterator[bytes]:
    """Yield the page, piece by piece. Raises UserError if a tree can't be read."""
    parts, runs = list[tuple[str, str]](), list[dict[str, Any]]()
    for number, each in enumerate(found.searches):
        run, packed = _run(number, each)
        runs.append(run)
        parts += packed
    numbers = {each.label: number for number, each in enumerate(found.searches)}
    known = {"notes": found.notes, "tables": [table.page(numbers) for table in tables(found)], "runs": runs}
    scripts = ("\n".join(path.read_text() for path in SCRIPTS),)
    css = "".join(path.read_text() for path in (page.WEB / "report.css", WEB / "lean.css"))
    pieces = page.template(WEB / "lean.html").generate(
        known=known,
        made=now(),
        data=texts.packed(known).decode(),
        parts=parts,
        scripts=scripts,
        style=css,
        policy=page.policy(scripts, css, "", "'none'"),
    )
    return (piece.encode(errors="replace") for piece in pieces)  # halves of surrogate pairs can't be encoded


def _run(number: int, of: Searches) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return what the page lists of some searches, and their packed trees, each part with an id such as "t0-3"."""
    theorems, parts = list[dict[str, Any]](), list[tuple[str, str]]()
    trees: dict[int, list[list[Any]]] = {}
    size = 0
    for place, each in enumerate(of.outcomes):
        theorems.append(_theorem(each) | {"part": len(parts)})
        trees[place] = _tree(trajectories.read(trajectories.part(of.folder, each.name)).to_pylist())
        size += len(json.dumps(trees[place]))
        if size > PART or place == len(of.outcomes) - 1:
            parts.append((f"t{number}-{len(parts)}", texts.packed(trees).decode()))
            trees, size = {}, 0
    return {"name": of.label, "nodes": of.nodes, "theorems": theorems}, parts


def _theorem(of: Outcome) -> dict[str, Any]:
    return {
        "name": of.name,
        "statement": of.statement,
        "proved": of.is_proved,
        "nodes": of.nodes,
        "at": of.at,
        "reason": of.reason,
        "why": of.why,
        "tactics": len(of.proof),
        "lean": theorem.proof(of.statement, of.proof) if of.is_proved else None,
        "seconds": of.seconds["all"],
        "expanded": len(of.unique),
        "failures": of.failures,
    }


def _tree(rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Return of each state its number, its parent's, the tactic that led to it, its goals, the tactic's log
    probability, its energy, and whether it is on the path of the proof."""
    return [
        [
            row["state_id"],
            row["parent_state_id"],
            row["tactic_applied"],
            row["state_pp"],
            _number(row["llm_log_prob"]),
            _number(row["ebm_score"]),
            row["label"] == POSITIVE,
        ]
        for row in sorted(rows, key=lambda row: row["state_id"])
    ]


def _number(value: float | None) -> float | None:
    """JSON has no other numbers."""
    return round(value, 6) if value is not None and math.isfinite(value) else None
