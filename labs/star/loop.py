"""The rounds of STaR: serve the newest weights, evaluate them, collect with them; stop the server, merge, train.

Every stage follows from those before it: samples from weights, problems and SEED, training from traces, weights and
SEED. So a run that was killed goes on with the stage that it was in, and what was asked in that is in the journal.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from core.base import seeds, terminal
from core.base.errors import UserError
from core.base.files import sha256
from core.base.stats import mean_by_problem
from core.constants import rules
from core.engines.need import Need
from core.report import compare
from core.report.tables import interval, shift
from core.scaffolds.rsa import SampleConstants
from core.session.bar import Bar
from core.session.experiment import Experiment, Part
from core.session.runs import Runs
from core.session.session import Session
from core.types import Completion
from labs.star import data, prompts
from labs.star import report as rounds
from labs.star.collect import Answering, Collecting, Sample, ended, formed, incomplete, output
from labs.star.constants import StarConstants
from labs.star.data import Split
from labs.star.record import RATIONALISED, WAYS, Record
from labs.star.traces import Trace, merged
from labs.star.traces import read as read_traces
from labs.star.traces import write as write_traces
from labs.training import process
from labs.training.served import Weights, served
from labs.training.starts import ADAPTER

TIMED_OUT = ("no answer within", "silent for")  # what the generator says of a request that took too long


@dataclass
class Loop:
    """A run of STaR from the weights `start` on a `split`, recorded in `record`. `tokens`: that each round trains on,
    instead of EPOCHS, by round from 1; None: EPOCHS says it. `say`: a line to the user."""

    session: Session[StarConstants]
    split: Split
    start: Weights
    record: Record
    tokens: Sequence[int] | None = None
    say: Callable[[str], None] = terminal.say

    @property
    def config(self) -> StarConstants:
        return self.session.config

    def run(self) -> Record:
        """Run to the end, or go on to it. Raises UserError; ends the process where it is stopped."""
        for number in range(self.config.ROUNDS + 1):
            made = self._trained(number) if number else self.start
            with ExitStack() as running:

                @cache
                def serve(made: Weights = made, running: ExitStack = running) -> Session[StarConstants]:
                    need = Need(0, self.config.MAX_TOKENS, 0)
                    return self.session.at(running.enter_context(served(made, need, self.record.own)))

                if not self._is_evaluated(number):
                    self._evaluate(number, serve())
                if self._is_over(number):
                    break
                if not self._is_collected(number + 1):
                    self._collect(number + 1, serve)
        self.record.save(complete=True, best=self.best())
        return self.record

    # Evaluating

    def _results(self, name: str) -> Path:
        return self.record.folder / f"{name}.json"

    def _name(self, number: int, what: str = "") -> str:
        return f"{self.record.label}-round{number}{what}"

    def _is_evaluated(self, number: int) -> bool:
        known = self.record.stage("evaluated", number)
        return bool(known) and all(self._results(known[name]).exists() for name in ("greedy", "sampled") if known[name])

    def _evaluate(self, number: int, session: Session[StarConstants]) -> None:
        """The weights of round `number` on the held-out problems: at temperature 0 and, where there is one, at
        TEMPERATURE with each of SEEDS."""
        held_out = self.split.held_out
        shared = {name: value for name, value in vars(self.config).items() if name in rules(SampleConstants)}
        shared |= {"PROBLEMS": self.config.EVAL, "ANSWER_TOKENS": 0}
        greedy = SampleConstants(**shared | {"TEMPERATURE": 0.0, "SAMPLING": "file", "SEED": 0, "N": 1})
        of_seeds = self.config.seeds if self.config.TEMPERATURE else range(0)
        total = len(held_out.problems) * (1 + len(of_seeds) * self.config.VOTES)
        with Bar(self._name(number), total) as bar:
            path, made, spent = self._asked(self._name(number), greedy, session, bar)
            sampled = None
            if of_seeds:
                own = {"SEED": of_seeds[0], "RUNS": len(of_seeds), "N": self.config.VOTES}
                name = self._name(number, "-sampled")
                sampled, _, more = self._asked(name, SampleConstants(**shared | own), session, bar)
                spent = {what: _sum(spent[what], more[what]) for what in spent}
        form = {name: [self._form(each) for each in of] for name, of in made.items()}
        found = _read(path)
        whole = [steps for of in form.values() for reason, steps in of if not reason]
        told: dict[str, Any] = {
            "model": session.server.model,
            "greedy": path.stem,
            "sampled": None,
            "accuracy": _rate(found),
            "gain": _gain(self._first("greedy"), found) if number else None,
            "sampled_accuracy": None,
            "sampled_gain": None,
            "vote": None,
            "format": mean_by_problem([fmean(not why for why, _ in of) for of in form.values()]).to_json(),
            "steps": fmean(whole) if whole else None,
        }
        told |= _broken([completion for of in made.values() for completion in of])
        if sampled:
            drawn = _read(sampled)
            told |= {"sampled": sampled.stem, "sampled_accuracy": _rate(drawn), "vote": _rate(drawn, 1)}
            if number:
                told["sampled_gain"] = _gain(self._first("sampled"), drawn)
        self.record.done("evaluated", told | spent, number)
        self.say(_evaluated(number, told))

    def _first(self, what: str) -> compare.Result:
        """The results of round 0: "greedy" or "sampled"."""
        return _read(self._results(self.record.rounds[0]["evaluated"][what]))

    def _asked(
        self, name: str, config: SampleConstants, session: Session[Any], bar: Bar
    ) -> tuple[Path, dict[str, list[Completion]], dict[str, Any]]:
        """Held-out problems as the constants have it: the results, all completions by problem, and what they took."""
        answering = Answering(self.config)
        runs = Runs(name, config, self.record.folder, say=lambda _: None)
        for each in runs.of(session.but(problems=self.split.held_out)):
            experiment = Experiment(each, answering.scaffold, part=Part(bar, each.name, config.N))
            runs.ended(experiment.finish(), experiment.document)
        return runs.path, answering.completions, _spent(runs.document)

    def _form(self, made: Completion) -> tuple[str, int]:
        """Why a completion would not pass the format guard ("": it does), and its steps."""
        made = ended(made, self.config)
        found = formed(made, self.config)
        return incomplete(made) or found.reason, found.steps

    # Ending

    def best(self) -> dict[str, Any]:
        """The round with the highest accuracy at temperature 0; of equal ones the earliest."""
        accuracies = self._accuracies(self.record.head["last"])
        number = accuracies.index(max(accuracies))
        where = self.record.rounds[number].get("trained", {}).get("weights")
        return {"round": number, "accuracy": accuracies[number], "weights": where}

    def _accuracies(self, last: int) -> list[float]:
        return [each["evaluated"]["accuracy"]["value"] for each in self.record.rounds[: last + 1]]

    def _is_over(self, number: int) -> bool:
        """Whether round `number` is the last one: ROUNDS, or PATIENCE, says so. Later ones may be there, of the same
        run with more of either; they don't count."""
        self.record.head |= {"last": number, "ended_by": "ROUNDS"}
        if number == self.config.ROUNDS:
            return True
        accuracies = self._accuracies(number)
        without = number - accuracies.index(max(accuracies))
        if self.config.PATIENCE and without >= self.config.PATIENCE:
            self.say(f"{without} rounds without a gain (PATIENCE={self.config.PATIENCE}): the last is round {number}")
            self.record.head["ended_by"] = "PATIENCE"
            return True
        return False

    # Collecting

    def _is_collected(self, number: int) -> bool:
        known = self.record.stage("collected", number)
        return (
            bool(known)
            and sha256(self._traces(number)) == known["traces_sha256"]
            and sha256(self._own_traces(number)) == known.get("own_sha256")
            and (not known["results"] or self._results(known["results"]).exists())
        )

    def _traces(self, number: int) -> Path:
        return self.record.own / f"round{number}" / "traces.jsonl"

    def _own_traces(self, number: int) -> Path:
        """What round `number` itself has collected; the other file holds what it trains on."""
        return self.record.own / f"round{number}" / "collected.jsonl"

    def _collect(self, number: int, serve: Callable[[], Session[StarConstants]]) -> None:
        """What round `number` trains on: what its samples and those of the rounds before come to."""
        if self.config.REPEAT and number > 1:
            rows = read_traces(self._traces(1))
            told: dict[str, Any] = {"results": None, "problems": 0, "rows": len(rows), "repeats": 1}
        else:
            collecting = Collecting(number)
            chosen = data.drawn(self.split, self.config, number)
            name = self._name(number, "-collected")
            session = serve().but(name=name, problems=chosen, folder=self.record.folder)
            experiment = Experiment(session, collecting.scaffold)
            path = experiment.finish()
            samples = [collecting.samples[problem.id] for problem in chosen.problems]
            write_traces(self._own_traces(number), [trace for of in samples for trace in self._kept(number, of)])
            rows = merged([read_traces(self._own_traces(before)) for before in range(1, number + 1)])
            told = {"results": path.stem, "problems": len(chosen.problems), "rows": len(rows), "repeats": 0}
            told |= counted(samples) | _spent(experiment.document)
            self.say(_collected(number, told))
        malformed = rounds.malformed(told)
        if not rows:
            raise UserError(
                f"round {number} kept no trace of {told['problems']} problems, so that there is nothing to train on: "
                f"{_reasons(told)}. {malformed[:1].upper() + malformed[1:] or 'Give more TRIES, or easier problems'}"
            )
        if malformed:
            self.say(f"round {number}: {malformed}")
        write_traces(self._traces(number), rows)
        ways = Counter(row.way for row in rows)
        told |= {"by_way": {way: ways[way] for way in WAYS if ways[way]}}
        told |= {"traces_sha256": sha256(self._traces(number)), "own_sha256": sha256(self._own_traces(number))}
        self.record.done("collected", told, number)

    def _kept(self, number: int, samples: Sequence[Sample]) -> list[Trace]:
        form = (self.config.FEWSHOT, self.config.MIN_STEPS, self.config.MAX_STEPS)
        return [
            Trace(
                problem=each.problem.id,
                round=number,
                way=each.way,
                key=each.completion.key,
                instruction=prompts.asked(each.problem, *form)[0]["content"],
                output=output(each.completion),
            )
            for each in samples
            if not each.dropped
        ]

    # Training

    def _trained(self, number: int) -> Weights:
        """The weights that round `number` trains; they are there already where the same was trained before."""
        folder = self._folder(number)
        tokens = self.tokens[number - 1] if self.tokens else None
        if known := self.record.stage("trained", number):
            made = Weights(self.record.folder / known["weights"])
            if made.path.exists():
                its = self._trained_as(number, made, tokens)
                if all(known.get(name) == value for name, value in its.items()):
                    return made
            self.say(f"round {number}: what it trained is gone or changed, and is trained again")
        # It is there if a run was killed before this was recorded, or if it comes of other traces.
        shutil.rmtree(folder, ignore_errors=True)
        before = self.start if number == 1 or self.config.START == "base" else self._weights(number - 1)
        rank = self.config.lora_rank(self.start.is_gguf)
        adapter = None
        if rank and number > 1 and self.config.START == "last":
            before, adapter = self.start, self._folder(number - 1) / "adapter"
        self.say(f"round {number}: training on {self.record.rounds[number]['collected']['rows']} traces")
        told = process.train(
            before.path,
            self._traces(number),
            folder,
            epochs=self.config.EPOCHS,
            rate=self.config.RATE,
            lora_rank=rank,
            seed=seeds.derive(self.config.SEED, "star", "train", number) % 2**31,
            adapter=adapter,
            tokens=tokens,
            say=self.say,
        )
        made = Weights(folder / ("model.gguf" if self.start.is_gguf else "model"))
        where = {"weights": str(made.path.relative_to(self.record.folder))}
        self.record.done("trained", told | where | self._trained_as(number, made, tokens), number)
        return made

    def _folder(self, number: int) -> Path:
        return self.record.own / f"round{number}" / "trained"

    def _trained_as(self, number: int, made: Weights, tokens: int | None) -> dict[str, Any]:
        """What tells whether round `number` has trained what it should: its weights as they lie there, its adapter,
        and how many tokens it was to train on."""
        adapter = sha256(self._folder(number) / "adapter" / ADAPTER)
        return {"digest": made.digest, "adapter_sha256": adapter, "tokens_asked": tokens}

    def _weights(self, number: int) -> Weights:
        return Weights(self.record.folder / self.record.rounds[number]["trained"]["weights"])


