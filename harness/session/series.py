"""Run several scaffolds on the same problems in one session, or sweep an experiment.

A sweep runs each combination of the lists in an experiment's constants. Each request is sent once,
because the runs share a journal. With a lower T, a run reads the first steps of a run with a higher
T. With a smaller N, step 0 consists of samples of a larger N."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.base import errors, signals
from core.base.files import results_dir
from core.constants import SWEEP, Constants
from core.types import Grader, Scaffold
from harness import grid
from harness.report.matched import Sweep
from harness.results import server_warnings, write
from harness.results.cost_meter import Meter
from harness.session import session
from harness.session.bar import Bar
from harness.session.experiment import Experiment


class Series:
    """The runs of several scaffolds, each with the seeds SEED to SEED + RUNS - 1."""

    def __init__(
        self, opened: session.Session[Constants], allotted: Mapping[str, int], grader: Grader
    ) -> None:
        """Make the folder. `allotted` has the expected completions per problem by the scaffold's
        name."""
        self.opened, self.allotted, self.grader = opened, allotted, grader
        self.folder, self.chosen = opened.folder / opened.name, opened.problems
        self.seeds = [each.SEED for each in opened.config.runs()]
        self.bar = Bar(
            opened.name, len(self.seeds) * len(self.chosen.problems) * sum(allotted.values())
        )
        self.model = opened.server.model_info()
        self.title = f"{self.model['name']} on {self.chosen.name}, n={len(self.chosen.problems)}"
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in server_warnings.COUNTS}
        self._begun = 0
        names = {self._file(name, seed) for name in allotted for seed in self.seeds}
        write.own_folder(self.folder, names, self.model["name"], self.chosen.name)

    def experiments(
        self, name: str, scaffold: Scaffold[Any], config: Constants
    ) -> list[Experiment[Any]]:
        """Return the runs of a scaffold, one for each seed."""
        sessions = [
            self.opened.but(name=self._file(name, c.SEED), config=c, folder=self.folder)
            for c in config.runs()
        ]
        return [
            Experiment(each, scaffold, self.grader, self.bar, self.allotted[name])
            for each in sessions
        ]

    def run(self, name: str, scaffold: Scaffold[Any], config: Constants) -> list[Path]:
        """Run a scaffold with each seed. Return the paths of the results."""
        paths = []
        for experiment in self.experiments(name, scaffold, config):
            self._begun += 1
            self.bar.stage = f"{self._begun}/{len(self.allotted) * len(self.seeds)} {name}"
            paths.append(experiment.finish())
            for counted, more in experiment.counts.items():
                self._counts[counted] += more
        return paths

    def notes(self, left_out: Sequence[str] = ()) -> list[str]:
        """Return the notes on the model and the server, with the notes on scaffolds that were
        `left_out` between."""
        document = {"model": self.model, "engine": {"origin": self.opened.server.origin}}
        return [
            *server_warnings.of_card(self.model),
            *left_out,
            *server_warnings.of_server(document, self._counts),
        ]

    @staticmethod
    def _file(name: str, seed: int) -> str:
        return f"{name.replace('.', '_')}-seed{seed}"  # a dot would begin a file's ending


def sweep(scaffold: Scaffold[Any], namespace: Mapping[str, Any], grader: Grader) -> None:
    """Run a sweep as a command and print its table. The arguments are the arguments of
    harness.run.run. The results are saved in a folder with the experiment's name and "_sweep".
    If the sweep stops, its table has the finished runs."""
    with errors.command():
        signals.catch()
        experiment = Path(namespace["__file__"]).stem
        try:
            runs = grid.expand(
                scaffold, namespace, [word for word in sys.argv[1:] if word != SWEEP]
            )
        except grid.TooMany as error:
            from harness.plan.plan import refusal  # rarely needed

            raise refusal(error, experiment) from None
        name = session.named(runs.common, f"{experiment}_sweep")
        with session.open_on_problems(name, runs.common, results_dir(), runs, grader) as opened:
            table = _swept(runs, opened, grader)
        print(f"\n{table}\nresults {opened.folder / name}\nreport  bash scripts/report.sh {name}")


def _swept(runs: grid.Grid, opened: session.Session[Constants], grader: Grader) -> str:
    """Run each combination with each seed. Write the table, also if the sweep stops, and return
    it."""
    for cell in runs.cells:
        session.check_context(opened.server, cell.config)
    series = Series(
        opened,
        {each.name: each.scaffold.max_completions(each.config) for each in runs.cells},
        grader,
    )
    found = dict[str, list[str]]()

    def shown() -> str:
        notes = []
        for why in dict.fromkeys(runs.left_out.values()):
            names = [name for name, reason in runs.left_out.items() if reason == why]
            notes.append(
                f"left out: {', '.join(names[:4])}{' …' if len(names) > 4 else ''} ({why})"
            )
        if len(found) < len(runs.cells):
            notes.append(
                f"{len(found)} of {len(runs.cells)} runs are finished. The same command continues "
                "the sweep"
            )
        values = {each.name: dict(each.values) for each in runs.cells if each.name in found}
        meter = Meter(prices=opened.server.card.price)
        about = (series.title, series.notes(notes), opened.problems.asks_for_proofs, values)
        return Sweep(
            series.folder, found, next(iter(found)), [], series.seeds, meter, *about
        ).show()

    try:
        with series.bar:
            for cell in runs.cells:
                found[cell.name] = [
                    path.name for path in series.run(cell.name, cell.scaffold, cell.config)
                ]
    finally:
        table = shown() if found else ""
    return table
