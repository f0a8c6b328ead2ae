"""Run the rounds of STaR: serve the newest weights, evaluate them, collect and merge traces, stop
the server and train.

A stage uses only the constants, the problems and the recorded results of earlier stages. So a
killed run resumes in the stage in which it was killed. The journal has the replies of that stage so
far."""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from core.base import seeds
from core.base.errors import UserError
from core.base.files import sha256
from core.base.stats import mean_by_problem
from core.base.terminal import say
from core.constants import C, rules
from core.engines.cards import NONE
from core.engines.need import Need
from core.rsa import SampleConstants
from core.types import Completion, Message, Problem, Scaffold, Wording
from harness import framing
from harness.framing import Framing
from harness.report import compare
from harness.report.data import Results
from harness.report.tables import interval, shift
from harness.results.proof_points import undelivered
from harness.run import run_all
from harness.session.bar import Bar
from harness.session.experiment import Experiment
from harness.session.session import Session
from labs.star import data, traces
from labs.star import report as rounds
from labs.star.collect import Sample, answering, collecting, ended, formed, output
from labs.star.constants import StarConstants
from labs.star.counts import broken, counted, reasons_in, spent
from labs.star.data import Split
from labs.star.prompts import FORMAT, HINT, asked
from labs.star.record import RATIONALISED, WAYS, Record, score
from labs.star.traces import Trace
from labs.training import process
from labs.training.outcome import Options
from labs.training.served import Weights, served
from labs.training.starts import ADAPTER

# a round's own traces, and all traces so far, merged
COLLECTED, TRACES = "collected.jsonl", "traces.jsonl"
GREEDY = {"TEMPERATURE": 0.0, "SAMPLING": "file", "SEED": 0, "N": 1}


