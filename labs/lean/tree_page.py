"""The page of searches in Lean: their tables, their theorems, and the tree of each search. One HTML file that needs no
network; what a model wrote goes in as packed JSON and comes out as text nodes (core/report/page.py says more)."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from core.base.files import write_atomically
from core.report import page, texts
from core.results.write import now
from labs.lean import report as lean
from labs.lean import theorem, trajectories
from labs.lean.outcome import Outcome
from labs.lean.report import Report, Searches
from labs.lean.trajectories import POSITIVE

WEB = Path(__file__).resolve().parent / "web"
SCRIPTS = (page.WEB / "base.js", page.WEB / "tables.js", WEB / "lean.js")
PART = 1_000_000  # characters of the trees that are packed together, about: a browser unpacks them when one is opened

Part = tuple[str, str]  # an id such as "t0-3" (searches, place among their parts), and packed trees


def write(found: Report, path: Path) -> Path:
    """Write the page to `path`. Raises UserError, also where a tree can't be read."""
    write_atomically(path, html(found))
    return path


def html(found: Report) -> Iterator[bytes]:
    parts, runs = list[Part](), list[dict[str, Any]]()
    for number, each in enumerate(found.searches):
        run, packed = _run(number, each)
        runs.append(run)
        parts += packed
    numbers = {each.label: number for number, each in enumerate(found.searches)}
    known = {
        "notes": found.notes,
        "tables": [table.page(numbers) for table in lean.tables(found)],
        "runs": runs,
    }
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


def _run(number: int, of: Searches) -> tuple[dict[str, Any], list[Part]]:
    """What the page lists of some searches, and their trees."""
    theorems, parts = list[dict[str, Any]](), list[Part]()
    trees: dict[int, list[list[Any]]] = {}
    size = 0

    def pack() -> None:
        nonlocal trees, size
        if trees:
            parts.append((f"t{number}-{len(parts)}", texts.packed(trees).decode()))
        trees, size = {}, 0

    for place, each in enumerate(of.outcomes):
        theorems.append(_theorem(each) | {"part": len(parts)})
        trees[place] = _tree(trajectories.read(trajectories.part(of.folder, each.name)).to_pylist())
        size += len(json.dumps(trees[place]))
        if size > PART:
            pack()
    pack()
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
    """Of each state its number, its parent's, the tactic that led to it, its goals, the tactic's log probability, its
    energy, and whether it is on the path of the proof."""
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
