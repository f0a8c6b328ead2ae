"""Compute the figures of RSA on held-out problems: accuracies by step, the vote at equal tokens,
and aggregations by their number of right parents."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from core.base.stats import mean_by_problem, paired
from harness.report.budgets import bought
from harness.results import read, transitions
from harness.results.model import ProblemResult, StepResult
from harness.results.transitions import mean_share

Problems = Sequence[ProblemResult]  # the problems of a results file
RSA, VOTE = "rsa", "vote"  # the kinds of results


def figures(rsa: Sequence[Path], vote: Sequence[Path]) -> dict[str, Any]:
    """Return the figures of RSA's results and of a vote, with a file for each seed.

    A step has RSA's mean and majority accuracy, its mean tokens for a problem so far, and the
    accuracy of a vote. The vote uses at most as many tokens as RSA on the same problem.
    `minus_vote` is the majority minus this vote, paired by problem. Both are None if the server
    counted no tokens."""
    runs = list(map(_problems, rsa))
    votes = list(map(_problems, vote))
    count = len(runs[0][0].steps)
    steps = [_step(runs, votes, step) for step in range(count)]
    return {"steps": steps, "transitions": _transitions(runs)}


def completion_tokens(rsa: Sequence[Path], vote: Sequence[Path]) -> int:
    """Return the completion tokens of all results. The vote's first samples are RSA's step 0, so
    they count once."""
    steps: list[StepResult] = []
    for path in vote:
        for problem in _problems(path):
            steps += problem.steps
    for path in rsa:
        for problem in _problems(path):
            steps += problem.steps[1:]
    return sum(map(_tokens, steps))


def _problems(path: Path) -> Problems:
    _, problems = read.read(path)
    return list(problems)


def change(before: Sequence[Path], after: Sequence[Path], step: int) -> dict[str, Any]:
    """Return the change in RSA's mean accuracy at `step` (-1: the last), paired by problem."""
    return vars(paired(means(before, step), means(after, step)))


def means(paths: Sequence[Path], step: int) -> list[float]:
    """Return each problem's mean accuracy at `step` over the files, in the order of a file."""
    runs = map(_problems, paths)
    values = []
    for in_runs in zip(*runs, strict=True):
        accuracies = [problem.steps[step].mean_accuracy for problem in in_runs]
        values.append(fmean(accuracy or 0.0 for accuracy in accuracies))
    return values


@dataclass(frozen=True)
class _Reached:
    """A problem's figures at a step of RSA."""

    mean: float
    majority: float
    vote: float  # of plain samples with at most as many tokens
    tokens: float  # so far

    @classmethod
    def of(cls, problem: ProblemResult, voting: ProblemResult, step: int) -> "_Reached":
        steps = problem.steps[: step + 1]
        tokens = sum(map(_tokens, steps))
        last = steps[-1]
        vote = bought(voting.steps, tokens)
        return cls(
            last.mean_accuracy or 0.0, last.majority_correct or 0.0, vote.score or 0.0, tokens
        )


def _step(runs: Sequence[Problems], votes: Sequence[Problems], step: int) -> dict[str, Any]:
    """Return the figures of a step of RSA."""
    by_seed = []
    for run, vote in zip(runs, votes, strict=True):
        pairs = zip(run, vote, strict=True)
        by_seed.append([_Reached.of(problem, voting, step) for problem, voting in pairs])
    by_problem = list(zip(*by_seed, strict=True))

    def averaged(name: str) -> list[float]:
        return [fmean(getattr(seed, name) for seed in seeds) for seeds in by_problem]

    scores = averaged("vote")
    majorities = averaged("majority")
    tokens = fmean(averaged("tokens"))
    return {
        "step": step,
        "mean": mean_by_problem(averaged("mean")).to_json(),
        "majority": mean_by_problem(majorities).to_json(),
        "vote": mean_by_problem(scores).to_json() if tokens else None,
        "minus_vote": vars(paired(scores, majorities)) if tokens else None,
        "tokens": tokens,
    }


def _tokens(step: StepResult) -> int:
    return sum(call.completion_tokens or 0 for call in step.new_calls)


def _transitions(runs: Sequence[Problems]) -> list[dict[str, Any]]:
    """Return the share of right aggregations for each number of parents and of right parents."""
    problems = [problem for run in runs for problem in run]
    groups = transitions.of_run(problems).by_right_parents
    rows = []
    for (parents, right), aggregations in groups.items():
        share = mean_share((item.problem, float(item.is_right)) for item in aggregations)
        row = {"parents": parents, "right_parents": right, "aggregations": len(aggregations)}
        rows.append(row | {"right": share.to_json()})
    return rows
