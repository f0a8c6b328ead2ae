"""Ask the model about many items in a session, with a limit on the items in progress."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from core.base.errors import first_cause
from core.generate import Generator
from core.grading.child import stopping_children
from core.types import Completion
from harness.session.bar import Bar
from harness.session.session import Session

B = TypeVar("B")
R = TypeVar("R")
T = TypeVar("T")


@dataclass
class Round(Generic[R]):
    """A round of calls in a session, one for each item.

    At most `places` calls run at the same time. The `bar` shows the text `progress(results)`.
    `count(completion, is_new)` is called for each completion of the session's server (None: the
    bar's). `record` is the file of the progress, if a live page may show it. `results` has the
    results so far by the item's number."""

    session: Session[Any]
    bar: Bar
    places: int
    progress: Callable[[Iterable[R]], str]
    count: Callable[[Completion, bool], None] | None = None
    record: Path | None = None
    results: dict[int, R] = field(default_factory=dict)

    async def run(
        self,
        items: Iterable[T],
        work: Callable[[T, Generator, B], Coroutine[Any, Any, R]],
        context: AbstractAsyncContextManager[B],
    ) -> list[R]:
        """Call `work(item, generator, shared)` for each item, and return the results in the order
        of the items. `context` is entered before the calls, and yields `shared`. If several calls
        fail, a bug is raised rather than a UserError."""
        generator = self.session.generator(
            self.session.server, self.bar, self.count or self.bar.arrived
        )
        self.bar.time_left.sharing = self.session.server.dialect.sharing
        try:
            async with (
                stopping_children(),
                generator,
                self.bar.refreshing(
                    generator, lambda: self.progress(self.results.values()), self.record
                ),
                context as shared,
            ):
                await self._call_all(items, lambda item: work(item, generator, shared))
        except BaseExceptionGroup as group:
            raise first_cause(group) from None
        return [self.results[number] for number in sorted(self.results)]

    async def _call_all(
        self, items: Iterable[T], work: Callable[[T], Coroutine[Any, Any, R]]
    ) -> None:
        free = asyncio.Semaphore(self.places)

        async def call(number: int, item: T) -> None:
            try:
                self.results[number] = await work(item)
            finally:
                free.release()

        async with asyncio.TaskGroup() as group:
            for number, item in enumerate(items):
                await free.acquire()
                group.create_task(call(number, item))
