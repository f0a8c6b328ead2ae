"""Report searches in Lean for report.sh (core/results/labs.py): tables as text, and a page with theorems and trees.

It reads only files that searches wrote. The page is one HTML file that needs no network. The page contains a model's
texts as packed JSON and shows them as text nodes, so that they can't run as code (core/report/page.py).
"""

import json
import math
import os
import re
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from msgspec import Struct

from core.base.errors import UserError, one_line
from core.base.fields import Count, Positive, Share, fitted
from core.base.files import write_atomically
from core.base.stats import Paired, mean_by_problem
from core.base.terminal import columns, wrapped
from core.report import page, texts
from core.report.table import NONE, Column, Metric, Table, filled
from core.report.tables import chance, interval, shift
from core.results import stages
from core.results.warnings import CONTINUES
from core.results.write import now
from labs.lean import outcome, trajectories
from labs.lean.constants import budgets
from labs.lean.outcome import PARTS, Outcome, read_record
from labs.lean.theorem import proof
from labs.lean.trajectories import POSITIVE

NAME = "lean"  # the name of all searches for report.sh, and their folder in the results
WEB = Path(__file__).resolve().parent / "web"
SCRIPTS = (page.WEB / "base.js", page.WEB / "tables.js", WEB / "lean.js")
SHOWN = ("name", "statement", "nodes", "at", "reason", "why", "failures")  # the fields of outcomes that the page shows
PART = 1_000_000  # about so many characters of trees are packed together. A browser unpacks them on demand
SOLVED = (
    "solved: percentage of theorems with a proof that Lean accepted, with a 95% interval over theorems. A node is a "
    "tactic sent to Lean. Rates within fewer nodes come from the same search"
)
DIFFERENCES = (
    "differences: percentage points, paired by theorem, with 95% intervals. p comes from a two-sided sign-flip test. "
    "Won, lost: theorems that only one search proves. Minus before (first): the gain over the previous (first) policy"
)
TAKEN = (
    "to a proof: median [lower, upper quartile] over proved theorems. Tactics a state: different tactics that the "
    "model proposed, on average. Training and noise searches also try EXPLORE's tactics, with up to TRAIN_NODES nodes"
)
TIME = "time: the sum over parallel searches. Tactics read from the journal of an earlier search took no time"
ENERGY = (
    "AUC: the chance that a state on a proof's path has a lower energy than its sibling off the path, on held-out "
    "trees. Own: the AUC over states that the policy's own tactics reached, without probes"
)
LEGEND = (SOLVED, DIFFERENCES, TAKEN, TIME, ENERGY)  # explanations of the tables


def answers(args: Namespace, folder: Path) -> bool:
    """Print the tables and write the page. Return False if `args.results` lacks NAME. Raises UserError."""
    if NAME not in args.results:
        return False
    others = (args.live, args.anyway, args.figures is not None, args.jsonl is not None, args.inspect, args.results[1:])
    if any(others):
        raise UserError(f"report.sh {NAME} accepts only --markdown or --out FILE. Remove all other arguments")
    found = read(folder / NAME)
    if args.markdown:
        print("\n\n".join([*(table.markdown() for table in tables(found)), _noted([*found.notes, *LEGEND])]))
    else:
        out = args.out or folder / NAME / "report.html"
        write_atomically(out, html(found))
        print(f"{show(found)}\n\nreport  {out} ({os.path.getsize(out) / 1e6:.1f} MB)")
    return True


def is_folder(folder: Path) -> bool:
    """Return False, since report.sh shows searches only by their NAME, not by folder."""
    return False


class _Rate(Struct):
    value: Share | None


class _Pairs(Struct):
    pairs: Count


class _Guided(Struct):
    auc: _Rate
    auc_own: _Rate


class _Config(Struct):
    MAX_NODES: Positive
    TRAIN_NODES: Positive = 1


