"""An experiment whose scaffold is a constant: SCAFFOLD=nomos, with what nomos's own experiment sets for it."""

import re
import sys
from dataclasses import field, fields, make_dataclass, replace
from functools import cache
from typing import Any, cast

from core.base.errors import UserError, command
from core.constants import Constants, constant, rules
from core.scaffolds import experiment_file
from core.types import Scaffold

# The scaffold that an experiment's file imports and runs, such as RSA.
_RUN = re.compile(r"^from core\.scaffolds\.\w+ import (?:\w+, )*(\w+)[\w, ]*\n.*^ +run\(\1, globals\(\)", re.M | re.S)


@cache
def experiments() -> dict[str, str]:
    """Return the experiment of each scaffold, which sets its constants, by the scaffold's name in small letters. Of
    several experiments, the first counts. The files are not run."""
    found: dict[str, str] = {}
    for path in experiment_file.paths():
        if runs := _RUN.search(path.read_text(encoding="utf-8")):
            found.setdefault(runs[1].lower(), path.stem)
    return found


def chosen(default: str) -> Scaffold[Any]:
    """The scaffold that the command line names by SCAFFOLD=…, else `default`. Its own constants are by default those of
    its experiment's file; those that all experiments have are for the file that calls this. Ends the process where
    there is no such scaffold."""
    with command():  # an experiment chooses before it runs
        named = [given.partition("=")[2] for given in sys.argv[1:] if given.startswith("SCAFFOLD=")]
        return scaffold_named((named or [default])[-1])


def scaffold_named(name: str) -> Scaffold[Any]:
    """Raises UserError."""
    known = experiments()
    experiment = known.get(name, name)
    if experiment not in known.values():
        raise UserError(f"SCAFFOLD={name!s:.60} is not one of {', '.join(known)}")
    found = experiment_file.load(experiment)
    scaffold = cast(Scaffold[Any], found.planned)
    own = {each.name: each for each in fields(scaffold.constants) if each.name not in rules(Constants)}
    set_there = [(each, found.namespace[each.name]) for each in own.values() if each.name in found.namespace]
    about, names = "what writes and improves the solutions", (*known, *known.values())
    made = make_dataclass(
        "Constants",
        [("SCAFFOLD", str, constant(name, about, choices=names))]
        + [(each.name, each.type, field(default=value, metadata=each.metadata)) for each, value in set_there],
        bases=(scaffold.constants,),
        frozen=True,
        kw_only=True,
    )
    return replace(scaffold, constants=made)
