"""Start a run from an experiment's file (`run`) or from Python (`solve`), RUNS times with different
seeds."""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

from core import constants
from core.base import terminal
from core.base.errors import UserError
from core.base.files import make_folder, results_dir
from core.constants import C
from core.engines import environment
from core.eval import by_answer
from core.types import ANSWERS, Grader, Problem, Scaffold
from harness.problems.check import check
from harness.problems.sets import ProblemSet
from harness.report import tables
from harness.report.data import Results
from harness.results.merge import merge
from harness.session import session
from harness.session.bar import Bar
from harness.session.experiment import Experiment, show
from harness.session.series import sweep
from harness.session.session import Session


def run(scaffold: Scaffold[C], namespace: Mapping[str, Any], grader: Grader = by_answer) -> None:
    """Run an experiment as a command and print its results.

    Args:
        scaffold: A scaffold of harness/scaffolds.
        namespace: The globals of the experiment's file. Its upper-case names are constants.
            Arguments NAME=value on the command line override them.
        grader: The grading function. If it needs a model, it asks GRADER_MODEL (at GRADER_URL),
            else the run's model.

    Raises:
        SystemExit: The status is 1 for RunFailed, 2 for other UserErrors, and 130 if the run was
            stopped.

    Example:
        >>> from core.rsa import RSA
        >>> run(RSA, {"__file__": "mine.py", "PROBLEMS": "sums", "LIMIT": 2, "N": 2, "K": 2, "T": 1})
        mine
        model ...
    """
    if constants.SWEEP in sys.argv[1:]:
        return sweep(scaffold, namespace, grader)
    with session.command(scaffold.constants, namespace) as (name, config):
        with session.open_on_problems(name, config, results_dir(), scaffold, grader) as opened:
            path, document = opened.asked(run_all(opened, scaffold, grader))
        show(document, path)


async def run_all(
    session: Session[C], scaffold: Scaffold[C], grader: Grader = by_answer, bar: Bar | None = None
) -> tuple[Path, dict[str, Any]]:
    """Run a scaffold with each seed. Return the path of the results, and the document without its
    problems.

    A single run is saved in the session's folder. Several runs are saved in a subfolder with the
    session's name, and their merged results in the folder. A stage of a longer command has the
    command's `bar`, and prints no lines."""
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


async def solve(
    scaffold: Scaffold[C],
    problems: str | Sequence[Problem | Mapping[str, Any]],
    *,
    name: str = "",
    grader: Grader = by_answer,
    folder: Path | str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    **given: Any,
) -> Results:
    """Run a scaffold on problems from Python. Use `solve_sync` in a script without an event loop.

    The journal stores finished completions, so a repeated call sends only the missing requests. If
    a run is cancelled or fails, partial results are saved.

    Args:
        scaffold: A scaffold of harness/scaffolds, such as RSA.
        problems: The name of a problem set, the path of a file, or a list. The list contains
            Problem objects, or dicts with "problem" and "answer".
        name: The name of the results (default: the name of the scaffold's function).
        grader: The grading function, as for `run`.
        folder: The folder for the results (default: see results_dir).
        model: The model for this call, instead of the environment variable MODEL.
        base_url: The server's address for this call, instead of the environment variable BASE_URL.
        **given: Constants of the scaffold, such as N=4.

    Returns:
        The results, as they are saved in the file.

    Raises:
        UserError: If an argument, a constant or the environment is wrong.
        RunFailed: If a valid run fails, for example because every completion failed.

    Example:
        >>> from core.rsa import RSA
        >>> results = asyncio.run(solve(RSA, "sums", LIMIT=2, N=2, K=2, T=1))  # in a notebook: await solve(…)
        rsa
        model ...
        >>> results
        <Results of rsa: 2 problems, 8 members>
    """
    named = None
    if not isinstance(problems, str):
        named = ProblemSet(
            "given", problems_of(problems, session.taken_by(grader)), "given in Python"
        )
    chosen_by = {"PROBLEMS": problems} if isinstance(problems, str) else {}
    with environment.setting(MODEL=model):
        of_card = environment.card().constants_of(scaffold.constants)
    words = [f"{key}={value}" for key, value in (given | chosen_by).items()]
    config = constants.read(scaffold.constants, of_card, words)
    name = name or session.named(config, getattr(scaffold.run, "__name__", "python"))
    folder = Path(folder) if folder else results_dir()
    with ExitStack() as opening:
        # no await inside, because other tasks may differ
        with environment.setting(MODEL=model, BASE_URL=base_url):
            opened = opening.enter_context(
                session.open_on_problems(name, config, folder, scaffold, grader, named)
            )
        path, _ = await run_all(opened, scaffold, grader)
        return Results(path)


def solve_sync(
    scaffold: Scaffold[C], problems: str | Sequence[Problem | Mapping[str, Any]], **given: Any
) -> Results:
    """Call `solve` from a script, and return its results. Raises UserError if an event loop is
    running."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise UserError(
            "an event loop is running, as in a notebook. Call await solve(…) instead of "
            "solve_sync(…)"
        )
    return asyncio.run(solve(scaffold, problems, **given))


def problems_of(
    given: Sequence[Problem | Mapping[str, Any]], wanted: str = ANSWERS
) -> tuple[Problem, ...]:
    """Check dicts like the rows of a file, and convert them to Problem objects. Problem objects are
    not checked."""
    if given and all(isinstance(each, Problem) for each in given):
        return tuple(cast(Sequence[Problem], given))
    rows = [dict(row) if isinstance(row, Mapping) else row for row in given]
    return check(
        [(f"problem {number}", row) for number, row in enumerate(rows, 1)], "the list", wanted
    )
