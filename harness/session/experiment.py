"""Run a scaffold on a problem set: send the requests, grade and save the results, and print the
summary."""

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Generic

from core.base import terminal
from core.base.errors import RunFailed
from core.base.prices import format_dollars as dollars
from core.constants import BOXED, WHOLE, A, Shuffled
from core.engines import reasoning
from core.engines.protocol import Server
from core.eval import by_answer
from core.generate import Generator
from core.prompts import sampling_for
from core.types import Completion, Grader, Message, Population, Sampling, Scaffold
from harness import framing
from harness.plan.lengths import Lengths
from harness.plan.roofline import Load
from harness.plan.work import loads_of
from harness.report import plot, run_table, votes
from harness.report.data import Results
from harness.report.final import control, final
from harness.results import missing_answers, progress, records, warnings, write
from harness.results.metrics import RunMetrics
from harness.results.server_warnings import COUNTS
from harness.session.bar import Bar
from harness.session.checks import asks_for_rewards, asks_scorer
from harness.session.contract import Contract
from harness.session.growth import Growth
from harness.session.head import head_of, scorer_of, set_of
from harness.session.requests import Requests, SecondModels
from harness.session.round import Round
from harness.session.session import Session

SAVE_SECONDS = 30.0  # least time between two saves of partial results
# the N of the problems in progress add up to about AHEAD times the limit of requests in flight
AHEAD = 4

OnStep = Callable[[dict[str, Any]], object]


