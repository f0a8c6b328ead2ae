"""Format the last lines of a run: its answer, its gain over step 0, and its control at equal
tokens.

RSA's last vote follows more completions than step 0's vote. The control is a plain vote that spends
as many tokens."""

import math
import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from core.base.errors import UserError
from core.base.prices import format_dollars as dollars
from core.base.stats import Paired, paired
from core.base.terminal import short
from core.constants import Paid, Sampled, Served, constants_in, rules
from core.engines import environment
from harness import experiment_file
from harness.report import compare
from harness.report.data import Results
from harness.report.tables import (
    NOT_GRADED,
    POINTS,
    interval,
    is_of_proofs,
    is_priced,
    over_runs,
    runs_of,
    shift,
    signed,
    spent,
)
from harness.results import over_runs as runs_merged
from harness.results import read
from harness.results.model import Head, ProblemResult, StepResult, has_scores, total
from harness.results.warnings import is_ungraded

CONTROL = "12_majority"  # an experiment with a plain vote
CONTROLS = (CONTROL, "01_baseline")
EQUAL = (0.8, 1.25)  # a control's tokens are called equal within this range of the run's tokens
FREE = {*rules(Served), *rules(Paid), "N", "STAGE", "OUT"}  # constants that the command omits
Document = dict[str, Any]


def final(document: Document, problems: Sequence[ProblemResult] = ()) -> str:
    """Summarise a run: "final: majority 88.3 [80.1, 94.0], +22.9 [+9.8, +36.1] over step 0's vote,
    at 6 times its tokens, 175k tokens, 119 s". The gain's interval needs the `problems`. If all
    completions of the last step failed, the accuracy is left out."""
    metrics = document["metrics"]
    runs = runs_of(document)
    tokens = spent(metrics["tokens"]["completion"], short)
    parts = [_rate(document)]
    by_run = metrics["steps"][-1].get("runs")
    if by_run:
        parts.append(f"over {runs} runs {over_runs(by_run['majority_accuracy'])}")
    parts += _gain(document, problems)
    parts.append(f"{tokens} tokens in {runs} runs" if runs > 1 else f"{tokens} tokens")
    if is_priced(document):
        is_partly_counted = any(step.get("uncounted") for step in metrics["steps"])
        parts.append(spent(metrics.get("cost"), dollars, is_partly_counted))
    parts.append(f"{metrics['seconds']:,.0f} s")
    return ", ".join(parts)


def _rate(document: Document) -> str:
    """Format the last step's vote, or its points."""
    if _is_lost(document):
        return "final: the last step has no reply"
    if is_ungraded(document):
        return f"final: {NOT_GRADED}"
    name = "majority score" if has_scores(document) else "majority"
    if is_of_proofs(document):
        name = f"{POINTS}:"
    return f"final: {name} {interval(document['metrics']['steps'][-1]['majority_accuracy'])}"


def _is_lost(document: Document) -> bool:
    """Return whether all completions of the last step failed."""
    last = document["metrics"]["steps"][-1]
    return bool(0 < last["completions"] == last["failed"])


def _gain(document: Document, problems: Sequence[ProblemResult]) -> list[str]:
    """Format the gain over step 0, and the ratio of the tokens. Return [] for a single step, or
    without grades."""
    steps = document["metrics"]["steps"]
    first = steps[0]["majority_accuracy"]["value"]
    last = steps[-1]["majority_accuracy"]["value"]
    if len(steps) == 1 or first is None or last is None or _is_lost(document):
        return []
    gain = signed(last - first)
    pair = gain_of(document, problems)
    if pair:
        gain = shift(pair.difference, pair.low, pair.high)
    before = "step 0" if is_of_proofs(document) else "step 0's vote"
    parts = [f"{gain} over {before}"]
    ratio = _ratio(steps)
    if ratio:
        parts.append(f"at {_times(ratio)} its tokens")
    return parts


def gain_of(document: Document, problems: Sequence[ProblemResult]) -> Paired | None:
    """Pair the votes (or points) of the last step with step 0's, by problem. The runs of a
    problem are merged. Return None without graded problems."""
    begun = [problem for problem in problems if problem.steps]
    runs = document.get("runs") or {"by": "mean", "seeds": [0]}
    count = len(runs["seeds"])
    before = _table([problem.steps[0] for problem in begun], count)
    after = _table([problem.steps[-1] for problem in begun], count)
    lacks_one = np.isnan(before) | np.isnan(after)
    has_both = ~lacks_one.all(axis=1)
    if not has_both.any():
        return None
    first = runs_merged.merged(before[has_both], runs["by"])
    last = runs_merged.merged(after[has_both], runs["by"])
    return paired(first, last)


