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
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from core.base import seeds, terminal
from core.base.errors import UserError
from core.base.files import make_folder, open_own
from core.client.journal import content_key
from core.constants import identity
from core.engines.protocol import Server
from harness.session.session import Session
from labs.lean import energy, outcome, pairs, traced, trees
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

LOG = "log.txt"  # in an iteration's folder: its lines on the screen
KEPT = "kept"  # in iteration 0 after RESET: the iterations before
SEARCHED = ("trajectories", "noisy")  # in an iteration's folder: searches of training theorems
TRACED = "traced"  # in iteration 0: states along traced proofs


def numbers(config: IterationConstants) -> Sequence[int]:
    """Return the numbers of the iterations to run."""
    return range(config.MAX_ITERATION + 1) if config.ITERATION < 0 else [config.ITERATION]


def check_apart(learned: Sequence[Theorem | Outcome], held_out: Sequence[Theorem]) -> None:
    """Raise UserError if a held-out theorem has the same statement as a training theorem."""
    known = {" ".join(theorem.statement.split()): theorem.name for theorem in learned}
    for theorem in held_out:
        if found := known.get(" ".join(theorem.statement.split())):
            raise UserError(
                f"the held-out theorem {theorem.name} has the same statement as the training "
                f"theorem {found}. Use TRAIN_THEOREMS and THEOREMS without common statements"
            )


def folder_of(folder: Path, number: int) -> Path:
    return folder / f"iteration_{number}"


