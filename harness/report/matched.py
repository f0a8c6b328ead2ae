"""Read comparisons at equal compute and sweeps, and write their tables and figures. Grading writes
them again."""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from msgspec import structs

from core.base.errors import UserError
from core.base.files import parse_json, read_text, write_atomically
from core.base.prices import Prices
from core.base.stats import DRAWS, LEVEL
from core.base.terminal import columns, cut, wrapped
from core.engines.shape import Shape
from harness.report import plot
from harness.report.budgets import Row, columns_of, pair, rows, shown, table
from harness.report.table import NONE, Column, Table, legend
from harness.report.tables import POINTS, interval
from harness.results import read, write
from harness.results.cost_meter import UNITS, Meter

AGAIN = "Run the comparison again"
TABLE = "table.txt"
HOLM = "corrected by Holm for all pairs of runs, because the same figures chose the best run"
Values = Mapping[str, Mapping[str, Any]]  # the swept constants of each run, by its name


@dataclass(frozen=True)
class Matched:
    """A comparison at equal compute. Without `budgets`, it compares whole runs."""

    # Fields of the first line of table.jsonl. The other lines are the rows.
    kept_fields: ClassVar[tuple[str, ...]] = (
        "runs",
        "reference",
        "budgets",
        "seeds",
        "about",
        "doubts",
        "of_proofs",
    )
    folder: Path
    runs: dict[str, list[str]]  # file names in `folder` by scaffold, one for each seed
    reference: str  # the other scaffolds are compared with this one
    budgets: list[float]  # for one problem, in the unit of `meter`
    seeds: list[int]
    meter: Meter
    about: str  # the model and the problems
    doubts: list[str]  # notes on missing or doubtful results
    of_proofs: bool = False  # True for proofs, which have points after grading

    @property
    def what(self) -> str:
        return POINTS if self.of_proofs else "accuracy of the vote, %"

    def paths(self) -> dict[str, list[Path]]:
        return {name: [self.folder / each for each in of] for name, of in self.runs.items()}

    def show(self) -> str:
        """Write the table and figure. Return the columns that fit the terminal. Raises UserError
        for invalid files."""
        found = rows(self.paths(), self.budgets, self.meter)
        graded = [row for row in found if row.answered and row.accuracy.n]
        tables, notes = self.tabulate(found, bool(graded))
        about = f"brackets contain 95% intervals over problems. {legend(tables[0].columns)}"
        below, width = "\n".join(f"note: {note}" for note in (*notes, about)), columns()
        write_atomically(
            self.folder / TABLE,
            "\n\n".join([*(each.body() for each in tables), f"{below}\n"]).encode(),
        )
        summary: dict[str, Any] = {
            "experiment": self.folder.name,
            "made": write.now(),
            "unit": self.meter.unit,
        }
        summary |= {name: getattr(self, name) for name in self.kept_fields} | {"notes": notes}
        shape, prices = self.meter.shape, self.meter.prices
        summary |= {"shape": shape and structs.asdict(shape), "prices": prices and asdict(prices)}
        lines = [json.dumps(line) for line in (summary, *map(shown, found))]
        write_atomically(self.folder / "table.jsonl", ("\n".join(lines) + "\n").encode())
        if graded:
            document = read.read(next(iter(self.paths().values()))[0])[0].document
            self.draw(document | {"config": {}}, graded)
        whole = f"\nall figures: {self.folder / TABLE}" if width else ""
        return "\n\n".join(
            [*(each.body(width) for each in tables), f"{wrapped(below, '  ', width)}{whole}"]
        )

    def tabulate(self, found: list[Row], is_graded: bool) -> tuple[list[Table], list[str]]:
        """Pair the rows with the reference. Return their table, and notes."""
        pair(found, self.reference)
        what = POINTS if self.of_proofs else "accuracy"
        return [table(found, self.reference, self.meter, what)], self.notes(found, is_graded)

    def draw(self, document: dict[str, Any], graded: Sequence[Row]) -> None:
        """Draw the rows with grades. `document` has the fields of a run for the title."""
        points = [(row.name, row.budget, row.accuracy.to_json()) for row in graded]
        plot.matched(document, points, self.folder / "frontier.png", self.meter, self.what)

    def notes(self, found: Sequence[Row], is_graded: bool) -> list[str]:
        worth, one = (
            ("column of points", "proof")
            if self.of_proofs
            else ("accuracy of the vote in %", "answer")
        )
        budgets = f"Budgets for a problem are in {UNITS[self.meter.unit]}. " if self.budgets else ""
        notes = [
            f"{self.about}, seeds {', '.join(map(str, self.seeds))}. {budgets}The {worth} counts "
            f"problems without {one}s as 0, and has - if all problems lack {one}s. Scaffolds that "
            "begin with plain samples share the samples of a seed"
        ]
        if not is_graded and self.of_proofs:
            grade = f"bash scripts/grade.sh {self.folder.name} GRADER=card"
            notes.append(
                "not graded. To grade the proofs of each budget and write this table again, run "
                f"{grade}"
            )
        lacking = [
            row for row in found if is_graded and row.answered and row.accuracy.n < len(row.scores)
        ]
        if lacking:
            at = [f" at {self.meter.shown(row.budget)}" if self.budgets else "" for row in lacking]
            of_each = ", ".join(
                f"{row.name}{of} n={row.accuracy.n}" for row, of in zip(lacking, at, strict=True)
            )
            notes.append(
                f"grades of some problems are missing. These rows have fewer problems: {of_each}"
            )
        notes += self.doubts
        answered = {row.name for row in found if row.answered}
        if none := [
            name for name in dict.fromkeys(row.name for row in found) if name not in answered
        ]:
            notes.append(
                f"no budget suffices for a{'' if self.of_proofs else 'n'} {one} by: "
                f"{', '.join(none)}"
            )
        return notes


