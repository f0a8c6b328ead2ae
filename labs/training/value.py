"""Train a value head on the samples of a run, and choose among them: `bash scripts/value.sh
13_best_of`.

The value is the probability that a sample is right. A logistic regression computes it from the mean
of the model's hidden states over the problem and the sample (/v1/embeddings). A hash of its
statement assigns a problem to one of FOLDS parts. The head for a part is trained on the other
parts, so every value belongs to a held-out problem.
"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.base import stats, terminal
from core.base.errors import Parser, UserError, command
from core.base.files import results_dir
from core.base.seeds import derive
from core.base.terminal import say
from core.client.journal import Archive
from core.engines import environment
from core.engines.dialects import llamacpp
from harness.report.tables import chance, interval, shift
from harness.results.find import archive, path_of
from harness.session.regrade import StoredRun
from labs.training import served
from labs.training.embeddings import Embedder, Vectors
from labs.training.served import Weights

FOLDS = 5
RIDGE = 10.0  # weight of the squared coefficients in the loss (inputs have variance 1)
ROUNDS = 30  # most Newton steps
FEWEST = 10  # problems with right and wrong samples
SHOWN = 40  # samples between two lines of progress
VOTE = "vote of all samples"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """The samples of one problem. `verdicts` are their self-scores (None: unreadable)."""

    statement: str
    texts: list[str]
    right: list[float]
    verdicts: list[float | None]
    tokens: float  # the mean completion tokens of a sample
    check_tokens: float  # the mean completion tokens that score a sample
    vote: float  # the accuracy of the vote

    @property
    def fold(self) -> int:
        return derive("value", self.statement) % FOLDS


def groups_of(path: Path) -> tuple[str, list[Group]]:
    """Return the model of the results in `path` and the samples of its problems: the last of the
    largest populations. Raises UserError."""
    kept = StoredRun(path)
    with archive(path, kept.head["experiment"]) as journals:
        groups = [_group(kept, journals, row) for row in kept.rows if row["steps"]]
    mixed = len([group for group in groups if 0 < sum(group.right) < len(group.right)])
    if mixed < FEWEST:
        raise UserError(
            f"{path.name} has {mixed} problems with right and wrong samples, but a value head "
            f"needs {FEWEST}. Run an experiment that draws several samples of more problems, such "
            "as 12_majority N=8"
        )
    return kept.head["model"]["name"], groups


def _group(kept: StoredRun, journals: Archive, row: dict[str, Any]) -> Group:
    step = max(row["steps"], key=lambda step: (len(step["members"]), step["step"]))
    members = step["members"]
    if any(member["correct"] is None for member in members):
        raise UserError(
            f"{kept.path.name} has samples without grades. A value head needs right and wrong "
            "samples"
        )
    completions = [member.completion for member in kept.population(journals, step)]
    everyone = [member for step in row["steps"] for member in step["members"]]
    checks = [call for member in everyone for call in member.get("side_calls", [])]
    tokens = sum(member["completion_tokens"] or 0 for member in everyone)
    check_tokens = sum(call["completion_tokens"] or 0 for call in checks)
    texts = [
        f"{row['statement']}\n\n{completion.thinking}\n\n{completion.text}"
        for completion in completions
    ]
    return Group(
        statement=row["statement"],
        texts=texts,
        right=[float(member["correct"]) for member in members],
        verdicts=[member.get("self_score") for member in members],
        tokens=tokens / len(members),
        check_tokens=check_tokens / len(members),
        vote=step["majority_correct"] or 0.0,
    )


def fit(inputs: Floats, right: Floats) -> Floats:
    """Return the coefficients of a logistic regression, the constant last. Newton's method
    minimises the log loss and RIDGE / 2 times the squares of all coefficients but the constant."""
    table = np.column_stack([inputs, np.ones(len(inputs))])
    ridge = np.diag([RIDGE] * inputs.shape[1] + [1e-6])
    coefficients = np.zeros(table.shape[1])
    for _ in range(ROUNDS):
        chances = _chances(table @ coefficients)
        slope = table.T @ (chances - right) + ridge @ coefficients
        weights = chances * (1 - chances)
        curvature = (table * weights[:, None]).T @ table + ridge
        step = np.linalg.solve(curvature, slope)
        coefficients -= step
        if np.abs(step).max() < 1e-6:
            break
    return coefficients


def _chances(scores: Floats) -> Floats:
    chances: Floats = 1 / (1 + np.exp(-np.clip(scores, -30, 30)))
    return chances


def values_of(groups: Sequence[Group], vectors: Vectors) -> list[list[float]]:
    """Return the values of each group's samples. `vectors` contains the samples' vectors, group
    after group."""
    folds = np.repeat([group.fold for group in groups], [len(group.texts) for group in groups])
    right = np.array([value for group in groups for value in group.right])
    values = np.zeros(len(right))
    for fold in range(FOLDS):
        learned = folds != fold
        mean = vectors[learned].mean(axis=0, dtype=np.float64)
        scale = vectors[learned].std(axis=0, dtype=np.float64)
        inputs = (vectors - mean) / np.maximum(scale, 1e-6)
        *weights, constant = fit(inputs[learned], right[learned])
        values[~learned] = _chances(inputs[~learned] @ np.array(weights) + constant)
    ends = np.cumsum([len(group.texts) for group in groups])[:-1]
    return [part.tolist() for part in np.split(values, ends)]


def chosen(scores: Sequence[float | None], right: Sequence[float]) -> float:
    """Return the chance that a sample with the best score is right. None counts as the mean of the
    known scores."""
    known = [score for score in scores if score is not None]
    filled = [fmean(known or [0.0]) if score is None else score for score in scores]
    return fmean(
        value for score, value in zip(filled, right, strict=True) if score >= max(filled) - 1e-9
    )


def ways(
    groups: Sequence[Group], values: Sequence[Sequence[float]]
) -> dict[str, tuple[float, list[float]]]:
    """Return the tokens per problem and the accuracy on each problem, for each way to choose an
    answer. Own verdicts choose among fewer samples, because a verdict costs tokens, too."""
    count = max(len(group.texts) for group in groups)
    sample, check = np.mean(
        [(group.tokens, group.check_tokens) for group in groups], axis=0
    ).tolist()
    by_value = [chosen(own, group.right) for group, own in zip(groups, values, strict=True)]
    ways = {
        "one sample": (sample, [fmean(group.right) for group in groups]),
        VOTE: (count * sample, [group.vote for group in groups]),
        f"best of {count} by value": (count * sample, by_value),
        f"any of {count} is right": (count * sample, [max(group.right) for group in groups]),
    }
    if any(verdict is not None for group in groups for verdict in group.verdicts):
        n = max(1, int(count * sample / (sample + check)))
        by_verdict = [chosen(group.verdicts[:n], group.right[:n]) for group in groups]
        ways[f"best of {n} by own verdict"] = (n * (sample + check), by_verdict)
    return ways


def auc(groups: Sequence[Group], scores: Sequence[Sequence[float | None]]) -> stats.Estimate:
    """Estimate the chance that a right sample has a higher score than a wrong one of the same
    problem, averaged over problems that have both."""
    areas = []
    for group, group_scores in zip(groups, scores, strict=True):
        right: list[float] = []
        wrong: list[float] = []
        for score, value in zip(group_scores, group.right, strict=True):
            if score is not None:
                (right if value == 1 else wrong).append(score)
        areas.append(stats.auc(right, wrong))
    return stats.mean_by_problem([area for area in areas if area is not None])


def report(name: str, groups: Sequence[Group], values: Sequence[Sequence[float]]) -> str:
    """Return the table of ways to choose an answer, and the AUCs within problems."""
    choices = ways(groups, values)
    rows = [["answer", "accuracy", "minus the vote", "p", "tokens"]]
    _, of_vote = choices[VOTE]
    for way, (tokens, accuracies) in choices.items():
        accuracy = interval(stats.mean_by_problem(accuracies).to_json())
        difference = p = "-"
        if way != VOTE:
            pair = stats.paired(of_vote, accuracies)
            difference = shift(pair.difference, pair.low, pair.high)
            p = chance(pair.p)
        rows.append([way, accuracy, difference, p, f"{tokens:,.0f}"])
    lines = [
        f"{name}: {len(groups)} problems, values of held-out problems",
        terminal.aligned(rows),
        "",
    ]
    kinds: dict[str, Sequence[Sequence[float | None]]] = {
        "values": values,
        "own verdicts": [group.verdicts for group in groups],
    }
    for kind, scores in kinds.items():
        area = auc(groups, scores)
        if area.n:
            span = f"{area.value:.3f} [{area.low:.3f}, {area.high:.3f}]"
            lines.append(f"AUC of {kind} within a problem: {span}, n={area.n}")
    return "\n".join(
        [*lines, "all intervals: 95% over problems. Differences are paired by problem"]
    )


async def _embedded(server: Any, texts: Sequence[str]) -> Vectors:
    """Return the vectors of `texts`, and show the progress. A request has a single text, because on
    a busy CPU several may take longer than a request's time limit."""
    parts = []
    async with Embedder(server, batch=1) as embedder:
        for begin in range(0, len(texts), SHOWN):
            parts.append(await embedder(texts[begin : begin + SHOWN]))
            say(f"read {min(begin + SHOWN, len(texts))} of {len(texts)} samples", sys.stderr)
    return np.concatenate(parts)


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="value.sh", description=__doc__)
    parser.add_argument(
        "results",
        metavar="NAME",
        help="results with several samples of each problem, or their path",
    )
    with command():
        path = path_of(parser.parse_args(argv).results, results_dir())
        model, groups = groups_of(path)
        environment.check()
        if environment.card().file:
            policy = Weights(llamacpp.gguf_file(environment.model()))
        else:
            policy = served.first()
        with (
            tempfile.TemporaryDirectory() as folder,
            served.embedding(policy, Path(folder)) as server,
        ):
            selected, stored = server.model.partition("@")[2], model.partition("@")[2]
            if stored and selected != stored:
                raise UserError(
                    f"the samples come from {model}, but MODEL selects {server.model}. Set MODEL "
                    "as for the run"
                )
            vectors = asyncio.run(
                _embedded(server, [text for group in groups for text in group.texts])
            )
        print(report(path.stem, groups, values_of(groups, vectors)))


if __name__ == "__main__":
    main()
