"""Report searches in Lean for report.sh (harness/results/labs.py): tables as text, and a page with
theorems and trees.

It reads only files that searches wrote. The page is one HTML file that needs no network. The page
contains a model's texts as packed JSON and shows them as text nodes, so that they can't run as code
(harness/report/page.py).
"""

import os
import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from core.base.errors import UserError, one_line
from core.base.files import write_atomically
from core.base.stats import Paired, mean_by_problem
from core.base.terminal import columns, wrapped
from harness.report import page, texts
from harness.report.table import NONE, Column, Table
from harness.report.tables import chance, interval, shift
from harness.results.warnings import CONTINUES
from labs.lean import outcome, trajectories
from labs.lean.constants import budgets
from labs.lean.outcome import MOVE, PARTS, Outcome, read_record
from labs.lean.theorem import proof
from labs.lean.trajectories import POSITIVE
from labs.training import stages

ALONE, GUIDED, LEARNED, NOISE = "alone", "guided", "learned", "noise"  # kinds of searches
NAME = "lean"  # the name of all searches for report.sh, and their folder in the results
WEB = Path(__file__).resolve().parent / "web"
SCRIPTS = (page.WEB / "base.js", page.WEB / "tables.js", WEB / "tree.js", WEB / "lean.js")
STYLES = (page.WEB / "report.css", page.WEB / "tables.css", WEB / "lean.css")
# the fields of outcomes that the page shows
SHOWN = ("name", "statement", "nodes", "at", "reason", "why", "failures")
PART = 20  # so many theorems' trees are packed together. A browser unpacks them on demand
SOLVED = (
    "solved: percentage of theorems with a proof that Lean accepted, with a 95% interval over "
    "theorems. A node is a tactic sent to Lean. Rates within fewer nodes come from the same search"
)
DIFFERENCES = (
    "differences: percentage points, paired by theorem, with 95% intervals. p comes from a "
    "two-sided sign-flip test. Won, lost: theorems that only one search proves. Minus before "
    "(first): the gain over the previous (first) policy"
)
TAKEN = (
    "to a proof: median [lower, upper quartile] over proved theorems. Tactics a state: different "
    "tactics that the model proposed, on average. Training and noise searches also try EXPLORE's "
    "tactics, with up to TRAIN_NODES nodes"
)
TIME = (
    "time: the sum over parallel searches. Tactics read from the journal of an earlier search took "
    "no time"
)
ENERGY = (
    "AUC: the chance that a state on a proof's path has a lower energy than its sibling off the "
    "path, on held-out trees. Own: the AUC over states that the policy's own tactics reached, "
    "without probes"
)
LEGEND = (SOLVED, DIFFERENCES, TAKEN, TIME, ENERGY)  # explanations of the tables


