"""Race scaffolds at one budget, and drop an entry as soon as the problems so far show that it is not the best.

Problems come in a random order and in blocks. All entries that are left run on a block, then core/base/racing.py looks
at all scores so far. The journal stores finished completions, so the same command continues with the same drops. The
budget's unit is the mean cost of the reference's samples on the first block, and stays fixed."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from core.base import seeds, terminal
from core.base.errors import UserError
from core.base.files import results_dir, write_atomically
from core.base.racing import Standing, interval, race
from core.base.stats import mean_by_problem
from core.constants import constant
from core.grading.answers import by_answer
from core.problems.sets import ProblemSet
from core.report import tables
from core.report.budgets import bought, in_unit
from core.report.matched import TABLE
from core.report.table import NONE, Metric, Table, filled
from core.results import read, write
from core.results.find import found
from core.results.spending import UNITS
from core.scaffolds import experiment_file
from core.session import session
from core.session.bar import Bar
from core.session.equal_compute import Budgeted, Compared, Comparison, Entry, taking_part
from core.session.experiment import Experiment, Part
from core.session.session import Session


@dataclass(frozen=True, kw_only=True)
class Constants(Compared):
    """The constants of a race."""

    BUDGET: float = constant(10.5, "budget per problem, in units of a sample's mean cost", 1, 1000)
    ALPHA: float = constant(0.05, "highest chance that any best entry is ever dropped", 1e-9, 0.5)
    EFFECT: float = constant(0.0, "difference in accuracy that does not matter (0.02: 2 points), or 0", 0, 0.9)
    BLOCK: int = constant(8, "problems between two looks", 1, 100_000)
    PRIOR: str = constant("", "name of an earlier comparison or race, whose problems come first")

    def budgets(self) -> list[float]:
        return [self.BUDGET]


def comparison_of(experiment: str) -> Comparison:
    """Return the entries of another experiment's comparison, to race them."""
    return replace(experiment_file.load(experiment).planned, constants=Constants)  # type: ignore[type-var]


def run_race(planned: Comparison, namespace: Mapping[str, Any]) -> None:
    """Run a race as a command, and print its looks and table. `namespace` contains the globals of the file."""
    names = ", ".join(entry.name for entry in planned.entries)
    with session.command(Constants, namespace, more_help=terminal.wrapped(f"The entries are {names}.")) as opening:
        name, common, stop = opening
        planned.chosen(common)
        folder = results_dir()
        prior = found([common.PRIOR], folder) if common.PRIOR else []
        with session.open_on_problems(name, common, stop, folder, planned, by_answer) as opened:
            shuffled = replace(opened, problems=_order(opened, prior))
            print(f"\n{_Race(planned, shuffled).run()}\nresults {folder / name}")


def _order(opened: Session[Constants], prior: Sequence[Path]) -> ProblemSet:
    """Shuffle the problems, the problems of the `prior` results first. Raises UserError if these results do not fit."""
    chosen, common = opened.problems, opened.config
    model, earlier = opened.server.model_info()["name"], set[tuple[str, str]]()
    for path in prior:
        head, problems = read.read(path)
        if head.model["name"] != model:
            raise UserError(f"PRIOR={common.PRIOR:.60} is of the model {head.model['name']}, not {model}. Leave it out")
        earlier |= {(problem.id, problem.statement) for problem in problems}
    if earlier - {(problem.id, problem.statement) for problem in chosen.problems}:
        raise UserError(f"PRIOR={common.PRIOR:.60} has problems that {chosen.name} lacks. Set its PROBLEMS and LIMIT")
    order = seeds.rng(common.SEED, "race").permutation(len(chosen.problems))
    problems = sorted((chosen.problems[i] for i in order), key=lambda each: (each.id, each.statement) not in earlier)
    return replace(chosen, name=f"{chosen.name} (shuffled)", problems=tuple(problems))