class Shown(Struct):
    """The fields of a record that the report shows. A field is None if its stage has not finished."""

    config: _Config
    complete: Any = False
    searched: _Pairs | None = None
    guided: _Guided | None = None


@dataclass(frozen=True)
class Searches:
    """Searches of theorems, sorted by the theorems' names. Each search had at most `nodes` nodes."""

    label: str
    folder: Path
    outcomes: list[Outcome]
    nodes: int

    def rate(self, nodes: int = 0) -> str:
        """Format the percentage of theorems solved within `nodes` (0: self.nodes), with its interval."""
        return interval(mean_by_problem(outcome.solved(self.outcomes, nodes or self.nodes)).to_json())

    @cached_property
    def proved(self) -> list[Outcome]:
        return [each for each in self.outcomes if each.is_proved]

    @cached_property
    def summed(self) -> dict[str, Any]:
        return outcome.summed(self.outcomes)

    @property
    def seconds(self) -> list[float]:
        """The seconds spent in each of PARTS."""
        return [float(self.summed["seconds"].get(part, 0.0)) for part in PARTS]

    @property
    def share_proved(self) -> str:
        return f"{len(self.proved):,} of {len(self.outcomes):,}"


@dataclass(frozen=True)
class Iteration:
    """An iteration with its record. Fields of stages that have not finished are None.
    `alone` and `guided`: its policy's searches of held-out theorems, without and with the energy. `learned`, `noisy`:
    searches of training theorems. `before`, `first`: the gains of `alone` over the previous and the first policy.
    `energy`: the gain of `guided` over `alone`. A gain is None if searches are missing or differ."""

    label: str
    alone: Searches | None
    learned: Searches | None = None
    noisy: Searches | None = None
    guided: Searches | None = None
    before: Paired | None = None
    first: Paired | None = None
    energy: Paired | None = None
    record: Shown | None = None


@dataclass(frozen=True)
class Report:
    """The contents of a results folder. `first`, `first_guided`: searches of held-out theorems by the policy before
    iteration 0, without and with its energy."""

    folder: Path
    baselines: list[Searches] = field(default_factory=list)
    first: Searches | None = None
    first_guided: Searches | None = None
    iterations: list[Iteration] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def evaluated(self) -> list[Searches]:
        """The searches of held-out theorems."""
        return [each for each in self.searches if not any(each in (of.learned, of.noisy) for of in self.iterations)]

    @property
    def searches(self) -> list[Searches]:
        """All searches, in the order in which they ran."""
        of_iterations = [each for of in self.iterations for each in (of.learned, of.noisy, of.alone, of.guided)]
        return [each for each in (*self.baselines, self.first, self.first_guided, *of_iterations) if each]


def read(folder: Path) -> Report:
    """Read the results in `folder`. Raises UserError if it contains no searches or can't be read."""
    notes: list[str] = []
    first = first_guided = None
    baselines: list[Searches | None] = []
    for own in sorted(path for path in folder.glob("baseline*") if path.name.replace("_", "").isalnum()):
        if record := _record(own, notes):
            label, nodes = own.name.replace("_", ", ", 1), record.config.MAX_NODES
            baselines.append(_searches(label, own / "trajectories", nodes, notes))
            baselines.append(_searches(f"{label}, index", own / "index" / "trajectories", nodes, notes))
    iterations: list[Iteration] = []
    before: dict[int, Searches | None] = {}  # by iteration: the searches of its starting policy
    # Iterations that were put aside have longer names, which do not match.
    found = ((re.fullmatch(r"iteration_(\d{1,4})", own.name), own) for own in folder.glob("iteration_*"))
    for number, own in sorted((int(match[1]), own) for match, own in found if match):
        if not (record := _record(own, notes)):
            continue
        nodes, learning = record.config.MAX_NODES, record.config.TRAIN_NODES
        name = f"iteration {number}"
        if not number:
            first = _searches("first policy", own / "eval_before", nodes, notes)
            first_guided = _searches("first policy, energy", own / "eval_before_energy", nodes, notes)
            before[0] = first
        alone = before[number + 1] = _searches(name, own / "eval", nodes, notes)
        guided = _searches(f"{name}, energy", own / "eval_energy", nodes, notes)
        learned = _searches(f"{name}, training set", own / "trajectories", learning, notes)
        noisy = _searches(f"{name}, noise", own / "noisy", learning, notes)
        pairs = ((before.get(number), alone), (first, alone), (alone, guided))
        gain, since_first, by_energy = (_compared(*pair, notes) for pair in pairs)
        iterations.append(Iteration(name, alone, learned, noisy, guided, gain, since_first, by_energy, record))
    report = Report(folder, list(filter(None, baselines)), first, first_guided, iterations, notes)
    if not report.searches:
        raise UserError(f"{folder} contains no finished search. Run one first: bash scripts/run.sh 23_lean_baseline")
    return report


