"""Search many theorems in parallel with one server's policy and one Lean, and write each outcome
and tree to files.

A resumed run reads tactics from the journal, and finished searches from their files.
"""

import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.base import seeds, signals
from core.client.journal import content_key
from core.constants import identity
from core.generate import Generator
from core.types import Completion, Message, Sampling
from harness.session.bar import Bar
from harness.session.round import Round
from harness.session.session import Session, stopped
from labs.lean import outcome, trajectories
from labs.lean.constants import LeanConstants
from labs.lean.energy import ALONE, Guidance
from labs.lean.outcome import Outcome
from labs.lean.policy import Policy
from labs.lean.search import ERROR, Found, Proposes, Scores, World, search
from labs.lean.session import Workers
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain

# theorems searched at once per Lean process: while one waits for tactics, Lean works for the other
A_WORKER = 2


@dataclass
class Searching:
    """Searches in a `session`. They write outcomes and trajectories to `folder`. `harvests`: most
    untried tactics to apply in a proof's states after the search. `proposing` replaces the policy.
    `by` identifies this replacement in `run`."""

    session: Session[LeanConstants]
    toolchain: Toolchain
    folder: Path
    guidance: Guidance = ALONE
    harvests: int = 0
    proposing: Proposes | None = None
    by: str = ""

    @property
    def run(self) -> str:
        """A hash of all inputs of the searches except the theorem."""
        lean = [self.toolchain.name, self.toolchain.head]
        server = self.session.server
        known = [server.identity, server.key_fields, lean, self.guidance.by, self.by, self.harvests]
        return content_key([identity(self.session.config, LeanConstants), *known])

    def of(self, theorems: Sequence[Theorem]) -> list[Outcome]:
        """Return the outcomes of theorems, in order. Raises UserError. Ends the process if the user
        stops the run."""

        def kept() -> str:
            ended = sum(self._known(theorem) is not None for theorem in theorems)
            return f"{ended} of {len(theorems)} searches are saved in {self.folder}"

        with stopped(kept):
            return signals.run(self._all(theorems))

    def adopt(self, other: Path, theorems: Sequence[Theorem]) -> None:
        """Copy the files of finished searches with the same inputs from the folder `other`."""
        for theorem in theorems:
            if not self._known(theorem) and outcome.read(other, theorem, self.run):
                self.folder.mkdir(parents=True, exist_ok=True)
                for path in (
                    outcome.path_of(other, theorem.name),
                    trajectories.part(other, theorem.name),
                ):
                    shutil.copy(path, self.folder)

    def _known(self, theorem: Theorem) -> Outcome | None:
        """Return a theorem's outcome, or None if this run has not finished its search or repeats it
        after an ERROR."""
        found = outcome.read(self.folder, theorem, self.run)
        return None if found and found.reason == ERROR else found

    async def _all(self, theorems: Sequence[Theorem]) -> list[Outcome]:
        config = self.session.config
        ended = {theorem.name: known for theorem in theorems if (known := self._known(theorem))}
        if not (owed := [theorem for theorem in theorems if theorem.name not in ended]):
            return [ended[theorem.name] for theorem in theorems]
        begun: dict[str, float] = {}
        with Bar(self.session.name, len(owed), "theorems") as bar:
            bar.ages = lambda: [time.monotonic() - began for began in begun.values()]

            async def one(
                theorem: Theorem, generator: Generator, own: tuple[Workers, Scores | None]
            ) -> None:
                begun[theorem.name] = time.monotonic()
                ended[theorem.name] = await self._one(theorem, generator, *own)
                bar.ended(time.monotonic() - begun.pop(theorem.name))

            def so_far(_: object) -> str:
                return f"{sum(each.is_proved for each in ended.values())} of {len(ended)} proved"

            places = A_WORKER * config.NUM_WORKERS
            searching = Round[None](self.session, bar, places, so_far, bar.note)
            await searching.run(owed, one, self._workers())
        return [ended[theorem.name] for theorem in theorems]

    @asynccontextmanager
    async def _workers(self) -> AsyncIterator[tuple[Workers, Scores | None]]:
        """Open the Lean workers, and the function that scores states (None without guidance)."""
        config = self.session.config
        async with (
            Workers(self.toolchain, config.NUM_WORKERS, config) as workers,
            self.guidance.opened() as energy,
        ):
            yield workers, energy

    async def _one(
        self, theorem: Theorem, generator: Generator, workers: Workers, energy: Scores | None
    ) -> Outcome:
        config = self.session.config
        sampling = Sampling.from_config(self.session.server.card.sampled(config))

        async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
            return await generator(
                messages, seeds.derive(config.SEED, *names), replace(sampling, **changes)
            )

        policy, began = Policy(theorem.name, ask, config), time.time()
        world = workers.world(theorem, self.proposing or policy, energy)
        found = await self._found(theorem, world, config)
        trajectories.write(self.folder, found, round(1000 * began))
        result = Outcome.of(self.run, theorem, found, policy.counts)
        outcome.write(self.folder, result)
        return result

    async def _found(self, theorem: Theorem, world: World, config: LeanConstants) -> Found:
        return await trajectories.harvest(
            await search(theorem.name, world, config), world.run, self.harvests
        )
