"""Compare scaffolds at equal compute, on the same problems, with the same budgets per problem, and over several seeds.

The first scaffold draws plain samples, and is the reference. A budget of n is the mean cost of n reference samples, in
completion tokens or in the unit BUDGET_IN (core/results/spending.py). All other scaffolds run once per seed until they
end or exceed the largest budget. For each budget, the last step that it pays for completely counts, so one run covers
all budgets. The cost includes reviews, selections and plans. Proofs are graded later (labs/proofs/grade/stored.py).
Scaffolds that begin with samples share these samples if the seed is the same."""

import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from core.base import terminal
from core.base.errors import UserError, command
from core.base.files import results_dir
from core.constants import Constants as RunConstants
from core.constants import constant, listed, rules
from core.engines import environment, weights
from core.engines.embedded_model import EMBEDDED_GGUF
from core.engines.server import Server
from core.engines.shape import QED_NANO, Shape
from core.grading.answers import by_answer
from core.grading.ungraded import ungraded
from core.problems.sets import ProblemSet
from core.report.budgets import UNCOUNTED, in_unit
from core.report.matched import Matched
from core.results import warnings, write
from core.results.spending import TOKENS, UNITS, Meter
from core.scaffolds import experiment_file
from core.session import session
from core.session.bar import Bar
from core.session.checks import check_context
from core.session.experiment import Experiment, Part
from core.session.session import Session
from core.types import Ask, Population, Problem, Scaffold

FEWEST = 8  # if no cost is known after so many completions, the run fails


@dataclass(frozen=True, kw_only=True)
class Compared(RunConstants):
    """The constants of comparisons and races."""

    BUDGET_IN: str = constant("tokens", "the unit of the budgets", choices=tuple(UNITS))
    ENTRIES: str = constant("all", "names of the entries to compare with the first, such as 02_rsa_basic,14_refinement")
    VERIFY_TOKENS: int = constant(8192, "most tokens of one verdict or review of an entry", 1, 1_000_000)

    def budgets(self) -> list[float]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Constants(Compared):
    """The constants of a comparison."""

    BUDGETS: str = constant("2.5,5.5,10.5", "budgets per problem, in units of a sample's mean cost")

    def check(self) -> None:
        if not all(1 <= budget <= 1000 for budget in self.budgets()):
            raise UserError(
                f"BUDGETS={self.BUDGETS:.40} has a budget below 1 or above 1,000. Give one or several numbers"
            )

    def budgets(self) -> list[float]:
        try:
            return [float(each) for each in self.BUDGETS.split(",")]
        except ValueError:
            raise UserError(f"BUDGETS={self.BUDGETS:.40} is no list of numbers. Example: BUDGETS=2.5,5.5") from None


@dataclass(frozen=True)
class Entry:
    """A scaffold with its own constants, of an `experiment`. `proofs` is its name on proof problems. If `proofs` is "",
    an entry that compares answers is left out on proofs."""

    name: str
    scaffold: Scaffold[Any]
    constants: Mapping[str, Any]
    proofs: str = ""
    experiment: str = ""

    def config(self, common: RunConstants) -> RunConstants:
        """Return the constants of the entry's scaffold: the comparison's constants `common`, and the entry's own."""
        known = rules(self.scaffold.constants).keys()
        shared = {name: getattr(common, name) for name in rules(type(common)) if name in known} | {"RUNS": 1}
        config: RunConstants = self.scaffold.constants(**shared | dict(self.constants))
        return config


