"""Run NUM_WORKERS Lean sessions in parallel, replace old ones, and check whole proofs.

A request goes to the idle session whose open file is nearest to it: the more tactics they share, the less Lean runs
again. A request that is no longer awaited still runs to its end, since most tactics take less time than Lean's start.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Self

from labs.lean import guard
from labs.lean.accept import accept
from labs.lean.constants import LeanConstants
from labs.lean.search import Failed, Proposes, Scores, World
from labs.lean.session import Session, in_common
from labs.lean.theorem import Step, Theorem, Verdict
from labs.lean.toolchain import Toolchain

MOST_REQUESTS = 1000  # of one process: Lean keeps memory of all requests
MOST_SECONDS = 30 * 60  # of its life


class Workers:
    """A pool of `count` sessions of one Lean, started on demand, and as many checks at once.

    A tactic may take `seconds`, a check `accept_seconds`."""

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

    async def __aexit__(self, *about: object) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for session in self.sessions:
            await session.end()

    async def run(self, statement: str, tactics: Sequence[str] = ()) -> Step:
        """Call Session.run of the nearest idle session."""
        path = (statement, *tactics)
        async with self._free:
            await self._free.wait_for(lambda: self._idle)
            session = max(self._idle, key=lambda idle: in_common(idle.open, path))
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
        """Return the world in which a theorem is searched."""
        return World(
            run=lambda tactics: self.run(theorem.statement, tactics),
            propose=propose,
            accept=lambda tactics: self.accept(theorem, tactics),
            energy=energy,
            refused=guard.refused,
        )

    async def _by(self, session: Session, statement: str, tactics: Sequence[str]) -> Step:
        try:
            if session.requests >= MOST_REQUESTS or time.monotonic() - session.born >= MOST_SECONDS:
                await session.end()
            return await session.run(statement, tactics)
        finally:
            self._idle.append(session)
            async with self._free:
                self._free.notify_all()  # a single waiter may be cancelled just then, and the notice lost