def _record(own: Path, notes: list[str]) -> Shown | None:
    """Read the record in a folder, or return None if it is missing. Raises UserError."""
    if not (own / stages.NAME).exists():
        return None
    wrong = f"{own / stages.NAME} is not a record of searches"
    record = fitted(read_record(own), Shown, wrong, "Move its folder away")
    if record.complete is not True:
        notes.append(f"{own.name} is not complete ({CONTINUES})")
    return record


def _searches(label: str, folder: Path, nodes: int, notes: list[str]) -> Searches | None:
    """Read the finished searches in a folder, or return None if it contains none."""
    outcomes = sorted(outcome.all_in(folder), key=lambda each: _natural(each.name))
    if not outcomes:
        return None
    if len({each.run for each in outcomes}) > 1:
        notes.append(f"{label}: the searches differ in their constants, model, Lean or energy")
    return Searches(label, folder, outcomes, nodes)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key for sorting that puts test_2 before test_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", name)]


def _compared(before: Searches | None, after: Searches | None, notes: list[str]) -> Paired | None:
    """Compare searches by theorem. If one is missing, return None. If theorems or nodes differ, also add a note."""
    if not before or not after:
        return None
    try:
        if before.nodes == after.nodes:
            return outcome.compared(before.outcomes, after.outcomes, after.nodes)
        differ = f"had {before.nodes} and {after.nodes} nodes"
    except ValueError:
        differ = f"searched different theorems ({len(before.outcomes)} and {len(after.outcomes)})"
    if (note := f"{before.label} and {after.label} {differ}, so they are not compared") not in notes:
        notes.append(note)
    return None


# Tables


def tables(found: Report) -> list[Table]:
    """Tabulate solve rates by budget, gains of iterations, costs of proofs, reasons for failure, and time."""
    searches = found.searches
    taken = Table("cost of a proof", filled(OF_PROOFS, searches), _opens(searches), about=TAKEN)
    title = "time of searches by part, %"
    time = Table(title, filled(OF_TIME, searches), _opens(searches), about=TIME)
    return [*by_nodes(found), *over_iterations(found), taken, *_unproved(searches), time]


def by_nodes(found: Report) -> list[Table]:
    """Tabulate the solve rates within several node budgets."""
    rows = found.evaluated
    if not rows:
        return []
    known = sorted({nodes for each in rows for nodes in budgets(each.nodes)})
    columns = [Column("searches", [each.label for each in rows])]
    columns.append(Column("theorems", [f"{len(each.outcomes):,}" for each in rows], rank=1))
    for place, nodes in enumerate(known):
        cells = [each.rate(nodes) if nodes <= each.nodes else NONE for each in rows]
        columns.append(Column(f"within {nodes:,}", cells, rank=len(known) - place + 1 if place < len(known) - 1 else 0))
    return [Table("solved by number of nodes, %", columns, _opens(rows), about=SOLVED)]


