"""Expert iteration: search the training lemmas with the newest policy, train it on the proofs that were found, and look
what that gives on held-out ones; and learn an energy from the same searches, and look whether it helps at equal nodes.

    iteration 0: the first policy searches, noise at a higher temperature beside it -> pairs -> trained -> evaluated
    iteration n: the policy of n - 1 does the same; pairs of all iterations are merged

A stage is in the record of its iteration once its files are whole; a search that has ended is its file; requests are in
the journal. So the same command resumes wherever it was killed. It ends if the figures say no go.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from core.base import seeds, terminal
from core.base.errors import UserError
from core.base.files import write_atomically
from core.constants import identity
from core.engines.server import Server
from core.generate.journal import content_key
from core.results import stages
from core.results.write import put_aside
from core.session.session import Session
from labs.lean import embeddings, energy, figures, pairs, trees
from labs.lean.constants import IterationConstants
from labs.lean.embeddings import Embedder
from labs.lean.energy import ALONE, Guidance, guided
from labs.lean.outcome import Outcome
from labs.lean.record import NO_GO, Record, keep, read
from labs.lean.searching import Searching
from labs.lean.served import embedding, need
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain
from labs.training import process
from labs.training.served import Weights, served


def numbers(config: IterationConstants) -> Sequence[int]:
    """Return the iterations that the constants ask for."""
    return range(config.MAX_ITERATION + 1) if config.ITERATION < 0 else [config.ITERATION]


def folder_of(folder: Path, number: int) -> Path:
    """Return the folder of an iteration, in the `folder` of all."""
    return folder / f"iteration_{number}"


def policy_in(folder: Path) -> Path:
    """Return the weights that the iteration of a `folder` has trained, a file or a folder, or will train."""
    file = folder / "model" / "model.gguf"
    return file if file.exists() else folder / "model" / "model"


def untrained(folder: Path, config: IterationConstants) -> int:
    """Count the iterations without a policy yet, of those that the constants ask for."""
    return sum(not (folder_of(folder, number) / "model").exists() for number in numbers(config))


def reset(folder: Path, say: Callable[[str], None]) -> None:
    """Put aside everything that the iterations in a `folder` have left."""
    for number in count():
        if not (own := folder_of(folder, number)).exists():
            return
        kept = put_aside(own, read(own).get("started") if (own / stages.NAME).exists() else None)
        say(f"note: {own} is kept as {kept}. To continue with what begins now, leave RESET out")


@dataclass
class Iterations:
    """Iterations that begin with a policy of the weights `start`, on `theorems` to learn from and `held_out` ones.
    `where`: what these are called. `folder`: of all iterations."""

    session: Session[IterationConstants]
    start: Weights
    theorems: Sequence[Theorem]
    held_out: Sequence[Theorem]
    where: tuple[str, str]
    lean: Toolchain
    folder: Path
    say: Callable[[str], None] = terminal.say

    @property
    def config(self) -> IterationConstants:
        return self.session.config

    def run(self) -> None:
        """Run the iterations that the constants ask for, or what is left of them. Raises UserError; ends the process
        if it is stopped."""
        if self.config.RESET:
            reset(self.folder, self.say)
        for number in numbers(self.config):
            before = self._weights(number - 1)
            record = self._record(number, before)
            outcomes = self._evaluated_before(number, before)
            if number == 0 and outcomes and not self._goes(figures.baseline(outcomes, self.config.MAX_NODES, NO_GO)):
                return
            if not record.stage("searched"):
                self._search(number, before, record)
            if number == 0 and outcomes and self.config.ENERGY and not record.stage("guided_before"):
                own = self.own(0)
                found = self._with_energy(
                    "the first policy", 0, before, own / "before", own / "eval_before_energy", outcomes
                )
                record.done("guided_before", found)
            made = self._trained(number, before, record)
            if not self._evaluate(number, made, record, outcomes):
                return

    def own(self, number: int) -> Path:
        """Return the folder of an iteration."""
        return folder_of(self.folder, number)

    def _weights(self, number: int) -> Weights:
        """Return the policy that an iteration has made; -1 stands for the first. Raises UserError if there is none."""
        if number < 0:
            return self.start
        made = replace(self.start, path=policy_in(self.own(number)))
        if not made.path.exists():
            raise UserError(f"iteration {number} has made no policy yet. Run it first: ITERATION={number}")
        return made

    def _record(self, number: int, before: Weights) -> Record:
        theorems = [vars(theorem) for theorem in (*self.theorems, *self.held_out)]
        own = identity(self.config)
        run = content_key([own, number, before.digest, self.start.digest, theorems, self.lean.name, self.lean.head])
        return Record.begun(self.own(number), run, self.config, self.lean, " and ".join(self.where))

    def _goes(self, said: tuple[bool, str]) -> bool:
        """Print what the figures say; return whether to go on."""
        goes, why = said
        self.say(f"{'go' if goes else 'no go'}: {why}" + (" (GO=1 goes on)" if self.config.GO and not goes else ""))
        return goes or bool(self.config.GO)

    # Searching

    @contextmanager
    def _served(self, weights: Weights, beside: bool = False) -> Iterator[Session[IterationConstants]]:
        """Serve a policy, `beside` a server that embeds."""
        with served(weights, need(weights, self.config, beside), self.folder) as server:
            yield self.session.at(server)

    def _evaluation(
        self, title: str, session: Session[IterationConstants], folder: Path, guidance: Guidance = ALONE
    ) -> list[Outcome]:
        """Search the held-out theorems, or read the searches that are there."""
        return Searching(session.but(name=title), self.lean, folder, guidance).of(self.held_out)

    def _evaluated_before(self, number: int, before: Weights) -> list[Outcome]:
        """Return what the policy that an iteration begins with solves; nothing of the first with SKIP_BASELINE."""
        if not number and self.config.SKIP_BASELINE:
            return []
        folder = self.own(number - 1) / "eval" if number else self.own(0) / "eval_before"
        with self._served(before) as session:
            return self._evaluation("before" if number else "baseline", session, folder)

    def _search(self, number: int, before: Weights, record: Record) -> None:
        """Search what is learned from, and write the pairs of all iterations so far."""
        own, config = self.own(number), self.config.learning
        helps = bool(number) and self._helps(number - 1)
        noisy: list[Outcome] = []
        with (
            embedding(before, self.folder) if helps else nullcontext() as embeds,
            self._served(before, beside=helps) as session,
        ):
            by = guided(self.own(number - 1) / "energy", embeds, self.config) if embeds else ALONE
            harvests = self.config.HARVEST
            title = f"iteration {number}" + (" with the energy" if helps else "")
            learning = session.but(name=title, config=config)
            outcomes = Searching(learning, self.lean, own / "trajectories", by, harvests).of(self.theorems)
            if not number and (drawn := self._noisy()):
                noise = session.but(name="noise", config=replace(config, TEMPERATURE=self.config.NOISE_TEMPERATURE))
                noisy = Searching(noise, self.lean, own / "noisy", harvests=harvests).of(drawn)
        found = [each.pairs for each in (*outcomes, *noisy)]
        earlier = [pairs.read(self.own(other) / "pairs.jsonl") for other in range(number)]
        merged = pairs.merged([*earlier, *found])
        if not merged:
            raise UserError(
                f"iteration {number} proved none of {len(outcomes)} theorems, so that there is nothing to train on. "
                "Give more TRAIN_NODES, or easier theorems"
            )
        pairs.write(own / "pairs.jsonl", merged)
        guised = islice(pairs.drawn(merged, self.config.SEED), self.config.GUISES * len(merged))
        pairs.write(own / "taught.jsonl", guised if self.config.GUISES else merged)
        told = figures.figures(outcomes, [self.config.TRAIN_NODES]) | {"pairs": len(merged), "noisy": len(noisy)}
        record.done("searched", told)
        proved = sum(each.is_proved for each in outcomes)
        self.say(f"iteration {number}: {proved} of {len(outcomes)} training theorems proved, {len(merged)} pairs")

    def _noisy(self) -> list[Theorem]:
        """Draw the theorems that are searched at NOISE_TEMPERATURE too."""
        rng = seeds.rng(self.config.SEED, "lean", "noise")
        chosen = rng.choice(len(self.theorems), round(self.config.NOISE * len(self.theorems)), replace=False)
        return [self.theorems[place] for place in sorted(chosen)]

    # Training and evaluating

    def _trained(self, number: int, before: Weights, record: Record) -> Weights:
        """Return the policy that an iteration trains; the same is not trained twice."""
        folder = self.own(number) / "model"
        if known := record.stage("trained"):
            made = self._weights(number)
            if made.digest == known["digest"]:
                return made
        if folder.exists():  # of a run that was killed before this was recorded
            shutil.rmtree(folder)
        told = process.train(
            (self.start if self.config.START == "base" else before).path,
            self.own(number) / "taught.jsonl",
            folder,
            epochs=self.config.EPOCHS,
            rate=self.config.RATE,
            lora_rank=0 if self.start.is_gguf else self.config.LORA_RANK,
            seed=seeds.derive(self.config.SEED, "lean", "train", number) % 2**31,
            say=self.say,
        )
        made = self._weights(number)
        record.done("trained", told | {"digest": made.digest})
        return made

    def _evaluate(self, number: int, made: Weights, record: Record, before: Sequence[Outcome]) -> bool:
        """Search the held-out theorems with the new policy, without and with an energy; return whether to go on."""
        own, config = self.own(number), self.config
        with self._served(made) as session:
            outcomes = self._evaluation(f"iteration {number}, held out", session, own / "eval")
        told = figures.figures(outcomes, config.budgets)
        if before:
            told["gain"] = vars(figures.compared(before, outcomes, config.MAX_NODES))
        write_atomically(own / "eval_no_energy.json", figures.as_json(told))
        keep(own, outcomes, told)
        record.done("evaluated", told, complete=not config.ENERGY)
        rate = figures.rate(told, config.MAX_NODES)
        gained = f", {figures.gained(told['gain'])}" if before else ""
        self.say(f"iteration {number}: {rate}% of {len(outcomes)} held-out theorems{gained}")
        if config.ENERGY:
            found = self._with_energy(f"iteration {number}", number, made, own, own / "eval_energy", outcomes)
            write_atomically(own / "eval.json", figures.as_json(found))
            record.done("guided", found, complete=True)
            goes = self._helps(number)
            self.say(f"{'go' if goes else 'no go'}: the energy {'helps' if goes else 'is not shown to help'}, so that "
                     f"searches to learn from {'use it' if goes else 'leave it out'}")  # fmt: skip
        return not before or self._goes(figures.risen(told["gain"], number))

    # The energy

    def _with_energy(
        self, whose: str, number: int, policy: Weights, home: Path, searches: Path, alone: Sequence[Outcome]
    ) -> dict[str, Any]:
        """Learn an energy for a policy, in `home`, from the searches up to an iteration, and search the held-out
        theorems with it: same policy, same nodes. Return the figures, with the gain on the outcomes `alone`."""
        with embedding(policy, self.folder) as embeds:
            auc = self._energy(number, embeds, home)["auc"]
            with self._served(policy, beside=True) as session:
                guidance = guided(home / "energy", embeds, self.config)
                outcomes = self._evaluation(f"{whose}, held out, with the energy", session, searches, guidance)
        told = figures.figures(outcomes, self.config.budgets)
        told |= {"auc": auc["held_out"], "auc_own": auc["held_out_own"]}
        told["gain"] = vars(figures.compared(alone, outcomes, self.config.MAX_NODES))
        aucs = [
            "unknown" if told[name]["value"] is None else f"{told[name]['value']:.3f}" for name in ("auc", "auc_own")
        ]
        self.say(
            f"{whose} with the energy (AUC on held-out trees: {aucs[0]}, of the policy's own tactics {aucs[1]}): "
            f"{figures.rate(told, self.config.MAX_NODES)}%, {figures.gained(told['gain'])} on the same policy without"
        )
        return told

    def _helps(self, number: int) -> bool:
        """Whether an iteration's energy is shown to gain at equal nodes."""
        told = read(self.own(number)).get("guided")
        return bool(told and self.config.ENERGY and told["gain"]["low"] > 0)

    def _energy(self, number: int, embeds: Server, home: Path) -> dict[str, Any]:
        """Embed the states of the searches up to an iteration, and train an energy on them, or what is left of that.
        Return its energy.json."""
        parts = [self.own(each) / part for each in range(number + 1) for part in ("trajectories", "noisy")]
        searches = [part for part in parts if part.is_dir()]
        config = self.config

        async def embedded() -> int:
            async with Embedder(embeds, config.ENCODE_BATCH_SIZE, config.ENCODE_CONCURRENCY) as asking:
                return await embeddings.embed(trees.texts_in(searches), home / "embeddings", asking, self.say)

        if new := asyncio.run(embedded()):
            self.say(f"{new:,} states embedded by {embeds.model}")
        if (folder := home / "energy").is_dir():
            return read(folder, energy.RECORD)
        return energy.train(
            searches,
            home / "embeddings",
            folder,
            steps=config.STEPS,
            seed=seeds.derive(config.SEED, "lean", "energy", number) % 2**31,
            probe=config.PROBE_LOGPROB,
            resume=config.RESUME,
            say=self.say,
        )
