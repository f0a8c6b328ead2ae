"""NUM_WORKERS sessions beside each other, each with limits, replaced when it is old; and checks of whole proofs.

A request goes to an idle session whose open file is nearest to it: with the same statement and the longest path of
tactics in common, Lean has the least to run again. A request that nobody waits for any more is let run to its end:
most tactics take less time than Lean takes to start again.
"""

import asyncio
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from labs.lean import guard
from labs.lean.accept import accept
from labs.lean.constants import LeanConstants
from labs.lean.search import Failed, Proposes, Scores, World
from labs.lean.session import Session
from labs.lean.theorem import Step, Theorem, Verdict
from labs.lean.toolchain import Toolchain

MOST_REQUESTS = 1000  # of one process: Lean keeps memory of what it has seen
MOST_SECONDS = 30 * 60  # of its life


class Workers:
    """`count` sessions of one Lean, each started when it is first needed, and as many checks at once. A tactic may take
    `seconds`, a check `accept_seconds`."""

    def __init__(
        self,
        toolchain: Toolchain,
        count: int,
        seconds: float = LeanConstants.TACTIC_SECONDS,
        accept_seconds: float = LeanConstants.ACCEPT_SECONDS,
    ) -> None:
        self.toolchain, self.accept_seconds = toolchain, accept_seconds
        self.sessions = [Session(toolchain, seconds) for _ in range(count)]
        self._checks = asyncio.Semaphore(count)
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

    async def run(self, statement: str, tactics: Sequence[str] = ()) -> Step:
        """Do Session.run by one of them."""
        path = (statement, *tactics)
        async with self._free:
            await self._free.wait_for(lambda: self._idle)
            session = max(self._idle, key=lambda idle: _in_common(idle.open, path))
            self._idle.remove(session)
        task = asyncio.create_task(self._by(session, statement, tactics))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def accept(self, theorem: Theorem, tactics: Sequence[str]) -> Verdict:
        """Return the verdict on a whole proof. Raises Failed if Lean can't be started."""
        async with self._checks:
            try:
                return await accept(self.toolchain, theorem, tactics, self.accept_seconds)
            except OSError as error:
                raise Failed(f"Lean could not be started ({error.strerror})") from None

    def world(self, theorem: Theorem, propose: Proposes, energy: Scores | None = None) -> World:
        """Return what a theorem is searched with."""
        return World(
            run=lambda tactics: self.run(theorem.statement, tactics),
            propose=propose,
            accept=lambda tactics: self.accept(theorem, tactics),
            energy=energy,
            refused=guard.refused,
        )

    async def _by(self, session: Session, statement: str, tactics: Sequence[str]) -> Step:
        """Return the answer of `session`, which is idle again afterwards."""
        try:
            if session.requests >= MOST_REQUESTS or time.monotonic() - session.born >= MOST_SECONDS:
                await session.end()
            return await session.run(statement, tactics)
        finally:
            self._idle.append(session)
            async with self._free:
                self._free.notify_all()  # one alone may be cancelled just then, and take the news with it


def _in_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many of their first texts are the same."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
