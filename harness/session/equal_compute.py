"""Compare scaffolds at equal compute, on the same problems, with the same budgets per problem, and
over several seeds.

The first scaffold draws plain samples, and is the reference. A budget of n is the mean cost of n
reference samples, in completion tokens or in the unit BUDGET_IN (harness/results/cost_meter.py).
All other scaffolds run once per seed until they end or exceed the largest budget. For each budget,
the last step that it pays for completely counts, so one run covers all budgets. The cost includes
reviews, selections and plans. Proofs are graded later (labs/proofs/grade/stored.py). Scaffolds that
begin with samples share these samples if the seed is the same."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from core.base import terminal
from core.base.errors import UserError, command
from core.base.files import results_dir
from core.base.settings import chosen_names
from core.constants import Constants as RunConstants
from core.constants import Rule, constant, rules
from core.engines import environment, weights
from core.engines.config_file import Config
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.protocol import Server
from core.engines.shape import QED_NANO, Shape
from core.eval import by_answer
from core.grading.ungraded import ungraded
from core.types import Ask, Completion, Grader, Population, Populations, Problem, Scaffold
from harness import experiment_file
from harness.report.budgets import UNCOUNTED, in_unit
from harness.report.equal_compute import EqualComputeTable
from harness.results.cost_meter import TOKENS, UNITS, Meter
from harness.session import session
from harness.session.checks import asks_scorer
from harness.session.sweep import Series

FEWEST = 8  # if no cost is known after so many completions, the run fails


class Compared(RunConstants):
    """The constants of comparisons and races."""

    BUDGET_IN: str = constant("tokens", "the unit of the budgets", choices=tuple(UNITS))
    ENTRIES: str = constant(
        "all", "names of the entries to compare with the first, such as 02_rsa_basic,14_refinement"
    )
    VERIFY_TOKENS: int = constant(
        8192, "most tokens of one verdict or review of an entry", 1, 1_000_000
    )

    def budgets(self) -> list[float]:
        raise NotImplementedError


class Constants(Compared):
    """The constants of a comparison."""

    BUDGETS: str = constant("2.5,5.5,10.5", "budgets per problem, in units of a sample's mean cost")

    def check(self) -> None:
        self.budgets()

    def budgets(self) -> list[float]:
        rule = Rule("", float, 1, 1000)
        return [rule.read("BUDGETS", budget) for budget in self.BUDGETS.split(",")]


@dataclass(frozen=True)
class Entry:
    """A scaffold with its own constants, of an `experiment`. `proofs` is its name on proof problems
    ("": `name`)."""

    name: str
    scaffold: Scaffold[Any]
    constants: Mapping[str, Any]
    proofs: str = ""
    experiment: str = ""

    def config(self, common: RunConstants) -> RunConstants:
        """Return the constants of the entry's scaffold: the comparison's constants `common`, and
        the entry's own."""
        names = rules(self.scaffold.constants).keys() & rules(type(common)).keys()
        shared = {name: getattr(common, name) for name in names}
        config: RunConstants = self.scaffold.constants(**shared | dict(self.constants))
        return config

    def name_on(self, are_proofs: bool) -> str:
        """Return the entry's name on proof problems, or on others."""
        return self.proofs if are_proofs and self.proofs else self.name


@dataclass(frozen=True)
class Comparison:
    """A comparison of `entries`. The first entry is the reference, and draws N plain samples. N
    follows from the largest budget. Each entry runs once with each of RUNS seeds."""

    entries: Sequence[Entry]
    constants: type[Compared] = Constants

    def max_completions(self, config: Compared) -> int:
        """Estimate the highest number of completions per problem and seed, summed over entries. The
        estimate assumes completions as long as a sample. It ignores the step in which a scaffold
        exceeds its budget."""
        return sum(self.allotted(entry, config) for entry in self.chosen(config))

    def allotted(self, entry: Entry, config: Compared) -> int:
        """Estimate the highest number of completions per problem for one entry and one seed."""
        completions = entry.scaffold.max_completions(entry.config(config))
        if entry.name in (self.entries[0].name, self.entries[0].proofs):  # the reference
            return completions
        return min(completions, math.ceil(max(config.budgets())))

    def texts_shown(self, config: Compared) -> int:
        return max(
            entry.scaffold.texts_shown(entry.config(config)) for entry in self.chosen(config)
        )

    def has_scorer(self, config: Compared) -> bool:
        """Return whether an entry has VERIFIER=scorer."""
        return any(asks_scorer(entry.config(config)) for entry in self.chosen(config))

    def chosen(self, config: Compared) -> list[Entry]:
        """Return the reference and the entries in ENTRIES. The reference draws a tenth more samples
        than the largest budget, because the samples of some problems are short. Raises UserError
        for entries that can't be compared."""
        names = [entry.name for entry in self.entries]
        if len(set(names)) < len(names):
            raise UserError("two entries have the same name. Give one of them another `name`")
        wanted = chosen_names("ENTRIES", config.ENTRIES, names)
        reference, *others = self.entries
        samples = math.ceil(1.1 * max(config.budgets()))
        reference = replace(reference, constants={**reference.constants, "N": samples})
        return [reference, *(entry for entry in others if entry.name in wanted)]


