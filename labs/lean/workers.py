"""NUM_WORKERS sessions beside each other, each with limits, replaced when it is old.

A request goes to an idle session whose open file is nearest to it: with the same statement and the longest path of
tactics in common, Lean has the least to run again. A request that nobody waits for any more is let run to its end:
most tactics take less time than Lean takes to start again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from labs.lean.session import TACTIC_SECONDS, Session, Step
from labs.lean.toolchain import Toolchain

MOST_REQUESTS = 1000  # of one process: Lean keeps memory of what it has seen
MOST_SECONDS = 30 * 60  # of its life


class Workers:
    """`count` sessions of one Lean, each started when it is first needed. `requests`: how many were answered;
    `recycled`: how many processes were replaced for their age."""

    def __init__(
        self,
        toolchain: Toolchain,
        count: int,
        seconds: float = TACTIC_SECONDS,
        most_requests: int = MOST_REQUESTS,
        most_seconds: float = MOST_SECONDS,
    ) -> None:
        self.sessions = [Session(toolchain, seconds) for _ in range(count)]
        self.most_requests = most_requests
        self.most_seconds = most_seconds
        self.requests = 0
        self.recycled = 0
        self._idle = list(self.sessions)
        self._free = asyncio.Condition()
        self._running: set[asyncio.Task[Step]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for session in self.sessions:
            await session.end()

    @property
    def restarts(self) -> int:
        """How many processes were replaced, for their age or because they died or hung."""
        return sum(max(0, session.restarts) for session in self.sessions)

    async def start(self, statement: str) -> Step:
        """Session.start, by one of them."""
        return await self._by_one((statement,), lambda session: session.start(statement))

    async def apply(self, statement: str, tactics: Sequence[str], tactic: str) -> Step:
        """Session.apply, by one of them."""
        return await self._by_one((statement, *tactics), lambda session: session.apply(statement, tactics, tactic))

    async def _by_one(self, path: tuple[str, ...], ask: Callable[[Session], Awaitable[Step]]) -> Step:
        async with self._free:
            await self._free.wait_for(lambda: self._idle)
            session = max(self._idle, key=lambda idle: _in_common(idle.open, path))
            self._idle.remove(session)
        task = asyncio.create_task(self._of(session, ask))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _of(self, session: Session, ask: Callable[[Session], Awaitable[Step]]) -> Step:
        """What `session` answers; it is idle again afterwards."""
        try:
            if self._is_old(session):
                await session.end()
                self.recycled += 1
            return await ask(session)
        finally:
            self.requests += 1
            self._idle.append(session)
            async with self._free:
                self._free.notify_all()  # one alone may be cancelled just then, and take the news with it

    def _is_old(self, session: Session) -> bool:
        age = time.monotonic() - session.born
        return session.is_running and (session.requests >= self.most_requests or age >= self.most_seconds)


def _in_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many of their first texts are the same."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
