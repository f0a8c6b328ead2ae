"""The proofs of a comparison at equal compute: those that count at one of its budgets, of every scaffold and seed. When
they are graded, its table and figure are made again.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.prices import Prices
from core.report.budgets import counting
from core.report.matched import Matched
from core.results import read
from labs.proofs.grade.asking import Item
from labs.proofs.grade.stored import Stored, every
from labs.proofs.proofs import Points


class Compared:
    """The comparison in `folder`; `all_steps`: also what no budget stops at."""

    def __init__(self, folder: Path, all_steps: bool) -> None:
        """Raises UserError for one that can't be read, and for one of answers."""
        self._matched = matched = Matched.kept(folder)
        self.name = folder.name
        if not matched.of_proofs:
            raise UserError(f"{self.name} compares answers, which are graded while it runs; a grader grades proofs")

        def wanted(row: dict[str, Any]) -> set[int]:
            return counting([read.step_result(step) for step in row["steps"]], matched.budgets, matched.meter)

        paths = (path for paths in matched.paths().values() for path in paths)
        self._parts = [Stored(path, every if all_steps else wanted) for path in paths]
        self.folder = self._parts[0].folder

    def items(self) -> Iterator[Item]:
        """Raises UserError where a completion is in no journal."""
        for part in self._parts:
            yield from part.items()

    def write(self, points: Sequence[Points], about: dict[str, Any], prices: Prices | None) -> tuple[Path, str]:
        """The grades into the results of each part, and the table anew."""
        given = iter(points)
        for part in self._parts:
            part.write(list(islice(given, sum(1 for _ in part.items()))), about, prices)
        return self._matched.folder, self._matched.show()
