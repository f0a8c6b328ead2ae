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
from typing import Any

from core.base import seeds
from core.base.errors import UserError
from core.base.files import sha256
from core.base.stats import mean_by_problem
from core.base.terminal import say
from core.constants import rules
from core.engines.cards import NONE
from core.engines.need import Need
from core.rsa import SampleConstants
from core.types import Completion, Problem
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
from labs.star.data import Split
from labs.star.prompts import asked
from labs.star.record import RATIONALISED, WAYS, Record
from labs.star.traces import Trace
from labs.training import process
from labs.training.outcome import Options
from labs.training.served import Weights, served
from labs.training.starts import ADAPTER

# a round's own traces, and all traces so far, merged
COLLECTED, TRACES = "collected.jsonl", "traces.jsonl"
# how the errors of requests that took too long begin
TIMED_OUT = ("no answer within", "silent for")


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
                    need = Need(0, self.config.MAX_TOKENS, 0, shots)
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
        return bool(known) and all(self._results(name).exists() for name in names if name)

    def _evaluate(self, number: int, session: Session[StarConstants]) -> None:
        """Evaluate round `number` on the held-out problems: greedily and, if TEMPERATURE is not 0,
        also with SEEDS. Worked examples (SHOTS) are left out, as in training."""
        shared = {
            name: value
            for name, value in vars(self.config).items()
            if name in rules(SampleConstants)
        }
        shared |= {"PROBLEMS": self.config.EVAL, "ANSWER_TOKENS": 0, "SHOTS": "0"}
        greedy = SampleConstants(
            **shared | {"TEMPERATURE": 0.0, "SAMPLING": "file", "SEED": 0, "N": 1}
        )
        drawn = self.config.seeds if self.config.TEMPERATURE else range(0)
        samples = 1 + len(drawn) * self.config.VOTES  # of a problem
        with Bar(self._name(number), len(self.split.held_out.problems) * samples) as bar:
            outcome = self._asked(number, "", greedy, session, bar)
            outcome |= dict.fromkeys(("sampled", "sampled_accuracy", "sampled_gain", "vote"))
            if drawn:
                seeded = SampleConstants(
                    **shared | {"SEED": drawn[0], "RUNS": len(drawn), "N": self.config.VOTES}
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
        self.record.done("evaluated", outcome | {"model": session.server.model}, number)
        text = (
            f"round {number}: {interval(outcome['accuracy'])}% right at temperature 0, "
            f"n={outcome['accuracy']['n']}"
        )
        gain = outcome["gain"]
        if gain:
            text += f", {shift(gain['difference'], gain['low'], gain['high'])} points since round 0"
        if drawn:
            text += f", {interval(outcome['sampled_accuracy'])}% sampled"
        say(text)

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
            **_broken(list(chain.from_iterable(replies.values()))),
            **_spent(document),
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
        accuracies = [round_["evaluated"]["accuracy"]["value"] for round_ in so_far]
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
        """Collect and merge traces for round `number`. With REPEAT=1, reuse the traces of round 1.
        Raises UserError."""
        if self.config.REPEAT and number > 1:
            rows = traces.read(self._file(1, TRACES))
            outcome = {"results": None, "problems": 0, **counted([]), "tokens": 0, "seconds": 0}
        else:
            by_problem: dict[str, list[Sample]] = {}
            chosen = data.drawn(self.split, self.config, number)
            session = serve().with_changes(
                name=self._name(number, "-collected"),
                problems=chosen,
                folder=self.record.folder,
            )
            experiment = Experiment(session, collecting(number, by_problem))
            path = experiment.finish()
            samples = [sample for problem in chosen.problems for sample in by_problem[problem.id]]
            collected = [
                self._trace(number, sample, experiment.framing)
                for sample in samples
                if not sample.dropped
            ]
            traces.write(self._file(number, COLLECTED), collected)
            files = [self._file(earlier, COLLECTED) for earlier in range(1, number + 1)]
            rows = traces.merged(list(map(traces.read, files)))
            outcome = {"results": path.stem, "problems": len(chosen.problems), **counted(samples)}
            outcome |= _spent(experiment.document)
            kept = outcome["kept"]
            say(
                f"round {number}: {len(chosen.problems)} problems, {len(samples)} samples, of "
                f"which {sum(kept.values())} were kept ({kept[RATIONALISED]} rationalised)"
            )
        malformed = rounds.malformed(outcome)
        if malformed:
            say(f"round {number}: {malformed}")
        if not rows:
            dropped = Counter[str]()
            for counts in outcome["dropped"].values():
                dropped.update(counts)
            words = [f"{count} {reason}" for reason, count in dropped.most_common()]
            reasons = ", ".join(words) or "no sample"
            raise UserError(
                f"round {number} kept no sample of {outcome['problems']} problems ({reasons}), so "
                "it can't train. Choose an easier DATA, or raise TRIES and TEMPERATURE"
            )
        traces.write(self._file(number, TRACES), rows)
        ways = Counter(row.way for row in rows)
        outcome |= {"rows": len(rows), "by_way": {way: ways[way] for way in WAYS if ways[way]}}
        outcome["repeats"] = int(self.config.REPEAT and number > 1)
        self.record.done("collected", outcome | self._hashes(number), number)

    def _trace(self, number: int, sample: Sample, framed: Framing) -> Trace:
        """Return the trace of a kept sample. Its prompt has a system message, if any, but no worked
        examples."""
        *before, last = replace(framed, shots=()).frame(asked(sample.problem, self.config))
        system, text = before[0]["content"] if before else "", output(sample.completion)
        return Trace(
            sample.problem.id,
            number,
            sample.way,
            sample.completion.key,
            last["content"],
            text,
            system,
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


def counted(samples: Sequence[Sample]) -> dict[str, Any]:
    """Count a round's samples: kept, dropped, right but `malformed`, and kept with a false equation
    (`unsound`)."""
    kept = [sample for sample in samples if not sample.dropped]
    dropped: dict[str, Counter[str]] = {way: Counter() for way in WAYS}
    for sample in samples:
        if sample.dropped:
            dropped[sample.way][sample.dropped] += 1
    return {
        "samples": len(samples),
        "kept": _by_way(kept),
        "dropped": {way: dict(dropped[way].most_common()) for way in WAYS if dropped[way]},
        "malformed": dict(
            Counter(sample.dropped for sample in samples if sample.malformed).most_common()
        ),
        "unsound": _by_way([sample for sample in kept if sample.false]),
        "steps": fmean(sample.steps for sample in kept) if kept else None,
    } | _broken([sample.completion for sample in samples])


def _by_way(samples: Sequence[Sample]) -> dict[str, int]:
    counts = Counter(sample.way for sample in samples)
    return {way: counts[way] for way in WAYS}


def _broken(completions: Sequence[Completion]) -> dict[str, int]:
    """Count the completions that were truncated, failed or timed out."""
    errors = [completion.error for completion in completions if completion.error is not None]
    return {
        "truncated": len([completion for completion in completions if completion.truncated]),
        "failed": len(errors),
        "timed_out": len([error for error in errors if error.startswith(TIMED_OUT)]),
    }


def _gain(before: Path, after: Path) -> dict[str, Any]:
    """Return the change in accuracy between two results files, paired by problem."""
    first = compare.result(Results(before))
    second = compare.result(Results(after))
    pair = compare.pair(first, second, anyway=True)
    return dict(vars(pair.metrics[compare.METRICS[0]]))


def _spent(document: dict[str, Any]) -> dict[str, Any]:
    """Return the completion tokens and the seconds of a results file. Tokens are None if a count is
    unknown."""
    metrics = document["metrics"]
    return {"tokens": metrics["tokens"]["completion"], "seconds": metrics["seconds"]}
