"""Load the labs that labs/registry.toml names. Core imports labs only through this registry."""

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
def registry() -> dict[str, dict[str, Any]]:
    """Return the registry's entries by the lab's name, or {} if there is no registry."""
    path = ROOT / "labs" / "registry.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def answers(args: Namespace, folder: Path) -> bool:
    """Let a lab run the command if it concerns only this lab. Return whether a lab ran it. Raises
    UserError."""
    modules = (import_module(entry["report"]) for entry in registry().values() if "report" in entry)
    return any(module.answers(args, folder) for module in modules)


def report_of(folder: Path) -> Report | None:
    """Return the module `folders` of the lab that wrote `folder`, or None if no lab did."""
    modules = (
        cast(Report, import_module(of["folders"])) for of in registry().values() if "folders" in of
    )
    return next((lab for lab in modules if lab.is_folder(folder)), None)


def plan_of(command: str) -> Callable[[Sequence[str]], tuple[str, Any, list[str]]] | None:
    """Load the function that plans a lab's `command`, or None. It maps arguments to name, plan and
    constants."""
    for entry in registry().values():
        if found := entry.get("plans", {}).get(command):
            module, _, function = found.partition(":")
            return cast(
                Callable[[Sequence[str]], tuple[str, Any, list[str]]],
                getattr(import_module(module), function),
            )
    return None
