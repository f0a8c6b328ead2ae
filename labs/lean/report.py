"""What searches in Lean came to, from what they left: tables for people, over node budgets and iterations. Neither Lean
nor a model is needed."""

import os
import re
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from core.base.errors import UserError, one_line
from core.base.files import write_atomically
from core.base.stats import Paired, mean_by_problem
from core.base.terminal import columns, wrapped
from core.report.table import NONE, Column, Table
from core.report.tables import chance, interval, shift
from core.results.warnings import CONTINUES
from labs.lean import figures, outcome
from labs.lean.constants import budgets
from labs.lean.figures import PARTS
from labs.lean.outcome import Outcome
from labs.lean.record import S, Shown, ShownIteration, shown

NAME = "lean"  # all searches in Lean, and their folder in the results
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


@dataclass(frozen=True)
class Searches:
    """Of one list of theorems, in the order of their names, each within so many `nodes`."""

    label: str
    folder: Path
    outcomes: list[Outcome]
    nodes: int

    def rate(self, nodes: int) -> str:
        """Solved within so many, in percent with the interval."""
        return interval(mean_by_problem(figures.solved(self.outcomes, nodes)).to_json())


@dataclass(frozen=True)
class Iteration:
    """What iteration `number` has left so far. `alone` and `guided`: searches of held-out theorems by its own policy,
    without and with the energy; `learned` and `noisy`: those it learns from. `pairs` that it was trained on; `auc` of
    its energy on held-out trees, `auc_own` of the policy's own tactics there. What `alone` gains on the policy `before`
    and on the `first`, and `guided` on `alone` (`energy`); None where nothing can be compared."""

    number: int
    learned: Searches | None
    noisy: Searches | None
    alone: Searches | None
    guided: Searches | None
    before: Paired | None
    first: Paired | None
    energy: Paired | None
    pairs: int | None
    auc: float | None
    auc_own: float | None


@dataclass(frozen=True)
class Report:
    """All of a folder. `first`: searches of held-out theorems by the policy that iteration 0 begins with."""

    folder: Path
    baseline: Searches | None
    first: Searches | None
    iterations: list[Iteration]
    notes: list[str]

    @property
    def evaluated(self) -> list[Searches]:
        """Those of theorems that are not learned from."""
        of_iterations = [each for of in self.iterations for each in (of.alone, of.guided)]
        return [each for each in (self.baseline, self.first, *of_iterations) if each]

    @property
    def searches(self) -> list[Searches]:
        """All, in the order in which they were made."""
        of_iterations = [each for of in self.iterations for each in (of.learned, of.noisy, of.alone, of.guided)]
        return [each for each in (self.baseline, self.first, *of_iterations) if each]


def read(folder: Path) -> Report:
    """What lies in the folder `lean` of results. Raises UserError where nothing does, or it can't be read."""
    notes: list[str] = []
    baseline, first = None, None
    if of_baseline := _told(folder / "baseline", Shown, notes):
        nodes = of_baseline.config.MAX_NODES
        baseline = _searches("baseline", folder / "baseline" / "trajectories", nodes, notes)
    iterations: list[Iteration] = []
    before: dict[int, Searches | None] = {}  # by iteration: searches by the policy that it begins with
    for number, own in _iterations(folder):
        if not (told := _told(own, ShownIteration, notes)):
            continue
        nodes, learning = told.config.MAX_NODES, told.config.TRAIN_NODES
        name = f"iteration {number}"
        if not number:
            first = _searches("first policy", own / "eval_before", nodes, notes)
            before[0] = first or baseline
        alone = _searches(name, own / "eval", nodes, notes)
        guided = _searches(f"{name}, energy", own / "eval_energy", nodes, notes)
        made = Iteration(
            number,
            learned=_searches(f"{name}, to learn from", own / "trajectories", learning, notes),
            noisy=_searches(f"{name}, noise", own / "noisy", learning, notes),
            alone=alone,
            guided=guided,
            before=_compared(before.get(number), alone, notes),
            first=_compared(first or baseline, alone, notes),
            energy=_compared(alone, guided, notes),
            pairs=told.searched.pairs if told.searched else None,
            auc=told.guided.auc.value if told.guided else None,
            auc_own=told.guided.auc_own.value if told.guided and told.guided.auc_own else None,
        )
        before[number + 1] = alone
        iterations.append(made)
    found = Report(folder, baseline, first, iterations, notes)
    if not found.searches:
        raise UserError(f"no searches have ended in {folder} yet. Run them: bash scripts/run.sh 23_lean_baseline")
    return found