@dataclass(frozen=True)
class Sweep(Matched):
    """A sweep: its runs by tokens, the front of runs that no cheaper run equals, the best run, and
    a map."""

    swept: Values = field(default_factory=dict)
    kept_fields: ClassVar[tuple[str, ...]] = (*Matched.kept_fields, "swept")

    def tabulate(self, found: list[Row], is_graded: bool) -> tuple[list[Table], list[str]]:
        """Return the table and map, and notes. Sorts the rows by tokens, and pairs them with the
        best."""
        found.sort(key=lambda row: (row.means["tokens"], -row.accuracy.value))
        best = max(found, key=lambda row: row.accuracy.value if row.accuracy.n else -1)
        pair(found, best.name, math.comb(len(found), 2))
        highest = -1.0
        for row in found:
            # 0: unknown
            is_on_front = row.answered and row.means["tokens"] > 0 and row.accuracy.value > highest
            highest = row.accuracy.value if is_on_front else highest
            row.more = {
                "constants": self.swept[row.name],
                "mean": row.mean.to_json(),
                "front": is_on_front,
            }
        grid = map_of(found, self.swept) if is_graded else None
        notes = [*([verdict(found, best)] if is_graded else []), *self.notes(found, is_graded)]
        return [
            Table("", self._columns(found, best.name)),
            *([grid.table()] if grid else []),
        ], notes

    def _columns(self, found: Sequence[Row], best: str) -> list[Column]:
        what = POINTS if self.of_proofs else "vote"
        known = {each.head: each for each in columns_of(found, best, self.meter, what)}
        means = [interval(row.mean.to_json()) for row in found]
        front = ["+" if row.more["front"] else "" for row in found]
        heads = ("tokens", "path s", "calls", "prompt", "cached", "read", "read_cold", "dollars")
        return [
            replace(known["scaffold"], head="run"),
            known[what],
            *(
                []
                if self.of_proofs
                else [Column("mean", means, "accuracy of all members of the last population")]
            ),
            known[f"minus {best}"],
            replace(known["p (Holm)"], meaning=HOLM),
            Column("front", front, "+ if all cheaper runs are less accurate"),
            *(known[head] for head in heads if head in known),
        ]

    def draw(self, document: dict[str, Any], graded: Sequence[Row]) -> None:
        """Draw the vote against tokens, and the map."""
        points = [
            (row.name, row.means["tokens"], row.accuracy.to_json(), row.more["front"])
            for row in graded
        ]
        if any(is_on_front for *_, is_on_front in points):
            plot.swept(document, points, self.folder / "frontier.png", self.what)
        if grid := map_of(graded, self.swept):
            down, across = zip(grid.names, (grid.down, grid.across), strict=True)
            means = [[100 * mean for mean in row] for row in grid.means]
            plot.grid(document, across, down, means, self.folder / "map.png", 100, self.what)


