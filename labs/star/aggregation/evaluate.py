"""Compute the figures of RSA on held-out problems: accuracies by step, the vote at equal tokens,
and aggregations by their number of right parents."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from core.base.stats import mean_by_problem, paired
from harness.report.budgets import bought
from harness.results import read, transitions
from harness.results.model import ProblemResult, StepResult
from harness.results.transitions import mean_share

Problems = Sequence[ProblemResult]  # the problems of a results file
MEAN, MAJORITY, VOTE, TOKENS = "mean", "majority", "vote", "tokens"
RSA = "rsa"


def figures(rsa: Sequence[Path], vote: Sequence[Path]) -> dict[str, Any]:
    """Return the figures of RSA's results and of a vote, with a file for each seed.

    A step has RSA's mean and majority accuracy, its mean tokens for a problem so far, and the
    accuracy of a vote. The vote uses at most as many tokens as RSA on the same problem.
    `minus_vote` is the majority minus this vote, paired by problem."""
    runs = list(map(_problems, rsa))
    votes = list(map(_problems, vote))
    count = len(runs[0][0].steps)
    steps = [_step(runs, votes, step) for step in range(count)]
    return {"steps": steps, "transitions": _transitions(runs)}


def _problems(path: Path) -> Problems:
    _, problems = read.read(path)
    return list(problems)


def change(before: Sequence[Path], after: Sequence[Path], step: int) -> dict[str, Any]:
    """Return the change in RSA's mean accuracy at `step` (-1: the last), paired by problem."""
    return vars(paired(means(before, step), means(after, step)))


def means(paths: Sequence[Path], step: int) -> list[float]:
    """Return each problem's mean accuracy at `step` over the files, in the order of a file."""
    runs = map(_problems, paths)
    return [
        fmean(problem.steps[step].mean_accuracy or 0.0 for problem in in_runs)
        for in_runs in zip(*runs, strict=True)
    ]


def _step(runs: Sequence[Problems], votes: Sequence[Problems], step: int) -> dict[str, Any]:
    """Return the figures of a step of RSA."""
    values: dict[str, list[float]] = defaultdict(list)  # of each problem, by name
    by_problem = zip(zip(*runs, strict=True), zip(*votes, strict=True), strict=True)
    for in_runs, in_votes in by_problem:
        rows = list(_rows(in_runs, in_votes, step))
        for name in (MEAN, MAJORITY, VOTE, TOKENS):
            values[name].append(fmean(row[name] for row in rows))
    rates = {name: mean_by_problem(values[name]).to_json() for name in (MEAN, MAJORITY, VOTE)}
    pair = paired(values[VOTE], values[MAJORITY])
    tokens = fmean(values[TOKENS])
    return {"step": step, **rates, "minus_vote": vars(pair), "tokens": tokens}


def _rows(runs: Problems, votes: Problems, step: int) -> Iterator[Mapping[str, float]]:
    """Yield a problem's figures at `step` for each seed."""
    for run, vote in zip(runs, votes, strict=True):
        tokens = sum(map(_tokens, run.steps[: step + 1]))
        reached = run.steps[step]
        yield {
            MEAN: reached.mean_accuracy or 0.0,
            MAJORITY: reached.majority_correct or 0.0,
            VOTE: bought(vote.steps, tokens).score or 0.0,
            TOKENS: tokens,
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
