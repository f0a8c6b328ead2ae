"""Run expert iteration: search for proofs with the newest policy, train a policy on them, and
evaluate it.

In iteration 0 the first policy searches the training theorems, some also at NOISE_TEMPERATURE. The
pairs of its proofs train the next policy. Later iterations train on the pairs of all iterations so
far. With ENERGY=1, each iteration also trains an energy, and evaluates it at equal nodes. With
TRACED, the first policy's energy learns from traced proofs, before the first search. Finished
stages are in the record, finished searches are files, and requests are in the journal. So the same
command resumes a killed run. With GO=0 a policy's "no go" ends the run.
"""

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from core.base import seeds, terminal
from core.base.errors import UserError
from core.base.files import open_unlinked
from core.client.journal import content_key
from core.constants import identity
from core.engines.protocol import Server
from harness.session.session import Session
from labs.lean import energy, iteration_files, outcome, pairs, traced, trees
from labs.lean.constants import IterationConstants, budgets
from labs.lean.energy import ALONE, Guidance, guided
from labs.lean.outcome import Outcome, Record, keep, read_record, write_json
from labs.lean.searching import Searching
from labs.lean.served import serving
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain
from labs.lean.traced import Walking
from labs.training import process, stages
from labs.training.embeddings import Embedder
from labs.training.outcome import Options
from labs.training.served import Weights


