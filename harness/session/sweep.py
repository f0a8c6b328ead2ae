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
from core.base.prices import Prices
from core.constants import SWEEP, Constants
from core.engines import environment
from core.types import Grader, Scaffold
from harness import grid
from harness.report.equal_compute import Sweep
from harness.results import server_warnings, write
from harness.results.cost_meter import Meter
from harness.session import session
from harness.session.bar import Bar
from harness.session.checks import asks_scorer
from harness.session.experiment import Experiment, OnStep


class Series:
    """The runs of several scaffolds, each with the seeds SEED to SEED + RUNS - 1."""

    def __init__(
        self,
        opened: session.Session[Any],
        allotted: Mapping[str, int],
        grader: Grader,
        on_step: OnStep | None = None,
    ) -> None:
        """Make the folder. `allotted` has the expected completions per problem by the scaffold's
        name. `on_step` receives the figures of each step (see harness.run.solve)."""
        self.opened = opened
        self.allotted = allotted
        self.grader = grader
        self.on_step = on_step
        self.folder = opened.folder / opened.name
        self.chosen = opened.problems
        self.seeds = [config.SEED for config in opened.config.runs()]
        per_seed = len(self.chosen.problems) * sum(allotted.values())
        self.bar = Bar(opened.name, len(self.seeds) * per_seed)
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
        experiments = []
        for seeded in config.runs():
            changed = self.opened.with_changes(
                name=self._file(name, seeded.SEED), config=seeded, folder=self.folder
            )
            experiment = Experiment(
                changed, scaffold, self.grader, self.bar, self.allotted[name], self.on_step
            )
            experiments.append(experiment)
        return experiments

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


def sweep(
    scaffold: Scaffold[Any],
    namespace: Mapping[str, Any],
    grader: Grader,
    on_step: OnStep | None = None,
) -> None:
    """Run a sweep as a command and print its table. The arguments are the arguments of
    harness.run.run. The results are saved in a folder with the experiment's name and "_sweep".
    If the sweep stops, its table has the finished runs."""
    with errors.command():
        signals.catch()
        experiment = Path(namespace["__file__"]).stem
        words = [word for word in sys.argv[1:] if word != SWEEP]
        try:
            runs = grid.expand(scaffold, namespace, words)
        except grid.TooMany as error:
            from harness.plan.plan import refusal  # rarely needed

            raise refusal(error, experiment) from None
        name = session.named(runs.common, f"{experiment}_sweep")
        command = session.Command(name, runs.common, environment.card())
        with session.open_on_problems(
            command, results_dir(), runs, grader, has_scorer=_has_scorer(runs)
        ) as opened:
            table = _Sweeping(runs, opened, grader, on_step).run()
        print(f"\n{table}\nresults {opened.folder / name}\nreport  bash scripts/report.sh {name}")


def _has_scorer(runs: grid.Grid) -> bool:
    """Return whether a run of the sweep has VERIFIER=scorer."""
    return any(asks_scorer(cell.config) for cell in runs.cells)


class _Sweeping:
    """The runs of a sweep in a session. `finished` has the names of their results by run."""

    def __init__(
        self,
        runs: grid.Grid,
        opened: session.Session[Constants],
        grader: Grader,
        on_step: OnStep | None,
    ) -> None:
        """Make the folder. Raises UserError if the constants of a run do not fit the server."""
        allotted = {}
        for cell in runs.cells:
            opened.check(cell.config)
            allotted[cell.name] = cell.scaffold.max_completions(cell.config)
        self.runs = runs
        self.opened = opened
        self.series = Series(opened, allotted, grader, on_step)
        self.finished: dict[str, list[str]] = {}

    def run(self) -> str:
        """Run each combination with each seed. Write the table, also if the sweep stops, and
        return it."""
        table = ""
        try:
            with self.series.bar:
                for cell in self.runs.cells:
                    paths = self.series.run(cell.name, cell.scaffold, cell.config)
                    self.finished[cell.name] = [path.name for path in paths]
        finally:
            if self.finished:
                table = self._table()
        return table

    def _table(self) -> str:
        values = {
            cell.name: dict(cell.values) for cell in self.runs.cells if cell.name in self.finished
        }
        return Sweep(
            self.series.folder,
            self.finished,
            next(iter(self.finished)),
            [],
            self.series.seeds,
            Meter(prices=self._prices()),
            self.series.title,
            self.series.notes(self._notes()),
            self.opened.problems.asks_for_proofs,
            values,
        ).show()

    def _prices(self) -> Prices | None:
        """Return the prices of the model, or None if a second model has other ones."""
        return None if _has_scorer(self.runs) else self.opened.server.card.price

    def _notes(self) -> list[str]:
        """Return the notes on combinations that were left out or are not finished."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.runs.left_out.items():
            by_reason.setdefault(reason, []).append(name)
        notes = []
        for reason, names in by_reason.items():
            more = " …" if len(names) > 4 else ""
            notes.append(f"left out: {', '.join(names[:4])}{more} ({reason})")
        if len(self.finished) < len(self.runs.cells):
            notes.append(
                f"{len(self.finished)} of {len(self.runs.cells)} runs are finished. The same "
                "command continues the sweep"
            )
        return notes