@dataclass(frozen=True)
class Budgeted:
    """A scaffold's `run` with a `budget` per problem, in the unit of `meter`.

    With a finite budget, the run stops after a step that exceeds it or has an unknown cost. If a
    step uses up the rest, the next step still runs, because it may be free (such as a selection).
    Raises UserError if no cost is known."""

    run: Callable[[Problem, Ask, Any], Populations]
    budget: float
    meter: Meter = TOKENS

    async def __call__(self, problem: Problem, ask: Ask, config: Any) -> Populations:
        spent = 0.0
        uncounted = 0
        async with aclosing(self.run(problem, ask, config)) as populations:  # type: ignore[type-var]
            async for population in populations:
                for completion in _new_completions(population):
                    cost = self.meter.cost(completion.counted)
                    if cost is None:
                        uncounted += 1
                    else:
                        spent += cost
                if uncounted >= FEWEST and not spent:
                    raise UserError(f"{UNCOUNTED}. Use a server that reports usage")
                yield population
                if spent > self.budget or (uncounted and self.budget < math.inf):
                    return


def _new_completions(population: Population) -> Iterator[Completion]:
    """Yield the completions of a population that no earlier population contains."""
    for member in population:
        if not member.carried_over:
            yield member.completion
        yield from member.side_calls


class EqualComputeRuns(Series):
    """The runs of a comparison or race. The reference is the first of the `entries`. `meter`
    measures budgets."""

    def __init__(
        self, comparison: Comparison, opened: session.Session[Any], grader: Grader
    ) -> None:
        """Choose the entries. Raises UserError if constants do not fit the server."""
        common = opened.config
        are_proofs = opened.problems.asks_for_proofs
        self.entries = []
        for entry in comparison.chosen(common):
            self.entries.append(replace(entry, name=entry.name_on(are_proofs)))
            opened.check(entry.config(common))
        self.meter = _meter_of(common, opened.server, comparison.has_scorer(common))
        allotted = {entry.name: comparison.allotted(entry, common) for entry in self.entries}
        super().__init__(opened, allotted, grader)

    def within(self, entry: Entry, budget: float) -> tuple[str, Scaffold[Any], RunConstants]:
        """Return the name, the scaffold and the constants of an entry with a `budget` per
        problem."""
        run = Budgeted(entry.scaffold.run, budget, self.meter)
        return entry.name, replace(entry.scaffold, run=run), entry.config(self.opened.config)


def compare(comparison: Comparison, namespace: Mapping[str, Any]) -> None:
    """Run a comparison as a command and print its table. `namespace` contains the globals of the
    experiment's file. The results are saved in a folder with the experiment's name."""
    names = ", ".join(entry.name for entry in comparison.entries)
    more = terminal.wrapped(
        f"The comparison has the entries {names}. Edit its file to change them."
    )
    with session.run_command(Constants, namespace, more_help=more) as run:
        has_scorer = comparison.has_scorer(run.config)
        with session.open_on_problems(
            run, results_dir(), comparison, has_scorer=has_scorer
        ) as opened:
            are_proofs = opened.problems.asks_for_proofs
            series = EqualComputeRuns(comparison, opened, ungraded if are_proofs else by_answer)
            runs, budgets = _run_entries(series, run.config)
        matched = EqualComputeTable(
            series.folder,
            runs,
            series.entries[0].name,
            budgets,
            series.seeds,
            series.meter,
            series.title,
            series.notes(),
            are_proofs,
        )
        print(f"\n{matched.show()}\nresults {series.folder}")


def _run_entries(
    series: EqualComputeRuns, common: Constants
) -> tuple[dict[str, list[str]], list[float]]:
    """Run all entries. Return the names of their results by entry, and the budgets in the unit of
    the meter, which the runs of the first entry determine."""
    runs: dict[str, list[str]] = {}
    budgets: list[float] = []
    with series.bar:
        for entry in series.entries:
            paths = series.run(*series.within(entry, max(budgets, default=math.inf)))
            runs[entry.name] = [path.name for path in paths]
            if not budgets:
                budgets = in_unit(common.budgets(), paths, series.meter)
    return runs, budgets


def _meter_of(common: Compared, server: Server, has_scorer: bool) -> Meter:
    """Return the meter of a comparison. With a scorer it counts only tokens, because prices and
    operations differ between the two models. Raises UserError for a unit that can't be counted."""
    if not has_scorer:
        return Meter(common.BUDGET_IN, _shape_of(server), server.card.price)
    if common.BUDGET_IN in ("dollars", "flops"):
        raise UserError(
            f"BUDGET_IN={common.BUDGET_IN} counts one model, but the scorer is a second one. "
            "Set BUDGET_IN=tokens or BUDGET_IN=read"
        )
    return Meter(common.BUDGET_IN)


def _shape_of(server: Server) -> Shape | None:
    """Return the layers and sizes of the server's model, or None if they are unknown: this machine
    lacks the model's config, or no operations can be computed from it."""
    if server.card.engine == "embedded":
        from core.engines.gguf_header import Gguf  # slow to import and rarely needed

        return Gguf.read(EMBEDDED_GGUF).shape
    if server.model.partition("@")[0] == weights.REPO:
        return QED_NANO
    config = Path(environment.model() or "?") / "config.json"
    return Config.read(config).shape if config.is_file() else None


def entry(
    experiment: str,
    scaffold: Scaffold[Any] | None = None,
    name: str = "",
    proofs: str = "",
    **changes: Any,
) -> Entry:
    """Return an Entry with an experiment's constants and `changes`. `scaffold` replaces the
    experiment's scaffold."""
    with command():  # the file of a comparison calls this before its own command begins
        loaded = experiment_file.load(experiment)
        planned = scaffold or cast(Scaffold[Any], loaded.planned)
        names = rules(planned.constants).keys() - rules(Constants).keys()
        values = {name: value for name, value in loaded.namespace.items() if name in names}
        return Entry(name or experiment, planned, values | changes, proofs, experiment)
