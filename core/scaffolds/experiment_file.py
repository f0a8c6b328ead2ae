"""Experiment files, read as they stand: who plans or compares an experiment takes its scaffold and constants from
there, for people edit them there."""

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import ROOT
from core.types import Planned

FOLDER = ROOT / "experiments"


@dataclass(frozen=True)
class ExperimentFile:
    """`planned`: its scaffold, or its comparison of several; `namespace`: the names of its file."""

    name: str
    planned: Planned
    namespace: dict[str, Any]


def paths() -> list[Path]:
    """List the experiments' files in their order."""
    return sorted(FOLDER.glob("[0-9]*.py"))


def load(name: str) -> ExperimentFile:
    """The experiment `name`, or the only one whose name begins so. Raises UserError."""
    known = paths()
    stem = Path(name).stem or "?"
    found = [path for path in known if path.stem == stem] or [path for path in known if path.stem.startswith(stem)]
    if len(found) != 1:
        raise UserError(f"no experiment {name!r:.60}. There are: {' '.join(path.stem for path in known)}")
    try:
        namespace = runpy.run_path(str(found[0]))
    except ModuleNotFoundError as error:
        if error.name != "labs":
            raise
        raise UserError(f"{found[0].stem} belongs to a lab, and the folder labs is missing") from None
    planned = [value for value in namespace.values() if isinstance(value, Planned) and not isinstance(value, type)]
    if not planned:
        raise UserError(f"{found[0].stem} names no scaffold (see core/scaffolds/__init__.py)")
    return ExperimentFile(found[0].stem, planned[-1], namespace)