def _table(steps: Sequence[StepResult], runs: int) -> runs_merged.Values:
    """Return the votes of `steps`, with a row for each problem and a column for each run. A vote
    without a grade is nan."""
    votes = []
    for step in steps:
        vote = step.majority_correct
        votes.append(math.nan if vote is None else vote)
    return np.array(votes).reshape(-1, runs)


def _ratio(steps: Sequence[Document]) -> float | None:
    """Return the tokens of all steps, divided by step 0's tokens. Return None if they are
    unknown."""
    tokens = [total([step["completion_tokens"], step["verification_tokens"]]) for step in steps]
    of_all = total(tokens)
    return of_all / tokens[0] if of_all and tokens[0] else None


def _times(ratio: float) -> str:
    """Format a ratio of tokens: "6 times", "1.5 times"."""
    number = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"
    return f"{number.removesuffix('.0')} times"


# --- the control ---


def control(run: Results) -> str:
    """Compare a run with its control, if the folder has the control's results. Otherwise return the
    command that runs it, or "" if the run needs none: only a run whose step 0 votes over several
    samples and whose later steps spend more tokens needs one."""
    samples = _equal_samples(run.document)
    if not samples:
        return ""
    for name in CONTROLS:
        path = run.path.with_name(f"{name}.json")
        with suppress(UserError):
            if path.exists() and _is_control(read.read(path)[0], run.head):
                return _against(Results(path), run)
    with suppress(UserError):
        words = [*environment.typed(), "bash scripts/run.sh", CONTROL, f"N={samples}"]
        return " ".join([*words, *_words(run.head.config)])
    return ""


def _equal_samples(document: Document) -> int:
    """Return the number of samples of a problem that cost as many tokens as the run, or 0 if the
    run needs no control."""
    steps = document["metrics"]["steps"]
    first = steps[0]
    ratio = _ratio(steps)
    has_votes = not is_of_proofs(document) and not is_ungraded(document)
    has_several = first["completions"] > first["problems"] > 0
    tokens = first["completion_tokens"]
    if not (has_votes and has_several and ratio and tokens) or _is_lost(document):
        return 0
    all_tokens = ratio * (tokens + first["verification_tokens"])
    samples = first["completions"] / first["problems"]
    equal = round(samples * all_tokens / tokens)
    return min(equal, 1024) if equal > samples else 0


def _is_control(head: Head, run: Head) -> bool:
    """Return whether a head belongs to a complete run with the same problems, model and sampling,
    and with about as many tokens."""
    is_same = (
        head.complete
        and head.problem_set["sha256"] == run.problem_set["sha256"]
        and head.model["name"] == run.model["name"]
        and all(head.config.get(name) == run.config.get(name) for name in rules(Sampled))
    )
    return is_same and EQUAL[0] <= _share(head, run) <= EQUAL[1]


def _share(head: Head, run: Head) -> float:
    """Return the tokens of a control, divided by the tokens of a run. Return 0 if they are
    unknown."""
    tokens = []
    for other in (head, run):
        count = other.metrics.tokens["completion"]
        tokens.append((count or 0) / runs_of(other.document))
    return tokens[0] / tokens[1] if tokens[1] else 0


def _against(other: Results, run: Results) -> str:
    """Compare a run with its control in one line."""
    pair = compare.pair(compare.result(other), compare.result(run))
    test = pair.metrics[compare.METRICS[1]]
    gain = shift(test.difference, test.low, test.high)
    samples = other.head.config.get("N")
    share = _share(other.head, run.head)
    return f"{gain} over {other.name} N={samples}, which spends {share:.0%} of the tokens"


def _words(config: Document) -> list[str]:
    """Return the constants of a run that its control needs, if they differ from the control's
    file, as words that follow a command."""
    loaded = experiment_file.load(CONTROL)
    kind = loaded.planned.constants
    defaults = {name: getattr(kind, name) for name in rules(kind)} | constants_in(loaded.namespace)
    words = []
    for name, value in defaults.items():
        if name not in FREE and config.get(name, value) != value:
            words.append(f"{name}={shlex.quote(str(config[name]))}")
    return words