class Experiment(Generic[A]):
    """The run of a scaffold in a session. After `finish` or `run`, `document` has the results
    without the problems."""

    def __init__(
        self,
        session: Session[A],
        scaffold: Scaffold[A],
        grader: Grader = by_answer,
        bar: Bar | None = None,
        allotted: int = 0,
        on_step: OnStep | None = None,
    ) -> None:
        """Prepare the run. If it is a stage of a longer command, it has the command's `bar`, which
        expects `allotted` completions per problem (0: max_completions). `on_step` receives the
        figures of each step (see harness.run.solve)."""
        config = session.config
        server = session.server_for(config)
        card = server.card
        self.chosen = session.problems.with_answer_form(card.answer_form(config))
        if isinstance(config, Shuffled) and config.SHUFFLE:
            self.chosen = self.chosen.with_shuffled_options(config.SEED)
        self.framing = framing.from_config(config, card, self.chosen.problems, session.framing)
        are_proofs = self.chosen.asks_for_proofs
        self.config: A = card.framed(card.sampled(config), are_proofs)
        self.session: Session[A] = session.with_changes(
            server=server, config=self.config, problems=self.chosen, framing=self.framing
        )
        self.scaffold = scaffold
        self.grader = grader
        self.on_step = on_step
        self.max_completions = scaffold.max_completions(self.config)
        self.sampling = Sampling.from_config(self.config, are_proofs)
        self.scorer_sampling: Sampling | None = None
        scorer_prices = None
        self.document = head_of(self.session, scaffold, grader, self.sampling)
        scorer = session.scorer
        if scorer and asks_scorer(config):
            self.scorer_sampling = Sampling.from_config(scorer.card.sampled(config), are_proofs)
            sampling = None if asks_for_rewards(config) else self.scorer_sampling
            self.document["scorer"] = scorer_of(scorer, sampling)
            scorer_prices = scorer.card.price
        self.figures = RunMetrics(
            len(self.chosen.problems), prices=card.price, scorer_prices=scorer_prices
        )
        # for each problem, its steps' records in JSON
        self.steps: list[list[bytes]] = [[] for _ in self.chosen.problems]
        self.reported = 0  # steps that `on_step` has received
        self.began = time.monotonic()
        self.next_save = self.began + SAVE_SECONDS
        self.counts = _no_counts()
        self.scorer_counts = _no_counts()
        self.arrived = self.failed = 0  # completions so far, and those without a reply
        self.is_stage = bar is not None
        self.allotted = allotted or self.max_completions
        self.bar = bar or Bar(session.name, self.max_completions * len(self.chosen.problems))
        if not self.is_stage:
            self.bar.growth = Growth(self._groups, server.dialect.reading)

    def _groups(self, lengths: Lengths) -> list[Load]:
        """Return the requests of one problem for the expected `lengths`."""
        return loads_of(self.config, 1, lengths, self.scaffold)

    def finish(self, numbers: Sequence[int] = ()) -> Path:
        """Call `run` in a command, and return the results' path. If a signal stops it, exit with
        status 130."""
        return self.session.run_until_stopped(self.run(numbers))

    async def run(self, numbers: Sequence[int] = ()) -> Path:
        """Run the scaffold on all problems, grade and save the results, and return the path of
        their file. `numbers` selects problems of this call, so the results are partial until the
        calls have covered all problems. If the run is stopped or fails, partial results are saved.
        Raises UserError (RunFailed if all members fail)."""
        try:
            await self._ask_all(numbers or range(len(self.chosen.problems)))
            # a scaffold may make members of failed completions
            has_no_reply = self.arrived == self.failed > 0
            if self.figures.is_all_failed or has_no_reply:
                raise RunFailed(
                    "every completion failed, most often with: "
                    f"{str(self.figures.commonest_error).rstrip('.')}. Fix this error, and run the "
                    "same command again"
                )
            return write.save(*self._newest(complete=all(self.figures.finished)))
        except BaseException as error:
            error.add_note(f"partial results: {write.save(*self._newest(complete=False))}")
            raise

    def end(self) -> None:
        """Save the results as complete on the problems so far, because no call of `run` will select
        others."""
        chosen = self.chosen.first(sum(self.figures.finished))
        self.document["problem_set"] |= set_of(chosen) | {"sha256": chosen.sha256}
        write.save(*self._newest(complete=True))

    async def _ask_all(self, numbers: Sequence[int]) -> None:
        """Run the scaffold on some problems, with enough problems in progress to keep the server
        busy."""
        # a problem with stages has one stage in flight, not all its N
        at_once = getattr(self.config, "STAGE", 0) or getattr(self.config, "N", 1)
        places = 1 + AHEAD * self.session.limit // at_once
        if getattr(self.config, "MINUTES", 0):
            # The limit in MINUTES covers all problems together, so all of them must begin at once.
            places = len(numbers)
        run = Round[None](
            self.session,
            self.bar,
            places,
            lambda _: self._accuracy(),
            count=self._count,
            record=progress.path_of(self.session.folder, self.session.name),
        )
        with nullcontext() if self.is_stage else self.bar:
            await run.run(numbers, self._solve, self._second_models())

    @asynccontextmanager
    async def _second_models(self) -> AsyncIterator[SecondModels]:
        """Yield the clients of the second models. `_solve` counts the scorer's completions."""
        async with AsyncExitStack() as running:
            clients: list[Generator | None] = []
            for server in (self.session.scorer, self.session.grader):
                client = None
                if server:
                    client = self.session.generator(server, self.bar, _ignore)
                    await running.enter_async_context(client)
                clients.append(client)
            yield SecondModels(*clients)

    async def _solve(self, number: int, generator: Generator, second: SecondModels) -> None:
        problem = self.chosen.problems[number]
        name = getattr(self.scaffold.run, "__name__", self.session.name)
        contract = Contract(name, self.max_completions)
        requests = Requests(
            problem,
            self.config.SEED,
            self.framing,
            contract,
            generator,
            second,
            sampling_for(problem, self.config),
            self.scorer_sampling,
            self.sampling,
        )

        async def ask(
            messages: Sequence[Message], *names: str | int, to: str = "", **changes: Any
        ) -> Completion:
            completion = await requests.ask(messages, *names, to=to, **changes)
            if to:
                self._count_in(self.scorer_counts, completion)
            return completion

        async def ask_for_grade(
            messages: Sequence[Message], *names: str | int, to: str = "", **changes: Any
        ) -> Completion:
            if second.grader is None:  # the bar lacks the completions of a second server
                self.bar.total += 1
            step = len(self.steps[number])
            return await requests.ask_for_grade(step, messages, names, changes)

        async for population in self.scaffold.run(problem, ask, self.config):
            contract.yielded(population)
            graded = await self.grader(problem, population, ask_for_grade)
            record = records.record(len(self.steps[number]), population, graded)
            self._note_findings(generator.server)
            self._add(number, record, population)
            await self._save_if_due()
        contract.ended(was_cut=self.is_stage)
        self.figures.finished[number] = True
        self._report_steps()
        # a scaffold may need fewer completions than its maximum
        self.bar.total -= self.allotted - len(contract.asked)

    def _note_findings(self, server: Server) -> None:
        """Add to the results what requests have shown about the server."""
        engine = self.document["engine"]
        engine["seeds"] = server.seeds
        if server.trial is not None:
            engine["continues"] = server.trial

    def _add(self, number: int, record: dict[str, Any], population: Population) -> None:
        """Add the record of a problem's next step to the results."""
        if self.figures.add(number, record, population):
            counts = self.figures.missing_answers.metrics()["unstated"]
            is_boxed = self.chosen.problems[number].answer_form in (BOXED, WHOLE)
            self.bar.write(f"note: {missing_answers.warning(counts, is_boxed)}")
        self.steps[number].append(json.dumps(record, ensure_ascii=True).encode())
        self._report_steps()

    async def _save_if_due(self) -> None:
        if time.monotonic() > self.next_save:
            self.next_save = math.inf
            await asyncio.to_thread(write.save, *self._newest(complete=False))
            self.next_save = time.monotonic() + SAVE_SECONDS

    def _report_steps(self) -> None:
        """Call `on_step` for each new step that all problems have reached, unless they have
        ended."""
        if self.on_step is None:
            return
        running = [
            len(steps)
            for steps, ended in zip(self.steps, self.figures.finished, strict=True)
            if not ended
        ]
        complete = min(running, default=max(map(len, self.steps)))
        if complete > self.reported:
            run = {"experiment": self.session.name, "seed": self.config.SEED}
            for figures in self.figures.metrics(0.0)["steps"][self.reported : complete]:
                self.reported += 1
                self.on_step(run | figures)

    def _count(self, completion: Completion, is_new: bool) -> None:
        """Count a completion of the run's model."""
        self._count_in(self.counts, completion)
        self._note_thinking(completion)
        self.arrived += 1
        if completion.error is not None:
            self.failed += 1
        rests_on = self.session.server.rests_on
        if rests_on and not is_new and self.session.journal.is_earlier(completion.key):
            self.counts["reused_by"][rests_on] += 1

    def _note_thinking(self, completion: Completion) -> None:
        """Add to the results, and report once, that a reply thinks although it should not."""
        argument = reasoning.ignored(self.session.server, completion)
        if not argument or "ignores" in self.document["engine"]:
            return
        self.document["engine"]["ignores"] = argument
        self.bar.write(
            f"note: a reply has thinking, although {argument} was sent. The model or its server "
            "ignores this"
        )

    def _count_in(self, counts: dict[str, Counter[str]], completion: Completion) -> None:
        """Count a completion in the bar, and in `counts` by its origin and model."""
        self.bar.arrived(completion, not completion.reused)
        if completion.reused:
            counts["reused"][completion.origin] += 1
        if completion.model:
            counts["models"][completion.model] += 1

    def _accuracy(self) -> str:
        """Format the mean accuracy (or score, or grade of proofs) of finished problems. Return ""
        if none is graded."""
        progress = self.figures.progress
        if progress and self.chosen.asks_for_proofs:
            return f"grade {progress}"
        if progress and self.figures.has_scores:
            return f"score {progress}"
        return progress

    def _newest(self, complete: bool) -> tuple[dict[str, Any], Iterator[bytes], Path]:
        """Return the arguments of write.save: the document, the rows of all started problems, and
        the folder."""
        self.document |= {"complete": complete, "ended": write.now()}
        metrics = self.figures.metrics(time.monotonic() - self.began) | _plain(self.counts)
        if "scorer" in metrics:
            metrics["scorer"] |= _plain(self.scorer_counts)
        if (spent := self.session.spent) is not None:
            metrics["spent"] = spent
        self.document["metrics"] = metrics
        self.document["warnings"] = warnings.of_run(self.document, self.figures.commonest_error)
        # this moment's steps, because a save in a thread takes longer
        rows = []
        for problem, ended, steps in zip(
            self.chosen.problems, self.figures.finished, self.steps, strict=True
        ):
            if ended or steps:
                rows.append((problem, ended, tuple(steps)))
        return dict(self.document), (write.row(*row) for row in rows), self.session.folder


