"""Scaffolds at equal compute: the same problems, the same budgets of completion tokens a problem, several seeds.

The first scaffold is the reference, plain samples: budgets are given in samples, and one is what they took on average.
Each other scaffold runs once per seed, as far as the largest budget goes. What it has after every step is its answer,
had it stopped there; so one run shows what each smaller budget buys: the last step that was paid for whole. A step that
a budget cuts in two counts for nothing, and its tokens are named as cut. All tokens count, those of reviews, selections
and plans too. First samples are shared: under one seed they are the same, and so are the journal's completions, for all
scaffolds that begin with them.
"""

import json
import math
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from core import constants, experiment_file, terminal
from core.bar import Bar
from core.constants import Constants, rules
from core.engines.need import Need
from core.errors import UserError, command
from core.experiment import Experiment, Part
from core.files import results_dir, write_atomically
from core.progress import ANY, Expected, Forecast
from core.report import plot
from core.report.tables import chance, interval, shift
from core.results import read, warnings, write
from core.results.read import MemberResult, StepResult
from core.run import open_journal, started
from core.signals import Stop
from core.stats import Estimate, Paired, holm, mean_by_problem, paired
from core.terminal import aligned
from core.types import Ask, Population, Problem, Scaffold

UNCOUNTED = "the server counts no tokens, so that scaffolds can't be compared at equal tokens"
FEWEST = 8  # completions without a count, and none with one, until that is said


@dataclass(frozen=True)
class Entry:
    """A scaffold with those of its constants that are not the comparison's. `roles`: what it asks of a model that the
    embedded one has not learnt, if anything."""

    name: str
    scaffold: Scaffold[Any]
    constants: Mapping[str, Any]
    roles: str = ""

    def config(self, common: Constants) -> Constants:
        """Its constants in a comparison whose own are `common`."""
        shared = {name: getattr(common, name) for name in rules(Constants)}
        made: Constants = self.scaffold.constants(**shared | dict(self.constants))
        return made


@dataclass(frozen=True)
class Comparison:
    """`entries` under `budgets` (in samples of the first of them) with each of `seeds`, counted from SEED; the others
    are compared with the first."""

    entries: Sequence[Entry]
    budgets: Sequence[float]
    seeds: Sequence[int]
    constants: type[Constants] = Constants

    def max_completions(self, config: Constants) -> int:
        """The most that a problem takes, over all entries and seeds, if all were as long as a sample. The step with
        which a scaffold goes beyond its budget is not in it."""
        self.check()
        return len(self.seeds) * sum(self.allotted(entry, config) for entry in self.entries)

    def allotted(self, entry: Entry, config: Constants) -> int:
        """The same for one of the entries and one seed."""
        most = entry.scaffold.max_completions(entry.config(config))
        return most if entry is self.entries[0] else min(most, math.ceil(max(self.budgets)))

    def texts_shown(self, config: Constants) -> int:
        return max(entry.scaffold.texts_shown(entry.config(config)) for entry in self.entries)

    def check(self) -> None:
        """Raises UserError for entries, budgets or seeds that can't be compared."""
        entries, budgets, seeds = self.entries, self.budgets, self.seeds
        if not entries or entries[0].roles:
            raise UserError("the first entry is what the others are compared with: plain samples, which need no roles")
        if len({entry.name for entry in entries}) < len(entries):
            raise UserError("two scaffolds of the comparison have the same name")
        if not isinstance(budgets, Sequence) or not budgets or not all(1 <= budget < math.inf for budget in budgets):
            raise UserError("budgets are numbers of samples for a problem, from 1 up, in brackets: (2.5, 5)")
        most = entries[0].scaffold.max_completions(entries[0].config(Constants()))
        if max(budgets) > most:
            raise UserError(f"budgets go up to {max(budgets)} samples, but {entries[0].name} draws {most}; raise its N")
        if not isinstance(seeds, Sequence) or not seeds or len({s for s in seeds if isinstance(s, int)}) < len(seeds):
            raise UserError("seeds are different whole numbers, in brackets: (0, 1)")


