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
from harness.report.budgets import Row, columns_of, pair, rows, table, to_json
from harness.report.table import NONE, Column, Table, legend
from harness.report.tables import POINTS, interval, percent
from harness.results import read, write
from harness.results.cost_meter import UNITS, Meter

AGAIN = "Run the comparison again"
TABLE = "table.txt"
HOLM = "corrected by Holm for all pairs of runs, because the same figures chose the best run"
Values = Mapping[str, Mapping[str, Any]]  # the swept constants of each run, by its name


@dataclass(frozen=True)
class Contents:
    """The contents of a comparison's files."""

    rows: list[Row]
    graded: list[Row]  # the rows with answers and grades
    tables: list[Table]
    notes: list[str]

    def bodies(self, width: int = 0) -> list[str]:
        return [table.body(width) for table in self.tables]

    def below(self) -> str:
        """Return the notes and the legend as lines below the tables."""
        explained = legend(self.tables[0].columns)
        text = f"brackets contain 95% intervals over problems. {explained}"
        return "\n".join(f"note: {note}" for note in (*self.notes, text))


@dataclass(frozen=True)
class EqualComputeTable:
    """A comparison at equal compute. Without `budgets`, it compares whole runs."""

    # Fields of the first line of table.jsonl. The other lines are the rows.
    stored_fields: ClassVar[tuple[str, ...]] = (
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

    def label(self, figures: Sequence[Row]) -> str:
        """Return the label of an axis with the results of the rows."""
        return POINTS if self.of_proofs else f"{_unit(figures)} of the vote, %"

    def paths(self) -> dict[str, list[Path]]:
        paths = {}
        for scaffold, names in self.runs.items():
            paths[scaffold] = [self.folder / name for name in names]
        return paths

    def show(self) -> str:
        """Write the table and figure. Return the columns that fit the terminal. Raises UserError
        for invalid files."""
        contents = self._contents()
        self._write(contents)
        return self._text(contents)

    def _contents(self) -> Contents:
        figures = rows(self.paths(), self.budgets, self.meter)
        graded = [row for row in figures if row.answered and row.accuracy.n]
        tables, notes = self.tabulate(figures, bool(graded))
        return Contents(figures, graded, tables, notes)

    def _write(self, contents: Contents) -> None:
        """Write table.txt, table.jsonl, and the figures if there are grades."""
        text = "\n\n".join([*contents.bodies(), contents.below()]) + "\n"
        write_atomically(self.folder / TABLE, text.encode())
        lines = [self._summary(contents.notes), *(to_json(row) for row in contents.rows)]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        write_atomically(self.folder / "table.jsonl", text.encode())
        if contents.graded:
            first = next(iter(self.paths().values()))[0]
            document = read.read(first)[0].document
            self.draw(document | {"config": {}}, contents.graded)

    def _summary(self, notes: Sequence[str]) -> dict[str, Any]:
        """Return the first line of table.jsonl."""
        summary: dict[str, Any] = {
            "experiment": self.folder.name,
            "made": write.now(),
            "unit": self.meter.unit,
        }
        for name in self.stored_fields:
            summary[name] = getattr(self, name)
        shape = self.meter.shape
        prices = self.meter.prices
        summary["notes"] = notes
        summary["shape"] = structs.asdict(shape) if shape else None
        summary["prices"] = asdict(prices) if prices else None
        return summary

    def _text(self, contents: Contents) -> str:
        width = columns()
        below = wrapped(contents.below(), "  ", width)
        if width:
            below += f"\nall figures: {self.folder / TABLE}"
        return "\n\n".join([*contents.bodies(width), below])

    def tabulate(self, figures: list[Row], is_graded: bool) -> tuple[list[Table], list[str]]:
        """Pair the rows with the reference. Return their table, and notes."""
        pair(figures, self.reference)
        metric = POINTS if self.of_proofs else _unit(figures)
        return [table(figures, self.reference, self.meter, metric)], self.notes(figures, is_graded)

    def draw(self, document: dict[str, Any], graded: Sequence[Row]) -> None:
        """Draw the rows with grades. `document` has the fields of a run for the title."""
        points = [(row.name, row.budget, row.accuracy.to_json()) for row in graded]
        path = self.folder / "frontier.png"
        plot.equal_compute(document, points, path, self.meter, self.label(graded))

    def notes(self, figures: Sequence[Row], is_graded: bool) -> list[str]:
        notes = [self._note_on_columns(_unit(figures))]
        if not is_graded and self.of_proofs:
            command = f"bash scripts/grade.sh {self.folder.name} GRADER=card"
            notes.append(
                "not graded. To grade the proofs of each budget and write this table again, run "
                f"{command}"
            )
        if is_graded:
            notes += self._note_on_missing_grades(figures)
        notes += self.doubts
        answered = {row.name for row in figures if row.answered}
        names = dict.fromkeys(row.name for row in figures)
        silent = [name for name in names if name not in answered]
        if silent:
            answer = "a proof" if self.of_proofs else "an answer"
            notes.append(f"no budget suffices for {answer} by: {', '.join(silent)}")
        return notes

    def _note_on_columns(self, unit: str) -> str:
        column = f"{unit} of the vote in %"
        answers = "answers"
        if self.of_proofs:
            column = "column of points"
            answers = "proofs"
        seeds = ", ".join(map(str, self.seeds))
        budgets = f"Budgets for a problem are in {UNITS[self.meter.unit]}. " if self.budgets else ""
        return (
            f"{self.about}, seeds {seeds}. {budgets}The {column} counts problems without {answers} "
            f"as 0, and has - if all problems lack {answers}. Scaffolds that begin with plain "
            "samples share the samples of a seed"
        )

    def _note_on_missing_grades(self, figures: Sequence[Row]) -> list[str]:
        """Return a note that names rows with fewer problems, or nothing."""
        named = []
        for row in figures:
            if row.answered and row.accuracy.n < len(row.scores):
                budget = f" at {self.meter.format(row.budget)}" if self.budgets else ""
                named.append(f"{row.name}{budget} n={row.accuracy.n}")
        if not named:
            return []
        return [
            "grades of some problems are missing. These rows have fewer problems: "
            f"{', '.join(named)}"
        ]


@dataclass(frozen=True)
class Sweep(EqualComputeTable):
    """A sweep: its runs by tokens, the front of runs that no cheaper run equals, the best run, and
    a map."""

    swept: Values = field(default_factory=dict)
    stored_fields: ClassVar[tuple[str, ...]] = (*EqualComputeTable.stored_fields, "swept")

    def tabulate(self, figures: list[Row], is_graded: bool) -> tuple[list[Table], list[str]]:
        """Return the table and map, and notes. Sorts the rows by tokens, and pairs them with the
        best."""
        figures.sort(key=lambda row: (row.means["tokens"], -row.accuracy.value))
        best = max(figures, key=lambda row: row.accuracy.value if row.accuracy.n else -1)
        pair(figures, best.name, math.comb(len(figures), 2))
        self._mark_front(figures)
        tables = [Table("", self._columns(figures, best.name))]
        notes = self.notes(figures, is_graded)
        if is_graded:
            notes.insert(0, verdict(figures, best))
            grid = map_of(figures, self.swept)
            if grid:
                tables.append(grid.table())
        return tables, notes

    def _mark_front(self, figures: Sequence[Row]) -> None:
        """Set `more` of the rows, which are sorted by tokens. Runs on the front are more accurate
        than all cheaper runs."""
        highest = -1.0
        for row in figures:
            has_tokens = row.means["tokens"] > 0  # 0: unknown
            is_on_front = row.answered and has_tokens and row.accuracy.value > highest
            if is_on_front:
                highest = row.accuracy.value
            row.more = {
                "constants": self.swept[row.name],
                "mean": row.mean.to_json(),
                "front": is_on_front,
            }

    def _columns(self, figures: Sequence[Row], best: str) -> list[Column]:
        metric = POINTS if self.of_proofs else "vote"
        by_head = {column.head: column for column in columns_of(figures, best, self.meter, metric)}
        columns = [replace(by_head["scaffold"], head="run"), by_head[metric]]
        if not self.of_proofs:
            means = [interval(row.mean.to_json()) for row in figures]
            meaning = f"{_unit(figures)} of all members of the last population"
            columns.append(Column("mean", means, meaning, rank=2))
        front = ["+" if row.more["front"] else "" for row in figures]
        columns += [
            by_head[f"minus {best}"],
            replace(by_head["p (Holm)"], meaning=HOLM),
            Column("front", front, "+ if all cheaper runs are less accurate"),
            replace(by_head["tokens"], rank=0),
        ]
        for head in (
            "path s",
            "calls",
            "prompt",
            "cached",
            "read",
            "read_cold",
            "dollars",
        ):
            if head in by_head:
                columns.append(by_head[head])
        return columns

    def draw(self, document: dict[str, Any], graded: Sequence[Row]) -> None:
        """Draw the vote against tokens, and the map."""
        points = []
        for row in graded:
            estimate = row.accuracy.to_json()
            points.append((row.name, row.means["tokens"], estimate, row.more["front"]))
        if any(row.more["front"] for row in graded):
            plot.swept(document, points, self.folder / "frontier.png", self.label(graded))
        grid = map_of(graded, self.swept)
        if grid:
            means = [[100 * mean for mean in row] for row in grid.means]
            across = (grid.names[1], grid.across)
            down = (grid.names[0], grid.down)
            path = self.folder / "map.png"
            plot.grid(document, across, down, means, path, 100, self.label(graded))


def _unit(figures: Sequence[Row]) -> str:
    return "score" if any(row.has_scores for row in figures) else "accuracy"


def compared_in(folder: Path) -> EqualComputeTable:
    """Read the comparison in `folder`. Raises UserError if its table is missing, invalid or of
    another version."""
    path = folder / "table.jsonl"
    first_line = read_text(path, "the table", AGAIN).partition("\n")[0]
    fields = parse_json(first_line, f"the table {path}", AGAIN)
    try:
        shape = fields["shape"] and Shape(**fields["shape"])
        prices = fields["prices"] and Prices(**fields["prices"])
        meter = Meter(fields["unit"], shape, prices)
        kind = Sweep if "swept" in fields else EqualComputeTable
        stored = {name: fields[name] for name in kind.stored_fields}
        compared = kind(folder, meter=meter, **stored)
    except (KeyError, TypeError):
        raise UserError(f"the first line of {path} lacks fields of a comparison. {AGAIN}") from None
    for names in compared.runs.values():
        if any(Path(name).name != name for name in names):
            raise UserError(f"the table {path} names results outside its folder. {AGAIN}")
    return compared


def verdict(figures: Sequence[Row], best: Row) -> str:
    """Name the best run, and what remains of its lead after the correction for all pairs."""
    others = [row for row in figures if row is not best]
    level = [row for row in others if row.p_holm is None or row.p_holm > LEVEL]
    accuracy = interval(best.accuracy.to_json())
    text = f"best: {best.name} with {accuracy} at {_tokens(best)}"
    if not others:
        return text
    if all(row.accuracy.value == best.accuracy.value for row in others):
        cheapest = min(figures, key=lambda row: row.means["tokens"])
        name = f"{cheapest.name} ({_tokens(cheapest)})"
        return f"all runs have {accuracy}, so none is best. The cheapest is {name}"
    beaten = len(others) - len(level)
    condition = f"(p at most {LEVEL:g}, {HOLM})"
    text += f", better than {beaten or 'none'} of the {len(others)} other runs {condition}"
    if math.comb(len(figures), 2) > LEVEL * DRAWS:
        text += (
            f". The test has {DRAWS:,} sign patterns, too few for so many pairs. Sweep fewer "
            "values at a time"
        )
    if level:
        names = cut(", ".join(row.name for row in level), 400)
        cheapest = min([best, *level], key=lambda row: row.means["tokens"])
        text += f". Not told apart from {names}. The cheapest of these is {cheapest.name} "
        text += f"({_tokens(cheapest)})"
    return f"{text}. The best of several looks better than it is on new problems"


def _tokens(row: Row) -> str:
    return f"{row.means['tokens']:,.0f} tokens"


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
        columns = [Column("", [f"{first}={value}" for value in self.down])]
        for number, value in enumerate(self.across):
            cells = [_percent(row[number]) for row in self.means]
            columns.append(Column(f"{second}={value}", cells))
        return Table("", columns)


def map_of(figures: Sequence[Row], values: Values) -> Map | None:
    """Return the map over the first two constants with several values, or None if there are
    fewer."""
    constants = [values[row.name] for row in figures]
    names = [name for name in constants[0] if len({run[name] for run in constants}) > 1]
    if len(names) < 2:
        return None
    first, second = names[:2]
    votes = defaultdict(list)
    for row in figures:
        run = values[row.name]
        votes[run[first], run[second]].append(row.accuracy.value)
    # in the order of the sweep
    swept = [run for run in values.values() if run in constants]
    down = list(dict.fromkeys(run[first] for run in swept))
    across = list(dict.fromkeys(run[second] for run in swept))
    means = []
    for value in down:
        cells = [votes[value, other] for other in across]
        means.append([fmean(cell) if cell else math.nan for cell in cells])
    return Map((first, second), down, across, means)


def _percent(mean: float) -> str:
    return NONE if math.isnan(mean) else percent(mean)