def over_iterations(found: Report) -> list[Table]:
    """Tabulate the gain of each iteration, and the gain of its energy at equal nodes."""
    if not found.iterations:
        return []
    start = [Iteration(each.label, each) for each in [found.first] if each]
    rows, guided = [*start, *found.iterations], [each for each in found.iterations if each.guided]
    title = "iterations: held-out theorems that each policy solves without an energy, %"
    gains = Table(title, filled(OF_ITERATIONS, rows), _opens([of.alone for of in rows]), about=DIFFERENCES)
    title = "energy: theorems that each policy solves without and with its energy, at equal nodes, %"
    energy = Table(title, filled(OF_ENERGY, guided), _opens([of.guided for of in guided]), about=ENERGY)
    return [gains, energy] if guided else [gains]


def _unproved(rows: Sequence[Searches]) -> list[Table]:
    counts = [of.summed["reasons"] for of in rows]
    if not (reasons := sorted({reason for of in counts for reason in of})):
        return []
    columns = [
        Column("searches", [each.label for each in rows]),
        Column("not proved", [str(sum(of.values())) for of in counts]),
        *(Column(one_line(reason, 40), [str(of.get(reason, 0)) for of in counts], rank=1) for reason in reasons),
    ]
    return [Table("reasons why searches ended without a proof", columns, _opens(rows))]


def _opens(rows: Sequence[Searches | None]) -> list[dict[str, str]]:
    return [{"theorems": each.label} if each else {} for each in rows]


def _metric(head: str, read: Callable[[Any], Any], cell: Callable[[Any], str] = str, rank: int = 0) -> Metric:
    """Return a column that formats the values from `read` by `cell`. A value of None becomes NONE."""
    return Metric(head, "", lambda of: NONE if (value := read(of)) is None else cell(value), rank=rank)


def _gains(read: Callable[[Any], Paired | None], heads: Sequence[str], ranks: Sequence[int]) -> list[Metric]:
    cells: list[Callable[[Paired], str]] = [
        lambda of: shift(of.difference, of.low, of.high),
        lambda of: f"{of.wins}, {of.losses}",
        lambda of: chance(of.p),
    ]
    return [_metric(head, read, cell, rank) for head, cell, rank in zip(heads, cells, ranks, strict=True)]


def _quartiles(values: Sequence[float], digits: int) -> str:
    if not values:
        return NONE
    low, middle, high = (f"{value:,.{digits}f}" for value in np.percentile(values, [25, 50, 75]))
    return f"{middle} [{low}, {high}]"


def _unique(of: Searches) -> float | None:
    counts = [count for each in of.outcomes for count in each.unique]
    return fmean(counts) if counts else None


def _share(place: int, name: str) -> Metric:
    return _metric(
        name, lambda of: of.seconds[place] / sum(of.seconds) if any(of.seconds) else None, lambda x: f"{100 * x:.0f}", 1
    )


OF_ITERATIONS = (
    _metric("policy", lambda of: of.label),
    _metric("nodes", lambda of: of.alone, lambda alone: f"{alone.nodes:,}", 7),
    _metric("solved", lambda of: of.alone, Searches.rate),
    *_gains(lambda of: of.before, ("minus before", "won, lost", "p"), (0, 3, 2)),
    *_gains(lambda of: of.first, ("minus first", "won, lost (first)", "p (first)"), (1, 6, 5)),
    _metric("training theorems proved", lambda of: of.learned, lambda learned: learned.share_proved, 4),
    _metric("pairs", lambda of: of.record and of.record.searched, lambda searched: f"{searched.pairs:,}", 4),
)
OF_ENERGY = (
    _metric("policy", lambda of: of.label),
    _metric("without", lambda of: of.alone, Searches.rate, 1),
    _metric("with the energy", lambda of: of.guided, Searches.rate, 1),
    *_gains(lambda of: of.energy, ("difference", "won, lost", "p"), (0, 0, 0)),
    _metric("AUC", lambda of: of.record.guided and of.record.guided.auc.value, "{:.3f}".format),
    _metric("own", lambda of: of.record.guided and of.record.guided.auc_own.value, "{:.3f}".format),
)
OF_PROOFS = (
    _metric("searches", lambda of: of.label),
    _metric("proved", lambda of: of.share_proved),
    _metric("nodes to a proof", lambda of: _quartiles([each.at for each in of.proved], 0)),
    _metric("s to a proof", lambda of: _quartiles([each.seconds["all"] for each in of.proved], 1), rank=1),
    _metric("longest proof", lambda of: max((len(each.proof) for each in of.proved), default=None), rank=3),
    _metric("tactics a state", _unique, "{:.2f}".format, 2),
    _metric("nodes in all", lambda of: sum(each.nodes for each in of.outcomes), "{:,}".format, 4),
)
OF_TIME = (
    _metric("searches", lambda of: of.label),
    _metric("s in all", lambda of: sum(of.seconds), "{:,.0f}".format),
    *(_share(place, name) for place, name in enumerate(("Lean", "policy", "energy", "acceptance"))),
)


