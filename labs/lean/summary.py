"""Summaries of searches in Lean, from what they left: tables over node budgets and iterations. Neither Lean nor a model
is needed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from msgspec import Struct

from core.base.errors import UserError, one_line
from core.base.fields import Count, Positive, Share, fitted
from core.base.stats import Paired, mean_by_problem
from core.report.table import NONE, Column, Metric, Table, filled
from core.report.tables import chance, interval, shift
from core.results import stages
from core.results.warnings import CONTINUES
from labs.lean import figures, outcome
from labs.lean.constants import budgets
from labs.lean.figures import PARTS
from labs.lean.outcome import Outcome
from labs.lean.record import read as read_record

SOLVED = (
    "solved: % of the theorems whose proof Lean accepted, with 95% intervals over them; a node is a tactic that Lean "
    "was sent, and rates at fewer nodes are read off the same search"
)
DIFFERENCES = (
    "differences: points, paired by theorem, with 95% intervals; p: two-sided sign-flip test; won, lost: theorems that "
    "only the one or only the other proves; minus first: on the policy before iteration 0"
)
TAKEN = (
    "to a proof: median [lower, upper quartile] of those that were proved; tactics a state: different ones that the "
    "model proposed; searches to learn from, and noise, try more tactics in each state and have more nodes"
)
TIME = (
    "time: of searches beside each other, added up; a tactic that the journal held, from an earlier search with the "
    "same policy, took none"
)
ENERGY = (
    "AUC: the chance that the energy of a state on a proof's path is lower than that of a sibling off it, on trees "
    "that were held out; own: of the states that the policy's own tactics led to, without those tried besides"
)
LEGEND = (SOLVED, DIFFERENCES, TAKEN, TIME, ENERGY)  # what `about` says of each table


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
    """The fields of a record that are shown, as far as its run got."""

    config: _Config
    complete: Any = False
    searched: _Pairs | None = None
    guided: _Guided | None = None


@dataclass(frozen=True)
class Searches:
    """Searches of theorems, in the order of their names, each within so many `nodes`."""

    label: str
    folder: Path
    outcomes: list[Outcome]
    nodes: int

    def rate(self, nodes: int) -> str:
        """Format the share that is solved within so many nodes, in percent with the interval."""
        return interval(mean_by_problem(figures.solved(self.outcomes, nodes)).to_json())

    @cached_property
    def proved(self) -> list[Outcome]:
        return [each for each in self.outcomes if each.is_proved]

    @cached_property
    def summed(self) -> dict[str, Any]:
        return figures.summed(self.outcomes)

    @property
    def share_proved(self) -> str:
        return f"{len(self.proved):,} of {len(self.outcomes):,}"


@dataclass(frozen=True)
class Iteration:
    """An iteration as far as it got. `alone` and `guided`: searches of held-out theorems by its own policy, without and
    with the energy; `learned` and `noisy`: searches to learn from. `pairs` that it was trained on; `auc` of its energy
    on held-out trees, `auc_own` of the policy's own tactics there. The gains of `alone` on the policy `before` and on
    the `first`, and of `guided` on `alone` (`energy`); None if nothing can be compared."""

    label: str
    alone: Searches | None
    learned: Searches | None = None
    noisy: Searches | None = None
    guided: Searches | None = None
    before: Paired | None = None
    first: Paired | None = None
    energy: Paired | None = None
    pairs: int | None = None
    auc: float | None = None
    auc_own: float | None = None


@dataclass(frozen=True)
class Report:
    """Everything in a folder. `first`: searches of held-out theorems by the policy that iteration 0 begins with."""

    folder: Path
    baseline: Searches | None = None
    first: Searches | None = None
    iterations: list[Iteration] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def evaluated(self) -> list[Searches]:
        """Searches of theorems that are not learned from."""
        return [each for each in self.searches if not any(each in (of.learned, of.noisy) for of in self.iterations)]

    @property
    def searches(self) -> list[Searches]:
        """All searches, in the order in which they were made."""
        of_iterations = [each for of in self.iterations for each in (of.learned, of.noisy, of.alone, of.guided)]
        return [each for each in (self.baseline, self.first, *of_iterations) if each]


def read(folder: Path) -> Report:
    """Read the folder `lean` of results. Raises UserError if it contains no searches, or can't be read."""
    notes: list[str] = []
    baseline, first = None, None
    if of_baseline := _shown(folder / "baseline", notes):
        baseline = _searches("baseline", folder / "baseline" / "trajectories", of_baseline.config.MAX_NODES, notes)
    iterations: list[Iteration] = []
    before: dict[int, Searches | None] = {}  # by iteration: searches by the policy that it begins with
    for number, own in _iterations(folder):
        if not (shown := _shown(own, notes)):
            continue
        nodes, learning = shown.config.MAX_NODES, shown.config.TRAIN_NODES
        name = f"iteration {number}"
        if not number:
            first = _searches("first policy", own / "eval_before", nodes, notes)
            before[0] = first or baseline
        alone = _searches(name, own / "eval", nodes, notes)
        guided = _searches(f"{name}, energy", own / "eval_energy", nodes, notes)
        made = Iteration(
            name,
            alone,
            learned=_searches(f"{name}, to learn from", own / "trajectories", learning, notes),
            noisy=_searches(f"{name}, noise", own / "noisy", learning, notes),
            guided=guided,
            before=_compared(before.get(number), alone, notes),
            first=_compared(first or baseline, alone, notes),
            energy=_compared(alone, guided, notes),
            pairs=shown.searched.pairs if shown.searched else None,
            auc=shown.guided.auc.value if shown.guided else None,
            auc_own=shown.guided.auc_own.value if shown.guided else None,
        )
        before[number + 1] = alone
        iterations.append(made)
    found = Report(folder, baseline, first, iterations, notes)
    if not found.searches:
        raise UserError(f"no searches have ended in {folder} yet. Run them: bash scripts/run.sh 23_lean_baseline")
    return found


