"""Race scaffolds at one budget, and drop an entry as soon as the problems so far show that it is
not the best.

Problems come in a random order and in blocks. All entries that are left run on a block, then
harness/session/racing.py looks at all scores so far. The journal stores finished completions, so the same
command continues with the same drops. The budget's unit is the mean cost of the reference's samples
on the first block, and stays fixed."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from msgspec.json import decode

from core.base import seeds, terminal
from core.base.errors import UserError
from core.base.files import results_dir, write_atomically
from core.base.stats import mean_by_problem
from core.constants import OF_RUNS, constant, rules
from core.eval import by_answer
from harness import experiment_file
from harness.problems.sets import ProblemSet
from harness.report import plot, tables
from harness.report.budgets import bought, in_unit
from harness.report.matched import TABLE
from harness.report.table import NONE, Column, Table
from harness.results import model, write
from harness.results.cost_meter import UNITS
from harness.session import session
from harness.session.equal_compute import Compared, Comparison, Matching
from harness.session.experiment import Experiment
from harness.session.racing import Standing, intervals, pair_level, race


class Constants(Compared):
    """The constants of a race."""

    BUDGET: float = constant(10.5, "budget per problem, in units of a sample's mean cost", 1, 1000)
    ALPHA: float = constant(0.05, "highest chance that any best entry is ever dropped", 1e-9, 0.5)
    EFFECT: float = constant(
        0.0, "difference in accuracy that does not matter (0.02: 2 points), or 0", 0, 0.9
    )
    BLOCK: int = constant(8, "problems between two looks", 1, 100_000)

    def budgets(self) -> list[float]:
        return [self.BUDGET]


def comparison_of(experiment: str) -> Comparison:
    """Return the entries of another experiment's comparison, to race them."""
    return replace(cast(Comparison, experiment_file.load(experiment).planned), constants=Constants)


def run_race(planned: Comparison, namespace: Mapping[str, Any]) -> None:
    """Run a race as a command, and print its looks and table. `namespace` contains the globals of
    the file."""
    entries = terminal.wrapped(
        f"The entries are {', '.join(entry.name for entry in planned.entries)}."
    )
    with session.command(Constants, namespace, more_help=entries) as (name, common):
        folder = results_dir()
        with session.open_on_problems(name, common, folder, planned, by_answer) as opened:
            race = _Race(planned, opened.but(problems=_shuffled(opened)))
            print(f"\n{race.run_all()}\nresults {folder / name}\nserve   {race.serving()}")


def _shuffled(opened: session.Session[Constants]) -> ProblemSet:
    """Return the problems in random order, on which the guarantee rests."""
    chosen = opened.problems
    order = seeds.rng(opened.config.SEED, "race").permutation(len(chosen.problems))
    problems = tuple(chosen.problems[i] for i in order)
    return replace(chosen, name=f"{chosen.name} (shuffled)", problems=problems)