@dataclass
class _Row:
    """An entry of the table: its `scores` by problem, and the same problems' scores of the first entry that is left."""

    name: str
    state: str
    scores: np.ndarray[Any, Any]
    first: np.ndarray[Any, Any]
    cost: float
    alpha: float
    difference: str = field(init=False)
    shown: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        behind = self.first - self.scores
        low, high = interval(behind, self.alpha)
        self.difference = tables.shift(-float(behind.mean()), -high, -low) if behind.any() else NONE
        accuracy = mean_by_problem(self.scores).to_json()
        self.shown = {"entry": self.name, "state": self.state, "accuracy": accuracy, "cost": self.cost}
        self.shown |= {"difference": -float(behind.mean()), "low": -high, "high": -low}


class _Race:
    """A race in a session whose problems are shuffled."""

    def __init__(self, planned: Comparison, opened: Session[Constants]) -> None:
        self.planned, self.opened, self.common = planned, opened, opened.config
        self.entries, self.notes, self.meter = taking_part(planned, opened)
        if len(self.entries) < 2:
            raise UserError(f"a race needs two entries, but has {self.entries[0].name} only. Change ENTRIES")
        self.n, self.folder = len(opened.problems.problems), opened.folder / opened.name
        self.scores = np.full((self.n, len(self.entries)), np.nan)
        self.costs = np.zeros_like(self.scores)  # in the meter's unit, with the step beyond the budget
        self.budget, self.looks = math.inf, list[str]()
        self.runs: dict[int, list[Experiment[Any]]] = {}
        common = self.common
        matters = f", or until nothing left is better by {100 * common.EFFECT:g} points" if common.EFFECT else ""
        self.rule = (
            f"an entry is dropped if it is shown not to be the best, until one is left{matters}. Looks after every "
            f"{common.BLOCK} problems. The chance of any error is at most {100 * common.ALPHA:g}%, over all looks"
        )

    def run(self) -> str:
        """Race until the race is settled or the problems end. Return the table for the terminal."""
        print(terminal.wrapped(f"race      {self.rule}", " " * 10), flush=True)
        standing = Standing(list(range(len(self.entries))))
        allotted = [self.planned.allotted(entry, self.common) for entry in self.entries]
        with Bar(self.opened.name, self.n * self.common.RUNS * sum(allotted)) as bar:
            for begin in range(0, self.n, self.common.BLOCK):
                block = range(begin, min(begin + self.common.BLOCK, self.n))
                before = sorted(standing.left)  # the reference first
                for place in before:
                    self._run_block(place, block, bar, allotted[place])
                standing = race(self.scores[: block.stop], self.common.ALPHA, self.common.EFFECT)
                out = [place for place in before if place in standing.dropped]
                bar.total -= (self.n - block.stop) * self.common.RUNS * sum(allotted[place] for place in out)
                self.looks.append(self._look(block.stop, standing, out))
                bar.write(self.looks[-1])
                text = self._show(standing)
                if standing.is_settled:
                    break
        return text

    def _run_block(self, place: int, block: range, bar: Bar, allotted: int) -> None:
        entry, common = self.entries[place], self.common
        if place not in self.runs:
            scaffold = replace(entry.scaffold, run=Budgeted(entry.scaffold.run, self.budget, self.meter))
            self.runs[place] = [self._prepared(entry, scaffold, common.SEED + i) for i in range(common.RUNS)]
        paths = []
        for each in self.runs[place]:
            each.part = Part(bar, f"{block.stop}/{self.n} {entry.name}", allotted)
            paths.append(each.finish(block))
        if self.budget == math.inf:
            self.budget = in_unit([common.BUDGET], paths, self.meter)[0]
        for problem in block:
            steps = [[read.step_result(json.loads(step)) for step in run.steps[problem]] for run in self.runs[place]]
            self.scores[problem, place] = np.mean([bought(of, self.budget, self.meter).score or 0.0 for of in steps])
            calls = (
                c
                for of in steps
                for step in of
                for m in step.members
                for c in (m.side_calls if m.carried_over else m.calls)
            )
            counted = ((c.prompt_tokens, c.cached_tokens, c.completion_tokens) for c in calls)
            self.costs[problem, place] = sum(self.meter.cost(of) or 0.0 for of in counted) / common.RUNS

    def _prepared(self, entry: Entry, scaffold: Any, seed: int) -> Experiment[Any]:
        config = replace(entry.config(self.common), SEED=seed)
        named = self.opened.but(name=f"{entry.name}-seed{seed}", config=config, folder=self.folder)
        return Experiment(named, scaffold, by_answer, Part(Bar("", 0), "", 0))

    def _look(self, problems: int, standing: Standing, out: Sequence[int]) -> str:
        def shown(place: int) -> str:
            return f"{self.entries[place].name} {100 * np.nanmean(self.scores[:problems, place]):.1f}%"

        dropped = f"dropped {', '.join(map(shown, out))}" if out else "nothing dropped"
        return f"look after {problems} problems: {dropped}. {len(standing.left)} left, the first is {shown(standing.left[0])}"

    def _show(self, standing: Standing) -> str:
        """Write the table of all looks so far. Return the columns that fit the terminal."""
        first, alone = standing.left[0], len(standing.left) == 1
        rows = []
        for place in [*standing.left, *sorted(standing.dropped, key=lambda each: -standing.dropped[each])]:
            ran = ~np.isnan(self.scores[:, place])
            state = f"dropped at {standing.dropped[place]}" if place in standing.dropped else "won" if alone else "left"
            pair = self.scores[ran][:, [place, first]].T
            rows.append(
                _Row(self.entries[place].name, state, *pair, float(self.costs[ran, place].mean()), self.common.ALPHA)
            )
        metrics = [
            Metric("entry", "", lambda row: row.name),
            Metric("state", "", lambda row: row.state),
            Metric("problems", "", lambda row: str(row.scores.size)),
            Metric("accuracy", "", lambda row: tables.interval(row.shown["accuracy"])),
            Metric(f"minus {self.entries[first].name}", "", lambda row: row.difference),
            Metric(self.meter.unit, "", lambda row: self.meter.shown(row.cost), rank=1),
        ]
        table, width = Table("", filled(metrics, rows)), terminal.columns()
        names, effect = ", ".join(row.name for row in rows[: len(standing.left)]), 100 * self.common.EFFECT
        result = f"the winner is {names}" if alone else f"can't be told apart: {names}"
        if standing.is_settled and not alone:
            result += f". No other entry is better than {names.split(',')[0]} by more than {effect:g} points"
        full = sum(row.cost for row in rows) * self.n
        notes = [
            f"{result}, after {standing.looks} of {self.n} problems",
            f"the race took {self.costs.sum() / full:.0%} of the {self.meter.unit} that all entries take on all "
            f"problems, if dropped entries go on as before",
            f"{self.opened.server.model} on {self.opened.problems.name}. {self.rule}",
            f"a problem's budget is {self.meter.shown(self.budget)} {UNITS[self.meter.unit]}, the mean cost of "
            f"{self.common.BUDGET:g} samples on the first {min(self.common.BLOCK, self.n)} problems",
            f"differences have {100 - 100 * self.common.ALPHA:g}% intervals that hold at all looks of a pair. The "
            "intervals of accuracies are 95% and hold for a fixed number of problems. Drops compare with all entries "
            "at once, so they may precede an interval without 0",
            *self.notes,
        ]
        body = "\n".join(f"note: {note}" for note in notes)
        looks = "\n".join(self.looks)
        write_atomically(self.folder / TABLE, f"{table.body()}\n\n{body}\n\n{looks}\n".encode())
        head = {"experiment": self.opened.name, "made": write.now(), "unit": self.meter.unit, "budget": self.budget}
        head |= {each: getattr(self.common, each) for each in ("BUDGET", "ALPHA", "EFFECT", "BLOCK", "PRIOR", "SEED")}
        head |= {"is_settled": standing.is_settled, "looks": self.looks, "notes": notes}
        lines = "\n".join(json.dumps(line) for line in (head, *(row.shown for row in rows)))
        write_atomically(self.folder / "table.jsonl", f"{lines}\n".encode())
        return f"{table.body(width)}\n\n{terminal.wrapped(body, '  ', width)}"
