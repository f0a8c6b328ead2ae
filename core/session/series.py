"""Run several scaffolds on the same problems in one session, and save their results in one folder."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.constants import Constants
from core.results import warnings, write
from core.session.bar import Bar
from core.session.experiment import Experiment
from core.session.session import Session
from core.types import Grader, Scaffold


class Series:
    """The runs of several scaffolds, each with the seeds SEED to SEED + RUNS - 1."""

    def __init__(self, opened: Session[Constants], allotted: Mapping[str, int], grader: Grader) -> None:
        """Make the folder. `allotted` has the expected completions per problem by the scaffold's name."""
        self.opened, self.allotted, self.grader = opened, allotted, grader
        self.folder, self.chosen = opened.folder / opened.name, opened.problems
        self.seeds = [each.SEED for each in opened.config.runs()]
        self.bar = Bar(opened.name, len(self.seeds) * len(self.chosen.problems) * sum(allotted.values()))
        self.model = opened.server.model_info()
        self.title = f"{self.model['name']} on {self.chosen.name}, n={len(self.chosen.problems)}"
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in warnings.COUNTS}
        self._begun = 0
        names = {self._file(name, seed) for name in allotted for seed in self.seeds}
        write.own_folder(self.folder, names, self.model["name"], self.chosen.name)

    def experiments(self, name: str, scaffold: Scaffold[Any], config: Constants) -> list[Experiment[Any]]:
        """Return the runs of a scaffold, one for each seed."""
        sessions = [self.opened.but(name=self._file(name, c.SEED), config=c, folder=self.folder) for c in config.runs()]
        return [Experiment(each, scaffold, self.grader, self.bar, self.allotted[name]) for each in sessions]

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

    def notes(self, left_out: Sequence[str]) -> list[str]:
        """Return the notes on the model and the server, with the notes on scaffolds that were `left_out` between."""
        document = {"model": self.model, "engine": {"origin": self.opened.server.origin}}
        return [*warnings.of_card(self.model), *left_out, *warnings.of_server(document, self._counts)]

    @staticmethod
    def _file(name: str, seed: int) -> str:
        return f"{name.replace('.', '_')}-seed{seed}"  # a dot would begin a file's ending