def _iterations(folder: Path) -> list[tuple[int, Path]]:
    """Their numbers and folders, without those that were put aside."""
    found = ((re.fullmatch(r"iteration_(\d{1,4})", own.name), own) for own in folder.glob("iteration_*"))
    return sorted((int(match[1]), own) for match, own in found if match)


def _told(own: Path, model: type[S], notes: list[str]) -> S | None:
    """Read the record in a folder; None if it is missing."""
    told = shown(own, model)
    if told and told.complete is not True:
        notes.append(f"{own.name} is not complete; {CONTINUES}")
    return told


def _searches(label: str, folder: Path, nodes: int, notes: list[str]) -> Searches | None:
    """None where none has ended."""
    outcomes = sorted(outcome.all_in(folder), key=lambda each: _natural(each.name))
    if not outcomes:
        return None
    if len({each.run for each in outcomes}) > 1:
        notes.append(f"{label}: some searches were made with other constants or another model than the rest")
    return Searches(label, folder, outcomes, nodes)


def _natural(name: str) -> list[tuple[int, str]]:
    """So that test_2 comes before test_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", name)]


def _compared(before: Searches | None, after: Searches | None, notes: list[str]) -> Paired | None:
    """Paired by theorem; None, with a note, where they are of other theorems or have other nodes."""
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
    """Rates by budget, what iterations gained, what searches took and why they failed, and where their time went."""
    return [*_by_nodes(found), *over_iterations(found), _taken(found), *_unproved(found), _time(found)]


def _by_nodes(found: Report) -> list[Table]:
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
    """What each iteration gained, and what its energy did at equal nodes."""
    if not (rows := found.iterations):
        return []
    start = [each for each in [found.first or found.baseline] if each]
    policies, none = [*start, *(of.alone for of in rows)], [NONE] * len(start)
    made = [
        Column("policy", [*(each.label for each in start), *(f"iteration {of.number}" for of in rows)]),
        Column("nodes", [f"{each.nodes:,}" if each else NONE for each in policies], rank=7),
        Column("solved", [each.rate(each.nodes) if each else NONE for each in policies]),
        Column("minus before", [*none, *(_gain(of.before) for of in rows)]),
        Column("won, lost", [*none, *(_won(of.before) for of in rows)], rank=3),
        Column("p", [*none, *(_p(of.before) for of in rows)], rank=2),
        Column("minus first", [*none, *(_gain(of.first) for of in rows)], rank=1),
        Column("won, lost (first)", [*none, *(_won(of.first) for of in rows)], rank=6),
        Column("p (first)", [*none, *(_p(of.first) for of in rows)], rank=5),
        Column("proved to learn from", [*none, *(_proved(of.learned) for of in rows)], rank=4),
        Column("pairs", [*none, *(NONE if of.pairs is None else f"{of.pairs:,}" for of in rows)], rank=4),
    ]
    title = "iterations: held-out theorems solved by each policy alone, %"
    return [Table(title, made, _opens(policies), about=DIFFERENCES), *_energy(rows)]


def _energy(iterations: Sequence[Iteration]) -> list[Table]:
    rows = [(of, of.guided) for of in iterations if of.guided]
    if not rows:
        return []
    made = [
        Column("policy", [f"iteration {of.number}" for of, _ in rows]),
        Column("without", [of.alone.rate(of.alone.nodes) if of.alone else NONE for of, _ in rows], rank=1),
        Column("with the energy", [guided.rate(guided.nodes) for _, guided in rows], rank=1),
        Column("difference", [_gain(of.energy) for of, _ in rows]),
        Column("won, lost", [_won(of.energy) for of, _ in rows]),
        Column("p", [_p(of.energy) for of, _ in rows]),
        Column("AUC", [NONE if of.auc is None else f"{of.auc:.3f}" for of, _ in rows]),
        Column("own", [NONE if of.auc_own is None else f"{of.auc_own:.3f}" for of, _ in rows]),
    ]
    title = "the energy: the same policy within the same nodes, without and with it, solved in %"
    return [Table(title, made, _opens([guided for _, guided in rows]), about=ENERGY)]


def _taken(found: Report) -> Table:
    rows = found.searches
    proved = [[each for each in of.outcomes if each.is_proved] for of in rows]
    unique = [[count for each in of.outcomes for count in each.unique] for of in rows]
    made = [
        Column("searches", [each.label for each in rows]),
        Column("proved", [_proved(each) for each in rows]),
        Column("nodes to a proof", [_quartiles([each.at or 0 for each in of], 0) for of in proved]),
        Column("s to a proof", [_quartiles([each.seconds["all"] for each in of], 1) for of in proved], rank=1),
        Column("longest proof", [str(max((len(e.proof) for e in of), default=0) or NONE) for of in proved], rank=3),
        Column("tactics a state", [f"{fmean(of):.2f}" if of else NONE for of in unique], rank=2),
        Column("nodes in all", [f"{sum(each.nodes for each in of.outcomes):,}" for of in rows], rank=4),
    ]
    return Table("what a proof took", made, _opens(rows), about=TAKEN)


def _unproved(found: Report) -> list[Table]:
    rows = found.searches
    counts = [outcome.summed(of.outcomes)["reasons"] for of in rows]
    if not (reasons := sorted({reason for of in counts for reason in of})):
        return []
    made = [
        Column("searches", [each.label for each in rows]),
        Column("not proved", [str(sum(of.values())) for of in counts]),
        *(Column(one_line(reason, 40), [str(of.get(reason, 0)) for of in counts], rank=1) for reason in reasons),
    ]
    return [Table("why searches ended without a proof", made, _opens(rows))]


def _time(found: Report) -> Table:
    rows = found.searches
    spent = [outcome.summed(of.outcomes)["seconds"] for of in rows]
    whole = [sum(of.get(part, 0.0) for part in PARTS) for of in spent]
    made = [
        Column("searches", [each.label for each in rows]),
        Column("s in all", [f"{of:,.0f}" for of in whole]),
        *(
            Column(
                {"lean": "Lean", "accept": "acceptance"}.get(part, part),
                [
                    f"{100 * of.get(part, 0.0) / sum_:.0f}" if sum_ else NONE
                    for of, sum_ in zip(spent, whole, strict=True)
                ],
                rank=1,
            )
            for part in PARTS
        ),
    ]
    return Table("where the time of searches went, %", made, _opens(rows), about=TIME)


def _opens(rows: Sequence[Searches | None]) -> list[dict[str, str]]:
    return [{"theorems": each.label} if each else {} for each in rows]


def _proved(of: Searches | None) -> str:
    return f"{sum(each.is_proved for each in of.outcomes):,} of {len(of.outcomes):,}" if of else NONE


def _quartiles(values: Sequence[float], digits: int) -> str:
    if not values:
        return NONE
    low, middle, high = (f"{value:,.{digits}f}" for value in np.percentile(values, [25, 50, 75]))
    return f"{middle} [{low}, {high}]"


def _gain(of: Paired | None) -> str:
    return shift(of.difference, of.low, of.high) if of else NONE


def _won(of: Paired | None) -> str:
    return f"{of.wins}, {of.losses}" if of else NONE


def _p(of: Paired | None) -> str:
    return chance(of.p) if of else NONE


# What is shown


def notes(found: Report) -> list[str]:
    """What is missing or not compared, and what the columns mean."""
    return [*found.notes, *LEGEND]


def show(found: Report) -> str:
    """Write all tables as text beside the searches; they come back, fit for the terminal."""
    made, told, path = tables(found), notes(found), found.folder / "tables.txt"
    whole, fits = (_text(made, told, width) for width in (0, columns()))
    write_atomically(path, f"{whole}\n".encode())
    return fits if fits == whole else f"{fits}\nall figures: {path}"


def markdown(found: Report) -> str:
    """The same tables for a document."""
    return "\n\n".join([*(table.markdown() for table in tables(found)), _noted(notes(found))])


def overview(folder: Path) -> str:
    """What the iterations in the folder `lean` of results gained, fit for the terminal. Raises UserError."""
    found = read(folder)
    return _text(over_iterations(found) or _by_nodes(found), found.notes, columns())


def _text(made: Sequence[Table], told: Sequence[str], width: int) -> str:
    parts = [*(table.text(width) for table in made), wrapped(_noted(told), "  ", width)]
    return "\n\n".join(filter(None, parts))


def _noted(told: Sequence[str]) -> str:
    return "\n".join(f"note: {line}" for line in told)


# For report.sh (core/results/labs.py)


def answers(args: Namespace, folder: Path) -> bool:
    """Print the tables of the searches, and write the page with their trees, if NAME is among the results."""
    from labs.lean import tree_page

    if NAME not in args.results:
        return False
    others = (
        args.live,
        args.anyway,
        args.figures is not None,
        args.jsonl is not None,
        args.inspect,
        len(args.results) > 1,
    )
    if any(others):
        raise UserError(f"{NAME} stands alone, with --markdown or --out FILE at most. Leave out the rest")
    found = read(folder / NAME)
    if args.markdown:
        print(markdown(found))
    else:
        out = tree_page.write(found, args.out or folder / NAME / "report.html")
        print(f"{show(found)}\n\nreport  {out} ({os.path.getsize(out) / 1e6:.1f} MB)")
    return True


def is_folder(folder: Path) -> bool:
    """Return False: report.sh shows searches under NAME only, and they are no results of an experiment."""
    return False