def compared_in(folder: Path) -> Matched:
    """Read the comparison in `folder`. Raises UserError if its table is missing, invalid or of
    another version."""
    path = folder / "table.jsonl"
    fields = parse_json(
        read_text(path, "the table", AGAIN).partition("\n")[0], f"the table {path}", AGAIN
    )
    try:
        shape, prices = fields["shape"], fields["prices"]
        meter = Meter(fields["unit"], shape and Shape(**shape), prices and Prices(**prices))
        kind = Sweep if "swept" in fields else Matched
        found = kind(folder, meter=meter, **{name: fields[name] for name in kind.kept_fields})
    except (KeyError, TypeError):
        raise UserError(f"the first line of {path} lacks fields of a comparison. {AGAIN}") from None
    if any(Path(name).name != name for names in found.runs.values() for name in names):
        raise UserError(f"the table {path} names results outside its folder. {AGAIN}")
    return found


def verdict(found: Sequence[Row], best: Row) -> str:
    """Name the best run, and what remains of its lead after the correction for all pairs."""
    others = [row for row in found if row is not best]
    level = [row for row in others if row.p_holm is None or row.p_holm > LEVEL]
    text = (
        f"best: {best.name} with {interval(best.accuracy.to_json())} at "
        f"{best.means['tokens']:,.0f} tokens"
    )
    if not others:
        return text
    text += (
        f", better than {len(others) - len(level)} of the {len(others)} other runs (p at most "
        f"{LEVEL:g}, {HOLM})"
    )
    if math.comb(len(found), 2) > LEVEL * DRAWS:
        text += (
            f". The test has {DRAWS:,} sign patterns, too few for so many pairs. Sweep fewer "
            "values at a time"
        )
    if level:
        names = cut(", ".join(row.name for row in level), 400)
        cheapest = min([best, *level], key=lambda row: row.means["tokens"])
        text += f". Not told apart from {names}. The cheapest of these is {cheapest.name} "
        text += f"({cheapest.means['tokens']:,.0f} tokens)"
    return f"{text}. The best of several looks better than it is on new problems"


@dataclass(frozen=True)
class Map:
    """The mean vote of the runs with each pair of values of two swept constants, nan for a pair
    without a run."""

    names: tuple[str, str]
    down: list[Any]
    across: list[Any]
    means: list[list[float]]

    def table(self) -> Table:
        """Return the map as a table, in %."""
        first, second = self.names
        cells = [
            [NONE if math.isnan(mean) else f"{100 * mean:.1f}" for mean in row]
            for row in self.means
        ]
        columns = zip(self.across, zip(*cells, strict=True), strict=True)
        names = Column("", [f"{first}={value}" for value in self.down])
        return Table("", [names, *(Column(f"{second}={value}", of) for value, of in columns)])


def map_of(found: Sequence[Row], values: Values) -> Map | None:
    """Return the map over the first two constants with several values, or None if there are
    fewer."""
    votes = {row.name: row.accuracy.value for row in found}
    known = [values[name] for name in votes]
    names = [name for name in known[0] if len({of[name] for of in known}) > 1][:2]
    if len(names) < 2:
        return None
    down, across = (
        [*dict.fromkeys(of[name] for of in values.values() if of in known)] for name in names
    )
    cells = defaultdict(list)
    for name, vote in votes.items():
        cells[values[name][names[0]], values[name][names[1]]].append(vote)
    means = [[fmean(cells[a, b]) if cells[a, b] else math.nan for b in across] for a in down]
    return Map((names[0], names[1]), down, across, means)