@dataclass(frozen=True)
class Comparison:
    """A comparison of `entries`. The first entry is the reference, and draws N plain samples. N follows from the
    largest budget. Each entry runs once with each of RUNS seeds."""

    entries: Sequence[Entry]
    constants: type[Compared] = Constants

    def max_completions(self, config: Compared) -> int:
        """Estimate the highest number of completions per problem and seed, summed over entries. The estimate assumes
        completions as long as a sample. It ignores the step in which a scaffold exceeds its budget."""
        return sum(self.allotted(entry, config) for entry in self.chosen(config))

    def allotted(self, entry: Entry, config: Compared) -> int:
        """Estimate the highest number of completions per problem for one entry and one seed."""
        most = entry.scaffold.max_completions(entry.config(config))
        is_reference = entry.name in (self.entries[0].name, self.entries[0].proofs)
        return most if is_reference else min(most, math.ceil(max(config.budgets())))

    def texts_shown(self, config: Compared) -> int:
        return max(entry.scaffold.texts_shown(entry.config(config)) for entry in self.chosen(config))

    def chosen(self, config: Compared) -> list[Entry]:
        """Return the reference and the entries in ENTRIES. The reference draws a tenth more samples than the largest
        budget, because the samples of some problems are short. Raises UserError for entries that can't be compared."""
        names = [entry.name for entry in self.entries]
        if len(set(names)) < len(names):
            raise UserError("two entries have the same name. Give one of them another `name`")
        wanted = listed("ENTRIES", config.ENTRIES, names)
        reference, *others = self.entries
        samples = math.ceil(1.1 * max(config.budgets()))
        reference = replace(reference, constants={**reference.constants, "N": samples})
        return [reference, *(entry for entry in others if entry.name in wanted)]


@dataclass(frozen=True)
class Budgeted:
    """A scaffold's `run` with a budget of `most` per problem, in the unit of `meter`.

    With a finite budget, the run stops after a step that exceeds it or has an unknown cost. If a step uses up the rest,
    the next step still runs, because it may be free (such as a selection). Raises UserError if no cost is known."""

    run: Callable[[Problem, Ask, Any], AsyncIterator[Population]]
    most: float
    meter: Meter = TOKENS

    async def __call__(self, problem: Problem, ask: Ask, config: Any) -> AsyncIterator[Population]:
        spent, uncounted = 0.0, 0
        async with aclosing(self.run(problem, ask, config)) as populations:  # type: ignore[type-var]
            async for population in populations:
                new = [c for m in population for c in ([] if m.carried_over else [m.completion]) + m.side_calls]
                counts = [self.meter.cost(completion.counted) for completion in new]
                spent += sum(count or 0 for count in counts)
                uncounted += counts.count(None)
                if uncounted >= FEWEST and not spent:
                    raise UserError(f"{UNCOUNTED}. Use a server that reports usage")
                yield population
                if spent > self.most or (uncounted and self.most < math.inf):
                    return


def compare(comparison: Comparison, namespace: Mapping[str, Any]) -> None:
    """Run a comparison as a command and print its table. `namespace` contains the globals of the experiment's file.
    The results are saved in a folder with the experiment's name."""
    listed = ", ".join(entry.name for entry in comparison.entries)
    more = terminal.wrapped(f"The comparison has the entries {listed}. Edit its file to change them.")
    with session.command(Constants, namespace, more_help=more) as (name, common, stop):
        comparison.chosen(common)
        folder = results_dir()
        with session.open_on_problems(name, common, stop, folder, comparison) as opened:
            matched = _compared(comparison, opened)
        print(f"\n{matched.show()}")
        print(f"results {folder / name}")