def counted(samples: Sequence[Sequence[Sample]]) -> dict[str, Any]:
    """Count a round's samples, by problem: kept and dropped by way and reason, right ones that were dropped for their
    form, and the kept ones with a false equation."""
    every = [sample for of in samples for sample in of]
    kept = Counter(sample.way for sample in every if not sample.dropped)
    dropped: dict[str, Counter[str]] = {way: Counter() for way in WAYS}
    for sample in every:
        if sample.dropped:
            dropped[sample.way][sample.dropped] += 1
    unsound = Counter(sample.way for sample in every if not sample.dropped and sample.false)
    malformed = Counter(sample.dropped for sample in every if sample.malformed)
    steps = [sample.steps for sample in every if not sample.dropped]
    return {
        "samples": len(every),
        "kept": {way: kept[way] for way in WAYS},
        "dropped": {way: dict(dropped[way].most_common()) for way in WAYS if dropped[way]},
        "malformed": dict(malformed.most_common()),
        "unsound": {way: unsound[way] for way in WAYS},
        "steps": fmean(steps) if steps else None,
    } | _broken([sample.completion for sample in every])


def _broken(completions: Sequence[Completion]) -> dict[str, int]:
    """Count the completions that are not whole."""
    return {
        "truncated": sum(each.truncated for each in completions),
        "failed": sum(each.error is not None for each in completions),
        "timed_out": sum(str(each.error or "").startswith(TIMED_OUT) for each in completions),
    }


