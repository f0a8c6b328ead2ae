"""run(): problems in, one TaskGroup, progress, results out. With the other doors it alone ties the wings together."""

import asyncio
import json
import math
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

from tqdm import tqdm

from core import constants, progress, seeds
from core import interrupts as interrupts  # for experiments that lie elsewhere; see core/__init__.py
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
from core.problems.sets import ProblemSet
from core.report import plot, tables
from core.results import provenance, records, warnings, write
from core.results.metrics import RunMetrics
from core.results.spool import Spool
from core.signals import Stop
from core.types import Ask, Completion, Grader, Message, Problem, Sampling, Scaffold

BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} gen [{elapsed}{postfix}]"  # tqdm's own time left takes all steps for alike
SAVE_SECONDS = 20.0  # how old a partial results file gets while steps are finished,
SAVE_SHARE = 0.02  # unless writing it would take more than this share of the time
AHEAD = 4  # so many problems are begun that a population of each makes this many requests per one in flight
ROOM = 1024  # tokens a prompt may take before a cap is called too large for the server's context


def run(scaffold: Scaffold[C], namespace: Mapping[str, Any], grader: Grader = by_answer) -> None:
    """Run the experiment whose file's globals are `namespace`, with NAME=value overrides from the command line. A
    `grader` that asks a model asks the run's own, or the server at GRADER_URL. Ends the process: status 0, 1 (every
    completion failed), 2 (a user's error) or 130 (stopped)."""
    with command():
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


def need_of(scaffold: Scaffold[C], config: C) -> Need:
    """What the longest request of a run holds."""
    return Need(scaffold.texts_shown(config), config.MAX_TOKENS, config.ANSWER_TOKENS)


@contextmanager
def started(
    name: str, config: Constants, need: Need, needs_answers: bool = True
) -> Iterator[tuple[Server, ProblemSet]]:
    """The server and the problems of the experiment `name`, printed in one line."""
    # Read before a server starts for it.
    named = None if config.PROBLEMS == "auto" else sets.load(config.PROBLEMS, needs_answers)
    with serving(need) as server:
        chosen = (named or sets.load(server.problem_set)).first(config.LIMIT)
        check_context(server, config)
        print(_opening(name, server, chosen, is_default=named is None), flush=True)
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


