"""Sweep an experiment: run each combination of the lists in its constants, in one session with one journal.

Each request is sent once, because the runs share a journal. With a lower T, a run reads the first steps of a run with a
higher T. With a smaller N, step 0 consists of samples of a larger N."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.base import errors, signals
from core.base.files import results_dir
from core.constants import SWEEP, Constants
from core.report.matched import Sweep
from core.results.spending import Meter
from core.scaffolds import grid
from core.scaffolds.grid import Grid, TooMany
from core.session import session
from core.session.checks import check_context
from core.session.series import Series
from core.session.session import Session
from core.types import Grader, Scaffold


def sweep(scaffold: Scaffold[Any], namespace: Mapping[str, Any], grader: Grader) -> None:
    """Run a sweep as a command and print its table. The arguments are the arguments of core.session.run.run.
    The results are saved in a folder with the experiment's name and "_sweep". If the sweep stops, its table has the
    finished runs."""
    with errors.command():
        signals.catch()
        experiment = Path(namespace["__file__"]).stem
        try:
            runs = grid.expand(scaffold, namespace, [word for word in sys.argv[1:] if word != SWEEP])
        except TooMany as error:
            from core.plan.plan import refusal  # rarely needed

            raise refusal(error, experiment) from None
        name = session.named(runs.common, f"{experiment}_sweep")
        with session.open_on_problems(name, runs.common, results_dir(), runs, grader) as opened:
            table = _swept(runs, opened, grader)
        print(f"\n{table}\nresults {opened.folder / name}\nreport  bash scripts/report.sh {name}")


def _swept(runs: Grid, opened: Session[Constants], grader: Grader) -> str:
    """Run each combination with each seed. Write the table, also if the sweep stops, and return it."""
    for cell in runs.cells:
        check_context(opened.server, cell.config)
    series = Series(opened, {each.name: each.scaffold.max_completions(each.config) for each in runs.cells}, grader)
    found = dict[str, list[str]]()

    def shown() -> str:
        notes = []
        for why in dict.fromkeys(runs.left_out.values()):
            names = [name for name, reason in runs.left_out.items() if reason == why]
            notes.append(f"left out: {', '.join(names[:4])}{' …' if len(names) > 4 else ''} ({why})")
        if len(found) < len(runs.cells):
            notes.append(f"{len(found)} of {len(runs.cells)} runs are finished. The same command continues the sweep")
        values = {each.name: dict(each.values) for each in runs.cells if each.name in found}
        meter = Meter(prices=opened.server.card.price)
        about = (series.title, series.notes(notes), opened.problems.asks_for_proofs, values)
        return Sweep(series.folder, found, next(iter(found)), [], series.seeds, meter, *about).show()

    try:
        with series.bar:
            for cell in runs.cells:
                found[cell.name] = [path.name for path in series.run(cell.name, cell.scaffold, cell.config)]
    finally:
        table = shown() if found else ""
    return table