@dataclass(frozen=True)
class Budgeted:
    """`run`, a scaffold's, stopped after the step with which a problem goes beyond `tokens` completion tokens: where
    they are used up exactly, what costs nothing (the selection of one, say) is still to come. A step of unknown length
    is beyond them; raises UserError where the server counts nothing at all."""

    run: Callable[[Problem, Ask, Any], AsyncIterator[Population]]
    tokens: float

    async def __call__(self, problem: Problem, ask: Ask, config: Any) -> AsyncIterator[Population]:
        spent = uncounted = 0
        async with aclosing(self.run(problem, ask, config)) as populations:  # type: ignore[type-var]
            async for population in populations:
                made = [c for m in population for c in ([] if m.carried_over else [m.completion]) + m.side_calls]
                counts = [completion.counted[-1] for completion in made]
                spent += sum(count or 0 for count in counts)
                uncounted += counts.count(None)
                if uncounted >= FEWEST and not spent:
                    raise UserError(f"{UNCOUNTED}. Serve the model where usage is reported")
                yield population
                if spent > self.tokens or (uncounted and self.tokens < math.inf):
                    return


@dataclass
class Bought:
    """What a budget bought on one problem: the score of the vote (None: not even a first answer), and what it took.
    `path`: seconds of the longest chain of requests that had to wait for each other. `cut`: tokens of the step that
    did not fit."""

    score: float | None = None
    tokens: int = 0
    prompt: int = 0
    cached: int = 0
    calls: int = 0
    path: float = 0.0
    cut: int = 0


def bought(steps: Sequence[StepResult], budget: int) -> Bought:
    """What `budget` completion tokens buy of the `steps` of a problem.

    A step waits for all of the one before: for what it was chosen by too, which its parents do not say. Within it,
    the side calls of a member wait for that member alone. Plain samples wait for nobody. A step of which not all tokens
    are known may not be paid for, and so ends what was bought.
    """
    found, is_plain = Bought(), True
    for step in steps:
        members = step.members
        made = [call for m in members for call in (m.side_calls if m.carried_over else m.calls)]
        tokens = sum(call.completion_tokens or 0 for call in made)
        is_known = all(call.completion_tokens is not None for call in made)
        if found.tokens + tokens > budget or not is_known:
            found.cut = tokens
            break
        found.tokens += tokens
        found.prompt += sum(call.prompt_tokens or 0 for call in made)
        found.cached += sum(call.cached_tokens or 0 for call in made)
        found.calls += len(made)
        if tokens or len(members) == 1 or found.score is None:  # else it only shows what the next step is made of
            found.score = step.majority_correct
        is_plain = is_plain and not any(m.side_calls or (m.parents and not m.carried_over) for m in members)
        seconds = max(m.cost.seconds + _waits(m) for m in members)
        found.path = max(found.path, seconds) if is_plain else found.path + seconds
    return found


def _waits(member: MemberResult) -> float:
    """Seconds of a member's side calls: verdicts on one text are asked for at once, others one after the other."""
    seconds = [0.0, *(call.seconds for call in member.side_calls)]
    return max(seconds) if member.verdicts is not None else sum(seconds)


@dataclass
class Row:
    """A scaffold at one budget, over problems (each the mean of its seeds). `against`: the reference at that budget,
    where both answered anything; `p_holm`: its p, corrected for all those of the table."""

    name: str
    budget: int
    accuracy: Estimate
    unanswered: float
    means: dict[str, float]
    scores: list[float] = field(repr=False)
    against: Paired | None = None
    p_holm: float | None = None

    @property
    def answered(self) -> bool:
        return self.unanswered < 1


def rows(runs: Mapping[str, Sequence[Path]], budgets: Sequence[int], reference: str) -> list[Row]:
    """The table: for each scaffold the results of its seeds, which share their problems in order; differences are
    paired with `reference` at the same budget. A problem without an answer scores 0; where a budget bought not one
    answer, there is nothing to compare."""
    made = []
    for name, paths in runs.items():
        by_seed = [[problem.steps for problem in read.read(path)[1]] for path in paths]
        for budget in budgets:
            each = [[bought(steps, budget) for steps in seeds] for seeds in zip(*by_seed, strict=True)]
            scores = [float(np.mean([b.score or 0.0 for b in of])) for of in each]
            all_of = [b for of in each for b in of]
            means = {
                what: float(np.mean([getattr(b, what) for b in all_of]))
                for what in ("tokens", "cut", "prompt", "cached", "calls", "path")
            }
            unanswered = float(np.mean([b.score is None for b in all_of]))
            made.append(Row(name, budget, mean_by_problem(scores), unanswered, means, scores))
    for row in made:
        base = next(other for other in made if (other.name, other.budget) == (reference, row.budget))
        if row is not base and row.answered and base.answered:
            row.against = paired(base.scores, row.scores)
    compared = [(row, row.against.p) for row in made if row.against]
    for (row, _), corrected in zip(compared, holm([p for _, p in compared]), strict=True):
        row.p_holm = corrected
    return made