class _Bar(tqdm):  # type: ignore[misc]
    """A bar that asks what to show besides when it is drawn, not at every completion."""

    def __init__(self, so_far: Callable[[], str], **options: Any) -> None:
        self.so_far = so_far
        super().__init__(**options)

    @property
    def format_dict(self) -> dict[str, Any]:
        shown: dict[str, Any] = super().format_dict
        return shown | {"postfix": self.so_far()}


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
    ) -> None:
        """`grades_at`: the server that the `grader` asks; None: the same."""
        self.scaffold, self.max_completions = scaffold, scaffold.max_completions(config)
        self.grader, self.grades_at = grader, grades_at
        self.config, self.server, self.chosen, self.folder = config, server, chosen, folder
        self.figures = RunMetrics(len(chosen.problems))
        self.spool = Spool(folder)  # what was graded, in JSON: a step may be one of a million
        self.steps: list[list[int]] = [[] for _ in chosen.problems]  # numbers in the spool, by problem
        self.sampling = Sampling.of(config)
        self.began = time.monotonic()
        self.next_save = self.began + SAVE_SECONDS
        self.new_tokens = self.uncounted = 0  # tokens, and completions whose tokens the server did not report
        self.reused: Counter[str] = Counter()  # completions that came from the journal, by their origins
        planned = expected(scaffold, config, len(chosen.problems), server.model, folder, name)
        self.forecast = progress.Forecast(planned)
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
            asyncio.run(self._run(journal, stop))
            if self.figures.is_all_failed:
                raise RunFailed(
                    f"every completion failed; most often: {str(self.figures.commonest_error).rstrip('.')}. Fix that "
                    "and run the same command again"
                )
            return self.save(complete=True)
        except (KeyboardInterrupt, asyncio.CancelledError):
            path = self.save(complete=False)
            with suppress(OSError):  # the terminal may be what was lost
                print(f"\nstopped; {path}. Run the same command again to go on.", flush=True)
            raise SystemExit(130) from None
        except UserError as error:
            kind = RunFailed if isinstance(error, RunFailed) else UserError
            raise kind(f"{error} (so far: {self.save(complete=False)})") from None

    async def _run(self, journal: Journal, stop: Stop) -> None:
        """So many problems in flight that the server never waits for one; the steps are graded, and saved, as they
        come."""
        total = self.max_completions * len(self.chosen.problems)
        lost: UserError | None = None
        every = 0.1 if sys.stderr.isatty() else 10.0  # seconds; a log file need not hold every redraw
        name = self.document["experiment"]
        with (
            stop.cancelling(),
            _Bar(
                self._so_far,
                total=total,
                desc=name,
                dynamic_ncols=True,
                mininterval=every,
                maxinterval=every,
                bar_format=BAR,
            ) as bar,
        ):
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
                        say=lambda line: bar.write(line, file=sys.stderr),
                    ) as generator,
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

    async def _solve(self, number: int, generator: Generator, second: Generator, bar: "tqdm[Any]") -> None:
        problem = self.chosen.problems[number]
        asked: Counter[progress.Kind] = Counter()

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
            completion = await generator(messages, seed, replace(self.sampling, **changes), priority, until)
            asked[kind] += 1
            self.forecast.arrived(kind, completion.counted[-1], not completion.reused)
            return completion

        steps = self.steps[number]
        async for population in self.scaffold.run(problem, ask, self.config):
            graded = await self.grader(problem, population, self._asking_grader(problem, len(steps), second, bar))
            record = records.record(len(steps), population, graded)
            self.figures.add(number, record)
            steps.append(self.spool.add(json.dumps(record, ensure_ascii=True).encode()))
            if time.monotonic() > self.next_save:
                await self._save_meanwhile()
        self.figures.finished[number] = True
        bar.total -= self.max_completions - asked.total()  # what a scaffold that stopped early leaves unasked
        self.forecast.ended(asked, len(self.chosen.problems))

    def _asking_grader(self, problem: Problem, step: int, second: Generator, bar: "tqdm[Any]") -> Ask:
        async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
            if self.grades_at is None:
                bar.total += 1
            seed = seeds.derive(self.config.SEED, problem.id, "grade", step, *names)
            return await second(messages, seed, replace(self.sampling, **changes))

        return ask

    def _counter(self, bar: "tqdm[Any]") -> Callable[[Completion, bool], None]:
        def count(completion: Completion, is_new: bool) -> None:
            if is_new:
                self.new_tokens += completion.completion_tokens
                self.uncounted += completion.counted[-1] is None
            else:
                self.reused[completion.origin or identity.UNKNOWN] += 1
            bar.update()

        return count

    def _so_far(self) -> str:
        """The time left, tokens per second, and the mean accuracy of the newest population of every problem that has
        one, and how many those are."""
        elapsed = time.monotonic() - self.began
        shown = ["tok/s unknown" if self.uncounted else f"{self.new_tokens / max(1e-9, elapsed):,.0f} tok/s"]
        if (left := self.forecast.seconds_left(elapsed)) is not None:
            shown.insert(0, f"{tqdm.format_interval(left)} left")
        if (accuracy := self.figures.accuracy) is not None:
            shown.append(f"accuracy {accuracy:.1%}, n={self.figures.begun}")
        return ", ".join(shown)

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
        print(f"\n{tables.title(self.document)}\n\n{tables.table(self.document)}")
        if len(figures["steps"]) == 1:
            print(f"\n{tables.pass_table(self.document)}")
        if checked := figures.get("verification"):
            told = "no AUC: scores of both right and wrong candidates are needed"
            if checked["auc"] is not None:
                told = f"AUC {checked['auc']:.3f} ({checked['right']} right, {checked['wrong']} wrong candidates)"
            print(f"\nverification: {told}")
        print(
            "\naccuracies in %, with 95% intervals over problems; request s: seconds summed over requests; cut: hit "
            f"the cap\n{tables.spent_tokens(figures['tokens']['completion'])} tokens, {figures['seconds']:.0f} s"
            + (f"; {self.reused.total():,} completions came from the journal" if self.reused else "")
        )
        for warning in self.document["warnings"]:
            print(f"note: {warning}")
        print(f"results {path}", flush=True)
        picture = path.with_suffix(".png")
        plot.plot(self.document, picture)
        print(f"plot    {picture}")
