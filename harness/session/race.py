"""Race scaffolds at one budget, and drop an entry as soon as the problems so far show that it is
not the best.

Problems come in a random order and in blocks. All entries that are left run on a block, then
harness/session/racing.py looks at all scores so far. The journal stores finished completions, so
the same command continues with the same drops. The budget's unit is the mean cost of the
reference's samples on the first block, and stays fixed."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
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
from harness.report.equal_compute import TABLE
from harness.report.table import NONE, Column, Table
from harness.results import model, write
from harness.results.cost_meter import UNITS
from harness.session import session
from harness.session.equal_compute import Compared, Comparison, EqualComputeRuns
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
    with session.run_command(Constants, namespace, more_help=entries) as run:
        folder = results_dir()
        has_scorer = planned.has_scorer(run.config)
        with session.open_on_problems(
            run, folder, planned, by_answer, has_scorer=has_scorer
        ) as opened:
            race = _Race(planned, opened.with_changes(problems=_shuffled(opened)))
            print(f"\n{race.run_all()}\nresults {folder / run.name}\nserve   {race.serving()}")


def _shuffled(opened: session.Session[Constants]) -> ProblemSet:
    """Return the problems in random order, on which the guarantee rests."""
    chosen = opened.problems
    order = seeds.rng(opened.config.SEED, "race").permutation(len(chosen.problems))
    problems = tuple(chosen.problems[i] for i in order)
    return replace(chosen, name=f"{chosen.name} (shuffled)", problems=problems)


class _Race(EqualComputeRuns):
    """A race in a session whose problems are shuffled."""

    def __init__(self, planned: Comparison, opened: session.Session[Constants]) -> None:
        super().__init__(planned, opened, by_answer)
        if len(self.entries) < 2:
            raise UserError(
                f"a race needs two entries, but has {self.entries[0].name} only. Change ENTRIES"
            )
        self.common = opened.config
        self.n = len(self.chosen.problems)
        self.scores = np.full((self.n, len(self.entries)), np.nan)
        self.tokens = np.zeros_like(self.scores)  # per run, with the step beyond the budget
        # the entries whose only step, or a later one than the first, a budget paid for
        self.begun: set[int] = set()
        self.budget = math.inf
        self.looks: list[str] = []
        self.first = 0  # the number of the first entry
        self.runs: dict[int, list[Experiment[Any]]] = {}
        self.rule = _rule_of(self.common)

    def run_all(self) -> str:
        """Run blocks until the race is settled or the problems end. Return the table for the
        terminal."""
        print(terminal.wrapped(f"race      {self.rule}", " " * 10), flush=True)
        standing = Standing(list(range(len(self.entries))))
        with self.bar as bar:
            for begin in range(0, self.n, self.common.BLOCK):
                block = range(begin, min(begin + self.common.BLOCK, self.n))
                before = sorted(standing.left)  # the reference first
                for number in before:
                    self._run_block(number, block)
                standing = race(self.scores[: block.stop], self.common.ALPHA, self.common.EFFECT)
                dropped = [number for number in before if number in standing.dropped]
                if block.stop < self.n:
                    self._end_runs(before if standing.is_settled else dropped, block.stop)
                self.looks.append(self._look(block.stop, standing, dropped))
                bar.write(self.looks[-1])
                self.first = standing.left[0]
                text = self._show(standing)
                if standing.is_settled:
                    break
        return text

    def serving(self) -> str:
        """Return the command that serves the first entry, without the budget."""
        entry = self.entries[self.first]
        config = entry.config(self.common)
        defaults = experiment_file.scaffold_named(entry.experiment).constants()
        words = ["bash scripts/serve_rsa.sh", f"SCAFFOLD={entry.experiment}"]
        for name in rules(type(config)):
            value = getattr(config, name)
            if name not in OF_RUNS and value != getattr(defaults, name):
                words.append(shlex.quote(f"{name}={value}"))
        return " ".join(words)

    def _end_runs(self, entries: Sequence[int], problems: int) -> None:
        """Save the runs of `entries` as complete after so many problems."""
        for number in entries:
            for run in self.runs[number]:
                self.bar.total -= (self.n - problems) * run.allotted
                run.end()

    def _run_block(self, number: int, block: range) -> None:
        entry = self.entries[number]
        if number not in self.runs:
            self.runs[number] = self.experiments(*self.within(entry, self.budget))
        self.bar.stage = f"{block.stop}/{self.n} {entry.name}"
        paths = [run.finish(block) for run in self.runs[number]]
        if self.budget == math.inf:
            self.budget = in_unit([self.common.BUDGET], paths, self.meter)[0]
        for problem in block:
            self._score(number, problem)

    def _score(self, number: int, problem: int) -> None:
        """Set the entry's score and tokens on a problem, from the steps that the budget pays
        for."""
        scores: list[float] = []
        tokens = 0
        for run in self.runs[number]:
            steps = [decode(step, type=model.StepResult) for step in run.steps[problem]]
            within = bought(steps, self.budget, self.meter)
            scores.append(within.score or 0.0)
            is_only_step = within.step == 0 and len(steps) == 1
            if within.step or is_only_step:
                self.begun.add(number)
            for step in steps:
                tokens += sum(call.completion_tokens or 0 for call in step.new_calls)
        self.scores[problem, number] = np.mean(scores)
        self.tokens[problem, number] = tokens / self.common.RUNS

    def _look(self, problems: int, standing: Standing, dropped: Sequence[int]) -> str:
        def with_mean(number: int) -> str:
            scores = self.scores[:problems, number]
            name = self.entries[number].name
            return f"{name} {100 * np.nanmean(scores):.1f}%"

        names = ", ".join(map(with_mean, dropped)) or "none"
        first = with_mean(standing.left[0])
        count = len(standing.left)
        return (
            f"look after {problems} problems: dropped {names}. {count} left, the first is {first}"
        )

    def _show(self, standing: Standing) -> str:
        """Write the table of all looks so far. Return the columns that fit the terminal."""
        dropped = sorted(standing.dropped, key=standing.dropped.__getitem__, reverse=True)
        numbers = [*standing.left, *dropped]
        courses = {number: self._course(number, self.first) for number in numbers}
        rows = [self._row(number, courses[number][-1], standing) for number in numbers]
        table = self._table(rows)
        notes = self._notes(standing, rows, numbers)
        self._save(standing, table, rows, notes)
        self._draw(standing, numbers, courses)
        width = terminal.columns()
        return f"{table.body(width)}\n\n{terminal.wrapped(_body_of(notes), '  ', width)}"

    def _table(self, rows: Sequence[dict[str, Any]]) -> Table:
        """Return the table of the entries' `rows`, the first entry first."""
        shifts = [tables.shift(row["difference"], row["low"], row["high"]) for row in rows[1:]]
        accuracies = [row["accuracy"] for row in rows]
        first = self.entries[self.first].name
        columns = [
            Column("entry", [row["entry"] for row in rows]),
            Column("state", [row["state"] for row in rows]),
            Column("problems", [str(accuracy["n"]) for accuracy in accuracies]),
            Column(self._unit, [tables.interval(accuracy) for accuracy in accuracies]),
            Column(f"minus {first} [all pairs]", [NONE, *shifts]),
            Column("tokens", [f"{row['tokens']:,.0f}" for row in rows], rank=1),
        ]
        return Table("", columns)

    @property
    def _unit(self) -> str:
        """The name of the figure of an answer: "score" if a grade is between 0 and 1."""
        runs = chain.from_iterable(self.runs.values())
        return "score" if any(run.figures.has_scores for run in runs) else "accuracy"

    def _notes(
        self, standing: Standing, rows: Sequence[dict[str, Any]], numbers: Sequence[int]
    ) -> list[str]:
        common = self.common
        has_run = ~np.isnan(self.scores[:, self.first])
        result = self._result(standing)
        notes = [f"{result}, after {has_run.sum()} of {self.n} problems"]
        short = [self.entries[number].name for number in numbers if number not in self.begun]
        if short:
            names = ", ".join(short)
            notes.append(
                f"the budget pays for at most the first step of {names}. BUDGET may be too small"
            )
        tokens_of_all = self.n * sum(row["tokens"] for row in rows)
        share = self.tokens.sum() / tokens_of_all
        amount = self.meter.format(self.budget)
        budget = f"{amount} {UNITS[self.meter.unit]}"
        level = 100 - 100 * common.ALPHA
        return [
            *notes,
            f"the race took {share:.0%} of the tokens of all entries on all problems (estimated "
            "with their means)",
            f"{self.opened.server.model} on {self.chosen.name}, n={self.n}",
            self.rule,
            f"a problem's budget is {budget}: the mean cost of {common.BUDGET:g} samples on the "
            f"first block. The last step within it gives the {self._unit}, but tokens include the "
            "step that exceeds it",
            f"with a chance of {level:g}%, the intervals of differences are "
            "right for all pairs of entries at all looks. A drop makes one test for each entry, so "
            f"it may precede an interval without 0, or follow it. Each {self._unit} has a 95% "
            "interval of its own, for a fixed number of problems",
        ]

    def _result(self, standing: Standing) -> str:
        names = [self.entries[number].name for number in standing.left]
        first = names[0]
        if len(names) == 1:
            return f"the winner is {first}"
        result = f"not told apart: {', '.join(names)}"
        if standing.is_settled:
            points = 100 * self.common.EFFECT
            result += f". None of them is better than {first} by more than {points:g} points"
        return result

    def _save(
        self,
        standing: Standing,
        table: Table,
        rows: Sequence[dict[str, Any]],
        notes: Sequence[str],
    ) -> None:
        looks = "\n".join(self.looks)
        text = f"{table.body()}\n\n{_body_of(notes)}\n\n{looks}\n"
        write_atomically(self.folder / TABLE, text.encode())
        constants = ("BUDGET", "ALPHA", "EFFECT", "BLOCK", "SEED")
        head = {
            "experiment": self.opened.name,
            "made": write.now(),
            "unit": self.meter.unit,
            "budget": self.budget,
            **{name: getattr(self.common, name) for name in constants},
            "is_settled": standing.is_settled,
            "looks": self.looks,
            "notes": notes,
        }
        lines = [f"{json.dumps(line)}\n".encode() for line in (head, *rows)]
        write_atomically(self.folder / "table.jsonl", lines)

    def _draw(
        self,
        standing: Standing,
        numbers: Sequence[int],
        courses: Mapping[int, list[dict[str, float]]],
    ) -> None:
        """Draw the `courses` of all entries but the first, up to their drops."""
        drawn = []
        for number in numbers[1:]:
            name = self.entries[number].name
            end = standing.dropped.get(number)
            drawn.append((name, courses[number][:end]))
        first_run = self.runs[self.first][0]
        document = first_run.document | {"config": {}}
        name = self.entries[self.first].name
        plot.race(document, drawn, name, self.folder / "race.png")

    def _course(self, number: int, first: int) -> list[dict[str, float]]:
        """Return an entry's mean difference from the entry `first`, with its interval, after each
        of its problems. The intervals of all pairs of entries are right at once."""
        level = pair_level(self.common.ALPHA, len(self.entries))
        differences = self.scores[:, number] - self.scores[:, first]
        differences = differences[~np.isnan(differences)]
        means = np.cumsum(differences) / np.arange(1, differences.size + 1)
        lows, highs = intervals(differences, level)
        course = []
        for mean, low, high in zip(means.tolist(), lows.tolist(), highs.tolist(), strict=True):
            course.append({"difference": mean, "low": low, "high": high})
        return course

    def _row(
        self, number: int, difference: Mapping[str, float], standing: Standing
    ) -> dict[str, Any]:
        """Return an entry as a line of table.jsonl, with its `difference` from the first entry."""
        ran = ~np.isnan(self.scores[:, number])
        accuracy = mean_by_problem(self.scores[ran, number])
        tokens = self.tokens[ran, number].mean()
        state = "left" if len(standing.left) > 1 else "won"
        if number in standing.dropped:
            state = f"dropped after {ran.sum()}"
        return {
            "entry": self.entries[number].name,
            "state": state,
            "accuracy": accuracy.to_json(),
            **difference,
            "tokens": float(tokens),
        }


def _rule_of(common: Constants) -> str:
    """Describe the rule of a race."""
    effect = ""
    if common.EFFECT:
        effect = f", or until nothing left is better by {100 * common.EFFECT:g} points"
    return (
        f"an entry is dropped if it is shown not to be the best, until one is left{effect}. A look "
        f"follows each block of {common.BLOCK}. The chance of any error is at most "
        f"{100 * common.ALPHA:g}%, over all looks"
    )


def _body_of(notes: Sequence[str]) -> str:
    return "\n".join(f"note: {note}" for note in notes)
