"""The labs that stand on the harness, each joined to its commands by an entry of labs/registry.toml.

Core imports no lab: it loads the modules that the table names. Without the folder labs, there are none.
"""

import tomllib
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from core.base.files import ROOT


@dataclass(frozen=True)
class View:
    """A view on the page before the results of a folder. The `scripts` draw it from `data`, and the page itself from
    its name, view (the address), heading, warnings, tables and legend. `comparison`: of the results, or None."""

    data: dict[str, Any]
    comparison: dict[str, Any] | None
    scripts: tuple[Path, ...]
    styles: tuple[Path, ...]


class Report(Protocol):
    """What the module `report` of a lab tells report.sh about the folders of results that the lab writes."""

    def answers(self, args: Namespace, folder: Path) -> bool:
        """Answer the whole command if it is about this lab alone; return whether it was."""

    def is_folder(self, folder: Path) -> bool:
        """Return whether the lab wrote `folder`."""

    def results(self, folder: Path) -> list[Path]:
        """List the results files in `folder`, in the order of the page. Raises UserError if there is none yet."""

    def records(self, folder: Path) -> list[Path]:
        """List the other files that the page is drawn from, which a live page watches."""

    def page(self, folder: Path, runs: Sequence[Any]) -> View:
        """Return the view of `folder`. `runs`: its results in the order of the page (core/report/page.py)."""

    def show(self, folder: Path) -> str:
        """Write the tables of `folder` and return them as text for the terminal."""

    def figures(self, folder: Path, to: Path) -> list[Path]:
        """Draw the figures of `folder` into the folder `to` and return their paths."""


@cache
def registry() -> dict[str, dict[str, Any]]:
    """Read the entries of the registry, by the name of the lab."""
    path = ROOT / "labs" / "registry.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def reports() -> list[Report]:
    """Load the module `report` of each lab that has one."""
    return [cast(Report, import_module(entry["report"])) for entry in registry().values() if "report" in entry]


def report_of(folder: Path) -> Report | None:
    """Find the lab that wrote `folder`."""
    return next((lab for lab in reports() if lab.is_folder(folder)), None)


def plan_of(command: str) -> Callable[[Sequence[str]], tuple[str, Any, list[str]]] | None:
    """Load the function by which a lab says what its `command` takes: from the words behind it to a name, what is
    planned, and constants."""
    for entry in registry().values():
        if found := entry.get("plans", {}).get(command):
            module, _, function = found.partition(":")
            return cast(Callable[[Sequence[str]], tuple[str, Any, list[str]]], getattr(import_module(module), function))
    return None
