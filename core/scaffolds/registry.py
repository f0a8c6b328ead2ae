"""An experiment whose scaffold is a constant: SCAFFOLD=nomos, with what nomos's own experiment sets for it."""

import sys
from dataclasses import field, fields, make_dataclass, replace
from typing import Any, cast

from core.base.errors import UserError, command
from core.constants import Constants, constant, rules
from core.scaffolds import experiment_file
from core.types import Scaffold

# By their names in core/scaffolds, the experiments whose constants they take. An experiment's name is as good.
SCAFFOLDS = {
    "baseline": "01_baseline",
    "rsa": "02_rsa_basic",
    "rsa_verified": "03_rsa_verify",
    "rsa_adaptive": "04_rsa_adaptive",
    "qed_rsa": "05_rsa_qed",
    "deepseek_math": "06_deepseek_math",
    "nomos": "07_nomos",
    "reasoning_cache": "08_reasoning_cache",
    "selfcheck": "09_selfcheck",
    "static_math_agent": "10_static_math_agent",
    "math_agent": "11_math_agent",
    "majority": "12_majority",
    "best_of": "13_best_of",
    "refinement": "14_refinement",
    "rsa_paper": "16_rsa_paper",
}


def chosen(default: str) -> Scaffold[Any]:
    """The scaffold that the command line names by SCAFFOLD=…, else `default`. Its own constants are by default those of
    its experiment's file; those that all experiments have are for the file that calls this. Ends the process where
    there is no such scaffold."""
    with command():  # an experiment chooses before it runs
        named = [given.partition("=")[2] for given in sys.argv[1:] if given.startswith("SCAFFOLD=")]
        return scaffold_named((named or [default])[-1])


def scaffold_named(name: str) -> Scaffold[Any]:
    """Raises UserError."""
    experiment = SCAFFOLDS.get(name, name)
    if experiment not in SCAFFOLDS.values():
        raise UserError(f"SCAFFOLD={name!s:.60} is not one of {', '.join(SCAFFOLDS)}")
    found = experiment_file.load(experiment)
    scaffold = cast(Scaffold[Any], found.planned)
    own = {each.name: each for each in fields(scaffold.constants) if each.name not in rules(Constants)}
    set_there = [(each, found.namespace[each.name]) for each in own.values() if each.name in found.namespace]
    about, names = "what writes and improves the solutions", (*SCAFFOLDS, *SCAFFOLDS.values())
    made = make_dataclass(
        "Constants",
        [("SCAFFOLD", str, constant(name, about, choices=names))]
        + [(each.name, each.type, field(default=value, metadata=each.metadata)) for each, value in set_there],
        bases=(scaffold.constants,),
        frozen=True,
        kw_only=True,
    )
    return replace(scaffold, constants=made)