def policy_in(folder: Path) -> Path:
    """Return the path of the weights (a file or folder) that the iteration in `folder` trains."""
    file = folder / "model" / "model.gguf"
    return file if file.exists() else folder / "model" / "model"


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
        """Run or resume the iterations. Raises UserError. Ends the process if the user stops the
        run."""
        self._reset()
        for number in numbers(self.config) or [0]:
            self.number = number
            before = self.policy(number - 1)
            run, where = self._run(number, before), " and ".join(self.where)
            record = Record.begun(self.own(number), run, self.config, self.lean, where)
            is_traced = not number and self.config.TRACED != "none"
            if is_traced and not record.stage("traced"):
                self._trace(before, record)
            outcomes = self._evaluated_before(number, before)
            if (
                number == 0
                and outcomes
                and not self._goes(outcome.baseline(outcomes, self.config.MAX_NODES))
            ):
                return
            if self.config.MAX_ITERATION < 0 and not self.config.ENERGY:
                return
            if is_traced:
                self._guide_first(before, record, outcomes)
            if not record.stage("searched"):
                self._search(number, before, record)
            if not number:
                self._guide_first(before, record, outcomes)
            if self.config.MAX_ITERATION < 0:
                return
            policy = self.train(number, before, record)
            if not self._evaluate(number, policy, record, outcomes):
                return

    def say(self, text: str) -> None:
        """Print a line, and add it to the iteration's log."""
        terminal.say(text)
        with open(self.own(self.number) / LOG, "a", encoding="utf-8", opener=open_own) as log:
            log.write(f"{text}\n")

    def own(self, number: int) -> Path:
        return folder_of(self.folder, number)

    def policy(self, number: int) -> Weights:
        """Return an iteration's trained policy, or the first policy for -1. Raises UserError if its
        file is missing."""
        if number < 0:
            return self.start
        policy = replace(self.start, path=policy_in(self.own(number)))
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
        is_done = (
            old.get("run") == self._run(0, self.start)
            and old["config"].get("RESET") == self.config.RESET
        )
        if is_done or not self.config.RESET:
            return
        earlier = [
            path
            for path in self.folder.glob("iteration_*")
            if re.fullmatch(r"iteration_\d+", path.name)
        ]
        if not (moving := self.folder / KEPT).exists() and not earlier:
            raise UserError(
                f"{self.folder} contains no iteration to train on. Remove RESET={self.config.RESET}"
            )
        make_folder(moving)
        for path in earlier:
            path.rename(moving / path.name)
        make_folder(own)
        moving.rename(own / KEPT)

    def _run(self, number: int, before: Weights) -> str:
        """Return a hash of all inputs of an iteration."""
        theorems = [vars(theorem) for theorem in (*self.theorems, *self.held_out)]
        own = identity(self.config) | (
            {"ENERGY_START": "auto"} if self.config.ENERGY_START == "auto" else {}
        )
        own |= traced.key(self.config.TRACED)
        return content_key(
            [
                own,
                number,
                before.digest,
                self.start.digest,
                theorems,
                self.lean.name,
                self.lean.head,
            ]
        )

    def _goes(self, judged: tuple[bool, str]) -> bool:
        """Print whether the figures justify more iterations, and return whether to continue."""
        goes, why = judged
        self.say(
            f"{'go' if goes else 'no go'}: {why}"
            + (" (continues: GO=1)" if self.config.GO and not goes else "")
        )
        return goes or bool(self.config.GO)

    # Searching

    @contextmanager
    def _served(
        self, policy: Weights, energy: Path | None = None
    ) -> Iterator[tuple[Session[Any], Guidance]]:
        """Serve a policy that proposes tactics. Yield a session, and the guidance by the energy in
        a folder."""
        with serving(policy, self.config, self.folder, embeds=energy is not None) as (
            server,
            embeds,
        ):
            yield self.session.at(server), guided(energy, embeds) if energy else ALONE

    def _evaluated_before(self, number: int, before: Weights) -> list[Outcome]:
        """Evaluate the policy before an iteration. For the first policy with SKIP_BASELINE=1,
        return an empty list."""
        if not number and self.config.SKIP_BASELINE:
            return []
        folder = self.own(number - 1) / "eval" if number else self.own(0) / "eval_before"
        with self._served(before) as (session, _):
            searching = Searching(
                session.but(name="before" if number else "baseline"), self.lean, folder
            )
            for other in [] if number else self.folder.glob("baseline*/trajectories"):
                searching.adopt(other, self.held_out)
            return searching.of(self.held_out)

    def _searches(self, number: int, parts: Sequence[str] = SEARCHED) -> list[Path]:
        """Return the folders with an iteration's `parts`, and with the same parts of iterations
        that it keeps."""
        own = self.own(number)
        kept = [
            part
            for name in parts
            for part in sorted(own.glob(f"{KEPT}/**/{name}"))
            if any(part.glob("*.parquet"))
        ]
        return [*(own / name for name in parts if (own / name).is_dir()), *kept]

    def _trace(self, before: Weights, record: Record) -> None:
        """Store the states of traced proofs, and the states that the first policy's tactics reach
        from them."""
        proofs, folder = traced.given(self.config.TRACED, self.theorems), self.own(0) / TRACED
        with self._served(before) as (session, _):
            session = session.but(name="traced proofs", config=self.config.learning)
            walking = Walking(session, self.lean, folder, by=content_key(proofs), proofs=proofs)
            walked = walking.of([theorem for theorem in self.theorems if theorem.name in proofs])
        if not (count := sum(each.is_proved for each in walked)):
            raise UserError(
                f"Lean repeats no proof of TRACED ({walked[0].why}). Trace proofs of this Mathlib"
            )
        record.done("traced", {"proofs": len(proofs), "walked": count})
        self.say(f"Lean repeated {count} of {len(proofs)} traced proofs")

    def _search(self, number: int, before: Weights, record: Record) -> None:
        """Search the training theorems, unless the iteration keeps earlier searches. Write the
        pairs of all iterations so far, and the pairs to train on."""
        own, noisy = self.own(number), list[Outcome]()
        if is_kept := (own / KEPT).is_dir():
            outcomes = [each for part in self._searches(number) for each in outcome.all_in(part)]
            check_apart(outcomes, self.held_out)
        else:
            outcomes, noisy = self._searched(number, before)
        found = [each.pairs for each in (*outcomes, *noisy)]
        earlier = [pairs.read(self.own(other) / "pairs.jsonl") for other in range(number)]
        merged = pairs.merged([*earlier, *found])
        if not merged:
            raise UserError(
                f"iteration {number} proved none of its {len(outcomes)} training theorems, so it "
                "cannot train. Use easier TRAIN_THEOREMS. Without SMOKE=1, you can also raise "
                "TRAIN_NODES"
            )
        pairs.write(own / "pairs.jsonl", merged)
        copies = islice(pairs.drawn(merged, self.config.SEED), self.config.GUISES * len(merged))
        pairs.write(own / "taught.jsonl", copies if self.config.GUISES else merged)
        result = outcome.figures(outcomes, [self.config.TRAIN_NODES]) | {
            "pairs": len(merged),
            "noisy": len(noisy),
        }
        record.done("searched", result)
        count = f"{sum(each.is_proved for each in outcomes)} of {len(outcomes)}"
        proved = (
            f"keeps {count} earlier searches" if is_kept else f"proved {count} training theorems"
        )
        self.say(f"iteration {number} {proved} ({len(merged)} training pairs so far)")

    def _searched(self, number: int, before: Weights) -> tuple[list[Outcome], list[Outcome]]:
        """Search the training theorems. Return the outcomes, and the outcomes at
        NOISE_TEMPERATURE."""
        own, config, harvests = self.own(number), self.config.learning, self.config.HARVEST
        noisy: list[Outcome] = []
        with self._served(before, energy := self._guide(number)) as (session, by):
            title = f"iteration {number}" + (" with the energy" if energy else "")
            learning = session.but(name=title, config=config)
            outcomes = Searching(learning, self.lean, own / "trajectories", by, harvests).of(
                self.theorems
            )
            if not number:
                rng, count = seeds.rng(self.config.SEED, "lean", "noise"), len(self.theorems)
                places = sorted(rng.choice(count, round(self.config.NOISE * count), replace=False))
                noise = session.but(
                    name="noise", config=replace(config, TEMPERATURE=self.config.NOISE_TEMPERATURE)
                )
                searching = Searching(noise, self.lean, own / "noisy", harvests=harvests)
                noisy = searching.of([self.theorems[place] for place in places])
        return outcomes, noisy

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
        own, config = self.own(number), self.config
        with self._served(policy) as (session, _):
            title = f"iteration {number}, held out"
            outcomes = Searching(session.but(name=title), self.lean, own / "eval").of(self.held_out)
        result = self._figures(outcomes, before)
        write_json(own / "eval_no_energy.json", result)
        keep(own, outcomes, result)
        record.done("evaluated", result, complete=not config.ENERGY)
        rate = outcome.rate(result, config.MAX_NODES)
        gained = f", {outcome.gained(result['gain'])}" if before else ""
        self.say(f"iteration {number} solves {rate}% of {len(outcomes)} held-out theorems{gained}")
        if config.ENERGY:
            found = self._with_energy(
                f"iteration {number}", number, policy, own, own / "eval_energy", outcomes
            )
            write_json(own / "eval.json", found)
            record.done("guided", found, complete=True)
            helps = "go: the energy helps. The next iteration's training searches will use it"
            not_shown = (
                "no go: the energy is not shown to help. The next training searches will not use it"
            )
            self.say(helps if self._guide(number + 1) else not_shown)
        return not before or self._goes(outcome.risen(result["gain"], number))

    def _figures(self, outcomes: Sequence[Outcome], before: Sequence[Outcome]) -> dict[str, Any]:
        """Return the figures of an evaluation, with the gain over the searches `before` if there
        are any."""
        gain = (
            {"gain": vars(outcome.compared(before, outcomes, self.config.MAX_NODES))}
            if before
            else {}
        )
        return outcome.figures(outcomes, budgets(self.config.MAX_NODES)) | gain

    # The energy

    def _guide_first(self, before: Weights, record: Record, outcomes: Sequence[Outcome]) -> None:
        """Train and evaluate an energy for the first policy. With SKIP_BASELINE=1 this is
        skipped."""
        if outcomes and self.config.ENERGY and not record.stage("guided_before"):
            home, searches = self.own(0) / "before", self.own(0) / "eval_before_energy"
            found = self._with_energy("the first policy", 0, before, home, searches, outcomes)
            record.done("guided_before", found)

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
            session = self.session.at(server).but(name=f"{whose}, held out, with the energy")
            by = guided(home / "energy", embeds)
            outcomes = Searching(session, self.lean, searches, by).of(self.held_out)
        result = self._figures(outcomes, alone) | {
            "auc": auc["held_out"],
            "auc_own": auc["held_out_own"],
        }
        values = (result[name]["value"] for name in ("auc", "auc_own"))
        every, own = ("unknown" if value is None else f"{value:.3f}" for value in values)
        self.say(
            f"{whose} with the energy: {outcome.rate(result, self.config.MAX_NODES)}%, "
            f"{outcome.gained(result['gain'])} over the same policy without it. The AUC is {every} "
            f"on held-out trees and {own} on states that the policy's own tactics reached"
        )
        return result

    def _guide(self, number: int) -> Path | None:
        """Return the folder of the energy that guides an iteration's training searches, or None.
        The policy's energy is used if it is shown to solve more theorems at equal nodes."""
        home, stage = (
            (self.own(number - 1), "guided")
            if number
            else (self.own(0) / "before", "guided_before")
        )
        guided = read_record(self.own(max(0, number - 1))).get(stage)
        return (
            home / "energy" if guided and self.config.ENERGY and guided["gain"]["low"] > 0 else None
        )

    def _energy(self, number: int, embeds: Server, home: Path) -> dict[str, Any]:
        """Embed the states of all training searches so far, train an energy on them, and return its
        energy.json."""
        searches = [
            part for each in range(number + 1) for part in self._searches(each, (*SEARCHED, TRACED))
        ]

        async def embedded() -> int:
            async with Embedder(embeds) as embedder:
                return await energy.embed(
                    trees.texts_in(searches), home / "embeddings", embedder, self.say
                )

        if new := asyncio.run(embedded()):
            self.say(f"{embeds.model} embedded {new:,} states")
        if (folder := home / "energy").is_dir():
            return read_record(folder, energy.RECORD)
        seed = seeds.derive(self.config.SEED, "lean", "energy", number) % 2**31
        args = ["--trajectories", *map(str, searches), "--embeddings", str(home / "embeddings")]
        args += ["--steps", str(self.config.STEPS), "--seed", str(seed)]
        args.append(f"--probe-logprob={self.config.PROBE_LOGPROB!r}")
        last = self.own(number - 1) if number else self.own(0) / "before"
        if self.config.ENERGY_START == "auto" and home != last and (last / "energy").is_dir():
            args += ["--begin", str(last / "energy")]
            self.say(f"the energy's training begins with the weights in {last / 'energy'}")
        return process.supervised("energy.py", args, folder, energy.RECORD, self.say)
