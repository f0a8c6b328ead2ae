"""Read a comparison at equal compute, and write its table and figure. They are written again after grading."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from core.base.errors import UserError
from core.base.files import parse_json, read_text, write_atomically
from core.base.prices import Prices
from core.base.terminal import columns, wrapped
from core.engines.shape import Shape
from core.report import plot
from core.report.budgets import LEGEND, Row, pair, rows, shown, table
from core.report.table import Table
from core.report.tables import POINTS
from core.results import read, write
from core.results.spending import UNITS, Meter

AGAIN = "Run the comparison again"
TABLE = "table.txt"


@dataclass(frozen=True)
class Matched:
    """A comparison at equal compute. Without `budgets`, it compares whole runs."""

    # Fields of the first line of table.jsonl. The other lines are the rows.
    kept_fields: ClassVar[tuple[str, ...]] = ("runs", "reference", "budgets", "seeds", "about", "doubts", "of_proofs")
    folder: Path
    runs: dict[str, list[str]]  # file names in `folder` by scaffold, one for each seed
    reference: str  # the other scaffolds are compared with this one
    budgets: list[float]  # for one problem, in the unit of `meter`
    seeds: list[int]
    meter: Meter
    about: str  # the model and the problems
    doubts: list[str]  # notes on missing or doubtful results
    of_proofs: bool = False  # True for proofs, which have points after grading

    @classmethod
    def kept(cls, folder: Path) -> "Matched":
        """Read the comparison in `folder`. Raises UserError if its table is missing, invalid or of another version."""
        path = folder / "table.jsonl"
        first = read_text(path, "the table", AGAIN).partition("\n")[0]
        fields = parse_json(first, f"the table {path}", AGAIN)
        try:
            shape, prices = fields["shape"], fields["prices"]
            meter = Meter(fields["unit"], shape and Shape(**shape), prices and Prices(**prices))
            if "swept" in fields:
                from core.report.swept import Sweep as cls  # it imports this module
            found = cls(folder, meter=meter, **{name: fields[name] for name in cls.kept_fields})
        except (KeyError, TypeError):
            raise UserError(f"the first line of {path} lacks fields of a comparison. {AGAIN}") from None
        if any(Path(name).name != name for names in found.runs.values() for name in names):
            raise UserError(f"the table {path} names results outside its folder. {AGAIN}")
        return found

    def paths(self) -> dict[str, list[Path]]:
        return {name: [self.folder / each for each in of] for name, of in self.runs.items()}

    def show(self) -> str:
        """Write the table and figure. Return the columns that fit the terminal. Raises UserError for invalid files."""
        found = rows(self.paths(), self.budgets, self.meter)
        graded = [row for row in found if row.answered and row.accuracy.n]
        tables, notes, legend = self.tabulate(found, bool(graded))
        width = columns()
        below = "\n".join(f"note: {note}" for note in (*notes, legend))
        write_atomically(self.folder / TABLE, "\n\n".join([*(each.body() for each in tables), f"{below}\n"]).encode())
        summary: dict[str, Any] = {"experiment": self.folder.name, "made": write.now(), "unit": self.meter.unit}
        summary |= {name: getattr(self, name) for name in self.kept_fields} | {"notes": notes}
        for name, of in (("shape", self.meter.shape), ("prices", self.meter.prices)):
            summary[name] = of and asdict(of)
        lines = [json.dumps(line) for line in (summary, *map(shown, found))]
        write_atomically(self.folder / "table.jsonl", ("\n".join(lines) + "\n").encode())
        if graded:
            document = read.read(next(iter(self.paths().values()))[0])[0].document
            self.draw(document | {"config": {}}, graded, POINTS if self.of_proofs else "accuracy of the vote, %")
        whole = f"\nall figures: {self.folder / TABLE}" if width else ""
        return "\n\n".join([*(each.body(width) for each in tables), f"{wrapped(below, '  ', width)}{whole}"])

    def tabulate(self, found: list[Row], is_graded: bool) -> tuple[list[Table], list[str], str]:
        """Pair the rows with the reference. Return their table, notes and the legend."""
        pair(found, self.reference)
        what = POINTS if self.of_proofs else "accuracy"
        return [table(found, self.reference, self.meter, what)], self.notes(found, is_graded), LEGEND

    def draw(self, document: dict[str, Any], graded: Sequence[Row], what: str) -> None:
        """Draw the rows with grades. `document` has the fields of a run for the title, and `what` labels an axis."""
        points = [(row.name, row.budget, row.accuracy.to_json()) for row in graded]
        unit, amount = UNITS[self.meter.unit], self.meter.shown
        plot.matched(document, points, self.folder / "frontier.png", unit, amount, what)

    def notes(self, found: Sequence[Row], is_graded: bool) -> list[str]:
        worth, one = ("column of points", "proof") if self.of_proofs else ("accuracy of the vote in %", "answer")
        budgets = f"Budgets for a problem are in {UNITS[self.meter.unit]}. " if self.budgets else ""
        notes = [
            f"{self.about}, seeds {', '.join(map(str, self.seeds))}. {budgets}The {worth} counts problems without "
            f"{one}s as 0, and has - if all problems lack {one}s. Scaffolds that begin with plain samples share the "
            "samples of a seed"
        ]
        if not is_graded and self.of_proofs:
            grade = f"bash scripts/grade.sh {self.folder.name} GRADER=card"
            notes.append(f"not graded. To grade the proofs of each budget and write this table again, run {grade}")
        lacking = [row for row in found if is_graded and row.answered and row.accuracy.n < len(row.scores)]
        if lacking:
            at = [f" at {self.meter.shown(row.budget)}" if self.budgets else "" for row in lacking]
            of_each = ", ".join(f"{row.name}{of} n={row.accuracy.n}" for row, of in zip(lacking, at, strict=True))
            notes.append(f"grades of some problems are missing. These rows have fewer problems: {of_each}")
        notes += self.doubts
        answered = {row.name for row in found if row.answered}
        if none := [name for name in dict.fromkeys(row.name for row in found) if name not in answered]:
            notes.append(f"no budget suffices for a{'' if self.of_proofs else 'n'} {one} by: {', '.join(none)}")
        return notes