class _Race(Matching):
    """A race in a session whose problems are shuffled."""

    def __init__(self, planned: Comparison, opened: session.Session[Constants]) -> None:
        super().__init__(planned, opened, by_answer)
        if len(self.entries) < 2:
            raise UserError(
                f"a race needs two entries, but has {self.entries[0].name} only. Change ENTRIES"
            )
        common = self.common = opened.config
        self.n = len(self.chosen.problems)
        self.scores = np.full((self.n, len(self.entries)), np.nan)
        self.tokens = np.zeros_like(self.scores)  # per run, with the step beyond the budget
        # the entries whose only step, or a later one than the first, a budget paid for
        self.begun: set[int] = set()
        self.budget, self.looks, self.first = math.inf, list[str](), 0
        self.runs: dict[int, list[Experiment[Any]]] = {}
        matters = (
            f", or until nothing left is better by {100 * common.EFFECT:g} points"
            if common.EFFECT
            else ""
        )
        self.rule = (
            f"an entry is dropped if it is shown not to be the best, until one is left{matters}. A "
            f"look follows each block of {common.BLOCK}. The chance of any error is at most "
            f"{100 * common.ALPHA:g}%, over all looks"
        )

    def run_all(self) -> str:
        """Run blocks until the race is settled or the problems end. Return the table for the
        terminal."""
        print(terminal.wrapped(f"race      {self.rule}", " " * 10), flush=True)
        standing = Standing(list(range(len(self.entries))))
        with self.bar as bar:
            for begin in range(0, self.n, self.common.BLOCK):
                block = range(begin, min(begin + self.common.BLOCK, self.n))
                before = sorted(standing.left)  # the reference first
                for place in before:
                    self._run_block(place, block)
                standing = race(self.scores[: block.stop], self.common.ALPHA, self.common.EFFECT)
                out = [place for place in before if place in standing.dropped]
                if block.stop < self.n:
                    for run in (
                        run
                        for place in (before if standing.is_settled else out)
                        for run in self.runs[place]
                    ):
                        bar.total -= (self.n - block.stop) * run.allotted
                        run.end()
                self.looks.append(self._look(block.stop, standing, out))
                bar.write(self.looks[-1])
                text, self.first = self._show(standing), standing.left[0]
                if standing.is_settled:
                    break
        return text

    def serving(self) -> str:
        """Return the command that serves the first entry, without the budget."""
        entry = self.entries[self.first]
        config, usual = (
            entry.config(self.common),
            experiment_file.scaffold_named(entry.experiment).constants(),
        )
        own = {name: getattr(config, name) for name in rules(type(config)) if name not in OF_RUNS}
        changed = " ".join(
            f"{name}={value}" for name, value in own.items() if value != getattr(usual, name)
        )
        return f"bash scripts/serve_rsa.sh SCAFFOLD={entry.experiment} {changed}".rstrip()

    def _run_block(self, place: int, block: range) -> None:
        entry = self.entries[place]
        if place not in self.runs:
            self.runs[place] = self.experiments(*self.within(entry, self.budget))
        self.bar.stage = f"{block.stop}/{self.n} {entry.name}"
        paths = [each.finish(block) for each in self.runs[place]]
        if self.budget == math.inf:
            self.budget = in_unit([self.common.BUDGET], paths, self.meter)[0]
        for problem in block:
            steps = [
                [decode(step, type=model.StepResult) for step in run.steps[problem]]
                for run in self.runs[place]
            ]
            parts = [bought(of, self.budget, self.meter) for of in steps]
            self.scores[problem, place] = np.mean([part.score or 0.0 for part in parts])
            if any(
                part.step or (part.step == 0 and len(of) == 1)
                for part, of in zip(parts, steps, strict=True)
            ):
                self.begun.add(place)
            calls = [call for of in steps for step in of for call in step.new_calls]
            self.tokens[problem, place] = (
                sum(call.completion_tokens or 0 for call in calls) / self.common.RUNS
            )

    def _look(self, problems: int, standing: Standing, out: Sequence[int]) -> str:
        def shown(place: int) -> str:
            return (
                f"{self.entries[place].name} {100 * np.nanmean(self.scores[:problems, place]):.1f}%"
            )

        left = f"{len(standing.left)} left, the first is {shown(standing.left[0])}"
        return (
            f"look after {problems} problems: dropped {', '.join(map(shown, out)) or 'none'}. "
            f"{left}"
        )

    def _show(self, standing: Standing) -> str:
        """Write the table of all looks so far. Return the columns that fit the terminal."""
        common, (first, *rest) = self.common, standing.left
        dropped = sorted(standing.dropped, key=lambda each: -standing.dropped[each])
        places = (first, *rest, *dropped)
        courses = {place: self._course(place, first) for place in places}
        rows = [self._row(place, courses[place][-1], standing) for place in places]
        shifts = [tables.shift(row["difference"], row["low"], row["high"]) for row in rows[1:]]
        level = f"{100 - 100 * common.ALPHA:g}%"
        columns = [
            Column("entry", [row["entry"] for row in rows]),
            Column("state", [row["state"] for row in rows]),
            Column("problems", [str(row["accuracy"]["n"]) for row in rows]),
            Column("accuracy", [tables.interval(row["accuracy"]) for row in rows]),
            Column(f"minus {self.entries[first].name} [all pairs]", [NONE, *shifts]),
            Column("tokens", [f"{row['tokens']:,.0f}" for row in rows], rank=1),
        ]
        table, width = Table("", columns), terminal.columns()
        names = [self.entries[place].name for place in standing.left]
        result = f"not told apart: {', '.join(names)}" if rest else f"the winner is {names[0]}"
        if standing.is_settled and rest:
            result += (
                f". None of them is better than {names[0]} by more than {100 * common.EFFECT:g} "
                "points"
            )
        short = ", ".join(self.entries[place].name for place in places if place not in self.begun)
        share = self.tokens.sum() / (self.n * sum(row["tokens"] for row in rows))
        notes = [
            f"{result}, after {np.sum(~np.isnan(self.scores[:, first]))} of {self.n} problems",
            *(
                [f"the budget pays for at most the first step of {short}. BUDGET may be too small"]
                if short
                else []
            ),
            (
                f"the race took {share:.0%} of the tokens of all entries on all problems "
                "(estimated with their means)"
            ),
            f"{self.opened.server.model} on {self.chosen.name}, n={self.n}",
            self.rule,
            f"a problem's budget is {self.meter.shown(self.budget)} {UNITS[self.meter.unit]}: the "
            f"mean cost of {common.BUDGET:g} samples on the first block. The last step within it "
            "gives the accuracy, but tokens include the step that exceeds it",
            f"with a chance of {level}, the intervals of differences are right for all pairs of "
            "entries at all looks. A drop makes one test for each entry, so it may precede an "
            "interval without 0, or follow it. Each accuracy has a 95% interval of its own, for "
            "a fixed number of problems",
        ]
        body, looks = "\n".join(f"note: {note}" for note in notes), "\n".join(self.looks)
        write_atomically(self.folder / TABLE, f"{table.body()}\n\n{body}\n\n{looks}\n".encode())
        head = {
            "experiment": self.opened.name,
            "made": write.now(),
            "unit": self.meter.unit,
            "budget": self.budget,
        }
        head |= {
            each: getattr(common, each) for each in ("BUDGET", "ALPHA", "EFFECT", "BLOCK", "SEED")
        }
        head |= {"is_settled": standing.is_settled, "looks": self.looks, "notes": notes}
        write_atomically(
            self.folder / "table.jsonl",
            (f"{json.dumps(line)}\n".encode() for line in (head, *rows)),
        )
        drawn = [
            (self.entries[place].name, courses[place][: standing.dropped.get(place)])
            for place in places[1:]
        ]
        document = self.runs[first][0].document | {"config": {}}
        plot.race(document, drawn, self.entries[first].name, self.folder / "race.png")
        return f"{table.body(width)}\n\n{terminal.wrapped(body, '  ', width)}"

    def _course(self, place: int, first: int) -> list[dict[str, float]]:
        """Return an entry's mean difference from the entry `first`, with its interval, after each
        of its problems. The intervals of all pairs of entries are right at once."""
        level = pair_level(self.common.ALPHA, len(self.entries))
        both = self.scores[:, place] - self.scores[:, first]
        differences = both[~np.isnan(both)]
        means = np.cumsum(differences) / np.arange(1, differences.size + 1)
        ends = (each.tolist() for each in (means, *intervals(differences, level)))
        return [
            {"difference": value, "low": low, "high": high}
            for value, low, high in zip(*ends, strict=True)
        ]

    def _row(
        self, place: int, difference: Mapping[str, float], standing: Standing
    ) -> dict[str, Any]:
        """Return an entry as a line of table.jsonl, with its `difference` from the first entry."""
        ran = ~np.isnan(self.scores[:, place])
        is_dropped = place in standing.dropped
        return {
            "entry": self.entries[place].name,
            "state": f"dropped after {ran.sum()}"
            if is_dropped
            else "left"
            if standing.left[1:]
            else "won",
            "accuracy": mean_by_problem(self.scores[ran, place]).to_json(),
            **difference,
            "tokens": float(self.tokens[ran, place].mean()),
        }
