"""Run a scaffold on a problem set: send the requests, grade and save the results, and print the
summary."""

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Generic

from core import constants
from core.base import seeds, terminal
from core.base.errors import RunFailed
from core.base.prices import shown as dollars
from core.client.request import sampling_sent
from core.constants import BOXED, WHOLE, A
from core.eval import by_answer
from core.generate import Generator
from core.types import Completion, Grader, Message, Sampling, Scaffold
from harness import framing
from harness.report import plot, tables
from harness.results import model, provenance, records, unstated, warnings, write
from harness.results.metrics import RunMetrics
from harness.session.bar import Bar
from harness.session.contract import Contract
from harness.session.session import Session

SAVE_SECONDS = 30.0  # least time between two saves of partial results
# the N of the problems in progress add up to about AHEAD times the limit of requests in flight
AHEAD = 4


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
    ) -> None:
        """Prepare the run. If it is a stage of a longer command, it has the command's `bar`, which
        expects `allotted` completions per problem (0: max_completions)."""
        server = session.server
        way = server.card.way(session.config)
        chosen = session.problems.read_as(way)
        self.framing = framing.of(session.config, server.card, chosen.problems)
        config = server.card.framed(server.card.sampled(session.config), chosen.asks_for_proofs)
        self.session: Session[A] = session.but(config=config)
        self.scaffold, self.max_completions = scaffold, scaffold.max_completions(config)
        self.grader, self.config, self.chosen = grader, config, chosen
        prices = server.card.price
        self.figures = RunMetrics(len(chosen.problems), prices=prices)
        # for each problem, its steps' records in JSON
        self.steps: list[list[bytes]] = [[] for _ in chosen.problems]
        self.sampling = Sampling.of(config, chosen.asks_for_proofs)
        self.began = time.monotonic()
        self.next_save = self.began + SAVE_SECONDS
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in warnings.COUNTS}
        self.arrived = self.failed = 0  # completions so far, and those without a reply
        self.is_stage, self.allotted = bar is not None, allotted or self.max_completions
        self.bar = bar or Bar(session.name, self.max_completions * len(chosen.problems))
        # RUNS is omitted, so that each of several runs has the same document as a single run. OUT
        # is its `experiment`.
        left = {
            "RUNS",
            "OUT",
            "ANSWER",
            *([] if self.framing.provenance else constants.rules(constants.Framed)),
        }
        self.document: dict[str, Any] = {
            "schema": model.SCHEMA,
            "experiment": session.name,
            "complete": False,
            "started": write.now(),
            "ended": None,
            "model": server.model_info(),
            "engine": {
                **{
                    name: getattr(server, name)
                    for name in ("kind", "version", "origin", "context", "seeds")
                },
                **({"exact": False} if server.exact is False else {}),
                **({"templated": False} if server.templated is False else {}),
                "concurrency": self.session.limit,
                "why": server.why,
                "sampling": sampling_sent(server, self.sampling),
            },
            "problem_set": {
                "name": chosen.name,
                "n": len(chosen.problems),
                **{
                    name: getattr(chosen, name)
                    for name in ("sha256", "source", "licence", "version", "revision")
                },
            },
            "config": {
                **{
                    name: getattr(config, name)
                    for name in constants.rules(scaffold.constants)
                    if name not in left
                },
                **({"ANSWER": way} if way != BOXED else {}),
            },
            "grader": getattr(grader, "__name__", type(grader).__name__),
            "provenance": provenance.collect(scaffold.prompts, chosen.asks_for_proofs)
            | self.framing.provenance,
            **({"prices": asdict(prices)} if prices else {}),
        }

    def finish(self, numbers: Sequence[int] = ()) -> Path:
        """Call `run` in a command, and return the results' path. If a signal stops it, exit with
        status 130."""
        return self.session.asked(self.run(numbers))

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
        self.document["problem_set"] |= {
            "name": chosen.name,
            "n": len(chosen.problems),
            "sha256": chosen.sha256,
        }
        write.save(*self._newest(complete=True))

    async def _ask_all(self, numbers: Sequence[int]) -> None:
        """Run the scaffold on some problems, with enough problems in progress to keep the server
        busy."""
        enough = 1 + AHEAD * self.session.limit // getattr(self.config, "N", 1)
        # A limit in MINUTES covers all problems together, so all of them must begin at once.
        places = len(numbers) if getattr(self.config, "MINUTES", 0) else enough
        bar, graders = self.bar, self.session.grades_at
        second = self.session.generator(graders, bar, lambda *_: None) if graders else nullcontext()
        with nullcontext() if self.is_stage else bar:
            await self.session.each(
                numbers,
                self._solve,
                bar,
                places,
                lambda _: self._accuracy(),
                second,
                count=self._count,
            )

    async def _solve(self, number: int, generator: Generator, second: Generator | None) -> None:
        problem = self.chosen.problems[number]
        sampling = Sampling.of(self.config, self.chosen.asks_for_proofs, problem.reading)
        contract = Contract(
            getattr(self.scaffold.run, "__name__", self.session.name), self.max_completions
        )

        async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
            seed = seeds.derive(self.config.SEED, problem.id, *names)
            # Requests of early steps are sent first, so that all problems end at about the same
            # time.
            priority = -next((name for name in names if isinstance(name, int)), 0)
            framed = self.framing.frame(messages)
            completion = await generator(framed, seed, sampling.but(**changes), priority)
            contract.got(completion, names)
            return completion

        async def ask_for_grade(
            messages: Sequence[Message], *names: str | int, **changes: Any
        ) -> Completion:
            self.bar.total += second is None  # the bar lacks the completions of a second server
            seed = seeds.derive(self.config.SEED, problem.id, "grade", len(steps), *names)
            return await (second or generator)(messages, seed, replace(self.sampling, **changes))

        steps = self.steps[number]
        async for population in self.scaffold.run(problem, ask, self.config):
            contract.yielded(population)
            graded = await self.grader(problem, population, ask_for_grade)
            record = records.record(len(steps), population, graded)
            if self.figures.add(number, record, population):
                counts = self.figures.unstated.metrics()["unstated"]
                self.bar.write(f"note: {unstated.warning(counts, problem.way in (BOXED, WHOLE))}")
            steps.append(json.dumps(record, ensure_ascii=True).encode())
            if time.monotonic() > self.next_save:
                self.next_save = math.inf
                await asyncio.to_thread(write.save, *self._newest(complete=False))
                self.next_save = time.monotonic() + SAVE_SECONDS
        contract.ended(was_cut=self.is_stage)
        self.figures.finished[number] = True
        # a scaffold may need fewer completions than its maximum
        self.bar.total -= self.allotted - len(contract.asked)

    def _count(self, completion: Completion, is_new: bool) -> None:
        self.bar.arrived(completion, is_new)
        self.arrived += 1
        self.failed += completion.error is not None
        rests_on = self.session.server.rests_on
        if not is_new:
            self.counts["reused"][completion.origin] += 1
            if rests_on and self.session.journal.is_earlier(completion.key):
                self.counts["reused_by"][rests_on] += 1
        if completion.model:
            self.counts["models"][completion.model] += 1

    def _accuracy(self) -> str:
        """Format the mean accuracy (or grade) of the newest populations. Return "" if none is
        graded."""
        name = "mean grade" if self.chosen.asks_for_proofs else "mean accuracy"
        return f"{name} {progress}" if (progress := self.figures.progress) else ""

    def _newest(self, complete: bool) -> tuple[dict[str, Any], Iterator[bytes], Path]:
        """Return the arguments of write.save: the document, the rows of all started problems, and
        the folder."""
        self.document |= {"complete": complete, "ended": write.now()}
        counts = {name: dict(counted) for name, counted in self.counts.items()}
        self.document["metrics"] = self.figures.metrics(time.monotonic() - self.began) | counts
        if (spent := self.session.spent) is not None:
            self.document["metrics"]["spent"] = spent
        self.document["warnings"] = warnings.of_run(self.document, self.figures.commonest_error)
        all_of = zip(self.chosen.problems, self.figures.finished, self.steps, strict=True)
        now = [(problem, ended, tuple(steps)) for problem, ended, steps in all_of if ended or steps]
        return dict(self.document), (write.row(*each) for each in now), self.session.folder


def show(document: dict[str, Any], path: Path) -> None:
    """Print the table of a finished run or of merged runs, and save its plot if graded. `path` is
    the results file."""
    figures = document["metrics"]
    is_graded = not warnings.is_ungraded(document)
    print(f"\n{tables.text(document)}\n")
    for warning in document["warnings"]:
        print(terminal.wrapped(f"note: {warning}", "  "))
    if reused := sum(figures["reused"].values()):
        print(f"journal {reused:,} completions reused")
    if (spent := figures.get("spent")) is not None:
        text = (
            f"{dollars(spent)} so far for this experiment, including failed, truncated and grading "
            "requests"
        )
        print(terminal.wrapped(f"cost    {text}", " " * 8))
    print(f"results {path}", flush=True)
    picture = path.with_suffix(".png")
    if is_graded:
        plot.plot(document, picture)
    print(f"plot    {picture if is_graded else 'none: not graded'}")
    print(f"report  bash scripts/report.sh {document['experiment']}")
    print(terminal.wrapped(tables.final(document)), flush=True)
