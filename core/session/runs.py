"""Repeat an experiment (RUNS times), with another SEED for each run, and merge the runs into one results file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic

from core.base import terminal
from core.base.files import make_folder
from core.constants import C
from core.report import tables
from core.results.merge import merge
from core.session.session import Session


class Runs(Generic[C]):
    """The runs of an experiment, one after the other. `path` and `document` are the results so far.
    A single run is saved in `folder`. Several runs are saved in a subfolder with the experiment's name, and their
    merged results in `folder`."""

    def __init__(self, name: str, config: C, folder: Path, say: Callable[[str], None] = terminal.say) -> None:
        """Prepare the runs. If there are several, `say` prints a line before and after each. Raises UserError."""
        self._name, self._folder, self._all, self._say = name, folder, config.runs(), say
        self._paths: list[Path] = []
        self.path, self.document = folder, dict[str, Any]()
        if len(self._all) > 1:
            make_folder(folder / name)

    def of(self, session: Session[Any]) -> Iterator[Session[C]]:
        """Yield the session of each run. These sessions have their own name, constants and folder."""
        if len(self._all) == 1:
            yield session.but(name=self._name, config=self._all[0], folder=self._folder)
            return
        for number, config in enumerate(self._all, 1):
            self._say(f"run {number} of {len(self._all)}: SEED={config.SEED}")
            name = f"{self._name}-seed{config.SEED}"
            yield session.but(name=name, config=config, folder=self._folder / self._name)

    def ended(self, path: Path, document: dict[str, Any]) -> None:
        """Add the results of a run. If there are several runs, merge the results so far."""
        self._paths.append(path)
        self.path, self.document = path, document
        if len(self._all) > 1:
            self._say(f"{terminal.wrapped(tables.final(document))} ({path})")
            is_last = len(self._paths) == len(self._all)
            self.path, self.document = merge(self._paths, self._name, self._folder, complete=is_last)
