"""Read the finished searches in a results folder, by policy and kind, for reports."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.stats import mean_by_problem
from harness.report.tables import interval
from harness.results.warnings import CONTINUES
from labs.lean import outcome
from labs.lean.outcome import MOVE, Outcome, read_record
from labs.training import stages

# kinds of searches
ALONE = "alone"
GUIDED = "guided"
LEARNED = "learned"
NOISE = "noise"


@dataclass(frozen=True)
class Searches:
    """Searches of theorems, sorted by the theorems' names. Each search had at most `nodes` nodes.
    `policy`: the iteration's number, -1 for the policy before iteration 0, or None for a baseline.
    `kind`: ALONE or GUIDED (of held-out theorems, without or with the energy), LEARNED or NOISE (of
    training theorems)."""

    label: str
    folder: Path
    outcomes: list[Outcome]
    nodes: int
    policy: int | None
    kind: str

    def rate(self, nodes: int = 0) -> str:
        """Format the percentage of theorems solved within `nodes` (0: self.nodes), with its
        interval."""
        solved = outcome.solved(self.outcomes, nodes or self.nodes)
        return interval(mean_by_problem(solved).to_json())

    @cached_property
    def proved(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.is_proved]

    @cached_property
    def figures(self) -> dict[str, Any]:
        return outcome.figures(self.outcomes, [self.nodes])

    @property
    def share_proved(self) -> str:
        return f"{len(self.proved):,} of {len(self.outcomes):,}"


@dataclass(frozen=True)
class Report:
    """The contents of a results folder. `searches` are in the order in which they ran. `records`
    has parts of the records of iterations, by number."""

    folder: Path
    searches: list[Searches] = field(default_factory=list)
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of(self, policy: int, kind: str) -> Searches | None:
        """Return the searches of a policy and a kind, or None if they are missing."""
        for searches in self.searches:
            if (searches.policy, searches.kind) == (policy, kind):
                return searches
        return None

    def add(
        self, label: str, folder: Path, nodes: int, policy: int | None = None, kind: str = ALONE
    ) -> None:
        """Add the finished searches in `folder` if there are any. Raises UserError."""
        outcomes = sorted(outcome.all_in(folder), key=lambda outcome: outcome.name)
        if len({outcome.run for outcome in outcomes}) > 1:
            self.notes.append(
                f"{label}: the searches differ in their constants, model, Lean or energy"
            )
        if outcomes:
            self.searches.append(Searches(label, folder, outcomes, nodes, policy, kind))

    def add_baseline(self, folder: Path) -> None:
        """Add a baseline's searches and its control. Raises UserError."""
        record = self.record(folder)
        if record:
            label = folder.name.replace("_", ", ", 1)
            self.add(label, folder / "trajectories", record["nodes"])
            self.add(f"{label}, index", folder / "index" / "trajectories", record["nodes"])

    def add_iteration(self, number: int) -> None:
        """Add an iteration's searches. Raises UserError."""
        folder = self.folder / f"iteration_{number}"
        record = self.record(folder)
        if not record:
            return
        self.records[number] = record
        nodes, learning = record["nodes"], record["learning"]
        if not number:
            first = policy_name(-1)
            self.add(first, folder / "eval_before", nodes, -1)
            self.add(f"{first}, energy", folder / "eval_before_energy", nodes, -1, GUIDED)
        name = policy_name(number)
        self.add(f"{name}, training set", folder / "trajectories", learning, number, LEARNED)
        self.add(f"{name}, noise", folder / "noisy", learning, number, NOISE)
        self.add(name, folder / "eval", nodes, number)
        self.add(f"{name}, energy", folder / "eval_energy", nodes, number, GUIDED)

    def record(self, folder: Path) -> dict[str, Any]:
        """Return parts of the record in a folder, or {} if it is missing. Raises UserError."""
        if not (folder / stages.NAME).exists():
            return {}
        record = read_record(folder)
        try:
            parts = _parts(record)
        except (LookupError, TypeError, ValueError) as error:
            raise UserError(
                f"{folder / stages.NAME} is not a record of searches ({error}). {MOVE}"
            ) from None
        if record.get("complete") is not True:
            self.notes.append(f"{folder.name} is not complete ({CONTINUES})")
        return parts


def _parts(record: dict[str, Any]) -> dict[str, Any]:
    config = dict(record.get("config", {}))
    searched = dict(record.get("searched", {}))
    guided = dict(record.get("guided", {}))
    parts = {"nodes": int(config["MAX_NODES"]), "learning": config.get("TRAIN_NODES")}
    if guided:
        parts["auc"] = guided["auc"]["value"]
        parts["auc_own"] = guided["auc_own"]["value"]
    parts["pairs"] = searched.get("pairs")
    return parts


def read(folder: Path) -> Report:
    """Read the results in `folder`. Raises UserError if it contains no searches or can't be
    read."""
    report = Report(folder)
    for baseline in sorted(folder.glob("baseline*")):
        if baseline.name.replace("_", "").isalnum():
            report.add_baseline(baseline)
    for number in sorted(_iterations(folder)):
        report.add_iteration(number)
    if not report.searches:
        raise UserError(
            f"{folder} contains no finished search. Run one first: bash scripts/run.sh "
            "23_lean_baseline"
        )
    return report


def _iterations(folder: Path) -> Iterator[int]:
    """Yield the numbers of the iterations in `folder`. Iterations that were put aside have longer
    names, which do not match."""
    for path in folder.glob("iteration_*"):
        if match := re.fullmatch(r"iteration_(\d{1,4})", path.name):
            yield int(match[1])


def policy_name(policy: int) -> str:
    return f"iteration {policy}" if policy >= 0 else "first policy"
