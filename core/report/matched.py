"""Read a comparison at equal compute, and write its table and figure. They are written again after grading."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import parse_json, read_text, write_atomically
from core.base.prices import Prices
from core.base.terminal import columns, wrapped
from core.engines.shape import Shape
from core.report import plot
from core.report.budgets import LEGEND, Row, rows, shown, table
from core.report.tables import POINTS
from core.results import read, write
from core.results.spending import UNITS, Meter

AGAIN = "Run the comparison again"
TABLE = "table.txt"
# Fields of the first line of table.jsonl. The other lines are the rows.
KEPT = ("runs", "reference", "budgets", "seeds", "about", "doubts", "of_proofs")


@dataclass(frozen=True)
class Matched:
    """A comparison at equal compute."""

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
            found = cls(folder, meter=meter, **{name: fields[name] for name in KEPT})
        except (KeyError, TypeError):
            raise UserError(f"the first line of {path} lacks fields of a comparison. {AGAIN}") from None
        if any(Path(name).name != name for names in found.runs.values() for name in names):
            raise UserError(f"the table {path} names results outside its folder. {AGAIN}")
        return found

    def paths(self) -> dict[str, list[Path]]:
        return {name: [self.folder / each for each in of] for name, of in self.runs.items()}

    def show(self) -> str:
        """Write the table and figure. Return the columns that fit the terminal. Raises UserError for invalid files."""
        found = rows(self.paths(), self.budgets, self.reference, self.meter)
        graded = [row for row in found if row.answered and row.accuracy.n]
        what = POINTS if self.of_proofs else "accuracy"
        notes = self._notes(found, bool(graded))
        drawn, width = table(found, self.reference, self.meter, what), columns()
        below = "\n".join(f"note: {note}" for note in (*notes, LEGEND))
        write_atomically(self.folder / TABLE, f"{drawn.body()}\n\n{below}\n".encode())
        summary: dict[str, Any] = {"experiment": self.folder.name, "made": write.now(), "unit": self.meter.unit}
        summary |= {name: getattr(self, name) for name in KEPT} | {"notes": notes}
        for name, of in (("shape", self.meter.shape), ("prices", self.meter.prices)):
            summary[name] = of and asdict(of)
        lines = [json.dumps(line) for line in (summary, *map(shown, found))]
        write_atomically(self.folder / "table.jsonl", ("\n".join(lines) + "\n").encode())
        if graded:
            document = read.read(next(iter(self.paths().values()))[0])[0].document
            points = [(row.name, row.budget, row.accuracy.to_json()) for row in graded]
            unit, amount = UNITS[self.meter.unit], self.meter.shown
            label = POINTS if self.of_proofs else "accuracy of the vote, %"
            plot.matched(document | {"config": {}}, points, self.folder / "frontier.png", unit, amount, label)
        whole = f"\nall figures: {self.folder / TABLE}" if width else ""
        return f"{drawn.body(width)}\n\n{wrapped(below, '  ', width)}{whole}"

    def _notes(self, found: Sequence[Row], is_graded: bool) -> list[str]:
        worth, one = ("column of points", "proof") if self.of_proofs else ("accuracy of the vote in %", "answer")
        notes = [
            f"{self.about}, seeds {', '.join(map(str, self.seeds))}. Budgets for a problem are in "
            f"{UNITS[self.meter.unit]}. The {worth} counts problems without {one}s as 0, and has - if all problems "
            f"lack {one}s. Scaffolds that begin with plain samples share the samples of a seed"
        ]
        if not is_graded and self.of_proofs:
            grade = f"bash scripts/grade.sh {self.folder.name} GRADER=card"
            notes.append(f"not graded. To grade the proofs of each budget and write this table again, run {grade}")
        lacking = [row for row in found if is_graded and row.answered and row.accuracy.n < len(row.scores)]
        if lacking:
            of_each = ", ".join(f"{row.name} at {self.meter.shown(row.budget)} n={row.accuracy.n}" for row in lacking)
            notes.append(f"grades of some problems are missing. These rows have fewer problems: {of_each}")
        notes += self.doubts
        answered = {row.name for row in found if row.answered}
        if none := [name for name in dict.fromkeys(row.name for row in found) if name not in answered]:
            notes.append(f"no budget suffices for a{'' if self.of_proofs else 'n'} {one} by: {', '.join(none)}")
        return notes
