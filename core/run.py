"""run(): problems in, one TaskGroup, progress, results out. With the other doors it alone ties the wings together."""

import asyncio
import json
import math
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic

from core import constants, progress, seeds, terminal
from core import interrupts as interrupts  # for experiments that lie elsewhere; see core/__init__.py
from core.bar import Bar
from core.constants import C, Constants
from core.engines import identity
from core.engines.need import Need
from core.engines.server import Server
from core.engines.start import graders_server, serving
from core.errors import RunFailed, UserError, command, one_line
from core.files import results_dir
from core.generate.generator import Generator
from core.generate.journal import Journal
from core.grading import math_verify
from core.grading.answers import by_answer
from core.plan.expected import expected
from core.problems import sets
from core.problems.check import check
from core.problems.sets import ProblemSet
from core.progress import Forecast
from core.report import plot, tables
from core.results import provenance, records, warnings, write
from core.results.data import Results
from core.results.metrics import RunMetrics
from core.results.spool import Spool
from core.signals import Stop
from core.types import Ask, Completion, Grader, Late, Message, Problem, Sampling, Scaffold

SAVE_SECONDS = 20.0  # how old a partial results file gets while steps are finished,
SAVE_SHARE = 0.02  # unless writing it would take more than this share of the time
AHEAD = 4  # so many problems are begun that a population of each makes this many requests per one in flight
ROOM = 1024  # tokens a prompt may take before a cap is called too large for the server's context


def run(scaffold: Scaffold[C], namespace: Mapping[str, Any], grader: Grader = by_answer) -> None:
    """Run the experiment whose file's globals are `namespace`, with NAME=value overrides from the command line. A
    `grader` that asks a model asks the run's own, or the server at GRADER_URL. Ends the process: status 0, 1 (every
    completion failed), 2 (a user's error) or 130 (stopped)."""
    with command():
        if constants.asks_for_help(sys.argv[1:]):
            return print(constants.explained(scaffold.constants, namespace))
        stop = Stop()
        name = Path(namespace["__file__"]).stem
        config = constants.read(scaffold.constants, namespace, sys.argv[1:])
        folder = results_dir()
        with (
            started(name, config, need_of(scaffold, config), grader is by_answer) as (server, chosen),
            open_journal(folder / "journal" / f"{name}.jsonl") as journal,
        ):
            experiment = Experiment(name, scaffold, config, server, chosen, folder, grader, graders_server())
            path = experiment.finish(journal, stop)
        experiment.show(path)


async def solve(
    scaffold: Scaffold[C],
    problems: str | Sequence[Problem | Mapping[str, Any]],
    *,
    name: str = "",
    grader: Grader = by_answer,
    folder: Path | str | None = None,
    **given: Any,
) -> Results:
    """Run `scaffold` on `problems` from Python, with constants like N=4; what comes back is what a results file holds.

    `problems`: the name of a set, the path of a file, or problems: Problem objects, or dicts with "problem" and
    "answer". The server is chosen as for any run, completions are journaled, and results saved as `name` (by default
    the scaffold's) in `folder`. Raises UserError (also for a wrong constant) and RunFailed; cancelled or broken off, it
    saves what there is. For a script without a loop: `solve_sync`.
    """
    name = name or getattr(scaffold.run, "__name__", "python")
    named = None
    if not isinstance(problems, str):
        named = ProblemSet("given", problems_of(problems, grader is by_answer), "given in Python")
    chosen_by = {"PROBLEMS": problems} if isinstance(problems, str) else {}
    config = constants.read(scaffold.constants, {}, [f"{key}={value}" for key, value in (given | chosen_by).items()])
    folder = Path(folder) if folder else results_dir()
    with (
        started(name, config, need_of(scaffold, config), grader is by_answer, named) as (server, chosen),
        open_journal(folder / "journal" / f"{name}.jsonl") as journal,
    ):
        experiment = Experiment(name, scaffold, config, server, chosen, folder, grader, graders_server())
        try:
            await experiment.ask_all(journal)
            path = experiment.ended()
        except BaseException:
            experiment.save(complete=False)
            raise
        return Results(path)


