"""Ask a model about each of many things, through the harness's own generator, journal and purse.

What is asked follows from the thing, the prompt and SEED alone, so that the journal is the whole resume story here
too: what was answered is never asked again, and a changed prompt, model or SEED asks anew. What is the same in several
places is asked about once.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from core.base import seeds
from core.base.errors import RunFailed, foremost
from core.constants import Asking, Paid, Waiting, constant
from core.engines.server import Server
from core.generate.budget import Purse
from core.generate.generator import Generator
from core.generate.journal import Journal
from core.plan.progress import ANY, Expected, Forecast
from core.session.bar import Bar
from core.types import Ask, Completion, Message, Sampling

AHEAD = 4  # so many things are begun that each request in flight has this many behind it

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class AskingConstants(Paid, Waiting, Asking):
    """Of whoever asks a model."""

    closed = MappingProxyType({"ANSWER_TOKENS": 0, "RUNS": 1})  # until the end of issue 33
    GRADER: str = constant("", "model card of who is asked: a name in data/models, or a .toml file; else as for a run")


class Job(Protocol[T, R]):
    """What is asked about each of many things."""

    @property
    def title(self) -> str:
        """Of its bar."""

    @property
    def what(self) -> str:
        """One request of it, in a word."""

    def items(self) -> Iterable[T]:
        """The things, in the same order every time. Raises UserError."""

    def content(self, item: T) -> Hashable:
        """What its result follows from."""

    def name(self, item: T) -> str:
        """What its seeds follow from, besides SEED and the names in `one`."""

    async def one(self, item: T, ask: Ask) -> R:
        """The result of one thing. The last name of each request is the number of its attempt."""

    def spared(self, made: R) -> int:
        """How many of the requests that were planned for it were not needed."""

    def errors(self, made: R) -> Sequence[str | None]:
        """Of each thing that was to be found out, the error that its request ended with; None where it did not."""

    def so_far(self, made: Sequence[R]) -> str:
        """What these come to, in a few words for the bar."""


async def each(
    job: Job[T, R],
    total: int,
    config: AskingConstants,
    server: Server,
    journal: Journal,
    purse: Purse | None,
    stopping: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> list[R]:
    """The results of all things of the `job`, in order; `total` requests are planned for them. Raises UserError, also
    where all requests failed."""
    sampling = Sampling.of(server.card.sampled(config))
    limit = config.CONCURRENCY or server.limit
    places = asyncio.Semaphore(1 + AHEAD * limit)
    begun: dict[Hashable, asyncio.Task[R]] = {}
    found: list[asyncio.Task[R]] = []
    forecast = Forecast({ANY: Expected(max(1, total), 1.0, 1.0)})

    def count(completion: Completion, is_new: bool) -> None:
        bar.arrived(completion, is_new)
        forecast.arrived(ANY, completion.counted[-1], is_new)

    async def one(item: T) -> R:
        async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
            if names[-1]:  # asked once more
                bar.total += 1
            return await generator(messages, seeds.derive(config.SEED, job.name(item), *names), sampling)

        try:
            made = await job.one(item, ask)
        finally:
            places.release()
        bar.total -= job.spared(made)
        return made

    def so_far() -> str:
        return job.so_far(
            [task.result() for task in found if task.done() and not task.cancelled() and not task.exception()]
        )

    with stopping(), Bar(job.title, total, forecast) as bar:
        if purse:
            purse.say = bar.write
        generator = Generator(
            server, journal, limit, config.TIMEOUT, count, config.STALL_SECONDS, say=bar.write, purse=purse
        )
        try:
            async with bar.beating(generator, so_far), generator, asyncio.TaskGroup() as tasks:
                for item in job.items():
                    content = job.content(item)
                    if content not in begun:
                        await places.acquire()
                        begun[content] = tasks.create_task(one(item))
                    found.append(begun[content])
        except BaseExceptionGroup as errors:
            raise foremost(errors) from None
    made = [task.result() for task in found]
    ended = [error for result in made for error in job.errors(result)]
    failed = [error for error in ended if error is not None]
    if failed and len(failed) == len(ended):
        raise RunFailed(
            f"every {job.what} failed; most often: {max(failed, key=failed.count)}. Fix that and run the same command "
            "again"
        )
    return made