def answers(args: Namespace, folder: Path) -> bool:
    """Print the tables and write the page. Return False if `args.results` lacks NAME. Raises
    UserError."""
    if NAME not in args.results:
        return False
    others = (
        args.live,
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
    found = read(folder / NAME)
    if args.markdown:
        print(
            "\n\n".join(
                [*(table.markdown() for table in tables(found)), _noted([*found.notes, *LEGEND])]
            )
        )
    else:
        out = args.out or folder / NAME / "report.html"
        write_atomically(out, html(found))
        print(f"{show(found)}\n\nreport  {out} ({os.path.getsize(out) / 1e6:.1f} MB)")
    return True


@dataclass(frozen=True)
class Searches:
    """Searches of theorems, sorted by the theorems' names. Each search had at most `nodes` nodes.
    `policy`: the iteration's number, -1 for the policy before iteration 0, or None for a baseline.
    `kind`: ALONE or GUIDED (of held-out theorems, without or with the energy), LEARNED or NOISE (of
    training theorems)."""

    label: str
    folder: Path
    outcomes: list[Outcome]
    nodes: int
    policy: int | None
    kind: str

    def rate(self, nodes: int = 0) -> str:
        """Format the percentage of theorems solved within `nodes` (0: self.nodes), with its
        interval."""
        return interval(
            mean_by_problem(outcome.solved(self.outcomes, nodes or self.nodes)).to_json()
        )

    @cached_property
    def proved(self) -> list[Outcome]:
        return [each for each in self.outcomes if each.is_proved]

    @cached_property
    def figures(self) -> dict[str, Any]:
        return outcome.figures(self.outcomes, [self.nodes])

    @property
    def share_proved(self) -> str:
        return f"{len(self.proved):,} of {len(self.outcomes):,}"


@dataclass(frozen=True)
class Report:
    """The contents of a results folder. `searches` are in the order in which they ran. `records`
    has parts of the records of iterations, by number."""

    folder: Path
    searches: list[Searches] = field(default_factory=list)
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of(self, policy: int, kind: str) -> Searches | None:
        """Return the searches of a policy and a kind, or None if they are missing."""
        return next(
            (each for each in self.searches if (each.policy, each.kind) == (policy, kind)), None
        )

    def add(
        self, label: str, folder: Path, nodes: int, policy: int | None = None, kind: str = ALONE
    ) -> None:
        """Add the finished searches in `folder` if there are any. Raises UserError."""
        outcomes = sorted(outcome.all_in(folder), key=lambda each: each.name)
        if len({each.run for each in outcomes}) > 1:
            self.notes.append(
                f"{label}: the searches differ in their constants, model, Lean or energy"
            )
        if outcomes:
            self.searches.append(Searches(label, folder, outcomes, nodes, policy, kind))

    def record(self, own: Path) -> dict[str, Any]:
        """Return the record in a folder, or {} if it is missing. Raises UserError."""
        if not (own / stages.NAME).exists():
            return {}
        record = read_record(own)
        try:
            config, searched, guided = (
                dict(record.get(name, {})) for name in ("config", "searched", "guided")
            )
            found = {"nodes": int(config["MAX_NODES"]), "learning": config.get("TRAIN_NODES")}
            found |= {name: guided[name]["value"] for name in ("auc", "auc_own") if guided}
        except (LookupError, TypeError, ValueError) as error:
            raise UserError(
                f"{own / stages.NAME} is not a record of searches ({error}). {MOVE}"
            ) from None
        if record.get("complete") is not True:
            self.notes.append(f"{own.name} is not complete ({CONTINUES})")
        return found | {"pairs": searched.get("pairs")}


def read(folder: Path) -> Report:
    """Read the results in `folder`. Raises UserError if it contains no searches or can't be
    read."""
    found = Report(folder)
    for own in sorted(
        path for path in folder.glob("baseline*") if path.name.replace("_", "").isalnum()
    ):
        if record := found.record(own):
            label = own.name.replace("_", ", ", 1)
            found.add(label, own / "trajectories", record["nodes"])
            found.add(f"{label}, index", own / "index" / "trajectories", record["nodes"])
    # Iterations that were put aside have longer names, which do not match.
    names = (re.fullmatch(r"iteration_(\d{1,4})", own.name) for own in folder.glob("iteration_*"))
    for number in sorted(int(match[1]) for match in names if match):
        own = folder / f"iteration_{number}"
        if record := found.record(own):
            found.records[number] = record
            if not number:
                found.add(_named(-1), own / "eval_before", record["nodes"], -1)
                found.add(
                    f"{_named(-1)}, energy", own / "eval_before_energy", record["nodes"], -1, GUIDED
                )
            found.add(
                f"{_named(number)}, training set",
                own / "trajectories",
                record["learning"],
                number,
                LEARNED,
            )
            found.add(f"{_named(number)}, noise", own / "noisy", record["learning"], number, NOISE)
            found.add(_named(number), own / "eval", record["nodes"], number)
            found.add(
                f"{_named(number)}, energy", own / "eval_energy", record["nodes"], number, GUIDED
            )
    if not found.searches:
        raise UserError(
            f"{folder} contains no finished search. Run one first: bash scripts/run.sh "
            "23_lean_baseline"
        )
    return found


def _named(policy: int) -> str:
    return f"iteration {policy}" if policy >= 0 else "first policy"


# Tables


def tables(found: Report) -> list[Table]:
    """Tabulate solve rates by budget, gains of iterations, costs of proofs, reasons for failure,
    and time."""
    ran = found.searches
    return [*by_nodes(found), *over_iterations(found), _taken(ran), *_unproved(ran), _time(ran)]


def by_nodes(found: Report) -> list[Table]:
    """Tabulate the solve rates within several node budgets."""
    rows = [each for each in found.searches if each.kind in (ALONE, GUIDED)]
    if not rows:
        return []
    known = sorted({nodes for each in rows for nodes in budgets(each.nodes)})
    shown = [_column("theorems", [f"{len(each.outcomes):,}" for each in rows], 1)]
    for place, nodes in enumerate(known):
        cells = [each.rate(nodes) if nodes <= each.nodes else None for each in rows]
        shown.append(
            _column(
                f"within {nodes:,}", cells, len(known) - place + 1 if place < len(known) - 1 else 0
            )
        )
    return [_of_searches("solved by number of nodes, %", rows, shown, SOLVED)]


def over_iterations(found: Report) -> list[Table]:
    """Tabulate the gain of each iteration, and the gain of its energy at equal nodes."""
    first, tables = found.of(-1, ALONE), list[Table]()
    if policies := [*([-1] if first else []), *found.records]:
        rows, learned = (
            [found.of(policy, kind) for policy in policies] for kind in (ALONE, LEARNED)
        )
        before = [
            _gain(found.of(policy - 1, ALONE), of)
            for policy, of in zip(policies, rows, strict=True)
        ]
        since_first = [_gain(first, of) if of is not first else None for of in rows]
        pairs = [found.records.get(policy, {}).get("pairs") for policy in policies]
        shown = [
            _column("policy", [*map(_named, policies)]),
            _column("nodes", [of and f"{of.nodes:,}" for of in rows], 7),
            _column("solved", [of and of.rate() for of in rows]),
            *_gains(before, ("minus before", "won, lost", "p"), (0, 3, 2)),
            *_gains(since_first, ("minus first", "won, lost (first)", "p (first)"), (1, 6, 5)),
            _column("training theorems proved", [of and of.share_proved for of in learned], 4),
            _column("pairs", [count and f"{count:,}" for count in pairs], 4),
        ]
        title = "iterations: held-out theorems that each policy solves without an energy, %"
        tables.append(Table(title, shown, _opens(rows), about=DIFFERENCES))
    if policies := [policy for policy in found.records if found.of(policy, GUIDED)]:
        alone, rows = ([found.of(policy, kind) for policy in policies] for kind in (ALONE, GUIDED))
        aucs = [
            [_number(found.records[policy].get(name), 3) for policy in policies]
            for name in ("auc", "auc_own")
        ]
        shown = [
            _column("policy", [*map(_named, policies)]),
            _column("without", [of and of.rate() for of in alone], 1),
            _column("with the energy", [of and of.rate() for of in rows], 1),
            *_gains([*map(_gain, alone, rows)], ("difference", "won, lost", "p"), (0, 0, 0)),
            _column("AUC", aucs[0]),
            _column("own", aucs[1]),
        ]
        title = (
            "energy: theorems that each policy solves without and with its energy, at equal nodes, "
            "%"
        )
        tables.append(Table(title, shown, _opens(rows), about=ENERGY))
    return tables


def _gain(before: Searches | None, after: Searches | None) -> Paired | None:
    """Compare searches by theorem. Return None if one is missing, or if they differ in theorems or
    nodes."""
    if before is None or after is None or before.nodes != after.nodes:
        return None
    theorems, others = ([each.statement for each in of.outcomes] for of in (before, after))
    return (
        outcome.compared(before.outcomes, after.outcomes, after.nodes)
        if theorems == others
        else None
    )


def _taken(rows: Sequence[Searches]) -> Table:
    shown = [
        _column("proved", [of.share_proved for of in rows]),
        _column(
            "nodes to a proof",
            [_quartiles([each.at for each in of.proved if each.at], 0) for of in rows],
        ),
        _column(
            "s to a proof",
            [_quartiles([each.seconds["all"] for each in of.proved], 1) for of in rows],
            1,
        ),
        _column("longest proof", [_number(of.figures["longest_proof"], 0) for of in rows], 3),
        _column("tactics a state", [_number(of.figures["unique"], 2) for of in rows], 2),
        _column("nodes in all", [f"{of.figures['nodes']:,}" for of in rows], 4),
    ]
    return _of_searches("cost of a proof", rows, shown, TAKEN)


def _unproved(rows: Sequence[Searches]) -> list[Table]:
    counts = [of.figures["reasons"] for of in rows]
    if not (reasons := sorted({reason for of in counts for reason in of})):
        return []
    shown = [_column("not proved", [str(sum(of.values())) for of in counts])]
    shown += [
        _column(one_line(reason, 40), [str(of.get(reason, 0)) for of in counts], 1)
        for reason in reasons
    ]
    return [_of_searches("reasons why searches ended without a proof", rows, shown)]


def _time(rows: Sequence[Searches]) -> Table:
    seconds = [[float(of.figures["seconds"].get(part, 0.0)) for part in PARTS] for of in rows]
    shown = [_column("s in all", [f"{sum(of):,.0f}" for of in seconds])]
    for place, name in enumerate(("Lean", "policy", "energy", "acceptance")):
        shown.append(
            _column(
                name, [f"{100 * of[place] / sum(of):.0f}" if any(of) else None for of in seconds], 1
            )
        )
    return _of_searches("time of searches by part, %", rows, shown, TIME)


def _of_searches(
    title: str, rows: Sequence[Searches], shown: Sequence[Column], about: str = ""
) -> Table:
    return Table(
        title,
        [_column("searches", [each.label for each in rows]), *shown],
        _opens(rows),
        about=about,
    )


def _opens(rows: Sequence[Searches | None]) -> list[dict[str, str]]:
    return [{"theorems": each.label} if each else {} for each in rows]


def _column(head: str, cells: Sequence[str | Searches | None], rank: int = 0) -> Column:
    """Return a column. A cell without a value becomes NONE."""
    return Column(head, [str(cell or NONE) for cell in cells], rank=rank)


def _gains(
    gains: Sequence[Paired | None], heads: Sequence[str], ranks: Sequence[int]
) -> list[Column]:
    cells = [
        (shift(of.difference, of.low, of.high), f"{of.wins}, {of.losses}", chance(of.p))
        if of
        else (None,) * 3
        for of in gains
    ]
    by_head = zip(*cells, strict=True)
    return [
        _column(head, column, rank)
        for head, column, rank in zip(heads, by_head, ranks, strict=True)
    ]


def _quartiles(values: Sequence[float], digits: int) -> str | None:
    if not values:
        return None
    low, middle, high = (f"{value:,.{digits}f}" for value in np.percentile(values, [25, 50, 75]))
    return f"{middle} [{low}, {high}]"


def _number(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


# Text


def show(found: Report) -> str:
    """Write all tables to tables.txt in the folder, and return them formatted for the terminal."""
    shown, notes, path = tables(found), [*found.notes, *LEGEND], found.folder / "tables.txt"
    whole, fits = (_text(shown, notes, width) for width in (0, columns()))
    write_atomically(path, f"{whole}\n".encode())
    return fits if fits == whole else f"{fits}\nall figures: {path}"


def overview(folder: Path) -> str:
    """Format the gains of the iterations in `folder` as tables for the terminal. Raises
    UserError."""
    found = read(folder)
    is_trained = any(found.of(number, ALONE) for number in found.records)
    return _text(over_iterations(found) if is_trained else by_nodes(found), found.notes, columns())


def _text(shown: Sequence[Table], notes: Sequence[str], width: int) -> str:
    parts = [*(table.text(width) for table in shown), wrapped(_noted(notes), "  ", width)]
    return "\n\n".join(filter(None, parts))


def _noted(notes: Sequence[str]) -> str:
    return "\n".join(f"note: {line}" for line in notes)


# The page


def html(found: Report) -> Iterator[bytes]:
    """Yield the page in pieces. Raises UserError if a search's tree can't be read."""
    runs, parts = zip(
        *(_run(number, each) for number, each in enumerate(found.searches)), strict=True
    )
    numbers = {each.label: number for number, each in enumerate(found.searches)}
    known = {
        "notes": found.notes,
        "tables": [table.page(numbers) for table in tables(found)],
        "runs": runs,
    }
    return page.rendered(
        WEB / "lean.html", SCRIPTS, STYLES, known, [part for each in parts for part in each]
    )


def _run(number: int, of: Searches) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the page's data about searches, and parts of their packed trees, with ids such as
    "t0-3"."""
    theorems, parts = list[dict[str, Any]](), list[tuple[str, str]]()
    for place, each in enumerate(of.outcomes):
        about = {name: getattr(each, name) for name in SHOWN}
        about |= {
            "proved": each.is_proved,
            "tactics": len(each.proof),
            "seconds": each.seconds["all"],
        }
        lean = proof(each.statement, each.proof) if each.is_proved else None
        theorems.append(about | {"lean": lean, "expanded": len(each.unique), "part": place // PART})
    for begin in range(0, len(of.outcomes), PART):
        trees = {
            place: _tree(of, each)
            for place, each in enumerate(of.outcomes[begin : begin + PART], begin)
        }
        parts.append((f"t{number}-{begin // PART}", texts.packed(trees).decode()))
    return {"name": of.label, "nodes": of.nodes, "theorems": theorems}, parts


def _tree(of: Searches, theorem: Outcome) -> list[list[Any]]:
    """Return a row for each state: number, parent, tactic, goals, log probability, energy, whether
    on the path."""
    rows = trajectories.read(trajectories.part(of.folder, theorem.name)).to_pylist()
    names = ("state_id", "parent_state_id", "tactic_applied", "state_pp")
    return [
        [
            *(row[name] for name in names),
            round(row["llm_log_prob"], 6),
            row["ebm_score"],
            row["label"] == POSITIVE,
        ]
        for row in rows
    ]
