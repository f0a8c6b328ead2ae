"""Tabulate searches: solve rates by budget, gains of iterations, costs of proofs, reasons for
failure, and time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from core.base.errors import one_line
from core.base.files import write_atomically
from core.base.stats import Paired
from core.base.terminal import columns, wrapped
from harness.report.table import NONE, Column, Table
from harness.report.tables import chance, shift
from labs.lean import outcome
from labs.lean.constants import budgets
from labs.lean.outcome import PARTS
from labs.lean.searches import ALONE, GUIDED, LEARNED, Report, Searches, policy_name, read

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


def tables(report: Report) -> list[Table]:
    """Return all tables of a report."""
    ran = report.searches
    return [*by_nodes(report), *over_iterations(report), _cost(ran), *_unproved(ran), _time(ran)]


def by_nodes(report: Report) -> list[Table]:
    """Tabulate the solve rates within several node budgets."""
    rows = [searches for searches in report.searches if searches.kind in (ALONE, GUIDED)]
    if not rows:
        return []
    every: set[int] = set()
    for searches in rows:
        every.update(budgets(searches.nodes))
    limits = sorted(every)
    sizes = [f"{len(searches.outcomes):,}" for searches in rows]
    solved = [_column("theorems", sizes, 1)]
    # a narrow terminal leaves out the smallest limits first, and never the largest
    ranks = [*range(len(limits) + 1, 2, -1), 0]
    for limit, rank in zip(limits, ranks, strict=True):
        cells = [searches.rate(limit) if limit <= searches.nodes else None for searches in rows]
        solved.append(_column(f"within {limit:,}", cells, rank))
    return [_of_searches("solved by number of nodes, %", rows, solved, SOLVED)]


def over_iterations(report: Report) -> list[Table]:
    """Tabulate the gain of each iteration, and the gain of its energy at equal nodes."""
    tables = []
    policies = list(report.records)
    if report.of(-1, ALONE):
        policies = [-1, *policies]
    if policies:
        tables.append(_policies(report, policies))
    guided = [policy for policy in report.records if report.of(policy, GUIDED)]
    if guided:
        tables.append(_energies(report, guided))
    return tables


def _policies(report: Report, policies: Sequence[int]) -> Table:
    first = report.of(-1, ALONE)
    rows = [report.of(policy, ALONE) for policy in policies]
    learned = [report.of(policy, LEARNED) for policy in policies]
    previous = [report.of(policy - 1, ALONE) for policy in policies]
    since_previous = list(map(_gain, previous, rows))
    since_first = [_gain(first, searches) if searches is not first else None for searches in rows]
    pairs = [report.records.get(policy, {}).get("pairs") for policy in policies]
    cells = [
        _column("policy", list(map(policy_name, policies))),
        _column("nodes", [searches and f"{searches.nodes:,}" for searches in rows], 7),
        _column("solved", [searches and searches.rate() for searches in rows]),
        *_gains(since_previous, {"minus before": 0, "won, lost": 3, "p": 2}),
        *_gains(since_first, {"minus first": 1, "won, lost (first)": 6, "p (first)": 5}),
        _column(
            "training theorems proved",
            [searches and searches.share_proved for searches in learned],
            4,
        ),
        _column("pairs", [count and f"{count:,}" for count in pairs], 4),
    ]
    title = "iterations: held-out theorems that each policy solves without an energy, %"
    return Table(title, cells, _links(rows), legend_end=DIFFERENCES)


def _energies(report: Report, policies: Sequence[int]) -> Table:
    alone = [report.of(policy, ALONE) for policy in policies]
    rows = [report.of(policy, GUIDED) for policy in policies]
    records = [report.records[policy] for policy in policies]
    cells = [
        _column("policy", list(map(policy_name, policies))),
        _column("without", [searches and searches.rate() for searches in alone], 1),
        _column("with the energy", [searches and searches.rate() for searches in rows], 1),
        *_gains(list(map(_gain, alone, rows)), {"difference": 0, "won, lost": 0, "p": 0}),
        _column("AUC", [_number(record.get("auc"), 3) for record in records]),
        _column("own", [_number(record.get("auc_own"), 3) for record in records]),
    ]
    title = (
        "energy: theorems that each policy solves without and with its energy, at equal nodes, %"
    )
    return Table(title, cells, _links(rows), legend_end=ENERGY)


def _gain(before: Searches | None, after: Searches | None) -> Paired | None:
    """Compare searches by theorem. Return None if one is missing, or if they differ in theorems or
    nodes."""
    if before is None or after is None or before.nodes != after.nodes:
        return None
    if _statements(before) != _statements(after):
        return None
    return outcome.compared(before.outcomes, after.outcomes, after.nodes)


def _statements(searches: Searches) -> list[str]:
    return [outcome.statement for outcome in searches.outcomes]


def _cost(rows: Sequence[Searches]) -> Table:
    nodes = [[outcome.at for outcome in searches.proved if outcome.at] for searches in rows]
    seconds = [[outcome.seconds["all"] for outcome in searches.proved] for searches in rows]
    figures = [searches.figures for searches in rows]
    cells = [
        _column("proved", [searches.share_proved for searches in rows]),
        _column("nodes to a proof", [_quartiles(values, 0) for values in nodes]),
        _column("s to a proof", [_quartiles(values, 1) for values in seconds], 1),
        _column("longest proof", [_number(each["longest_proof"], 0) for each in figures], 3),
        _column("tactics a state", [_number(each["unique"], 2) for each in figures], 2),
        _column("nodes in all", [f"{each['nodes']:,}" for each in figures], 4),
    ]
    return _of_searches("cost of a proof", rows, cells, TAKEN)


def _unproved(rows: Sequence[Searches]) -> list[Table]:
    counts: list[dict[str, int]] = [searches.figures["reasons"] for searches in rows]
    reasons = sorted(set().union(*counts))
    if not reasons:
        return []
    cells = [_column("not proved", [str(sum(count.values())) for count in counts])]
    for reason in reasons:
        by_search = [str(count.get(reason, 0)) for count in counts]
        cells.append(_column(one_line(reason, 40), by_search, 1))
    return [_of_searches("reasons why searches ended without a proof", rows, cells)]


def _time(rows: Sequence[Searches]) -> Table:
    seconds = [_seconds_by_part(searches) for searches in rows]
    cells = [_column("s in all", [f"{sum(parts.values()):,.0f}" for parts in seconds])]
    heads = ("Lean", "policy", "energy", "acceptance")
    for head, part in zip(heads, PARTS, strict=True):
        cells.append(_column(head, [_percent(parts, part) for parts in seconds], 1))
    return _of_searches("time of searches by part, %", rows, cells, TIME)


def _seconds_by_part(searches: Searches) -> dict[str, float]:
    seconds = searches.figures["seconds"]
    return {part: float(seconds.get(part, 0.0)) for part in PARTS}


def _percent(seconds: Mapping[str, float], part: str) -> str | None:
    total = sum(seconds.values())
    return f"{100 * seconds[part] / total:.0f}" if any(seconds.values()) else None


def _of_searches(
    title: str, rows: Sequence[Searches], cells: Sequence[Column], about: str = ""
) -> Table:
    labels = _column("searches", [searches.label for searches in rows])
    return Table(title, [labels, *cells], _links(rows), legend_end=about)


def _links(rows: Sequence[Searches | None]) -> list[dict[str, str]]:
    return [{"theorems": searches.label} if searches else {} for searches in rows]


def _column(head: str, cells: Sequence[Any], rank: int = 0) -> Column:
    """Return a column. A cell without a value becomes NONE."""
    return Column(head, [str(cell or NONE) for cell in cells], rank=rank)


def _gains(gains: Sequence[Paired | None], heads: Mapping[str, int]) -> list[Column]:
    """Return three columns about gains: the difference, won and lost theorems, and p. `heads` maps
    their heads to their ranks."""
    differences: list[str | None] = []
    counts: list[str | None] = []
    ps: list[str | None] = []
    for gain in gains:
        differences.append(shift(gain.difference, gain.low, gain.high) if gain else None)
        counts.append(f"{gain.wins}, {gain.losses}" if gain else None)
        ps.append(chance(gain.p) if gain else None)
    by_head = zip(heads.items(), (differences, counts, ps), strict=True)
    return [_column(head, cells, rank) for (head, rank), cells in by_head]


def _quartiles(values: Sequence[float], digits: int) -> str | None:
    if not values:
        return None
    low, middle, high = (f"{value:,.{digits}f}" for value in np.percentile(values, [25, 50, 75]))
    return f"{middle} [{low}, {high}]"


def _number(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


# Text


def show(report: Report) -> str:
    """Write all tables to tables.txt in the folder, and return them formatted for the terminal."""
    every = tables(report)
    notes = [*report.notes, *LEGEND]
    path = report.folder / "tables.txt"
    whole = _text(every, notes, 0)
    fits = _text(every, notes, columns())
    write_atomically(path, f"{whole}\n".encode())
    return fits if fits == whole else f"{fits}\nall figures: {path}"


def markdown(report: Report) -> str:
    """Return all tables and notes in Markdown."""
    parts = [table.markdown() for table in tables(report)]
    return "\n\n".join([*parts, _noted([*report.notes, *LEGEND])])


def overview(folder: Path) -> str:
    """Format the gains of the iterations in `folder` as tables for the terminal. Raises
    UserError."""
    report = read(folder)
    is_trained = any(report.of(number, ALONE) for number in report.records)
    main = over_iterations(report) if is_trained else by_nodes(report)
    return _text(main, report.notes, columns())


def _text(tables: Sequence[Table], notes: Sequence[str], width: int) -> str:
    parts = [table.text(width) for table in tables]
    parts.append(wrapped(_noted(notes), "  ", width))
    return "\n\n".join(filter(None, parts))


def _noted(notes: Sequence[str]) -> str:
    return "\n".join(f"note: {line}" for line in notes)