def solve_sync(scaffold: Scaffold[C], problems: str | Sequence[Problem | Mapping[str, Any]], **given: Any) -> Results:
    """The same where no event loop runs."""
    return asyncio.run(solve(scaffold, problems, **given))


def problems_of(given: Sequence[Problem | Mapping[str, Any]], needs_answers: bool = True) -> tuple[Problem, ...]:
    """Problem objects as they are, and rows checked as those of a file. Raises UserError."""
    if given and all(isinstance(each, Problem) for each in given):
        return tuple(each for each in given if isinstance(each, Problem))
    rows = [
        (f"problem {number}", dict(row) if isinstance(row, Mapping) else row) for number, row in enumerate(given, 1)
    ]
    return check(rows, "the list", needs_answers)


def need_of(scaffold: Scaffold[C], config: C) -> Need:
    """What the longest request of a run holds."""
    return Need(scaffold.texts_shown(config), config.MAX_TOKENS, config.ANSWER_TOKENS)


@contextmanager
def started(
    name: str, config: Constants, need: Need, needs_answers: bool = True, named: ProblemSet | None = None
) -> Iterator[tuple[Server, ProblemSet]]:
    """The server and the problems of the experiment `name`, printed in one line. `named`: the problems, where they are
    not those that PROBLEMS says."""
    # Read before a server starts for it.
    if named is None and config.PROBLEMS != "auto":
        named = sets.load(config.PROBLEMS, needs_answers)
    with serving(need) as server:
        chosen = (named or sets.load(server.problem_set)).first(config.LIMIT)
        check_context(server, config)
        print(terminal.wrapped(_opening(name, server, chosen, is_default=named is None)), flush=True)
        yield server, chosen


@contextmanager
def open_journal(path: Path, is_private: bool = False) -> Iterator[Journal]:
    """The journal in `path`; prints which lines are damaged, which journals disagree and, at the end, which records
    were not completions."""
    with Journal(path, is_private) as journal:
        if journal.damaged:
            places = f"{len(journal.damaged)} damaged lines, the first is line {journal.damaged[0]}"
            print(f"note: {journal.path} has {places}; their completions are made again", file=sys.stderr)
        if journal.differing:
            print(f"note: {journal.disagreement()}", file=sys.stderr)
        try:
            yield journal
        finally:
            if doubted := journal.doubted:
                key, why = next(iter(doubted.items()))
                print(
                    f"note: {len(doubted)} records in {path.parent} are whole and no completions (the first: {key}, "
                    f"{one_line(why, 200)}); these are made again",
                    file=sys.stderr,
                )


@asynccontextmanager
async def stopping_judge() -> AsyncIterator[None]:
    """When a run is stopped, end the judge: asyncio waits for its threads, and one may be at a line that hangs."""
    try:
        yield
    except asyncio.CancelledError:
        math_verify.stop()
        raise


def _first(errors: BaseException) -> UserError:
    """One of the errors that ended a run: the tasks beside it fared the same."""
    while isinstance(errors, BaseExceptionGroup):
        errors = errors.exceptions[0]
    assert isinstance(errors, UserError)
    return errors


def _opening(name: str, server: Server, chosen: ProblemSet, is_default: bool) -> str:
    """One line: engine, model and problem set, and why."""
    what = "the embedded demonstration model (not QED-Nano, not AIME)" if server.is_embedded else "model"
    why_set = "its default set" if is_default else "as asked"
    seeds = "; it ignores seeds, so that SEED decides only which candidates are drawn" if server.seeds is False else ""
    return one_line(
        f"{name}: {what} {server.model} on {len(chosen.problems)} problems of {chosen.name} ({why_set}), "
        f"engine {server.kind} at {server.base_url} because {server.why}{seeds}"
    )


