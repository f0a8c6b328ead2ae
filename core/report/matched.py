"""A comparison at equal compute as its folder keeps it: what it ran and its budgets, from which its table and figure
are made, and made again when its proofs are graded.

The first line of table.jsonl says all of that; the others are the rows, and table.txt is the same for people.
"""

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
KEPT = ("runs", "reference", "budgets", "seeds", "about", "doubts", "of_proofs")


@dataclass(frozen=True)
class Matched:
    """`runs`: of each scaffold the names of its results in `folder`, one for each of `seeds`; all are compared with
    `reference`. `budgets`: as `meter` counts, for a problem. `about`: what was run on what; `doubts`: what was left
    out, and what is doubtful. `of_proofs`: they are worth points, once they are graded."""

    folder: Path
    runs: dict[str, list[str]]
    reference: str
    budgets: list[float]
    seeds: list[int]
    meter: Meter
    about: str
    doubts: list[str]
    of_proofs: bool = False

    @classmethod
    def kept(cls, folder: Path) -> "Matched":
        """That in `folder`. Raises UserError where it is not as this version writes it."""
        path = folder / "table.jsonl"
        first = read_text(path, "the table", AGAIN).partition("\n")[0]
        told = parse_json(first, f"the table {path}", AGAIN)
        try:
            shape, prices = told["shape"], told["prices"]
            meter = Meter(told["unit"], shape and Shape(**shape), prices and Prices(**prices))
            made = cls(folder, meter=meter, **{name: told[name] for name in KEPT})
        except (KeyError, TypeError):
            raise UserError(f"{path} does not say what its table is made of. {AGAIN}") from None
        if any(Path(name).name != name for names in made.runs.values() for name in names):
            raise UserError(f"the table {path} names results outside its folder. {AGAIN}")
        return made

    def paths(self) -> dict[str, list[Path]]:
        return {name: [self.folder / each for each in of] for name, of in self.runs.items()}

    def show(self) -> str:
        """Write the table, and draw the figure if anything is graded. Return as much of the table as the terminal has
        room for. Raises UserError for results that can't be read."""
        made = rows(self.paths(), self.budgets, self.reference, self.meter)
        is_graded = any(row.answered and row.accuracy.n for row in made)
        what = POINTS if self.of_proofs else "accuracy"
        notes = self._notes(made, is_graded)
        drawn, width = table(made, self.reference, self.meter, what), columns()
        below = "\n".join(f"note: {note}" for note in (*notes, LEGEND))
        write_atomically(self.folder / TABLE, f"{drawn.body()}\n\n{below}\n".encode())
        summary: dict[str, Any] = {"experiment": self.folder.name, "made": write.now(), "unit": self.meter.unit}
        summary |= {name: getattr(self, name) for name in KEPT} | {"notes": notes}
        for name, of in (("shape", self.meter.shape), ("prices", self.meter.prices)):
            summary[name] = of and asdict(of)
        lines = [json.dumps(line) for line in (summary, *map(shown, made))]
        write_atomically(self.folder / "table.jsonl", ("\n".join(lines) + "\n").encode())
        if is_graded:
            document = read.read(next(iter(self.paths().values()))[0])[0].document
            points = [(row.name, row.budget, row.accuracy.to_json()) for row in made if row.answered and row.accuracy.n]
            unit, amount = UNITS[self.meter.unit], self.meter.shown
            label = POINTS if self.of_proofs else "accuracy of the vote"
            plot.matched(document | {"config": {}}, points, self.folder / "frontier.png", unit, amount, label)
        whole = f"\nall figures: {self.folder / TABLE}" if width else ""
        return f"{drawn.body(width)}\n\n{wrapped(below, '  ', width)}{whole}"

    def _notes(self, made: Sequence[Row], is_graded: bool) -> list[str]:
        worth, one = (f"{POINTS} of the proofs", "proof") if self.of_proofs else ("accuracy of the vote", "answer")
        notes = [
            f"{self.about}, seeds {', '.join(map(str, self.seeds))}; budgets in {UNITS[self.meter.unit]}, for a "
            f"problem; {worth} in %, 0 where a budget bought no {one}, and - where it bought none at all; scaffolds "
            "that begin with plain samples share them"
        ]
        if not is_graded and self.of_proofs:
            notes.append(
                f"not graded: bash scripts/grade.sh {self.folder.name} GRADER=card grades what each budget bought, and "
                "makes this table again"
            )
        lacking = [row for row in made if is_graded and row.answered and row.accuracy.n < len(row.scores)]
        if lacking:
            of_each = ", ".join(f"{row.name} at {self.meter.shown(row.budget)} n={row.accuracy.n}" for row in lacking)
            notes.append(f"grades are missing, and these are of the other problems: {of_each}")
        notes += self.doubts
        answered = {row.name for row in made if row.answered}
        if none := [name for name in dict.fromkeys(row.name for row in made) if name not in answered]:
            notes.append(f"no budget bought a{'' if self.of_proofs else 'n'} {one} of: {', '.join(none)}")
        return notes
