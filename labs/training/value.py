"""Train a value head on the samples of a run, and choose among them: `bash scripts/value.sh
13_best_of`.

The value is the probability that a sample is right. A logistic regression computes it from the mean
of the model's hidden states over the problem and the answer text (/v1/embeddings). These are the
texts that SCORE=reward sends, without the thinking. A hash of its statement assigns a problem to
one of FOLDS parts. The head for a part is trained on the other parts, so every value belongs to a
held-out problem. --out FILE writes a head that is trained on all problems, for serve_value.sh.
"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from core.base import stats, terminal
from core.base.errors import Parser, UserError, command
from core.base.files import draft_of, results_dir
from core.base.seeds import derive
from core.base.terminal import say
from core.client.journal import Archive
from core.engines.protocol import Server
from core.types import Member, Problem
from harness.report.tables import chance, interval, shift
from harness.results.find import archive, path_of
from harness.scaffolds.reward import texts_of
from harness.session.regrade import StoredRun
from labs.training import served
from labs.training.embeddings import Embedder, Vectors
from labs.training.value_head import Floats, Head, Regression, text_of

FOLDS = 5
FEWEST = 10  # problems with right and wrong samples
SHOWN = 40  # samples between two lines of progress
VOTE = "vote of all samples"


@dataclass(frozen=True)
class Group:
    """The samples of one problem. `verdicts` are their self-scores (None: unreadable)."""

    statement: str
    texts: list[str]  # the head reads these ("": a sample without an answer text)
    right: list[float]
    verdicts: list[float | None]
    tokens: float  # the mean completion tokens of a sample
    check_tokens: float  # the mean completion tokens that score a sample
    vote: float  # the accuracy of the vote

    @property
    def fold(self) -> int:
        return derive("value", self.statement) % FOLDS

    @property
    def written(self) -> list[tuple[str, float]]:
        """The texts of the samples that have one, with 1 for a right sample and 0 for a wrong
        one."""
        samples = zip(self.texts, self.right, strict=True)
        return [(text, right) for text, right in samples if text]

    @property
    def is_mixed(self) -> bool:
        """True if it has right and wrong samples with texts."""
        return len({right for _, right in self.written}) > 1


def groups_of(path: Path) -> tuple[str, list[Group]]:
    """Return the model of the results in `path` and the samples of its problems: the last of the
    largest populations. Raises UserError."""
    kept = StoredRun(path)
    problems = zip(kept.problems, kept.rows, strict=True)
    with archive(path, kept.head["experiment"]) as journals:
        groups = [_group(kept, journals, problem, row) for problem, row in problems if row["steps"]]
    mixed = len([group for group in groups if group.is_mixed])
    if mixed < FEWEST:
        raise UserError(
            f"{path.name} has {mixed} problems with right and wrong samples, but a value head "
            f"needs {FEWEST}. Run an experiment that draws several samples of more problems, such "
            "as 12_majority N=8"
        )
    return kept.head["model"]["name"], groups


def _group(kept: StoredRun, journals: Archive, problem: Problem, row: dict[str, Any]) -> Group:
    step = max(row["steps"], key=lambda step: (len(step["members"]), step["step"]))
    members = step["members"]
    if any(member["correct"] is None for member in members):
        raise UserError(
            f"{kept.path.name} has samples without grades. A value head needs right and wrong "
            "samples"
        )
    population = kept.population(journals, step)
    everyone = [member for step in row["steps"] for member in step["members"]]
    checks = [call for member in everyone for call in member.get("side_calls", [])]
    tokens = sum(member["completion_tokens"] or 0 for member in everyone)
    check_tokens = sum(call["completion_tokens"] or 0 for call in checks)
    return Group(
        statement=problem.statement,
        texts=[_text(problem, member) for member in population],
        right=[float(member["correct"]) for member in members],
        verdicts=[member.get("self_score") for member in members],
        tokens=tokens / len(members),
        check_tokens=check_tokens / len(members),
        vote=step["majority_correct"] or 0.0,
    )


def _text(problem: Problem, member: Member) -> str:
    """Return the text of a sample that a head reads, or "" without an answer text."""
    return text_of(texts_of(problem, member)) if member.completion.text else ""


def values_of(groups: Sequence[Group], vectors: Vectors) -> list[list[float | None]]:
    """Return the values of each group's samples (None without a text). `vectors` contains the
    vectors of the texts, group after group."""
    folds = np.repeat([group.fold for group in groups], [len(group.written) for group in groups])
    right = _right(groups)
    values = np.zeros(len(right))
    for fold in range(FOLDS):
        learned = folds != fold
        regression = Regression.of(vectors[learned], right[learned])
        values[~learned] = regression.values(vectors[~learned])
    rest = iter(values.tolist())
    return [[next(rest) if text else None for text in group.texts] for group in groups]


def _right(groups: Sequence[Group]) -> Floats:
    """Return 1 for each right sample with a text, and 0 for each wrong one, group after group."""
    return np.array([right for group in groups for _, right in group.written])


def chosen(scores: Sequence[float | None], right: Sequence[float]) -> float:
    """Return the chance that a sample with the best score is right. None counts as the mean of the
    known scores."""
    known = [score for score in scores if score is not None]
    filled = [fmean(known or [0.0]) if score is None else score for score in scores]
    return fmean(
        value for score, value in zip(filled, right, strict=True) if score >= max(filled) - 1e-9
    )


def ways(
    groups: Sequence[Group], values: Sequence[Sequence[float | None]]
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


def report(name: str, groups: Sequence[Group], values: Sequence[Sequence[float | None]]) -> str:
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


async def _embedded(server: Server, texts: Sequence[str]) -> tuple[str, Vectors]:
    """Return the name of the embeddings, and the vectors of `texts`. Show the progress. A request
    has a single text, because on a busy CPU several may take longer than a request's time limit."""
    parts = []
    async with Embedder(server, batch=1) as embedder:
        for begin in range(0, len(texts), SHOWN):
            parts.append(await embedder(texts[begin : begin + SHOWN]))
            say(f"read {min(begin + SHOWN, len(texts))} of {len(texts)} samples", sys.stderr)
    if cut := len(embedder.cut):
        say(f"note: {cut} of them are too long, so their middle was not read", sys.stderr)
    return embedder.model, np.concatenate(parts)