def _iterations(folder: Path) -> list[tuple[int, Path]]:
    """Return their numbers and folders, without those that were put aside."""
    found = ((re.fullmatch(r"iteration_(\d{1,4})", own.name), own) for own in folder.glob("iteration_*"))
    return sorted((int(match[1]), own) for match, own in found if match)


def _shown(own: Path, notes: list[str]) -> Shown | None:
    """Read the record in a folder; None if it is missing. Raises UserError."""
    if not (own / stages.NAME).exists():
        return None
    wrong = f"{own / stages.NAME} is no record of searches"
    shown = fitted(read_record(own), Shown, wrong, "Move its folder away")
    if shown.complete is not True:
        notes.append(f"{own.name} is not complete; {CONTINUES}")
    return shown


def _searches(label: str, folder: Path, nodes: int, notes: list[str]) -> Searches | None:
    """Read the searches in a folder that have ended; None if none has."""
    outcomes = sorted(outcome.all_in(folder), key=lambda each: _natural(each.name))
    if not outcomes:
        return None
    if len({each.run for each in outcomes}) > 1:
        notes.append(f"{label}: some searches were made with other constants or another model than the rest")
    return Searches(label, folder, outcomes, nodes)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sorting key by which test_2 precedes test_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", name)]


def _compared(before: Searches | None, after: Searches | None, notes: list[str]) -> Paired | None:
    """Compare by theorem. None, with a note, for searches of other theorems or with other nodes."""
    if not before or not after:
        return None
    try:
        if before.nodes == after.nodes:
            return figures.compared(before.outcomes, after.outcomes, after.nodes)
        differ = f"had {before.nodes} and {after.nodes} nodes"
    except ValueError:
        differ = f"are not of the same theorems ({len(before.outcomes)} and {len(after.outcomes)})"
    if (told := f"{before.label} and {after.label} {differ}, so that they are not compared") not in notes:
        notes.append(told)
    return None


# Tables


def tables(found: Report) -> list[Table]:
    """Tabulate rates by budget, what iterations gained, what searches took and why they failed, and their time."""
    searches = found.searches
    taken = Table("what a proof took", filled(OF_PROOFS, searches), _opens(searches), about=TAKEN)
    title = "where the time of searches went, %"
    time = Table(title, filled(OF_TIME, searches), _opens(searches), about=TIME)
    return [*by_nodes(found), *over_iterations(found), taken, *_unproved(searches), time]


def by_nodes(found: Report) -> list[Table]:
    """Tabulate the rates within several budgets."""
    rows = found.evaluated
    if not rows:
        return []
    known = sorted({nodes for each in rows for nodes in budgets(each.nodes)})
    made = [
        Column("searches", [each.label for each in rows]),
        Column("theorems", [f"{len(each.outcomes):,}" for each in rows], rank=1),
    ]
    for place, nodes in enumerate(known):
        cells = [each.rate(nodes) if nodes <= each.nodes else NONE for each in rows]
        made.append(Column(f"within {nodes:,}", cells, rank=len(known) - place + 1 if place < len(known) - 1 else 0))
    return [Table("solved within so many nodes, %", made, _opens(rows), about=SOLVED)]