def in_tokens(budgets: Sequence[float], paths: Sequence[Path]) -> list[int]:
    """`budgets`, given in samples, in completion tokens: a sample is the mean of the results in `paths`. Raises
    UserError where those hold no tokens."""
    steps = [read.read(path)[0].metrics.steps for path in paths]
    spent = sum(step.completion_tokens or 0 for each in steps for step in each)
    samples = sum(each[-1].completions - sum(step.uncounted for step in each) for each in steps)
    if not spent:
        raise UserError(f"all samples failed, or {UNCOUNTED}: there is nothing to measure budgets by")
    return [round(budget * spent / samples) for budget in budgets]


def table(made: Sequence[Row], reference: str) -> str:
    """The rows as text."""
    heads = [
        "scaffold",
        "budget",
        "accuracy",
        f"minus {reference}",
        "p",
        "p (Holm)",
        "unanswered",
        "tokens",
        "cut",
        "calls",
        "path s",
        "prompt",
        "cached",
    ]
    lines = [heads]
    for row in sorted(made, key=lambda row: row.budget):
        d = row.against
        lines.append(
            [
                row.name,
                f"{row.budget:,}",
                interval(row.accuracy.to_json()) if row.answered else "-",
                shift(d.difference, d.low, d.high) if d else "-",
                chance(d.p) if d else "-",
                chance(row.p_holm) if row.p_holm is not None else "-",
                f"{row.unanswered:.0%}",
                *(f"{row.means[what]:,.0f}" for what in ("tokens", "cut")),
                f"{row.means['calls']:.1f}",
                f"{row.means['path']:.1f}",
                *(f"{row.means[what]:,.0f}" for what in ("prompt", "cached")),
            ]
        )
    return aligned(lines)


def compact(made: Sequence[Row], reference: str) -> str:
    """The accuracies alone, a line for each scaffold and a column for each budget. A star: other than the reference at
    that budget by more than chance, with p (Holm) of 0.05 at most."""
    budgets = sorted({row.budget for row in made})
    lines = [["budget", *(f"{budget:,} " for budget in budgets)]]
    for name in dict.fromkeys(row.name for row in made):
        found = {row.budget: row for row in made if row.name == name}
        cells = []
        for budget in budgets:
            row = found[budget]
            star = "*" if row.p_holm is not None and row.p_holm <= 0.05 else " "
            cells.append(f"{100 * row.accuracy.value:.1f}{star}" if row.answered else "- ")
        lines.append([name, *cells])
    return aligned(lines)


def compare(comparison: Comparison, namespace: Mapping[str, Any]) -> None:
    """Run the comparison whose file's globals are `namespace`. Ends the process, as core.run.run does. Results lie in a
    folder of the experiment's name."""
    with command():
        if constants.asks_for_help(sys.argv[1:]):
            about = f"budgets={comparison.budgets}, seeds={comparison.seeds}, entries: "
            about += ", ".join(entry.name for entry in comparison.entries)
            told = terminal.wrapped(f"Compared, as the file says: {about}")
            return print(f"{constants.explained(Constants, namespace)}\n\n{told}")
        comparison.check()
        entries, stop, name = comparison.entries, Stop(), Path(namespace["__file__"]).stem
        common = constants.read(Constants, namespace, sys.argv[1:])
        seeds = [common.SEED + seed for seed in comparison.seeds]
        folder = results_dir()
        configs = {entry.name: entry.config(common) for entry in entries}
        need = Need(comparison.texts_shown(common), common.MAX_TOKENS, common.ANSWER_TOKENS)
        with started(name, common, need) as (server, chosen):
            (folder / name).mkdir(exist_ok=True)
            left_out = [entry for entry in entries if entry.roles and server.is_embedded]
            runs: dict[str, list[Path]] = {}
            reused: Counter[str] = Counter()
            tokens: list[int] = []  # what the budgets come to; known when the first has run
            kept = [entry for entry in entries if entry not in left_out]
            total = len(seeds) * len(chosen.problems) * sum(comparison.allotted(entry, common) for entry in kept)
            with (
                open_journal(folder / "journal" / f"{name}.jsonl") as journal,
                Bar(name, total, Forecast({ANY: Expected(total, 1.0, 1.0)})) as bar,
            ):
                for place, entry in enumerate(kept):
                    for number, seed in enumerate(seeds, place * len(seeds) + 1):
                        stage = f"{entry.name} ({number} of {len(kept) * len(seeds)})"
                        budgeted = Budgeted(entry.scaffold.run, max(tokens, default=math.inf))
                        experiment = Experiment(
                            f"{entry.name}-seed{seed}",
                            replace(entry.scaffold, run=budgeted),
                            replace(configs[entry.name], SEED=seed),
                            server,
                            chosen,
                            folder / name,
                            part=Part(bar, stage, comparison.allotted(entry, common)),
                        )
                        runs.setdefault(entry.name, []).append(experiment.finish(journal, stop))
                        reused += experiment.reused
                    tokens = tokens or in_tokens(comparison.budgets, runs[entry.name])
            document = experiment.document
        made = rows(runs, tokens, entries[0].name)
        doubts = warnings.of_origins(server.origin, reused)
        _show(folder / name, document, made, entries[0].name, left_out, seeds, doubts)