def _read(path: Path) -> compare.Result:
    return compare.read(str(path), path.parent)


def _rate(found: compare.Result, metric: int = 0) -> dict[str, Any]:
    """The mean accuracy (or, 1, that of the vote) of results over their problems, with its interval."""
    return mean_by_problem([values[metric] for values in found.final.values()]).to_json()


def _gain(first: compare.Result, other: compare.Result) -> dict[str, Any]:
    """What `other` results change in accuracy against the `first`, paired by problem."""
    return dict(vars(compare.pair(first, other, anyway=True).metrics[compare.METRICS[0]]))


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _spent(document: dict[str, Any]) -> dict[str, Any]:
    """Completion tokens (None: the server counts none) and seconds of a run, or of several."""
    metrics = document["metrics"]
    return {"tokens": metrics["tokens"]["completion"], "seconds": metrics["seconds"]}


def _reasons(told: dict[str, Any]) -> str:
    """Why samples were dropped, in words."""
    reasons = sum((Counter(of) for of in told.get("dropped", {}).values()), Counter[str]())
    return ", ".join(f"{count} {why}" for why, count in reasons.most_common()) or "no sample"


def _evaluated(number: int, told: dict[str, Any]) -> str:
    gain = told["gain"]
    words = [f"round {number}: {interval(told['accuracy'])}% right at temperature 0, n={told['accuracy']['n']}"]
    if gain:
        words.append(f"{shift(gain['difference'], gain['low'], gain['high'])} points on round 0")
    if told["sampled_accuracy"]:
        words.append(f"{interval(told['sampled_accuracy'])}% sampled")
    return ", ".join(words)


def _collected(number: int, told: dict[str, Any]) -> str:
    kept = told["kept"]
    return (
        f"round {number}: {told['samples']} samples of {told['problems']} problems gave {sum(kept.values())} traces, "
        f"{kept[RATIONALISED]} of them rationalised"
    )
