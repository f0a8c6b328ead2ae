"""Search many theorems, several beside each other, with one server's policy and one Lean; what each came to is a file.

Tactics come from the journal where they were asked before, and a search that has ended is its file: killed anywhere,
the same command goes on.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from core.base import seeds
from core.base.errors import foremost
from core.base.signals import Stop
from core.constants import identity
from core.engines.server import Server
from core.generate.generator import Generator
from core.generate.journal import Journal, content_key
from core.plan.progress import ANY, Expected, Forecast
from core.session.bar import Bar
from core.types import Completion, Message, Sampling
from labs.lean import outcome, trajectories
from labs.lean.constants import LeanConstants
from labs.lean.guide import ALONE, Guidance
from labs.lean.outcome import Outcome
from labs.lean.policy import Policy, longest
from labs.lean.search import ERROR, search
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain
from labs.lean.workers import Workers
from labs.lean.world import Bench, Proposes, Scores

A_WORKER = 2  # theorems in flight for each of Lean's processes: while one's tactics are thought of, the other's run


@dataclass
class Searching:
    """`folder`: where outcomes and trajectories go. `harvests`: tactics that are applied to a found proof's states
    behind it, at most, for their states. `proposing`: proposes tactics in the policy's place, identified by `by`."""

    title: str
    config: LeanConstants
    server: Server
    journal: Journal
    toolchain: Toolchain
    folder: Path
    guidance: Guidance = ALONE
    harvests: int = 0
    proposing: Proposes | None = None
    by: str = ""
    _generator: Generator = field(init=False)

    @property
    def run(self) -> str:
        """All that its searches follow from but for the theorem."""
        lean = [self.toolchain.name, self.toolchain.head]
        known = [self.server.identity, self.server.told, lean, self.guidance.by, self.by, self.harvests]
        return content_key([identity(self.config, LeanConstants), *known])

    def of(self, theorems: Sequence[Theorem], stop: Stop) -> list[Outcome]:
        """What all come to, in order. Raises UserError; stopped, says what is kept and ends the process."""
        try:
            return asyncio.run(self._all(theorems, stop))
        except (KeyboardInterrupt, asyncio.CancelledError):
            ended = sum(self._known(theorem) is not None for theorem in theorems)
            print(f"\nstopped; {ended} of {len(theorems)} searches are in {self.folder}. ", end="")
            print("Run the same command again to go on.", flush=True)
            raise SystemExit(130) from None

    def _known(self, theorem: Theorem) -> Outcome | None:
        """What its search has come to; None where it has not ended, or ended for a failure that may be gone now."""
        found = outcome.read(self.folder, theorem, self.run)
        return None if found and found.reason == ERROR else found

    async def _all(self, theorems: Sequence[Theorem], stop: Stop) -> list[Outcome]:
        made = {theorem.name: known for theorem in theorems if (known := self._known(theorem))}
        owed = [theorem for theorem in theorems if theorem.name not in made]
        if not owed:
            return [made[theorem.name] for theorem in theorems]
        most = self.config.MAX_NODES * self.config.CANDIDATES
        limit = self.config.CONCURRENCY or self.server.limit
        places = asyncio.Semaphore(A_WORKER * self.config.NUM_WORKERS)
        forecast = Forecast({ANY: Expected(most * len(owed), 1.0, 1.0)})

        def count(completion: Completion, is_new: bool) -> None:
            bar.arrived(completion, is_new)
            forecast.arrived(ANY, completion.counted[-1], is_new)

        def so_far() -> str:
            return f"{sum(each.is_proved for each in made.values())} of {len(made)} proved"

        async def one(theorem: Theorem) -> None:
            try:
                made[theorem.name] = found = await self._one(theorem, bench, energy)
            finally:
                places.release()
            bar.total -= most - found.counts.get("requests", 0)

        with stop.cancelling(), Bar(self.title, most * len(owed), forecast) as bar:
            self._generator = Generator(
                self.server, self.journal, limit, self.config.TIMEOUT, count, self.config.STALL_SECONDS, say=bar.write
            )
            workers = Workers(self.toolchain, self.config.NUM_WORKERS, self.config.TACTIC_SECONDS)
            bench = Bench(self.toolchain, workers, self.config.ACCEPT_SECONDS, longest(self.server.context))
            try:
                async with (
                    bar.beating(self._generator, so_far),
                    self._generator,
                    workers,
                    self.guidance.opened() as energy,
                    asyncio.TaskGroup() as tasks,
                ):
                    for theorem in owed:
                        await places.acquire()
                        tasks.create_task(one(theorem))
            except BaseExceptionGroup as errors:
                raise foremost(errors) from None
        return [made[theorem.name] for theorem in theorems]

    async def _one(self, theorem: Theorem, bench: Bench, energy: Scores | None) -> Outcome:
        sampling = Sampling.of(self.server.card.sampled(self.config))

        async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
            return await self._generator(messages, seeds.derive(self.config.SEED, *names), replace(sampling, **changes))

        policy, began = Policy(theorem.name, ask, self.config), time.time()
        world = bench.world(theorem, self.proposing or policy, energy)
        found = await search(theorem.name, world, self.config)
        if self.harvests and found.is_proved:
            found = await trajectories.harvest(found, world.apply, self.harvests)
        trajectories.write(self.folder, found, round(1000 * began))
        made = Outcome.of(self.run, theorem, found, policy.counts)
        outcome.write(self.folder, made)
        return made
