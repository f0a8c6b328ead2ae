"""Load scaffolds and constants from the files in experiments/.

`python -m harness.experiment_file FILE [NAME=value …]` runs an experiment for scripts/run.sh."""

import re
import runpy
import sys
import traceback
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from core.base.errors import UserError, command
from core.base.files import ROOT
from core.constants import Constants, constant, rules
from core.engines import environment
from core.types import Planned, Scaffold

FOLDER = ROOT / "experiments"

# Matches the name of the scaffold that an experiment imports and runs, such as RSA.
_RUN = re.compile(
    r"^from (?:core|harness\.scaffolds)\.\w+ import (?:\w+, )*(\w+)[\w, ]*\n"
    r".*^ +run\(\1, globals\(\)",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class ExperimentFile:
    """An experiment: its scaffold, comparison or lab's task (`planned`), and the globals of its
    file (`namespace`)."""

    name: str
    planned: Planned
    namespace: dict[str, Any]


def paths() -> list[Path]:
    return sorted(FOLDER.glob("[0-9]*.py"))


def load(name: str) -> ExperimentFile:
    """Load the experiment with this name or path, or the only one whose name starts with it. Raises
    UserError."""
    path = _path(name)
    try:
        namespace = execute(path)
    except ModuleNotFoundError as error:
        if error.name != "labs":
            raise
        raise UserError(
            f"{path.stem} needs the folder labs, which is missing. Restore it: git checkout labs"
        ) from None
    planned: Planned | None = None
    for value in namespace.values():
        if isinstance(value, Planned) and not isinstance(value, type):
            planned = value  # the last one counts
    if planned is None:
        raise UserError(
            f"{path.stem} has no scaffold to run. harness/scaffolds/__init__.py explains how to "
            "add one"
        )
    return ExperimentFile(path.stem, planned, namespace)


def execute(path: Path, run_name: str = "<run_path>") -> dict[str, Any]:
    """Execute an experiment's file as the module `run_name`, and return its globals. Raises
    UserError for an error in its own lines, such as a constant without quotes. Errors in modules
    that it calls are bugs, and pass."""
    try:
        return runpy.run_path(str(path), run_name=run_name)
    except (NameError, SyntaxError, TypeError) as error:
        line = _own_line(error, path)
        if line is None:
            raise
        fault = error.msg if isinstance(error, SyntaxError) else str(error)
        location = f"{path.name}, line {line}"
    raise UserError(f"{location} is not valid Python ({fault}). Correct it. Texts need quotes")


def _own_line(error: Exception, path: Path) -> int | None:
    """Return the line of a file that raised the error outside of functions, or None if another
    place raised it."""
    if isinstance(error, SyntaxError):
        return error.lineno if error.filename == str(path) else None
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_own = last.filename == str(path) and last.name == "<module>"
    return last.lineno if is_own else None


def _path(name: str) -> Path:
    """Return the file of an experiment, as `load` describes."""
    stem = Path(name).stem or "?"
    matches = [path for path in paths() if path.stem == stem]
    if not matches:
        matches = [path for path in paths() if path.stem.startswith(stem)]
    if len(matches) != 1:
        raise UserError(
            f"{len(matches) or 'no'} experiments match {name!r:.60}. To list all: "
            "bash scripts/run.sh"
        )
    return matches[0]


@cache
def experiments_by_scaffold() -> dict[str, str]:
    """Return the first experiment of each scaffold, by the scaffold's name in lower case. Runs no
    experiment."""
    experiments: dict[str, str] = {}
    for path in paths():
        match = _RUN.search(path.read_text(encoding="utf-8"))
        if match:
            experiments.setdefault(match[1].lower(), path.stem)
    return experiments


def scaffold_from_command_line(default: str) -> Scaffold[Any]:
    """Return the scaffold that SCAFFOLD=… on the command line names (the first of a sweep's list),
    else the card's, else `default`. A bad name ends the process."""
    with command():  # the experiment has not entered run() yet, which handles errors
        value = str(environment.card().constants.get("SCAFFOLD", default))
        for word in sys.argv[1:]:
            if word.startswith("SCAFFOLD="):
                value = word.removeprefix("SCAFFOLD=")
        first, _, _ = value.partition(",")
        return scaffold_named(first)


def scaffold_named(name: str) -> Scaffold[Any]:
    """Return the scaffold of this name or experiment. Its own constants are as in the experiment.
    Raises UserError."""
    experiments = experiments_by_scaffold()
    experiment = experiments.get(name, name)  # `name` may be an experiment's already
    if experiment not in experiments.values():
        raise UserError(f"SCAFFOLD={name!s:.60} is not one of {', '.join(experiments)}")
    file = load(experiment)
    scaffold = cast(Scaffold[Any], file.planned)
    return replace(scaffold, constants=_constants_with(name, scaffold, file.namespace))


def _constants_with(
    name: str, scaffold: Scaffold[Any], namespace: dict[str, Any]
) -> type[Constants]:
    """Return a scaffold's constants with SCAFFOLD=`name`, and with the experiment's values of its
    own constants as defaults."""
    experiments = experiments_by_scaffold()
    choices = (*experiments, *experiments.values())
    help_text = "name of the scaffold that writes the solutions"
    types: dict[str, Any] = {"SCAFFOLD": str}
    values: dict[str, Any] = {"SCAFFOLD": constant(name, help_text, choices=choices)}
    for declared in fields(scaffold.constants):
        if declared.name in namespace and declared.name not in rules(Constants):
            types[declared.name] = declared.type
            default = namespace[declared.name]
            values[declared.name] = field(default=default, metadata=declared.metadata)
    members = {"__annotations__": types, **values}
    return type("Constants", (scaffold.constants,), members)


def main() -> None:
    """Run the experiment whose file is the first argument. The other arguments are its own."""
    del sys.argv[0]
    try:
        execute(Path(sys.argv[0]), "__main__")
    except UserError:
        with command():
            raise


if __name__ == "__main__":
    main()