def _check_model(sampled_by: str, server: Server) -> None:
    """Raise UserError if the `server` has other weights than the model that wrote the samples."""
    selected, stored = server.model.partition("@")[2], sampled_by.partition("@")[2]
    if stored and selected != stored:
        raise UserError(
            f"the samples come from {sampled_by}, but MODEL selects {server.model}. Set MODEL as "
            "for the run"
        )


def train(path: Path) -> Head:
    """Print how well a value head chooses among the samples of the results in `path`. Return a head
    that is trained on all of them. Raises UserError."""
    sampled_by, groups = groups_of(path)
    texts = [text for group in groups for text, _ in group.written]
    with (
        tempfile.TemporaryDirectory() as folder,
        served.embedding(served.to_read(), Path(folder)) as server,
    ):
        _check_model(sampled_by, server)
        model, vectors = asyncio.run(_embedded(server, texts))
    values = values_of(groups, vectors)
    print(report(path.stem, groups, values))
    return Head(
        model=model,
        run=path.stem,
        sampled_by=sampled_by,
        problems=len(groups),
        samples=len(texts),
        held_out_auc=auc(groups, values),
        regression=Regression.of(vectors, _right(groups)),
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="value.sh", description=__doc__)
    parser.add_argument(
        "results",
        metavar="NAME",
        help="results with several samples of each problem, or their path",
    )
    about = "write the head of all problems to FILE (JSON), for serve_value.sh"
    parser.add_argument("--out", type=Path, metavar="FILE", help=about)
    with command():
        args = parser.parse_args(argv)
        path = path_of(args.results, results_dir())
        with draft_of(args.out, "the head") if args.out else nullcontext() as draft:
            head = train(path)
            if draft:
                draft.write_bytes(head.content)
        if args.out:
            print(f"value head: {args.out}. Serve it with bash scripts/serve_value.sh {args.out}")


if __name__ == "__main__":
    main()