def check_context(server: Server, config: Constants) -> None:
    """Raises UserError for what the server would refuse every time. (llama.cpp ends a completion at its context; other
    servers refuse a cap that does not fit it.)"""
    if server.kind == "sglang" and server.seeds and config.MIN_P:
        raise UserError(
            "this SGLang honours seeds (DETERMINISTIC=1), and then it can't sample with MIN_P: the server itself would "
            "end. Set MIN_P=0, or start it with DETERMINISTIC=0"
        )
    if server.context and server.kind != "llama.cpp" and server.context < config.MAX_TOKENS + ROOM:
        raise UserError(
            f"MAX_TOKENS={config.MAX_TOKENS} does not fit the server's context of {server.context} tokens. Give "
            f"MAX_TOKENS={max(1, server.context // 2)}, or serve the model with a longer context"
        )


@dataclass(frozen=True)
class Part:
    """A run that is the `stage` of a whole, in words; the `bar` is of all of it, and has `allotted` so many completions
    of each problem to this."""

    bar: Bar
    stage: str
    allotted: int


class Experiment(Generic[C]):
    """One run: what is asked, what has come back, what is shown."""

    def __init__(
        self,
        name: str,
        scaffold: Scaffold[C],
        config: C,
        server: Server,
        chosen: ProblemSet,
        folder: Path,
        grader: Grader = by_answer,
        grades_at: Server | None = None,
        part: Part | None = None,
    ) -> None:
        """`grades_at`: the server that the `grader` asks; None: the same. `part`: of a whole that has a bar."""
        self.scaffold, self.max_completions = scaffold, scaffold.max_completions(config)
        self.grader, self.grades_at = grader, grades_at
        self.config, self.server, self.chosen, self.folder = config, server, chosen, folder
        self.figures = RunMetrics(len(chosen.problems))
        self.spool = Spool(folder)  # what was graded, in JSON: a step may be one of a million
        self.steps: list[list[int]] = [[] for _ in chosen.problems]  # numbers in the spool, by problem
        self.sampling = Sampling.of(config)
        self.began = time.monotonic()
        self.next_save = self.began + SAVE_SECONDS
        self.reused: Counter[str] = Counter()  # completions that came from the journal, by their origins
        self.part = part
        self.document: dict[str, Any] = {
            "schema": write.SCHEMA,
            "experiment": name,
            "complete": False,
            "started": write.now(),
            "ended": None,
            "model": server.model_info() | {"embedded": server.is_embedded},
            "engine": {
                "kind": server.kind,
                "version": server.version,
                "origin": server.origin,
                "context": server.context,
                "seeds": server.seeds,
                "concurrency": config.CONCURRENCY or server.limit,
                "why": server.why,
            },
            "problem_set": {
                "name": chosen.name,
                "n": len(chosen.problems),
                "sha256": chosen.sha256,
                "source": chosen.source,
            },
            "config": {name: getattr(config, name) for name in constants.rules(scaffold.constants)},
            "grader": getattr(grader, "__name__", type(grader).__name__),
            "provenance": provenance.collect(scaffold.prompts),
        }

    def finish(self, journal: Journal, stop: Stop) -> Path:
        """Run to the end and save the results; their path comes back. Stopped or broken off, save what there is."""
        try:
            asyncio.run(self.ask_all(journal, stop.cancelling))
            return self.ended()
        except (KeyboardInterrupt, asyncio.CancelledError):
            path = self.save(complete=False)
            with suppress(OSError):  # the terminal may be what was lost
                print(f"\nstopped; {path}. Run the same command again to go on.", flush=True)
            raise SystemExit(130) from None
        except UserError as error:
            kind = RunFailed if isinstance(error, RunFailed) else UserError
            raise kind(f"{error} (so far: {self.save(complete=False)})") from None

    def ended(self) -> Path:
        """Save the results of a run to its end. Raises RunFailed where nothing came of it."""
        if self.figures.is_all_failed:
            raise RunFailed(
                f"every completion failed; most often: {str(self.figures.commonest_error).rstrip('.')}. Fix that "
                "and run the same command again"
            )
        return self.save(complete=True)

    async def ask_all(
        self, journal: Journal, stopping: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """So many problems in flight that the server never waits for one; the steps are graded, and saved, as they
        come."""
        lost: UserError | None = None
        with stopping(), self._bar() as bar:
            limit = self.config.CONCURRENCY or self.server.limit
            enough = 1 + AHEAD * limit // getattr(self.config, "N", 1)
            # A time box is for all problems: none may have to wait until it is over.
            places = asyncio.Semaphore(len(self.chosen.problems) if getattr(self.config, "MINUTES", 0) else enough)
            count = self._counter(bar)
            try:
                async with (
                    stopping_judge(),
                    Generator(
                        self.server,
                        journal,
                        limit,
                        self.config.TIMEOUT,
                        count,
                        self.config.STALL_SECONDS,
                        say=bar.write,
                    ) as generator,
                    bar.beating(generator, self._accuracy, self.part.stage if self.part else ""),
                    self._second(journal, generator) as second,
                    asyncio.TaskGroup() as tasks,
                ):
                    for number in range(len(self.chosen.problems)):
                        await places.acquire()
                        solving = tasks.create_task(self._solve(number, generator, second, bar))
                        solving.add_done_callback(lambda _: places.release())
            except* UserError as errors:
                lost = _first(errors)
        if lost:
            raise lost

    @asynccontextmanager
    async def _second(self, journal: Journal, generator: Generator) -> AsyncIterator[Generator]:
        """What the grader asks: the generator of the run, or one for its own server."""
        if self.grades_at is None:
            yield generator
            return
        limit = self.grades_at.limit
        async with Generator(
            self.grades_at, journal, limit, self.config.TIMEOUT, stall=self.config.STALL_SECONDS
        ) as second:
            yield second

    async def _solve(self, number: int, generator: Generator, second: Generator, bar: Bar) -> None:
        problem = self.chosen.problems[number]
        asked: Counter[progress.Kind] = Counter()
        known: set[int] = set()  # seeds that were given away

        async def ask(
            messages: Sequence[Message],
            *names: str | int,
            priority: float | None = None,
            until: float = math.inf,
            **changes: Any,
        ) -> Completion:
            kind = progress.kind(names)
            if priority is None:
                # Problems that are behind go first: at the end, none is left alone with many steps to go.
                priority = -kind[-1] if isinstance(kind[-1], int) else 0
            seed = seeds.derive(self.config.SEED, problem.id, *names)
            if seed in known:
                raise UserError(
                    f"the scaffold {self._scaffold} asked twice under the names {names}, and would get the same again. "
                    "Give every request of a problem names of its own"
                )
            known.add(seed)
            try:
                completion = await generator(messages, seed, replace(self.sampling, **changes), priority, until)
            except Late:  # it was not sent
                known.discard(seed)
                raise
            asked[kind] += 1
            bar.forecast.arrived(kind, completion.counted[-1], not completion.reused)
            return completion

        steps = self.steps[number]
        populations = self.scaffold.run(problem, ask, self.config)
        if not hasattr(populations, "__aiter__"):
            raise UserError(f'the scaffold {self._scaffold} is no async generator: write "async def" and yield in it')
        async for population in populations:
            if not population:
                raise UserError(f"the scaffold {self._scaffold} yielded a population without members")
            graded = await self.grader(problem, population, self._asking_grader(problem, len(steps), second, bar))
            record = records.record(len(steps), population, graded)
            self.figures.add(number, record)
            steps.append(self.spool.add(json.dumps(record, ensure_ascii=True).encode()))
            if time.monotonic() > self.next_save:
                await self._save_meanwhile()
        if not steps:
            raise UserError(f"the scaffold {self._scaffold} ended without a population: it must yield one at least")
        self.figures.finished[number] = True
        allotted = self.part.allotted if self.part else self.max_completions
        bar.total -= allotted - asked.total()  # what a scaffold that stopped early leaves unasked
        bar.forecast.ended(asked, len(self.chosen.problems), allotted)

    def _asking_grader(self, problem: Problem, step: int, second: Generator, bar: Bar) -> Ask:
        async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
            if self.grades_at is None:
                bar.total += 1
            seed = seeds.derive(self.config.SEED, problem.id, "grade", step, *names)
            return await second(messages, seed, replace(self.sampling, **changes))

        return ask

    @property
    def _scaffold(self) -> str:
        return str(getattr(self.scaffold.run, "__name__", self.document["experiment"]))

    def _bar(self) -> AbstractContextManager[Bar]:
        """That of this run, or of the whole that it is part of."""
        if self.part:
            return nullcontext(self.part.bar)
        count, name = len(self.chosen.problems), self.document["experiment"]
        planned = expected(self.scaffold, self.config, count, self.server.model, self.folder, name)
        return Bar(name, self.max_completions * count, Forecast(planned))

    def _counter(self, bar: Bar) -> Callable[[Completion, bool], None]:
        def count(completion: Completion, is_new: bool) -> None:
            if not is_new:
                self.reused[completion.origin or identity.UNKNOWN] += 1
            bar.arrived(completion, is_new)

        return count

    def _accuracy(self) -> str:
        """The mean accuracy of the newest population of every problem that has one, in words; "" before any."""
        if (accuracy := self.figures.accuracy) is None:
            return ""
        steps = "-".join(map(str, self.figures.reached))
        return f"mean accuracy {accuracy:.1%} at t={steps}, n={self.figures.begun}"

    async def _save_meanwhile(self) -> None:
        """Write what there is beside the run, and less often the longer it takes."""
        self.next_save, began = math.inf, time.monotonic()
        await asyncio.to_thread(write.save, self._newest_document(complete=False), self._rows(), self.folder)
        took = time.monotonic() - began
        self.next_save = began + max(SAVE_SECONDS, took / SAVE_SHARE)

    def save(self, complete: bool) -> Path:
        """Write what there is; the path comes back."""
        return write.save(self._newest_document(complete), self._rows(), self.folder)

    def _newest_document(self, complete: bool) -> dict[str, Any]:
        """The results but for the problems."""
        self.document |= {"complete": complete, "ended": write.now()}
        self.document["metrics"] = self.figures.metrics(time.monotonic() - self.began) | {"reused": dict(self.reused)}
        self.document["warnings"] = warnings.of_run(self.document, self.figures.commonest_error)
        return dict(self.document)

    def _rows(self) -> Iterator[bytes]:
        """The problems that have come to anything by now, as they stand in the results; read only when they are."""
        there = zip(self.chosen.problems, self.figures.finished.tolist(), map(tuple, self.steps), strict=True)
        now = [(problem, finished, steps) for problem, finished, steps in there if finished or steps]
        return (write.row(problem, finished, map(self.spool.__getitem__, steps)) for problem, finished, steps in now)

    def show(self, path: Path) -> None:
        """Print the table and draw the plot of a finished run."""
        figures = self.document["metrics"]
        table = tables.table(self.document, terminal.columns())
        print(f"\n{terminal.wrapped(tables.title(self.document))}\n\n{table}")
        if len(figures["steps"]) == 1:
            print(f"\n{tables.pass_table(self.document)}")
        if checked := figures.get("verification"):
            told = "no AUC: scores of both right and wrong candidates are needed"
            if checked["auc"] is not None:
                told = f"AUC {checked['auc']:.3f} ({checked['right']} right, {checked['wrong']} wrong candidates)"
            print(f"\nverification: {told}")
        print("\n" + terminal.wrapped(tables.legend(table)))
        if reused := self.reused.total():
            print(f"{reused:,} completions came from the journal")
        for warning in self.document["warnings"]:
            print(terminal.wrapped(f"note: {warning}", "  "))
        print(f"results {path}", flush=True)
        picture = path.with_suffix(".png")
        plot.plot(self.document, picture)
        print(f"plot    {picture}")
        print(terminal.wrapped(tables.final(self.document)), flush=True)
