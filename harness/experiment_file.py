"""Load scaffolds and constants from the files in experiments/."""

import re
import runpy
import sys
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
    r"^from (?:core|harness\.scaffolds)\.\w+ import (?:\w+, )*(\w+)[\w, ]*\n.*^ +run\(\1, globals\(\)",
    re.M | re.S,
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
    known = paths()
    stem = Path(name).stem or "?"
    found = [path for path in known if path.stem == stem] or [
        path for path in known if path.stem.startswith(stem)
    ]
    if len(found) != 1:
        raise UserError(
            f"{len(found) or 'no'} experiments match {name!r:.60}. To list all: bash scripts/run.sh"
        )
    try:
        namespace = runpy.run_path(str(found[0]))
    except ModuleNotFoundError as error:
        if error.name != "labs":
            raise
        what = f"{found[0].stem} needs the folder labs, which is missing"
        raise UserError(f"{what}. Restore it: git checkout labs") from None
    planned = [
        value
        for value in namespace.values()
        if isinstance(value, Planned) and not isinstance(value, type)
    ]
    if not planned:
        raise UserError(
            f"{found[0].stem} has no scaffold to run. harness/scaffolds/__init__.py explains how to "
            "add one"
        )
    return ExperimentFile(found[0].stem, planned[-1], namespace)


@cache
def of_scaffolds() -> dict[str, str]:
    """Return the first experiment of each scaffold, by the scaffold's name in lower case. Runs no
    experiment."""
    found: dict[str, str] = {}
    for path in paths():
        if runs := _RUN.search(path.read_text(encoding="utf-8")):
            found.setdefault(runs[1].lower(), path.stem)
    return found


def chosen(default: str) -> Scaffold[Any]:
    """Return the scaffold that SCAFFOLD=… on the command line names (the first of a sweep's list),
    else the card's, else `default`. A bad name ends the process."""
    with command():  # the experiment has not entered run() yet, which handles errors
        of_card = str(environment.card().constants.get("SCAFFOLD", default))
        named = [given.partition("=")[2] for given in sys.argv[1:] if given.startswith("SCAFFOLD=")]
        return scaffold_named((named or [of_card])[-1].partition(",")[0])


def scaffold_named(name: str) -> Scaffold[Any]:
    """Return the scaffold of this name or experiment. Its own constants are as in the experiment.
    Raises UserError."""
    known = of_scaffolds()
    experiment = known.get(name, name)
    if experiment not in known.values():
        raise UserError(f"SCAFFOLD={name!s:.60} is not one of {', '.join(known)}")
    found = load(experiment)
    scaffold = cast(Scaffold[Any], found.planned)
    about, names = "name of the scaffold that writes the solutions", (*known, *known.values())
    types: dict[str, Any] = {"SCAFFOLD": str}
    values = {"SCAFFOLD": constant(name, about, choices=names)}
    for each in fields(scaffold.constants):
        if each.name in found.namespace and each.name not in rules(Constants):
            types[each.name] = each.type
            values[each.name] = field(default=found.namespace[each.name], metadata=each.metadata)
    return replace(
        scaffold,
        constants=type("Constants", (scaffold.constants,), {"__annotations__": types, **values}),
    )