def _no_counts() -> dict[str, Counter[str]]:
    return {name: Counter() for name in COUNTS}


def _plain(counts: dict[str, Counter[str]]) -> dict[str, dict[str, int]]:
    return {name: dict(counter) for name, counter in counts.items()}


def _ignore(completion: Completion, is_new: bool) -> None:
    pass


def show(document: dict[str, Any], path: Path) -> None:
    """Print the table of a finished run or of merged runs, and save its plot if graded. `path` is
    the results file."""
    metrics = document["metrics"]
    print(f"\n{run_table.text(document, has_legend=False)}\n")
    for warning in document["warnings"]:
        print(terminal.wrapped(f"note: {warning}", "  "))
    if reused := sum(metrics["reused"].values()):
        print(f"journal {reused:,} completions reused")
    if (spent := metrics.get("spent")) is not None:
        text = (
            f"{dollars(spent)} so far for this experiment, including failed, truncated and grading "
            "requests"
        )
        print(terminal.wrapped(f"cost    {text}", " " * 8))
    print(f"results {path}", flush=True)
    run = Results(path)
    if warnings.is_ungraded(document):
        print("plot    none: not graded")
    else:
        picture = path.with_suffix(".png")
        with terminal.heartbeat(f"drawing {picture.name}"):
            plot.plot(document, picture, votes.curve(run))
        print(f"plot    {picture}")
    print(f"report  bash scripts/report.sh {document['experiment']}")
    if compared := control(run):
        print(terminal.wrapped(f"control {compared}", " " * 8))
    print(terminal.wrapped(final(document, run.problems), " " * 7), flush=True)
