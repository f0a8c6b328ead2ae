"""Tabulate a sweep: its runs by tokens, the front of runs that no cheaper run equals, the best run, and a map."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, ClassVar

from core.base.stats import DRAWS, LEVEL
from core.report import plot
from core.report.budgets import Row, columns_of, pair
from core.report.matched import Matched
from core.report.table import NONE, Column, Metric, Table, filled, legend
from core.report.tables import POINTS, interval

HOLM = "corrected by Holm for all pairs of runs, because the same figures chose the best run"
SHOWN = 12  # names in a note
Values = Mapping[str, Mapping[str, Any]]  # the swept constants of each run, by its name


@dataclass(frozen=True)
class Sweep(Matched):
    """A sweep. `swept` has the swept constants of each run."""

    swept: Values = field(default_factory=dict)
    kept_fields: ClassVar[tuple[str, ...]] = (*Matched.kept_fields, "swept")

    def tabulate(self, found: list[Row], is_graded: bool) -> tuple[list[Table], list[str], str]:
        """Return the table and map, notes and the legend. Sorts the rows by tokens, and pairs them with the best."""
        found.sort(key=lambda row: (row.means["tokens"], -row.accuracy.value))
        best = max(found, key=lambda row: row.accuracy.value if row.accuracy.n else -1)
        pair(found, best.name, math.comb(len(found), 2))
        highest = -1.0
        for row in found:
            is_on_front = row.answered and row.means["tokens"] > 0 and row.accuracy.value > highest  # 0: unknown
            highest = row.accuracy.value if is_on_front else highest
            row.more = {"constants": self.swept[row.name], "mean": row.mean.to_json(), "front": is_on_front}
        shown = filled(self._columns(best.name), found, found[0])
        grid = map_of(found, self.swept) if is_graded else None
        notes = [*([verdict(found, best)] if is_graded else []), *self.notes(found, is_graded)]
        about = legend(shown, "brackets contain 95% intervals over problems")
        return [Table("", shown), *([grid.table()] if grid else [])], notes, about

    def _columns(self, best: str) -> list[Metric]:
        what = POINTS if self.of_proofs else "vote"
        known = {each.head: each for each in columns_of(best, self.meter, what)}
        mean = Metric(
            "mean", "accuracy of all members of the last population", lambda row: interval(row.mean.to_json())
        )
        heads = ("tokens", "path s", "calls", "prompt", "cached", "read", "read_cold", "dollars")
        return [
            Metric("run", "", lambda row: row.name),
            known[what],
            *([] if self.of_proofs else [mean]),
            known[f"minus {best}"],
            Metric("p (Holm)", HOLM, known["p (Holm)"].read, rank=1),
            Metric("front", "+ if all cheaper runs are less accurate", lambda row: "+" if row.more["front"] else ""),
            *(known[head] for head in heads),
        ]

    def draw(self, document: dict[str, Any], graded: Sequence[Row], what: str) -> None:
        """Draw the vote against tokens, and the map."""
        points = [(row.name, row.means["tokens"], row.accuracy.to_json(), row.more["front"]) for row in graded]
        if any(is_on_front for *_, is_on_front in points):
            plot.swept(document, points, self.folder / "frontier.png", what)
        if grid := map_of(graded, self.swept):
            plot.grid(document, grid.names, grid.down, grid.across, grid.means, self.folder / "map.png", what)


def verdict(found: Sequence[Row], best: Row) -> str:
    """Name the best run, and what remains of its lead after the correction for all pairs."""
    others = [row for row in found if row is not best]
    level = [row for row in others if row.p_holm is None or row.p_holm > LEVEL]
    text = f"best: {best.name} with {interval(best.accuracy.to_json())} at {best.means['tokens']:,.0f} tokens"
    if not others:
        return text
    text += f", better than {len(others) - len(level)} of the {len(others)} other runs (p at most {LEVEL:g}, {HOLM})"
    if math.comb(len(found), 2) > LEVEL * DRAWS:
        text += f". The test has {DRAWS:,} sign patterns, too few for so many pairs. Sweep fewer values at a time"
    if level:
        names = [row.name for row in level]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        cheapest = min([best, *level], key=lambda row: row.means["tokens"])
        text += f". Not told apart from {', '.join(names[:SHOWN])}{more}. The cheapest of these is {cheapest.name} "
        text += f"({cheapest.means['tokens']:,.0f} tokens)"
    return f"{text}. The best of several looks better than it is on new problems"


@dataclass(frozen=True)
class Map:
    """The mean vote of the runs with each pair of values of two swept constants, nan for a pair without a run."""

    names: tuple[str, str]
    down: list[Any]
    across: list[Any]
    means: list[list[float]]

    def table(self) -> Table:
        """Return the map as a table, in %."""
        first, second = self.names
        cells = [[NONE if math.isnan(mean) else f"{100 * mean:.1f}" for mean in row] for row in self.means]
        columns = [Column("", [f"{first}={value}" for value in self.down])]
        columns += [
            Column(f"{second}={value}", of) for value, of in zip(self.across, zip(*cells, strict=True), strict=True)
        ]
        return Table("", columns)


def map_of(found: Sequence[Row], values: Values) -> Map | None:
    """Return the map over the first two constants with several values, or None if there are fewer."""
    votes = {row.name: row.accuracy.value for row in found}
    known = [values[name] for name in votes]
    names = [name for name in known[0] if len({of[name] for of in known}) > 1][:2]
    if len(names) < 2:
        return None
    down, across = ([*dict.fromkeys(of[name] for of in values.values() if of in known)] for name in names)
    cells = defaultdict(list)
    for name, vote in votes.items():
        cells[values[name][names[0]], values[name][names[1]]].append(vote)
    means = [[fmean(cells[a, b]) if cells[a, b] else math.nan for b in across] for a in down]
    return Map((names[0], names[1]), down, across, means)