@dataclass
class Iterations:
    """Iterations that begin with the weights `start`, train on `theorems` and evaluate on
    `held_out` theorems. `where`: the names of both sets of theorems. `folder` contains all
    iterations."""

    session: Session[IterationConstants]
    start: Weights
    theorems: Sequence[Theorem]
    held_out: Sequence[Theorem]
    where: tuple[str, str]
    lean: Toolchain
    folder: Path
    number: int = 0  # the iteration that runs

    @property
    def config(self) -> IterationConstants:
        return self.session.config

    def run(self) -> None:
        """Run or resume the iterations. Raises UserError. Ends the process if the user stops it."""
        self._reset()
        for number in iteration_files.numbers(self.config) or [0]:
            self.number = number
            if not self._iterate(number):
                return

    def _iterate(self, number: int) -> bool:
        """Run or resume an iteration, and return whether to continue."""
        before = self.policy(number - 1)
        run = self._run(number, before)
        where = " and ".join(self.where)
        record = Record.begun(self.own(number), run, self.config, self.lean, where)
        is_traced = not number and self.config.TRACED != "none"
        if is_traced and not record.stage("traced"):
            self._trace(before, record)
        outcomes = self._evaluated_before(number, before)
        if not number and outcomes:
            goes = self._goes(outcome.baseline(outcomes, self.config.MAX_NODES))
            if not goes:
                return False
        if self.config.MAX_ITERATION < 0 and not self.config.ENERGY:
            return False
        if is_traced:
            self._guide_first(before, record, outcomes)
        if not record.stage("searched"):
            self._search(number, before, record)
        if not number:
            self._guide_first(before, record, outcomes)
        if self.config.MAX_ITERATION < 0:
            return False
        policy = self.train(number, before, record)
        return self._evaluate(number, policy, record, outcomes)

    def say(self, text: str) -> None:
        """Print a line, and add it to the iteration's log."""
        terminal.say(text)
        path = self.own(self.number) / iteration_files.LOG
        with open(path, "a", encoding="utf-8", opener=open_unlinked) as log:
            log.write(f"{text}\n")

    def own(self, number: int) -> Path:
        return iteration_files.folder_of(self.folder, number)

    def policy(self, number: int) -> Weights:
        """Return an iteration's trained policy, or the first policy for -1. Raises UserError if its
        file is missing."""
        if number < 0:
            return self.start
        policy = replace(self.start, path=iteration_files.policy_in(self.own(number)))
        if not policy.path.exists():
            raise UserError(
                f"iteration {number} has not trained a policy yet. Run it first: ITERATION={number}"
            )
        return policy

    def _reset(self) -> None:
        """Move all iterations into a new iteration 0, if RESET asks for it and its record does not
        have it yet."""
        own = self.own(0)
        old = read_record(own) if (own / stages.NAME).exists() else {}
        same_run = old.get("run") == self._run(0, self.start)
        is_done = same_run and old["config"].get("RESET") == self.config.RESET
        if self.config.RESET and not is_done:
            iteration_files.put_aside(self.folder, self.config.RESET)

    def _run(self, number: int, before: Weights) -> str:
        """Return a hash of all inputs of an iteration."""
        theorems = [vars(theorem) for theorem in (*self.theorems, *self.held_out)]
        constants = identity(self.config)
        if self.config.ENERGY_START == "auto":
            constants["ENERGY_START"] = "auto"
        constants |= traced.key(self.config.TRACED)
        weights = [before.digest, self.start.digest]
        return content_key([constants, number, *weights, theorems, self.lean.name, self.lean.head])

    def _goes(self, judged: tuple[bool, str]) -> bool:
        """Print whether the figures justify more iterations, and return whether to continue."""
        goes, reason = judged
        if goes:
            self.say(f"go: {reason}")
            return True
        continues = " (continues: GO=1)" if self.config.GO else ""
        self.say(f"no go: {reason}{continues}")
        return bool(self.config.GO)

    # Searching

    @contextmanager
    def _served(
        self, policy: Weights, energy: Path | None = None
    ) -> Iterator[tuple[Session[Any], Guidance]]:
        """Serve a policy that proposes tactics. Yield a session, and the guidance by the energy in
        a folder."""
        served = serving(policy, self.config, self.folder, embeds=energy is not None)
        with served as (server, embeds):
            guidance = guided(energy, embeds) if energy else ALONE
            yield self.session.with_server(server), guidance

    def _evaluated_before(self, number: int, before: Weights) -> list[Outcome]:
        """Evaluate the policy before an iteration. For the first policy with SKIP_BASELINE=1,
        return an empty list."""
        if not number and self.config.SKIP_BASELINE:
            return []
        with self._served(before) as (session, _):
            if number:
                named = session.with_changes(name="before")
                return Searching(named, self.lean, self.own(number - 1) / "eval").of(self.held_out)
            named = session.with_changes(name="baseline")
            searching = Searching(named, self.lean, self.own(0) / "eval_before")
            for baseline in self.folder.glob("baseline*/trajectories"):
                searching.adopt(baseline, self.held_out)
            return searching.of(self.held_out)

    def _trace(self, before: Weights, record: Record) -> None:
        """Store the states of traced proofs, and the states that the first policy's tactics reach
        from them."""
        proofs = traced.given(self.config.TRACED, self.theorems)
        folder = self.own(0) / iteration_files.TRACED
        with self._served(before) as (session, _):
            session = session.with_changes(name="traced proofs", config=self.config.learning)
            walking = Walking(session, self.lean, folder, by=content_key(proofs), proofs=proofs)
            walked = walking.of([theorem for theorem in self.theorems if theorem.name in proofs])
        count = len([walk for walk in walked if walk.is_proved])
        if not count:
            raise UserError(
                f"Lean repeats no proof of TRACED ({walked[0].why}). Trace proofs of this Mathlib"
            )
        record.done("traced", {"proofs": len(proofs), "walked": count})
        self.say(f"Lean repeated {count} of {len(proofs)} traced proofs")

    def _search(self, number: int, before: Weights, record: Record) -> None:
        """Search the training theorems, unless the iteration keeps earlier searches. Write the
        pairs of all iterations so far, and the pairs to train on."""
        own = self.own(number)
        outcomes: list[Outcome] = []
        noisy: list[Outcome] = []
        keeps = (own / iteration_files.KEPT).is_dir()
        if keeps:
            for folder in iteration_files.searches_in(own, iteration_files.SEARCHED):
                outcomes += outcome.all_in(folder)
            iteration_files.check_apart(outcomes, self.held_out)
        else:
            outcomes, noisy = self._searched(number, before)
        new = [searched.pairs for searched in (*outcomes, *noisy)]
        earlier = [pairs.read(self.own(previous) / "pairs.jsonl") for previous in range(number)]
        merged = pairs.merged([*earlier, *new])
        if not merged:
            raise UserError(
                f"iteration {number} proved none of its {len(outcomes)} training theorems, so it "
                "cannot train. Use easier TRAIN_THEOREMS. Without SMOKE=1, you can also raise "
                "TRAIN_NODES"
            )
        pairs.write(own / "pairs.jsonl", merged)
        copies = islice(pairs.drawn(merged, self.config.SEED), self.config.GUISES * len(merged))
        pairs.write(own / "taught.jsonl", copies if self.config.GUISES else merged)
        result = outcome.figures(outcomes, [self.config.TRAIN_NODES])
        result |= {"pairs": len(merged), "noisy": len(noisy)}
        record.done("searched", result)
        proved = [searched for searched in outcomes if searched.is_proved]
        count = f"{len(proved)} of {len(outcomes)}"
        news = f"keeps {count} earlier searches" if keeps else f"proved {count} training theorems"
        self.say(f"iteration {number} {news} ({len(merged)} training pairs so far)")

    def _searched(self, number: int, before: Weights) -> tuple[list[Outcome], list[Outcome]]:
        """Search the training theorems. Return the outcomes, and the outcomes at
        NOISE_TEMPERATURE."""
        folder = self.own(number) / "trajectories"
        energy = self._guide(number)
        with self._served(before, energy) as (session, by):
            title = f"iteration {number} with the energy" if energy else f"iteration {number}"
            learning = session.with_changes(name=title, config=self.config.learning)
            searching = Searching(learning, self.lean, folder, by, self.config.HARVEST)
            outcomes = searching.of(self.theorems)
            noisy = [] if number else self._with_noise(session)
        return outcomes, noisy

    def _with_noise(self, session: Session[Any]) -> list[Outcome]:
        """Search some of the training theorems at NOISE_TEMPERATURE, in iteration 0."""
        config = replace(self.config.learning, TEMPERATURE=self.config.NOISE_TEMPERATURE)
        noisy = session.with_changes(name="noise", config=config)
        searching = Searching(noisy, self.lean, self.own(0) / "noisy", harvests=self.config.HARVEST)
        count = len(self.theorems)
        rng = seeds.rng(self.config.SEED, "lean", "noise")
        chosen = sorted(rng.choice(count, round(self.config.NOISE * count), replace=False))
        return searching.of([self.theorems[i] for i in chosen])

    # Training and evaluating

    def train(self, number: int, before: Weights, record: Record) -> Weights:
        """Train and return the policy of an iteration, or return the policy that its record already
        has."""
        folder = self.own(number) / "model"
        known = record.stage("trained")
        if known and (policy := self.policy(number)).digest == known["digest"]:
            return policy
        if folder.exists():  # from a run that was killed before it recorded this stage
            shutil.rmtree(folder)
        options = Options(
            model=(self.start if self.config.START == "base" else before).path,
            data=self.own(number) / "taught.jsonl",
            out=folder,
            epochs=self.config.EPOCHS,
            rate=self.config.RATE,
            lora_rank=0 if self.start.is_gguf else self.config.LORA_RANK,
            seed=seeds.derive(self.config.SEED, "lean", "train", number) % 2**31,
        )
        trained = process.train(options, self.say)
        policy = self.policy(number)
        record.done("trained", trained | {"digest": policy.digest})
        return policy

    def _evaluate(
        self, number: int, policy: Weights, record: Record, before: Sequence[Outcome]
    ) -> bool:
        """Evaluate the new policy on held-out theorems, without and with an energy. Return whether
        to continue."""
        own = self.own(number)
        config = self.config
        with self._served(policy) as (session, _):
            title = f"iteration {number}, held out"
            outcomes = Searching(session.with_changes(name=title), self.lean, own / "eval").of(
                self.held_out
            )
        result = self._figures(outcomes, before)
        write_json(own / "eval_no_energy.json", result)
        keep(own, outcomes, result)
        record.done("evaluated", result, complete=not config.ENERGY)
        rate = outcome.rate(result, config.MAX_NODES)
        gained = f", {outcome.gained(result['gain'])}" if before else ""
        self.say(f"iteration {number} solves {rate}% of {len(outcomes)} held-out theorems{gained}")
        if config.ENERGY:
            guided = self._with_energy(
                f"iteration {number}", number, policy, own, own / "eval_energy", outcomes
            )
            write_json(own / "eval.json", guided)
            record.done("guided", guided, complete=True)
            if self._guide(number + 1):
                self.say("go: the energy helps. The next iteration's training searches will use it")
            else:
                reason = "the energy is not shown to help"
                self.say(f"no go: {reason}. The next training searches will not use it")
        return not before or self._goes(outcome.risen(result["gain"], number))

    def _figures(self, outcomes: Sequence[Outcome], before: Sequence[Outcome]) -> dict[str, Any]:
        """Return the figures of an evaluation, with the gain over the searches `before` if there
        are any."""
        figures = outcome.figures(outcomes, budgets(self.config.MAX_NODES))
        if before:
            gain = outcome.compared(before, outcomes, self.config.MAX_NODES)
            figures["gain"] = vars(gain)
        return figures

    # The energy

    def _guide_first(self, before: Weights, record: Record, outcomes: Sequence[Outcome]) -> None:
        """Train and evaluate an energy for the first policy. With SKIP_BASELINE=1 this is
        skipped."""
        if outcomes and self.config.ENERGY and not record.stage("guided_before"):
            home = self.own(0) / "before"
            searches = self.own(0) / "eval_before_energy"
            guided = self._with_energy("the first policy", 0, before, home, searches, outcomes)
            record.done("guided_before", guided)

    def _with_energy(
        self,
        whose: str,
        number: int,
        policy: Weights,
        home: Path,
        searches: Path,
        alone: Sequence[Outcome],
    ) -> dict[str, Any]:
        """Train an energy in `home` on the training searches up to `number`, and evaluate it with
        `policy`. The evaluation searches held-out theorems at equal nodes. Return its figures, with
        the gain over `alone`."""
        with serving(policy, self.config, self.folder) as (server, embeds):
            auc = self._energy(number, embeds, home)["auc"]
            session = self.session.with_server(server).with_changes(
                name=f"{whose}, held out, with the energy"
            )
            by = guided(home / "energy", embeds)
            outcomes = Searching(session, self.lean, searches, by).of(self.held_out)
        result = self._figures(outcomes, alone)
        result |= {"auc": auc["held_out"], "auc_own": auc["held_out_own"]}
        self.say(
            f"{whose} with the energy: {outcome.rate(result, self.config.MAX_NODES)}%, "
            f"{outcome.gained(result['gain'])} over the same policy without it. The AUC is "
            f"{_auc(result['auc'])} on held-out trees and {_auc(result['auc_own'])} on states that "
            "the policy's own tactics reached"
        )
        return result

    def _guide(self, number: int) -> Path | None:
        """Return the folder of the energy that guides an iteration's training searches, or None.
        The policy's energy is used if it is shown to solve more theorems at equal nodes."""
        if number:
            home = self.own(number - 1)
            guided = read_record(home).get("guided")
        else:
            home = self.own(0) / "before"
            guided = read_record(self.own(0)).get("guided_before")
        helps = guided and self.config.ENERGY and guided["gain"]["low"] > 0
        return home / "energy" if helps else None

    def _energy(self, number: int, embeds: Server, home: Path) -> dict[str, Any]:
        """Embed the states of all training searches so far, train an energy on them, and return its
        energy.json."""
        parts = (*iteration_files.SEARCHED, iteration_files.TRACED)
        searches: list[Path] = []
        for earlier in range(number + 1):
            searches += iteration_files.searches_in(self.own(earlier), parts)

        async def embedded() -> int:
            async with Embedder(embeds) as embedder:
                return await energy.embed(
                    trees.texts_in(searches), home / "embeddings", embedder, self.say
                )

        new = asyncio.run(embedded())
        if new:
            self.say(f"{embeds.model} embedded {new:,} states")
        folder = home / "energy"
        if folder.is_dir():
            return read_record(folder, energy.RECORD)
        seed = seeds.derive(self.config.SEED, "lean", "energy", number) % 2**31
        args = ["--trajectories", *map(str, searches), "--embeddings", str(home / "embeddings")]
        args += ["--steps", str(self.config.STEPS), "--seed", str(seed)]
        args.append(f"--probe-logprob={self.config.PROBE_LOGPROB!r}")
        last = self.own(number - 1) if number else self.own(0) / "before"
        if self.config.ENERGY_START == "auto" and home != last and (last / "energy").is_dir():
            args += ["--begin", str(last / "energy")]
            self.say(f"the energy's training begins with the weights in {last / 'energy'}")
        return process.supervised(
            "labs.lean.energy_training", args, folder, energy.RECORD, self.say
        )


def _auc(estimate: dict[str, Any]) -> str:
    value = estimate["value"]
    return "unknown" if value is None else f"{value:.3f}"
