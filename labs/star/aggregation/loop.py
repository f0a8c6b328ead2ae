"""Run the rounds of learning to aggregate. A round runs RSA on training problems, and trains on its
right aggregations. An evaluation runs RSA and a vote on the held-out problems."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, cast

from core import prompts, rsa
from core.base.errors import RunFailed, UserError
from core.base.terminal import say
from core.constants import Constants
from core.rsa import RsaConstants, SampleConstants
from core.types import Scaffold, Wording
from harness.framing import Framing
from harness.report.tables import interval, shift
from harness.run import run_all
from harness.scaffolds import majority
from harness.session.bar import Bar
from harness.session.session import Session
from labs.star import traces
from labs.star.aggregation import balance, evaluate
from labs.star.aggregation.collect import Solution, aggregating
from labs.star.aggregation.constants import LearnConstants
from labs.star.aggregation.evaluate import RSA, VOTE
from labs.star.constants import StarConstants
from labs.star.counts import counted, reasons_in, spent
from labs.star.loop import COLLECTED, GREEDY, Loop
from labs.star.record import AGGREGATED, FIRST
from labs.star.traces import Trace

KINDS = {RSA: "-rsa", VOTE: "-vote"}  # the ends of the names of results
SCAFFOLDS: dict[str, Scaffold[Any]] = {RSA: rsa.RSA, VOTE: majority.MAJORITY}
UNSAMPLED = ("sampled", "sampled_accuracy", "sampled_gain", "vote")  # STaR's, without a value
STAGES = 4  # populations of the vote for each step of RSA


@dataclass
class LearnLoop(Loop):
    """A run that learns to aggregate."""

    prompts: ClassVar[tuple[str | Wording, ...]] = rsa.RSA.prompts

    @property
    def learn(self) -> LearnConstants:
        return cast(LearnConstants, self.config)

    # Evaluating

    def _measured(self, number: int, session: Session[StarConstants]) -> dict[str, Any]:
        """Evaluate round `number` on the held-out problems: a greedy reply, RSA, and a vote over
        as many samples as RSA has solutions. The first samples are RSA's step 0."""
        config = self.learn
        samples = config.N * (config.T + 1)
        seeded = {"SEED": config.seeds[0], "RUNS": len(config.seeds)}
        population = self._constants(RsaConstants, **seeded)
        staged = {"N": samples, "STAGE": max(1, config.N // STAGES)}
        votes = self._constants(majority.Constants, **seeded, **staged)
        greedy = self._constants(SampleConstants, **GREEDY)
        of_problem = 1 + 2 * samples * len(config.seeds)  # completions
        with Bar(self._name(number), len(self.split.held_out.problems) * of_problem) as bar:
            outcome = self._asked(number, "", greedy, session, bar)
            seconds = self._ran(number, RSA, population, session, bar)
            seconds += self._ran(number, VOTE, votes, session, bar)
        outcome |= dict.fromkeys(UNSAMPLED)
        outcome["seconds"] += seconds
        of_rsa, of_vote = self._paths(number, RSA), self._paths(number, VOTE)
        if outcome["tokens"] is not None:
            outcome["tokens"] += evaluate.completion_tokens(of_rsa, of_vote)
        return outcome | {"rsa": self._figures(number, of_rsa, of_vote)}

    def _figures(
        self, number: int, of_rsa: Sequence[Path], of_vote: Sequence[Path]
    ) -> dict[str, Any]:
        """Return the figures of RSA and of the vote, with the names of their results, and the
        changes since round 0."""
        figures = evaluate.figures(of_rsa, of_vote)
        figures["results"] = self._name(number, KINDS[RSA])
        figures["files"] = {RSA: self._stored(of_rsa), VOTE: self._stored(of_vote)}
        if number:
            before = self._paths(0, RSA)
            figures["gain"] = evaluate.change(before, of_rsa, -1)
            figures["first_gain"] = evaluate.change(before, of_rsa, 0)
        return figures

    def _ran(
        self, number: int, kind: str, config: Constants, session: Session[Any], bar: Bar
    ) -> float:
        """Run a scaffold on the held-out problems under all seeds. Return its seconds."""
        name = self._name(number, KINDS[kind])
        bar.stage = f"{name} (of {self.config.ROUNDS})"
        session = session.with_changes(
            name=name, config=config, folder=self.record.folder, problems=self.split.held_out
        )
        _, document = session.run_until_stopped(run_all(session, SCAFFOLDS[kind], bar=bar))
        return float(document["metrics"]["seconds"])

    def _paths(self, number: int, kind: str) -> list[Path]:
        """Return the paths of the results of `kind`, one for each seed."""
        name = self._name(number, KINDS[kind])
        seeds = self.config.seeds
        if len(seeds) == 1:
            return [self._results(name)]
        return [self._results(f"{name}/{name}-seed{seed}") for seed in seeds]

    def _stored(self, paths: Sequence[Path]) -> list[str]:
        """Return the names of results in the experiment's folder."""
        return [str(path.relative_to(self.record.folder).with_suffix("")) for path in paths]

    def _summary(self, outcome: dict[str, Any]) -> str:
        first, *_, last = outcome["rsa"]["steps"]
        text = f"one sample {interval(first['mean'])}%, RSA at t={last['step']} "
        text += f"{interval(last['mean'])}% right, n={last['mean']['n']}"
        gain = outcome["rsa"].get("gain")
        if gain:
            text += f", {shift(gain['difference'], gain['low'], gain['high'])} points since round 0"
        return text

    # Collecting

    def _sampled(
        self, number: int, serve: Callable[[], Session[StarConstants]]
    ) -> tuple[list[Trace], dict[str, Any]]:
        by_problem: dict[str, list[Solution]] = {}
        changes = {"PROBLEMS": self.config.DATA, "SHOTS": self.config.SHOTS}
        config = self._constants(RsaConstants, SEED=self.config.SEED, **changes)
        scaffold = aggregating(self.learn, by_problem)
        experiment = self._experiment(number, serve(), scaffold, config=config)
        path = experiment.finish()
        problems = experiment.chosen.problems
        solutions = list(chain.from_iterable(by_problem[problem.id] for problem in problems))
        collected = self._traces(number, solutions, experiment.framing)
        traces.write(self._file(number, COLLECTED), collected)
        rows = balance.chosen(self._pools(number), self.learn, number)
        samples = [solution.sample for solution in solutions]
        mixed = [solution for solution in solutions if solution.is_mixed]
        outcome: dict[str, Any] = {
            "results": path.stem,
            "problems": len(problems),
            "mixed": len(mixed),
            "by_parents": _by_parents(rows),
        }
        outcome |= counted(samples, (FIRST, AGGREGATED)) | spent(experiment.document)
        kept = outcome["kept"]
        say(
            f"round {number}: {len(problems)} problems, {len(samples)} solutions, of which "
            f"{kept[FIRST]} plain and {kept[AGGREGATED]} aggregated were kept"
        )
        if self.learn.teaches_aggregation and not mixed and not self._has_mixed(rows):
            raise _without_mixed(number, by_problem)
        return rows, outcome

    def _has_mixed(self, rows: Sequence[Trace]) -> bool:
        """Return whether a row, perhaps of an earlier round, had right and wrong candidates."""
        return any(0 < (row.right_parents or 0) < self.learn.K for row in rows)

    def _traces(self, number: int, solutions: Sequence[Solution], framed: Framing) -> list[Trace]:
        """Return the traces of the kept solutions. With TEACH=solve, these are the solutions of
        RSA's last step, with the prompt to solve."""
        rows = []
        for solution in solutions:
            sample = solution.sample
            if sample.dropped or (solution.step and not solution.parents):
                continue
            if self.learn.TEACH == "aggregate":
                right = solution.right_parents if solution.step else None
                rows.append(self._trace(number, sample, solution.prompt, framed, right))
            elif solution.step == self.learn.T:
                prompt = prompts.solve(sample.problem)
                rows.append(self._trace(number, sample, prompt, framed))
        return rows

    def _without_rows(self, number: int, outcome: dict[str, Any]) -> UserError:
        solutions = "aggregation" if self.learn.teaches_aggregation else "solution"
        return RunFailed(
            f"round {number} kept no {solutions} of {outcome['problems']} problems "
            f"({reasons_in(outcome)}), so it can't train. Choose an easier DATA, or raise N, K or "
            "MAX_TOKENS. The replies are kept"
        )


def _by_parents(rows: Sequence[Trace]) -> dict[str, int]:
    """Count the aggregations to train on by their number of right parents."""
    counts = Counter(row.right_parents for row in rows if row.right_parents is not None)
    return {str(right): counts[right] for right in sorted(counts)}


def _without_mixed(number: int, by_problem: Mapping[str, Sequence[Solution]]) -> RunFailed:
    """Return the error of a round in which no aggregation had right and wrong candidates."""
    rights = [
        [solution.is_right for solution in solutions if solution.step == 0]
        for solutions in by_problem.values()
    ]
    all_right = sum(map(all, rights))
    all_wrong = len(rights) - sum(map(any, rights))
    harder = "a harder DATA" if all_right > all_wrong else "an easier DATA"
    return RunFailed(
        f"round {number} has no aggregation of right and wrong candidates (of {len(rights)} "
        f"problems, {all_right} have only right samples and {all_wrong} only wrong ones), so "
        f"there is nothing to learn. Choose {harder}, or raise TRAIN_PROBLEMS, K, N or "
        "TEMPERATURE. The replies are kept"
    )