def _compared(comparison: Comparison, opened: Session[Constants]) -> Matched:
    """Run each entry with each seed, and return the comparison."""
    name, common, chosen = opened.name, opened.config, opened.problems
    kept, left_out, meter = taking_part(comparison, opened)
    folder = opened.folder / name
    seeds = list(range(common.SEED, common.SEED + common.RUNS))
    grader = ungraded if chosen.asks_for_proofs else by_answer
    runs: dict[str, list[str]] = {}
    counts: dict[str, Counter[str]] = {each: Counter() for each in warnings.COUNTS}
    budgets: list[float] = []  # in the unit of the meter, computed after the runs of the first entry
    total = len(seeds) * len(chosen.problems) * sum(comparison.allotted(entry, common) for entry in kept)
    with Bar(name, total) as bar:
        for place, entry in enumerate(kept):
            paths = []
            for number, seed in enumerate(seeds, place * len(seeds) + 1):
                stage = f"{number}/{len(kept) * len(seeds)} {entry.name}"
                budgeted = Budgeted(entry.scaffold.run, max(budgets, default=math.inf), meter)
                config = replace(entry.config(common), SEED=seed)
                experiment = Experiment(
                    opened.but(name=f"{entry.name}-seed{seed}", config=config, folder=folder),
                    replace(entry.scaffold, run=budgeted),
                    grader,
                    Part(bar, stage, comparison.allotted(entry, common)),
                )
                paths.append(experiment.finish())
                for counted, more in experiment.counts.items():
                    counts[counted] += more
            runs[entry.name] = [path.name for path in paths]
            budgets = budgets or in_unit(common.budgets(), paths, meter)
    model = experiment.document["model"]
    title = f"{model['name']} on {chosen.name}, n={len(chosen.problems)}"
    notes = [*warnings.of_card(model), *left_out]
    notes += warnings.of_server(experiment.document, counts)
    return Matched(folder, runs, kept[0].name, budgets, seeds, meter, title, notes, chosen.asks_for_proofs)


def taking_part(comparison: Comparison, opened: Session[Any]) -> tuple[list[Entry], list[str], Meter]:
    """Return the entries that take part (the reference first), notes about the others, and the meter of the budgets.
    Make the folder of the results. Raises UserError if constants do not fit the server."""
    common, server, chosen = opened.config, opened.server, opened.problems
    entries = comparison.chosen(common)
    for entry in entries:
        check_context(server, entry.config(common))
    entries = [replace(entry, name=(chosen.asks_for_proofs and entry.proofs) or entry.name) for entry in entries]
    names = {f"{entry.name}-seed{common.SEED + run}" for entry in entries for run in range(common.RUNS)}
    write.own_folder(opened.folder / opened.name, names, server.model_info()["name"], chosen.name)
    left_out = {entry.name: why for entry in entries if (why := _why_not(entry, server, chosen))}
    notes = [f"left out: {name} ({why})" for name, why in left_out.items()]
    meter = Meter(common.BUDGET_IN, _shape_of(server), server.card.price)
    return [entry for entry in entries if entry.name not in left_out], notes, meter


def _why_not(entry: Entry, server: Server, chosen: ProblemSet) -> str:
    """Return the reason why an entry is left out of the comparison, or "" if the entry takes part."""
    if (role := entry.scaffold.roles) in server.card.not_learnt:
        return f"the {server.card.name} model has not learnt to {role}"
    if chosen.asks_for_proofs and entry.scaffold.for_proofs and not entry.proofs:
        return "it counts equal answers, but proofs have no answers"
    return ""


def _shape_of(server: Server) -> Shape | None:
    """Return the layers and sizes of the server's model, or None if this machine does not have the model's config."""
    if server.card.engine == "embedded":
        from core.engines.gguf_header import Gguf  # slow to import and rarely needed

        return Gguf.read(EMBEDDED_GGUF).shape
    if server.model.partition("@")[0] == weights.REPO:
        return QED_NANO
    config = Path(environment.model() or "?") / "config.json"
    return Shape.from_config(config) if config.is_file() else None


def entry(
    experiment: str, scaffold: Scaffold[Any] | None = None, name: str = "", proofs: str = "", **changes: Any
) -> Entry:
    """Return an Entry with an experiment's constants and `changes`. `scaffold` replaces the experiment's scaffold."""
    with command():  # the file of a comparison calls this before its own command begins
        found = experiment_file.load(experiment)
        if isinstance(found.planned, Comparison):
            raise UserError(f"the experiment {experiment} is a comparison. Give an experiment with a single scaffold")
        planned = scaffold or cast(Scaffold[Any], found.planned)
        own = rules(planned.constants).keys() - rules(Constants).keys()
        values = {name: value for name, value in found.namespace.items() if name in own}
        return Entry(name or experiment, planned, values | changes, proofs, experiment)