# Text


def show(found: Report) -> str:
    """Write all tables to tables.txt in the folder, and return them formatted for the terminal."""
    shown, notes, path = tables(found), [*found.notes, *LEGEND], found.folder / "tables.txt"
    whole, fits = (_text(shown, notes, width) for width in (0, columns()))
    write_atomically(path, f"{whole}\n".encode())
    return fits if fits == whole else f"{fits}\nall figures: {path}"


def overview(folder: Path) -> str:
    """Format the gains of the iterations in `folder` as tables for the terminal. Raises UserError."""
    found = read(folder)
    shown = over_iterations(found) if any(each.alone for each in found.iterations) else by_nodes(found)
    return _text(shown, found.notes, columns())


def _text(shown: Sequence[Table], notes: Sequence[str], width: int) -> str:
    parts = [*(table.text(width) for table in shown), wrapped(_noted(notes), "  ", width)]
    return "\n\n".join(filter(None, parts))


def _noted(notes: Sequence[str]) -> str:
    return "\n".join(f"note: {line}" for line in notes)


# The page


def html(found: Report) -> Iterator[bytes]:
    """Yield the page in pieces. Raises UserError if a search's tree can't be read."""
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
    return (piece.encode(errors="replace") for piece in pieces)  # a lone surrogate can't be encoded


def _run(number: int, of: Searches) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the page's data about searches, and parts of their packed trees, with ids such as "t0-3"."""
    theorems, parts = list[dict[str, Any]](), list[tuple[str, str]]()
    trees: dict[int, list[list[Any]]] = {}
    size = 0
    for place, each in enumerate(of.outcomes):
        about = {name: getattr(each, name) for name in SHOWN}
        about |= {"proved": each.is_proved, "tactics": len(each.proof), "seconds": each.seconds["all"]}
        lean = proof(each.statement, each.proof) if each.is_proved else None
        theorems.append(about | {"lean": lean, "expanded": len(each.unique), "part": len(parts)})
        trees[place] = _tree(trajectories.read(trajectories.part(of.folder, each.name)).to_pylist())
        size += len(json.dumps(trees[place]))
        if size > PART or place == len(of.outcomes) - 1:
            parts.append((f"t{number}-{len(parts)}", texts.packed(trees).decode()))
            trees, size = {}, 0
    return {"name": of.label, "nodes": of.nodes, "theorems": theorems}, parts


def _tree(rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Return a row for each state: number, parent, tactic, goals, log probability, energy, whether on the path."""
    names = ("state_id", "parent_state_id", "tactic_applied", "state_pp")
    numbers = ("llm_log_prob", "ebm_score")
    return [
        [*(row[name] for name in names), *(_number(row[name]) for name in numbers), row["label"] == POSITIVE]
        for row in sorted(rows, key=lambda row: row["state_id"])
    ]


def _number(value: float | None) -> float | None:  # JSON has no nan and no infinities
    return round(value, 6) if value is not None and math.isfinite(value) else None