def _show(
    folder: Path,
    document: dict[str, Any],
    made: Sequence[Row],
    reference: str,
    left_out: Sequence[Entry],
    seeds: Sequence[int],
    doubts: Sequence[str],
) -> None:
    model, chosen = document["model"]["name"], document["problem_set"]
    notes = [
        f"{model} on {chosen['name']}, n={chosen['n']}, seeds {', '.join(map(str, seeds))}; budgets in completion "
        "tokens a problem; accuracy of the vote in %, with 95% intervals over problems, 0 where a budget bought no "
        "answer, and - where it bought none on any problem; p (Holm): corrected for all p-values of the table; the "
        "other figures are means over problems and seeds; cut: tokens of the step that did not fit; path "
        "s: seconds of requests that waited for each other; scaffolds that begin with plain samples share them",
    ]
    if document["model"]["embedded"]:
        notes.append("embedded model: a demonstration on sums of products, not QED-Nano and not AIME")
    notes += [f"left out: {entry.name} (the embedded model has not learnt to {entry.roles})" for entry in left_out]
    notes += doubts
    text, told = table(made, reference), "\n".join(f"note: {note}" for note in notes)
    write_atomically(folder / "table.txt", f"{text}\n\n{told}\n".encode())
    if 0 < terminal.columns() < len(text.partition("\n")[0]):
        text = compact(made, reference)
        print(f"\n{text}\n\naccuracy of the vote in % by budget; *: other than {reference}, p (Holm) ≤ 0.05")
        print(f"all figures: {folder / 'table.txt'}")
    else:
        print(f"\n{text}\n")
    print(terminal.wrapped(told, "  "))
    shown = [
        {
            "scaffold": row.name,
            "budget": row.budget,
            "accuracy": row.accuracy.to_json(),
            "unanswered": row.unanswered,
            **row.means,
            "against": vars(row.against) | {"p_holm": row.p_holm} if row.against else None,
        }
        for row in made
    ]
    summary = {"experiment": folder.name, "made": write.now(), "notes": notes, "seeds": list(seeds)}
    lines = [json.dumps(line) for line in (summary, *shown)]
    write_atomically(folder / "table.jsonl", ("\n".join(lines) + "\n").encode())
    drawn = [(row.name, row.budget, row.accuracy.to_json()) for row in made if row.answered]
    plot.matched(document | {"config": {}}, drawn, folder / "frontier.png")
    print(f"results {folder}")


def entry(
    experiment: str, scaffold: Scaffold[Any] | None = None, roles: str = "", name: str = "", **changes: Any
) -> Entry:
    """The scaffold of the file experiments/`experiment`.py (or another in its place) with the constants of that file,
    and `changes`."""
    with command():  # an experiment lists its entries before it runs
        found = experiment_file.load(experiment)
        if isinstance(found.planned, Comparison):
            raise UserError(f"{experiment} can't be compared: it is a comparison itself")
        planned = scaffold or cast(Scaffold[Any], found.planned)
        own = rules(planned.constants).keys() - rules(Constants).keys()
        values = {name: value for name, value in found.namespace.items() if name in own}
        return Entry(name or experiment, planned, values | changes, roles)