@dataclass
class Loop:
    """A run of STaR that begins with the weights `start`, uses the problems of `split` and writes
    `record`. `tokens` has the number of tokens to train on in each round, from round 1. If it is
    set, EPOCHS is ignored."""

    session: Session[StarConstants]
    split: Split
    start: Weights
    record: Record
    tokens: Sequence[int] | None = None

    prompts: ClassVar[tuple[str | Wording, ...]] = (FORMAT, HINT)  # results record their hash

    @property
    def config(self) -> StarConstants:
        return self.session.config

    def run(self) -> Record:
        """Run or resume the rounds until ROUNDS or PATIENCE ends them. Raises UserError. Signals
        end the process."""
        for number in range(self.config.ROUNDS + 1):
            weights = self._trained(number) if number else self.start
            with ExitStack() as running:

                @cache
                def serve(
                    weights: Weights = weights, running: ExitStack = running
                ) -> Session[StarConstants]:
                    shots = framing.from_config(self.config, NONE).tokens
                    need = Need(self.config.candidates, self.config.MAX_TOKENS, 0, shots)
                    return self.session.with_server(
                        running.enter_context(served(weights, need, self.record.run_folder))
                    )

                if not self._is_evaluated(number):
                    self._evaluate(number, serve())
                if self._is_over(number):
                    break
                if not self._is_collected(number + 1):
                    self._collect(number + 1, serve)
        self.record.save(complete=True)
        return self.record

    # Evaluating

    def _results(self, name: str) -> Path:
        return self.record.folder / f"{name}.json"

    def _name(self, number: int, suffix: str = "") -> str:
        return f"{self.record.label}-round{number}{suffix}"

    def _is_evaluated(self, number: int) -> bool:
        known = self.record.stage("evaluated", number)
        names = [known.get("greedy"), known.get("sampled")]
        for of_kind in known.get("rsa", {}).get("files", {}).values():
            names += of_kind
        return bool(known) and all(self._results(name).exists() for name in names if name)

    def _evaluate(self, number: int, session: Session[StarConstants]) -> None:
        """Evaluate round `number` on the held-out problems, and record the outcome."""
        outcome = self._measured(number, session)
        self.record.done("evaluated", outcome | {"model": session.server.model}, number)
        say(f"round {number}: {self._summary(outcome)}")

    def _constants(self, kind: type[C], **changes: Any) -> C:
        """Return the constants of an evaluation: the run's constants with `changes`. Worked
        examples (SHOTS) are left out, as in training."""
        shared = {name: value for name, value in vars(self.config).items() if name in rules(kind)}
        shared |= {"PROBLEMS": self.config.EVAL, "ANSWER_TOKENS": 0, "SHOTS": "0"}
        return kind(**shared | changes)

    def _measured(self, number: int, session: Session[StarConstants]) -> dict[str, Any]:
        """Sample the held-out problems of round `number`: greedily and, if TEMPERATURE is not 0,
        also with SEEDS. Return the names and the figures of the results."""
        greedy = self._constants(SampleConstants, **GREEDY)
        drawn = self.config.seeds if self.config.TEMPERATURE else range(0)
        samples = 1 + len(drawn) * self.config.VOTES  # of a problem
        with Bar(self._name(number), len(self.split.held_out.problems) * samples) as bar:
            outcome = self._asked(number, "", greedy, session, bar)
            outcome |= dict.fromkeys(("sampled", "sampled_accuracy", "sampled_gain", "vote"))
            if drawn:
                seeded = self._constants(
                    SampleConstants, SEED=drawn[0], RUNS=len(drawn), N=self.config.VOTES
                )
                sampled = self._asked(number, "-sampled", seeded, session, bar)
                outcome |= {"sampled": sampled["greedy"], "vote": sampled["vote"]}
                outcome |= {
                    "sampled_accuracy": sampled["accuracy"],
                    "sampled_gain": sampled["gain"],
                }
                for unit in ("tokens", "seconds"):
                    parts = (outcome[unit], sampled[unit])
                    outcome[unit] = None if None in parts else sum(parts)
        return outcome

    def _summary(self, outcome: dict[str, Any]) -> str:
        """Describe an evaluation in a line."""
        accuracy = outcome["accuracy"]
        text = f"{interval(accuracy)}% right at temperature 0, n={accuracy['n']}"
        gain = outcome["gain"]
        if gain:
            text += f", {shift(gain['difference'], gain['low'], gain['high'])} points since round 0"
        if outcome["sampled_accuracy"]:
            text += f", {interval(outcome['sampled_accuracy'])}% sampled"
        return text

    def _asked(
        self, number: int, kind: str, config: SampleConstants, session: Session[Any], bar: Bar
    ) -> dict[str, Any]:
        """Sample solutions of the held-out problems. Return the results' name and figures:
        accuracy, vote, gain since round 0, form, incomplete replies, tokens and seconds. `kind` is
        "" (greedy) or "-sampled"."""
        name = self._name(number, kind)
        replies: dict[str, list[Completion]] = {}
        bar.stage = f"{name} (of {self.config.ROUNDS})"
        session = session.with_changes(
            name=name, config=config, folder=self.record.folder, problems=self.split.held_out
        )
        path, document = session.run_until_stopped(
            run_all(session, answering(self.config, replies), bar=bar)
        )
        shares = []  # by problem: the share of replies with the right form
        steps: list[int] = []  # of each of these replies
        by_id = {problem.id: problem for problem in self.split.held_out.problems}
        for problem_id, completions in replies.items():
            problem = by_id[problem_id]
            forms = [self._form(completion, problem) for completion in completions]
            right = [count for reason, count in forms if not reason]
            shares.append(len(right) / len(forms))
            steps += right
        final = document["metrics"]["final"]
        return {
            "greedy": name,
            "accuracy": final["mean_accuracy"],
            "vote": final["majority_accuracy"],
            "gain": _gain(self._results(self._name(0, kind)), path) if number else None,
            "format": mean_by_problem(shares).to_json(),
            "steps": fmean(steps) if steps else None,
            **broken(list(chain.from_iterable(replies.values()))),
            **spent(document),
        }

    def _form(self, completion: Completion, problem: Problem) -> tuple[str, int]:
        """Return why a completion is incomplete or has a wrong form, or "" if neither, and its
        number of steps."""
        cut = ended(completion, self.config)
        checked = formed(cut, self.config, problem)
        return undelivered(cut) or checked.reason, checked.steps

    # Ending

    def _is_over(self, number: int) -> bool:
        """Return whether ROUNDS or PATIENCE ends the run after round `number`, and note the best
        round so far (in a tie the earliest). Later rounds in the record are ignored: the same run
        may have written them with a larger ROUNDS or PATIENCE."""
        so_far = self.record.rounds[: number + 1]
        accuracies = [score(round_) for round_ in so_far]
        best = accuracies.index(max(accuracies))
        weights = self.record.rounds[best].get("trained", {}).get("weights")
        best_round = {"round": best, "accuracy": accuracies[best], "weights": weights}
        self.record.head |= {"last": number, "ended_by": "ROUNDS", "best": best_round}
        if number == self.config.ROUNDS:
            return True
        if self.config.PATIENCE and number - best >= self.config.PATIENCE:
            say(
                f"no gain in {number - best} rounds (PATIENCE={self.config.PATIENCE}), so the run "
                "ends"
            )
            self.record.head["ended_by"] = "PATIENCE"
            return True
        return False

    # Collecting

    def _is_collected(self, number: int) -> bool:
        known = self.record.stage("collected", number)
        if not known or known != known | self._hashes(number):
            return False
        return not known["results"] or self._results(known["results"]).exists()

    def _hashes(self, number: int) -> dict[str, Any]:
        hashes = {"traces_sha256": sha256(self._file(number, TRACES))}
        return hashes | {"own_sha256": sha256(self._file(number, COLLECTED))}

    def _file(self, number: int, name: str) -> Path:
        return self.record.run_folder / f"round{number}" / name

    def _collect(self, number: int, serve: Callable[[], Session[StarConstants]]) -> None:
        """Collect the rows to train on in round `number`, and record them. With REPEAT=1, reuse the
        rows of round 1. Raises UserError."""
        if self.config.REPEAT and number > 1:
            rows = traces.read(self._file(1, TRACES))
            outcome = {"results": None, "problems": 0, **counted([]), "tokens": 0, "seconds": 0}
        else:
            rows, outcome = self._sampled(number, serve)
        malformed = rounds.malformed(outcome)
        if malformed:
            say(f"round {number}: {malformed}")
        if not rows:
            raise self._without_rows(number, outcome)
        traces.write(self._file(number, TRACES), rows)
        ways = Counter(row.way for row in rows)
        outcome |= {"rows": len(rows), "by_way": {way: ways[way] for way in WAYS if ways[way]}}
        outcome["repeats"] = int(self.config.REPEAT and number > 1)
        self.record.done("collected", outcome | self._hashes(number), number)

    def _sampled(
        self, number: int, serve: Callable[[], Session[StarConstants]]
    ) -> tuple[list[Trace], dict[str, Any]]:
        """Sample the problems of round `number`, and store the kept samples. Return the rows to
        train on, which earlier rounds share, and the counts."""
        by_problem: dict[str, list[Sample]] = {}
        experiment = self._experiment(number, serve(), collecting(number, by_problem))
        path = experiment.finish()
        problems = experiment.chosen.problems
        samples = [sample for problem in problems for sample in by_problem[problem.id]]
        collected = [
            self._trace(number, sample, asked(sample.problem, self.config), experiment.framing)
            for sample in samples
            if not sample.dropped
        ]
        traces.write(self._file(number, COLLECTED), collected)
        rows = traces.merged(self._pools(number))
        outcome = {"results": path.stem, "problems": len(problems), **counted(samples)}
        outcome |= spent(experiment.document)
        kept = outcome["kept"]
        say(
            f"round {number}: {len(problems)} problems, {len(samples)} samples, of which "
            f"{sum(kept.values())} were kept ({kept[RATIONALISED]} rationalised)"
        )
        return rows, outcome

    def _experiment(
        self, number: int, session: Session[Any], scaffold: Scaffold[Any], **changes: Any
    ) -> Experiment[Any]:
        """Prepare the run of `scaffold` on the training problems of round `number`."""
        chosen = data.drawn(self.split, self.config, number)
        name = self._name(number, "-collected")
        changes |= {"name": name, "problems": chosen, "folder": self.record.folder}
        return Experiment(session.with_changes(**changes), scaffold)

    def _pools(self, number: int) -> list[list[Trace]]:
        """Read the kept samples of each round, up to round `number`."""
        files = [self._file(earlier, COLLECTED) for earlier in range(1, number + 1)]
        return list(map(traces.read, files))

    def _without_rows(self, number: int, outcome: dict[str, Any]) -> UserError:
        """Return the error of a round that has no rows to train on."""
        return UserError(
            f"round {number} kept no sample of {outcome['problems']} problems "
            f"({reasons_in(outcome)}), so it can't train. Choose an easier DATA, or raise TRIES "
            "and TEMPERATURE"
        )

    def _trace(
        self,
        number: int,
        sample: Sample,
        messages: Sequence[Message],
        framed: Framing,
        right_parents: int | None = None,
    ) -> Trace:
        """Return the trace of a kept sample, with the prompt `messages`. The prompt has a system
        message, if any, but no worked examples."""
        *before, last = replace(framed, shots=()).frame(messages)
        system, text = before[0]["content"] if before else "", output(sample.completion)
        return Trace(
            sample.problem.id,
            number,
            sample.way,
            sample.completion.key,
            last["content"],
            text,
            system,
            right_parents,
        )

    # Training

    def _weights(self, number: int) -> Weights:
        """Return the weights of round `number`, which may not be trained yet. Round 0 has the first
        weights."""
        name = "model.gguf" if self.start.is_gguf else "model"
        return Weights(self._file(number, "trained") / name) if number else self.start

    def _trained(self, number: int) -> Weights:
        """Return the weights of round `number`. Train them first, unless the record contains the
        same training."""
        weights, folder = self._weights(number), self._file(number, "trained")
        tokens = self.tokens[number - 1] if self.tokens else None
        if known := self.record.stage("trained", number):
            if weights.path.exists() and known == known | self._identity(folder, weights, tokens):
                return weights
            say(
                f"round {number}: training again, because files are missing or changed, or its "
                "token count changed"
            )
        # The folder may exist: a run was killed before it recorded the training, or the training
        # must be repeated.
        shutil.rmtree(folder, ignore_errors=True)
        before, adapter, rank = self.start, None, self.config.lora_rank(self.start.is_gguf)
        if number > 1 and self.config.START == "last":
            if rank:
                adapter = self._file(number - 1, "trained") / "adapter"
            else:
                before = self._weights(number - 1)
        say(f"round {number}: training on {self.record.rounds[number]['collected']['rows']} traces")
        seed = seeds.derive(self.config.SEED, "star", "train", number) % 2**31
        rows, epochs, rate = self._file(number, TRACES), self.config.EPOCHS, self.config.RATE
        outcome = process.train(
            Options(before.path, rows, folder, epochs, rate, rank, seed, adapter, tokens), say
        )
        weights = self._weights(number)  # its digest is computed anew
        outcome |= {"weights": str(weights.path.relative_to(self.record.folder))}
        self.record.done("trained", outcome | self._identity(folder, weights, tokens), number)
        return weights

    def _identity(self, folder: Path, weights: Weights, tokens: int | None) -> dict[str, Any]:
        """Identify a training by the digests of its weights and adapter, and by the number of
        tokens to train on."""
        adapter = sha256(folder / "adapter" / ADAPTER)
        return {"digest": weights.digest, "adapter_sha256": adapter, "tokens_asked": tokens}


def _gain(before: Path, after: Path) -> dict[str, Any]:
    """Return the change in accuracy between two results files, paired by problem."""
    first = compare.result(Results(before))
    second = compare.result(Results(after))
    pair = compare.pair(first, second, anyway=True)
    return dict(vars(pair.metrics[compare.METRICS[0]]))