def over_iterations(found: Report) -> list[Table]:
    """Tabulate what each iteration gained, and what its energy did at equal nodes."""
    if not found.iterations:
        return []
    start = [Iteration(each.label, each) for each in [found.first or found.baseline] if each]
    rows, guided = [*start, *found.iterations], [each for each in found.iterations if each.guided]
    title = "iterations: held-out theorems solved by each policy alone, %"
    made = [Table(title, filled(OF_ITERATIONS, rows), _opens([of.alone for of in rows]), about=DIFFERENCES)]
    if guided:
        title = "the energy: the same policy within the same nodes, without and with it, solved in %"
        made.append(Table(title, filled(OF_ENERGY, guided), _opens([of.guided for of in guided]), about=ENERGY))
    return made


def _unproved(rows: Sequence[Searches]) -> list[Table]:
    counts = [of.summed["reasons"] for of in rows]
    if not (reasons := sorted({reason for of in counts for reason in of})):
        return []
    made = [
        Column("searches", [each.label for each in rows]),
        Column("not proved", [str(sum(of.values())) for of in counts]),
        *(Column(one_line(reason, 40), [str(of.get(reason, 0)) for of in counts], rank=1) for reason in reasons),
    ]
    return [Table("why searches ended without a proof", made, _opens(rows))]


def _opens(rows: Sequence[Searches | None]) -> list[dict[str, str]]:
    return [{"theorems": each.label} if each else {} for each in rows]


def _solved(of: Searches | None) -> str:
    return of.rate(of.nodes) if of else NONE


def _quartiles(values: Sequence[float], digits: int) -> str:
    if not values:
        return NONE
    low, middle, high = (f"{value:,.{digits}f}" for value in np.percentile(values, [25, 50, 75]))
    return f"{middle} [{low}, {high}]"


def _unique(of: Searches) -> str:
    counts = [count for each in of.outcomes for count in each.unique]
    return f"{fmean(counts):.2f}" if counts else NONE


def _gain(of: Paired | None) -> str:
    return shift(of.difference, of.low, of.high) if of else NONE


def _won(of: Paired | None) -> str:
    return f"{of.wins}, {of.losses}" if of else NONE


def _p(of: Paired | None) -> str:
    return chance(of.p) if of else NONE


def _auc(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _spent(of: Searches) -> float:
    return float(sum(of.summed["seconds"].get(part, 0.0) for part in PARTS))


def _share_of(part: str) -> Metric:
    def share(of: Searches) -> str:
        return f"{100 * of.summed['seconds'].get(part, 0.0) / _spent(of):.0f}" if _spent(of) else NONE

    return Metric({"lean": "Lean", "accept": "acceptance"}.get(part, part), "", share, rank=1)


OF_ITERATIONS = (
    Metric("policy", "", lambda of: of.label),
    Metric("nodes", "", lambda of: f"{of.alone.nodes:,}" if of.alone else NONE, rank=7),
    Metric("solved", "", lambda of: _solved(of.alone)),
    Metric("minus before", "", lambda of: _gain(of.before)),
    Metric("won, lost", "", lambda of: _won(of.before), rank=3),
    Metric("p", "", lambda of: _p(of.before), rank=2),
    Metric("minus first", "", lambda of: _gain(of.first), rank=1),
    Metric("won, lost (first)", "", lambda of: _won(of.first), rank=6),
    Metric("p (first)", "", lambda of: _p(of.first), rank=5),
    Metric("proved to learn from", "", lambda of: of.learned.share_proved if of.learned else NONE, rank=4),
    Metric("pairs", "", lambda of: NONE if of.pairs is None else f"{of.pairs:,}", rank=4),
)
OF_ENERGY = (
    Metric("policy", "", lambda of: of.label),
    Metric("without", "", lambda of: _solved(of.alone), rank=1),
    Metric("with the energy", "", lambda of: _solved(of.guided), rank=1),
    Metric("difference", "", lambda of: _gain(of.energy)),
    Metric("won, lost", "", lambda of: _won(of.energy)),
    Metric("p", "", lambda of: _p(of.energy)),
    Metric("AUC", "", lambda of: _auc(of.auc)),
    Metric("own", "", lambda of: _auc(of.auc_own)),
)
OF_PROOFS = (
    Metric("searches", "", lambda of: of.label),
    Metric("proved", "", lambda of: of.share_proved),
    Metric("nodes to a proof", "", lambda of: _quartiles([each.at for each in of.proved], 0)),
    Metric("s to a proof", "", lambda of: _quartiles([each.seconds["all"] for each in of.proved], 1), rank=1),
    Metric("longest proof", "", lambda of: str(max((len(e.proof) for e in of.proved), default=0) or NONE), rank=3),
    Metric("tactics a state", "", _unique, rank=2),
    Metric("nodes in all", "", lambda of: f"{sum(each.nodes for each in of.outcomes):,}", rank=4),
)
OF_TIME = (
    Metric("searches", "", lambda of: of.label),
    Metric("s in all", "", lambda of: f"{_spent(of):,.0f}"),
    *map(_share_of, PARTS),
)
