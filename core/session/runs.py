"""Repeat an experiment (RUNS times), with another SEED for each run, and merge the runs into one results file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.base import terminal
from core.base.files import make_folder
from core.constants import C
from core.grading.answers import by_answer
from core.report import tables
from core.results.merge import merge
from core.session.bar import Bar
from core.session.experiment import Experiment
from core.session.session import Session
from core.types import Grader, Scaffold


async def run_all(
    session: Session[C], scaffold: Scaffold[C], grader: Grader = by_answer, bar: Bar | None = None
) -> tuple[Path, dict[str, Any]]:
    """Run a scaffold with each seed. Return the path of the results, and the document without its problems.

    A single run is saved in the session's folder. Several runs are saved in a subfolder with the session's name, and
    their merged results in the folder. A stage of a longer command has the command's `bar`, and prints no lines."""
    first, *others = session.config.runs()
    if not others:
        experiment = Experiment(session.but(config=first), scaffold, grader, bar)
        return await experiment.run(), experiment.document
    make_folder(folder := session.folder / session.name)
    say: Callable[[str], object] = str if bar else terminal.say
    paths = list[Path]()
    for number, config in enumerate((first, *others), 1):
        say(f"run {number} of {session.config.RUNS}: SEED={config.SEED}")
        own = session.but(name=f"{session.name}-seed{config.SEED}", config=config, folder=folder)
        experiment = Experiment(own, scaffold, grader, bar)
        paths.append(await experiment.run())
        say(f"{terminal.wrapped(tables.final(experiment.document))} ({paths[-1]})")
        merged = merge(paths, session.name, session.folder, complete=number == session.config.RUNS)
    return merged
