"""The entry points of one run: from an experiment's file (`run`) and from Python (`solve`)."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from core import constants
from core.base.errors import UserError
from core.base.files import results_dir
from core.constants import C
from core.grading.answers import by_answer
from core.problems.check import check
from core.problems.sets import ProblemSet
from core.results.data import Results
from core.session import session
from core.session.experiment import Experiment, show
from core.session.runs import Runs
from core.types import ANSWERS, Grader, Problem, Scaffold


def run(scaffold: Scaffold[C], namespace: Mapping[str, Any], grader: Grader = by_answer) -> None:
    """Run the experiment whose file's globals are `namespace`, with NAME=value overrides from the command line. A
    `grader` that asks a model asks the run's own, or the server at GRADER_URL. Ends the process: status 0, 1 (every
    completion failed), 2 (a user's error) or 130 (stopped)."""
    with session.command(scaffold.constants, namespace) as (name, config, stop):
        folder = results_dir()
        runs = Runs(name, config, folder)
        with session.open_on_problems(name, config, stop, folder, scaffold, grader) as opened:
            for part in runs.of(opened):
                experiment = Experiment(part, scaffold, grader)
                runs.ended(experiment.finish(), experiment.document)
        show(runs.document, runs.path)


async def solve(
    scaffold: Scaffold[C],
    problems: str | Sequence[Problem | Mapping[str, Any]],
    *,
    name: str = "",
    grader: Grader = by_answer,
    folder: Path | str | None = None,
    **given: Any,
) -> Results:
    """Run `scaffold` on `problems` from Python, with constants like N=4; what comes back is what a results file holds.

    `problems`: the name of a set, the path of a file, or problems: Problem objects, or dicts with "problem" and
    "answer". The server is chosen as for any run, completions are journaled, and results saved as `name` (by default
    the scaffold's) in `folder`. Raises UserError (also for a wrong constant) and RunFailed; cancelled or broken off, it
    saves what there is. For a script without a loop: `solve_sync`.
    """
    name = name or getattr(scaffold.run, "__name__", "python")
    named = None
    if not isinstance(problems, str):
        named = ProblemSet("given", problems_of(problems, session.taken_by(grader)), "given in Python")
    chosen_by = {"PROBLEMS": problems} if isinstance(problems, str) else {}
    config = constants.read(scaffold.constants, {}, [f"{key}={value}" for key, value in (given | chosen_by).items()])
    folder = Path(folder) if folder else results_dir()
    runs = Runs(name, config, folder)
    with session.open_on_problems(name, config, None, folder, scaffold, grader, named) as opened:
        for part in runs.of(opened):
            experiment = Experiment(part, scaffold, grader)
            runs.ended(await experiment.run(), experiment.document)
        return Results(runs.path)


def solve_sync(scaffold: Scaffold[C], problems: str | Sequence[Problem | Mapping[str, Any]], **given: Any) -> Results:
    """The same where no event loop runs. Raises UserError where one does."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise UserError("an event loop runs here, as in a notebook: await solve(…) in place of solve_sync(…)")
    return asyncio.run(solve(scaffold, problems, **given))


def problems_of(given: Sequence[Problem | Mapping[str, Any]], wanted: str = ANSWERS) -> tuple[Problem, ...]:
    """Problem objects as they are, and rows checked as those of a file. Raises UserError."""
    if given and all(isinstance(each, Problem) for each in given):
        return tuple(each for each in given if isinstance(each, Problem))
    rows = [
        (f"problem {number}", dict(row) if isinstance(row, Mapping) else row) for number, row in enumerate(given, 1)
    ]
    return check(rows, "the list", wanted)
