"""Sweep an experiment: run each combination of the lists in its constants, in one session with one journal.

Each request is sent once, because the runs share a journal. With a lower T, a run reads the first steps of a run with a
higher T. With a smaller N, step 0 consists of samples of a larger N."""

import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.base import errors
from core.base.files import results_dir
from core.base.signals import Stop
from core.constants import SWEEP, Constants
from core.report.swept import Sweep
from core.results import warnings, write
from core.results.spending import Meter
from core.scaffolds import grid
from core.scaffolds.grid import Grid, TooMany
from core.session import session
from core.session.bar import Bar
from core.session.checks import check_context
from core.session.experiment import Experiment, Part
from core.session.session import Session
from core.types import Grader, Scaffold


def sweep(scaffold: Scaffold[Any], namespace: Mapping[str, Any], grader: Grader) -> None:
    """Run a sweep as a command and print its table. The arguments are the arguments of core.session.run.run.
    The results are saved in a folder with the experiment's name and "_sweep". If the sweep stops, its table has the
    finished runs."""
    with errors.command():
        stop, folder = Stop(), results_dir()
        experiment = Path(namespace["__file__"]).stem
        try:
            runs = grid.expand(scaffold, namespace, [word for word in sys.argv[1:] if word != SWEEP])
        except TooMany as error:
            from core.plan.plan import refusal  # rarely needed

            raise refusal(error, experiment) from None
        name = session.named(runs.common, f"{experiment}_sweep")
        with session.open_on_problems(name, runs.common, stop, folder, runs, grader) as opened:
            table = _swept(runs, opened, grader)
        print(f"\n{table}\nresults {folder / name}\nreport  bash scripts/report.sh {name}")


def _swept(runs: Grid, opened: Session[Constants], grader: Grader) -> str:
    """Run each combination with each seed. Write the table, also if the sweep stops, and return it."""
    server, chosen, common = opened.server, opened.problems, opened.config
    if chosen.asks_for_proofs:
        lacking = (each for each in runs.cells if each.scaffold.for_proofs)
        runs = runs.without({each.name: "it counts equal answers, but proofs have no answers" for each in lacking})
    for cell in runs.cells:
        check_context(server, cell.config)
    folder, seeds = opened.folder / opened.name, range(common.SEED, common.SEED + common.RUNS)
    files = {cell.name: re.sub(r"\.", "_", cell.name) for cell in runs.cells}  # a dot would begin a file's ending
    names = {f"{file}-seed{seed}" for file in files.values() for seed in seeds}
    write.own_folder(folder, names, server.model_info()["name"], chosen.name)
    counts: dict[str, Counter[str]] = {each: Counter() for each in warnings.COUNTS}
    found, values = dict[str, list[str]](), {cell.name: dict(cell.values) for cell in runs.cells}
    allotted = {cell.name: cell.scaffold.max_completions(cell.config) for cell in runs.cells}
    document: dict[str, Any] = {}

    def shown() -> str:
        notes = [*warnings.of_card(document["model"]), *warnings.of_server(document, counts)]
        for why in dict.fromkeys(runs.left_out.values()):
            names = [name for name, reason in runs.left_out.items() if reason == why]
            notes.append(f"left out: {', '.join(names[:4])}{' …' if len(names) > 4 else ''} ({why})")
        if len(found) < len(runs.cells):
            notes.append(f"{len(found)} of {len(runs.cells)} runs are finished. The same command continues the sweep")
        title = f"{document['model']['name']} on {chosen.name}, n={len(chosen.problems)}"
        meter = Meter(prices=server.card.price)
        kept = {name: values[name] for name in found}
        are_proofs = chosen.asks_for_proofs
        return Sweep(folder, found, next(iter(found)), [], [*seeds], meter, title, notes, are_proofs, kept).show()

    try:
        with Bar(opened.name, len(seeds) * len(chosen.problems) * sum(allotted.values())) as bar:
            for place, cell in enumerate(runs.cells):
                paths = []
                for number, seed in enumerate(seeds, place * len(seeds) + 1):
                    config = replace(cell.config, SEED=seed, RUNS=1)
                    session_of = opened.but(name=f"{files[cell.name]}-seed{seed}", config=config, folder=folder)
                    stage = f"{number}/{len(runs.cells) * len(seeds)} {cell.name}"
                    experiment = Experiment(session_of, cell.scaffold, grader, Part(bar, stage, allotted[cell.name]))
                    paths.append(experiment.finish().name)
                    document = experiment.document
                    for counted, more in experiment.counts.items():
                        counts[counted] += more
                found[cell.name] = paths
    except BaseException:
        if found:
            shown()
        raise
    return shown()
