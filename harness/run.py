"""Start a run from an experiment's file (`run`) or from Python (`solve`), RUNS times with different
seeds."""

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

from core import constants
from core.base import terminal
from core.base.errors import UserError
from core.base.files import make_folder, results_dir
from core.base.settings import SETTINGS
from core.constants import C
from core.engines import environment
from core.eval import by_answer
from core.types import ANSWERS, Grader, Problem, Scaffold
from harness.problems.check import check, checked
from harness.problems.sets import ProblemSet
from harness.report.data import Results
from harness.report.final import final
from harness.results.merge import merge
from harness.session import session
from harness.session.bar import Bar
from harness.session.checks import taken_by
from harness.session.experiment import Experiment, OnStep, show
from harness.session.session import Session
from harness.session.sweep import sweep


def run(
    scaffold: Scaffold[C],
    namespace: Mapping[str, Any],
    grader: Grader = by_answer,
    on_step: OnStep | None = None,
) -> None:
    """Run an experiment as a command and print its results.

    Args:
        scaffold: A scaffold of harness/scaffolds.
        namespace: The globals of the experiment's file. Its upper-case names are constants.
            Arguments NAME=value on the command line override them.
        grader: The grading function. If it needs a model, it asks GRADER_MODEL (at GRADER_URL),
            else the run's model.
        on_step: A function that receives the figures of each step, as for `solve`.

    Raises:
        SystemExit: The status is 1 for RunFailed, 2 for other UserErrors, and 130 if the run was
            stopped.

    Example:
        >>> from core.rsa import RSA
        >>> constants = {"PROBLEMS": "sums", "LIMIT": 2, "N": 2, "K": 2, "T": 1}
        >>> run(RSA, {"__file__": "mine.py", **constants})
        mine
        model ...
    """
    if constants.SWEEP in sys.argv[1:]:
        return sweep(scaffold, namespace, grader, on_step)
    with session.run_command(scaffold.constants, namespace) as command:
        with session.open_on_problems(command, results_dir(), scaffold, grader) as opened:
            work = run_all(opened, scaffold, grader, on_step=on_step)
            path, document = opened.run_until_stopped(work)
        show(document, path)


async def run_all(
    session: Session[C],
    scaffold: Scaffold[C],
    grader: Grader = by_answer,
    bar: Bar | None = None,
    on_step: OnStep | None = None,
) -> tuple[Path, dict[str, Any]]:
    """Run a scaffold with each seed. Return the path of the results, and the document without its
    problems.

    A single run is saved in the session's folder. Several runs are saved in a subfolder with the
    session's name, and their merged results in the folder. A stage of a longer command has the
    command's `bar`, and prints no lines."""
    configs = session.config.runs()
    if len(configs) == 1:
        changed = session.with_changes(config=configs[0])
        experiment = Experiment(changed, scaffold, grader, bar, on_step=on_step)
        return await experiment.run(), experiment.document
    folder = session.folder / session.name
    make_folder(folder)
    paths = list[Path]()
    for number, config in enumerate(configs, 1):
        if bar is None:
            terminal.say(f"run {number} of {len(configs)}: SEED={config.SEED}")
        name = f"{session.name}-seed{config.SEED}"
        changed = session.with_changes(name=name, config=config, folder=folder)
        experiment = Experiment(changed, scaffold, grader, bar, on_step=on_step)
        paths.append(await experiment.run())
        if bar is None:
            line = final(experiment.document, Results(paths[-1]).problems)
            terminal.say(f"{terminal.wrapped(line)} ({paths[-1]})")
        is_last = number == len(configs)
        merged = merge(paths, session.name, session.folder, complete=is_last)
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
    on_step: OnStep | None = None,
    **given: Any,
) -> Results:
    """Run a scaffold on problems from Python. Use `solve_sync` in a script without an event loop.

    The journal stores finished completions, so a repeated call sends only the missing requests. If
    a run is cancelled or fails, partial results are saved.

    Args:
        scaffold: A scaffold of harness/scaffolds, such as RSA.
        problems: The name of a problem set, the path of a file, or a list of Problem objects or of
            dicts with "problem" and "answer".
        name: The name of the results (default: the name of the scaffold's function).
        grader: The grading function, as for `run`.
        folder: The folder for the results (default: see results_dir).
        model: The model for this call, instead of the environment variable MODEL.
        base_url: The server's address for this call, instead of the variable BASE_URL.
        on_step: Called with each step's row of metrics.steps. Its exceptions end the run.
        **given: Constants of the scaffold, such as N=4.

    Returns:
        The results, as they are saved in the file.

    Raises:
        UserError: If an argument, a constant or the environment is wrong (RunFailed: if a run is).

    Example:
        >>> from core.rsa import RSA
        >>> results = asyncio.run(solve(RSA, "sums", LIMIT=2, N=2, K=2, T=1))
        rsa
        model ...
    """
    with ExitStack() as opening:
        # no await inside, because other tasks may differ
        with environment.setting(MODEL=model, BASE_URL=base_url):
            command, given_set = _command_of(scaffold, problems, grader, name, given)
            results_folder = Path(folder) if folder else results_dir()
            context = session.open_on_problems(command, results_folder, scaffold, grader, given_set)
            opened = opening.enter_context(context)
        path, _ = await run_all(opened, scaffold, grader, on_step=on_step)
        return Results(path)


def _command_of(
    scaffold: Scaffold[C],
    problems: str | Sequence[Problem | Mapping[str, Any]],
    grader: Grader,
    name: str,
    given: Mapping[str, Any],
) -> tuple[session.Command[C], ProblemSet | None]:
    """Return the name, constants and card of a call of `solve`, and its list of problems (None: the
    set PROBLEMS). Raises UserError if an argument is wrong."""
    problem_set = None
    values = dict(given)
    if isinstance(problems, str):
        values["PROBLEMS"] = problems
    else:
        checked = problems_of(problems, taken_by(grader))
        problem_set = ProblemSet("given", checked, "given in Python")
    card = environment.card()
    words = [f"{constant}={value}" for constant, value in values.items()]
    kind = scaffold.constants
    help_command = f'help("{kind.__module__}.{kind.__qualname__}")'
    _refuse_settings(name for name in values if name not in constants.rules(kind))
    config = constants.read(kind, card.constants_of(kind), words, help_command)
    default = getattr(scaffold.run, "__name__", "python")
    command = session.Command(name or session.named(config, default), config, card)
    return command, problem_set


def _refuse_settings(names: Iterable[str]) -> None:
    """Raise UserError if `names` contains settings, which are no constants."""
    settings = [name for name in names if name in SETTINGS]
    if settings:
        raise UserError(
            f"{', '.join(settings)} can't be arguments. Pass model=… and base_url=…, and set the "
            'other settings before the call, such as os.environ["PORT"] = "30000"'
        )


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
    """Convert dicts like the rows of a file to Problem objects. The kinds of Problem objects check
    them as such rows, with their details as columns. Raises UserError."""
    if given and all(isinstance(row, Problem) for row in given):
        return checked(cast(Sequence[Problem], given))
    rows = []
    for number, row in enumerate(given, 1):
        rows.append((f"problem {number}", dict(row) if isinstance(row, Mapping) else row))
    return check(rows, "the list", wanted)
