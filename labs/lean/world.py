"""What a theorem is searched with: Lean's workers behind the guard, acceptance, a policy, and an energy where there is
one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from labs.lean import guard
from labs.lean.accept import Verdict, accept
from labs.lean.search import TOO_LONG, Candidate, Failed, State, World
from labs.lean.session import Step
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain
from labs.lean.workers import Workers

Proposes = Callable[[State], Awaitable[Sequence[Candidate]]]  # a Policy, say
Scores = Callable[[Sequence[State]], Awaitable[Sequence[float] | None]]


@dataclass
class Bench:
    """What all theorems share: a Lean, its workers, and as many fresh processes of it beside each other that check
    whole proofs, each within `accept_seconds`. A state of more than `longest` characters is an error."""

    toolchain: Toolchain
    workers: Workers
    accept_seconds: float
    longest: int
    _gate: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._gate = asyncio.Semaphore(len(self.workers.sessions))

    def world(self, theorem: Theorem, policy: Proposes, energy: Scores | None = None) -> World:
        """What labs.lean.search searches `theorem` with."""

        async def bounded(asked: Awaitable[Step]) -> Step:
            step = await asked
            is_long = step.state is not None and len(step.state.pp) > self.longest
            return Step(None, TOO_LONG) if is_long else step

        return World(
            start=lambda: bounded(self.workers.start(theorem.statement)),
            propose=policy,
            apply=lambda tactics, tactic: bounded(self.workers.apply(theorem.statement, tactics, tactic)),
            accept=lambda tactics: self.accepted(theorem, tactics),
            energy=energy,
            refused=guard.refused,
        )

    async def accepted(self, theorem: Theorem, tactics: Sequence[str]) -> Verdict:
        """The verdict on a whole proof. Raises Failed where Lean can't be started."""
        async with self._gate:
            try:
                return await accept(self.toolchain, theorem, tactics, self.accept_seconds)
            except OSError as error:
                raise Failed(f"Lean could not be started ({error.strerror})") from None
