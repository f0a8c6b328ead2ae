"""Expert iteration: search the training lemmas with the newest policy, train it on the proofs that were found, and look
what that gives on held-out ones.

    iteration 0: the first policy searches, noise at a higher temperature beside it -> pairs -> trained -> evaluated
    iteration n: the policy of n - 1 does the same; pairs of all iterations are merged

A stage stands in the record of its iteration once its files are whole; a search that has ended is its file; what was
asked is in the journal. So the same command goes on wherever it was killed. It ends where the figures say no go.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from core import seeds
from core.constants import rules
from core.engines.need import Need
from core.engines.server import Server
from core.errors import UserError
from core.files import write_atomically
from core.generate.journal import Journal, content_key
from core.lean import figures, pairs
from core.lean.constants import IterationConstants, LeanConstants
from core.lean.outcome import Outcome
from core.lean.record import NO_GO, Record, keep
from core.lean.searching import SAME_SEARCH, Searching
from core.lean.theorem import Theorem
from core.lean.toolchain import Toolchain
from core.run import check_context
from core.signals import Stop
from core.star import train
from core.star.served import Weights, served

SAME_RUN = (*SAME_SEARCH, "ITERATION", "MAX_ITERATION", "GO")  # what may change without making it another run
SEARCHED, TRAINED, EVALUATED = "searched", "trained", "evaluated"  # stages of an iteration


@dataclass
class Iterations:
    """Of a policy that begins as the weights `start`; `theorems` to learn from, and `held_out` ones. `where`: what
    these are called. `folder`: of all iterations."""

    config: IterationConstants
    start: Weights
    theorems: Sequence[Theorem]
    held_out: Sequence[Theorem]
    where: tuple[str, str]
    lean: Toolchain
    folder: Path
    journal: Journal
    stop: Stop
    say: Callable[[str], None] = print

    def run(self) -> None:
        """Those that the constants ask for, or what is left of them. Raises UserError; ends the process where it is
        stopped."""
        one = self.config.ITERATION
        for number in range(self.config.MAX_ITERATION + 1) if one < 0 else [one]:
            before = self._weights(number - 1)
            record = self._record(number, before)
            outcomes = self._evaluated_before(number, before)
            if number == 0 and not self._goes(figures.baseline(outcomes, self.config.MAX_NODES, NO_GO)):
                return
            if SEARCHED not in record.told:
                self._search(number, before, record)
            made = self._trained(number, before, record)
            if not self._evaluate(number, made, record, outcomes):
                return

    def own(self, number: int) -> Path:
        """The folder of an iteration."""
        return self.folder / f"iteration_{number}"

    def _weights(self, number: int) -> Weights:
        """The policy that an iteration has made; that of -1 is the first. Raises UserError where there is none."""
        if number < 0:
            return self.start
        name = "model.gguf" if self.start.is_gguf else "model"
        made = Weights(self.own(number) / "model" / name)
        if not made.path.exists():
            raise UserError(f"iteration {number} has made no policy yet. Run it first: ITERATION={number}")
        return made

    def _record(self, number: int, before: Weights) -> Record:
        own = {name: getattr(self.config, name) for name in rules(type(self.config)) if name not in SAME_RUN}
        theorems = [vars(theorem) for theorem in (*self.theorems, *self.held_out)]
        run = content_key([own, number, before.digest, self.start.digest, theorems, self.lean.name, self.lean.head])
        return Record.begun(self.own(number), run, self.config, self.lean, " and ".join(self.where))

    def _goes(self, said: tuple[bool, str]) -> bool:
        """Print what the figures say; whether to go on."""
        goes, why = said
        self.say(f"{'go' if goes else 'no go'}: {why}" + (" (GO=1 goes on)" if self.config.GO and not goes else ""))
        return goes or bool(self.config.GO)

    # Searching

    @contextmanager
    def _served(self, weights: Weights) -> Iterator[Server]:
        self.folder.mkdir(exist_ok=True)
        with served(weights, Need(0, self.config.MAX_TOKENS, 0), self.folder) as server:
            check_context(server, self.config)
            yield server

    def _searching(self, title: str, config: LeanConstants, server: Server, folder: Path, harvests: int) -> Searching:
        return Searching(title, config, server, self.journal, self.lean, folder, harvests=harvests)

    def _evaluation(self, title: str, server: Server, folder: Path) -> list[Outcome]:
        """Searches of the held-out theorems; those that are there are read."""
        return self._searching(title, self.config, server, folder, 0).of(self.held_out, self.stop)

    def _evaluated_before(self, number: int, before: Weights) -> list[Outcome]:
        """What the policy that an iteration begins with solves."""
        folder = self.own(number - 1) / "eval" if number else self.own(0) / "eval_before"
        with self._served(before) as server:
            return self._evaluation("before" if number else "baseline", server, folder)

    def _search(self, number: int, before: Weights, record: Record) -> None:
        """Search what is learned from, and write the pairs of all iterations so far."""
        own, config = self.own(number), self.config.learning
        with self._served(before) as server:
            harvests = self.config.HARVEST
            searching = self._searching(f"iteration {number}", config, server, own / "trajectories", harvests)
            outcomes = searching.of(self.theorems, self.stop)
            noisy: list[Outcome] = []
            if not number and (drawn := self._noisy()):
                hot = replace(config, TEMPERATURE=self.config.NOISE_TEMPERATURE)
                noisy = self._searching("noise", hot, server, own / "noisy", harvests).of(drawn, self.stop)
        found = [each.pairs for each in (*outcomes, *noisy)]
        earlier = [pairs.read(self.own(other) / "pairs.jsonl") for other in range(number)]
        merged = pairs.merged([*earlier, *found])
        if not merged:
            raise UserError(
                f"iteration {number} proved none of {len(outcomes)} theorems, so that there is nothing to train on. "
                "Give more TRAIN_NODES, or easier theorems"
            )
        pairs.write(own / "pairs.jsonl", merged)
        told = figures.figures(outcomes, [self.config.TRAIN_NODES]) | {"pairs": len(merged), "noisy": len(noisy)}
        record.save(complete=False, **{SEARCHED: told})
        proved = sum(each.is_proved for each in outcomes)
        self.say(f"iteration {number}: {proved} of {len(outcomes)} training theorems proved, {len(merged)} pairs")

    def _noisy(self) -> list[Theorem]:
        """The theorems that are searched at NOISE_TEMPERATURE too."""
        rng = seeds.rng(self.config.SEED, "lean", "noise")
        chosen = rng.choice(len(self.theorems), round(self.config.NOISE * len(self.theorems)), replace=False)
        return [self.theorems[place] for place in sorted(chosen)]

    # Training and evaluating

    def _trained(self, number: int, before: Weights, record: Record) -> Weights:
        """The policy that an iteration trains; it is there already where the same was trained before."""
        folder = self.own(number) / "model"
        if known := record.told.get(TRAINED):
            made = self._weights(number)
            if made.digest == known["digest"]:
                return made
        if folder.exists():  # of a run that was killed before this was recorded
            shutil.rmtree(folder)
        told = train.train(
            (self.start if self.config.START == "base" else before).path,
            self.own(number) / "pairs.jsonl",
            folder,
            epochs=self.config.EPOCHS,
            rate=self.config.RATE,
            lora_rank=0 if self.start.is_gguf else self.config.LORA_RANK,
            seed=seeds.derive(self.config.SEED, "lean", "train", number) % 2**31,
            say=self.say,
        )
        made = self._weights(number)
        record.save(complete=False, **{TRAINED: told | {"digest": made.digest}})
        return made

    def _evaluate(self, number: int, made: Weights, record: Record, before: Sequence[Outcome]) -> bool:
        """Search the held-out theorems with the new policy; whether to go on."""
        own, config = self.own(number), self.config
        with self._served(made) as server:
            outcomes = self._evaluation(f"iteration {number}, held out", server, own / "eval")
        told = figures.figures(outcomes, config.budgets)
        gain = vars(figures.compared(before, outcomes, config.MAX_NODES))
        write_atomically(own / "eval_no_energy.json", figures.as_json(told | {"gain": gain}))
        keep(own, outcomes, told)
        record.save(complete=True, **{EVALUATED: told | {"gain": gain}})
        rate = figures.rate(told, config.MAX_NODES)
        self.say(f"iteration {number}: {rate}% of {len(outcomes)} held-out theorems, {figures.gained(gain)}")
        return self._goes(figures.risen(gain, number))
