"""Load the labs that labs/registry.toml names. The harness imports labs only through this
registry."""

import tomllib
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from core.base.files import ROOT

# From the arguments of plan.sh: the name, the plan and the constants of a lab's command.
Planner = Callable[[Sequence[str]], tuple[str, Any, list[str]]]


@dataclass(frozen=True)
class View:
    """A view that the page shows before the results of a folder. Its `scripts` draw it."""

    # name, view (the address), heading, warnings, tables, legend, and data for the scripts
    data: dict[str, Any]
    comparison: dict[str, Any] | None
    scripts: tuple[Path, ...]
    styles: tuple[Path, ...]


class Report(Protocol):
    """The interface of a lab's module `folders`, through which report.sh reads the lab's
    folders."""

    def is_folder(self, folder: Path) -> bool:
        """Return whether the lab wrote `folder`."""

    def results(self, folder: Path) -> list[Path]:
        """List the results files in `folder`, in the order of the page. Raises UserError if no file
        exists yet."""

    def records(self, folder: Path) -> list[Path]:
        """List the other files from which the page is drawn. A live page watches them for
        changes."""

    def page(self, folder: Path, runs: Sequence[Any]) -> View:
        """Return the view of `folder`. `runs` are its results (harness/report/page.py)."""

    def show(self, folder: Path) -> str:
        """Write the tables of `folder` and return them as text for the terminal."""

    def markdown(self, folder: Path) -> str:
        """Return the tables of `folder` in Markdown."""

    def figures(self, folder: Path, to: Path) -> list[Path]:
        """Draw the figures of `folder` into the folder `to` and return their paths."""


@cache
def entries() -> dict[str, dict[str, Any]]:
    """Return the registry's entries by the lab's name, or {} if there is no registry."""
    path = ROOT / "labs" / "registry.toml"
    if not path.exists():
        return {}
    return tomllib.loads(path.read_text(encoding="utf-8"))


def dispatch(args: Namespace, folder: Path) -> bool:
    """Let a lab run the command if it concerns only this lab. Return whether a lab ran it. Raises
    UserError."""
    for entry in entries().values():
        if "report" not in entry:
            continue
        module = import_module(entry["report"])
        if module.dispatch(args, folder):
            return True
    return False


def report_of(folder: Path) -> Report | None:
    """Return the module `folders` of the lab that wrote `folder`, or None if no lab did."""
    for entry in entries().values():
        if "folders" not in entry:
            continue
        lab = cast(Report, import_module(entry["folders"]))
        if lab.is_folder(folder):
            return lab
    return None


def plan_of(command: str) -> Planner | None:
    """Load the function that plans a lab's `command`, or None."""
    for entry in entries().values():
        plans = entry.get("plans", {})
        if command in plans:
            module, _, function = plans[command].partition(":")
            return cast(Planner, getattr(import_module(module), function))
    return None
