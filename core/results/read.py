"""Results files, read in one place: checked, typed, and problem by problem.

A file may come from anyone, and so every value that is used is checked on the way in; a file with a wrong one is
refused in one line. Of a file of a million completions, one problem is in memory at a time. Names are those of
core/types.py where the file (schema 1) has older ones: its `checks` are side calls, `again` is carried over, `score` a
self-score.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import amount, parse_json, read_lines
from core.grading.answers import Groups
from core.types import MAX_POINTS

SCHEMA = 1
START, END = ' "problems": [\n', " ]\n"  # the lines around the problems, as core/results/write.py lays a file out
FIX = "Move the file away and run it again"
TEXT = 2000  # characters that are kept of an answer, a doubt, an error; the journal has all of them
STATEMENT = 100_000
MERGED_BY = ("mean", "max", "min")
PRICES = ("read", "cached", "written")
ACCURACIES = ("mean_accuracy", "majority_accuracy")
SHARES = ("points", "good", "full")

_KEY = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Rate:
    """A share with its 95% interval, over `n` problems. None: over no problems."""

    value: float | None
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class OverRuns:
    """A metric of several runs: that of each, their mean, and their standard deviation (n - 1 in its denominator)."""

    mean: float
    std: float
    values: list[float]


@dataclass(frozen=True, slots=True)
class Gain:
    """A difference of two shares of the same `n` problems, with its 95% interval."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class AfterWaits:
    """The members of a step after so many waits at most, `waited` of which waited as often. `gain`: over none; None of
    none. `completion_tokens`: up to there; None where the server counted none."""

    waits: int
    waited: int
    mean_accuracy: Rate
    gain: Gain | None
    completion_tokens: int | None


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """The figures of a step over all problems that reached it. Tokens are None where the server counted none. `runs`:
    of merged results, the two accuracies over runs, by their names here. `cost`: dollars; None where prices or tokens
    are not known. `waits`: after 0, 1 … waits, where any member waited."""

    step: int
    stage: str  # what the scaffold calls it; "" where the number says it
    completions: int
    problems: int
    truncated: int
    forced: int
    unread: int
    doubtful: int
    failed: int
    identical: int
    uncounted: int
    undecided: int
    undecided_pairs: int
    completion_tokens: int | None
    verification_tokens: int | None
    generation_seconds: float
    mean_accuracy: Rate
    majority_accuracy: Rate
    pass_at_k: dict[str, Rate]
    runs: dict[str, OverRuns] | None = None
    cost: float | None = None
    waits: list[AfterWaits] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verification:
    """How well self-scores part right candidates from wrong ones. `auc` is None where there are none of one kind.
    `within`: the AUC within a problem, the mean over those with both kinds; results of earlier versions lack it."""

    right: int
    wrong: int
    auc: float | None
    within: Rate | None


@dataclass(frozen=True, slots=True)
class Shares:
    """Of graded proofs, over problems: mean points / 7, and the shares with 6 points or more (`good`) and with 7."""

    points: Rate
    good: Rate
    full: Rate


@dataclass(frozen=True, slots=True)
class Written:
    """Mean tokens of so many proofs, where they are known."""

    proofs: int
    thinking: float | None
    answer: float | None


@dataclass(frozen=True, slots=True)
class Proofs:
    """What the proofs of last populations are worth (core/results/points.py); `not_delivered` and `missing`: by why.
    `written`: of "right" and "wrong" ones. `groups`: by split, level and category, where problems have these. `runs`:
    of merged results, by the names of Shares."""

    points: Rate
    good: Rate
    full: Rate
    proofs: int
    graded: int
    not_delivered: dict[str, int]
    missing: dict[str, int]
    written: dict[str, Written]
    groups: dict[str, dict[str, Shares]]
    runs: dict[str, OverRuns] | None = None


@dataclass(frozen=True, slots=True)
class Grading:
    """Who graded, by which prompt (None: what fits each problem), how often, and what all of it took: tokens and
    dollars, None where they are not known."""

    model: str
    prompt: str | None
    grades: int
    gradings: int
    missing_gradings: dict[str, int]
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class Metrics:
    """`tokens`: of prompts, of those the cached ones, and of completions; None where the server counted none. `cost`:
    dollars; None where prices or tokens are not known. `spent`: dollars that the run has paid, also for what failed.
    `proofs`: None where none are graded."""

    steps: list[StepMetrics]
    tokens: dict[str, int | None]
    seconds: float
    verification: Verification | None
    cost: float | None = None
    spent: float | None = None
    proofs: Proofs | None = None


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of the experiment `of` that results were merged from, by their seeds; `by`: "mean", "max" or "min" of
    the runs of a problem."""

    of: str
    by: str
    seeds: list[int]


@dataclass(frozen=True, slots=True)
class Head:
    """Everything but the problems. The parts that are dictionaries hold numbers, truth values and texts, and of any
    other value its JSON as text; what is in them by all means is in `_head`.
    `runs`: None of a single run. `prices`: dollars for a million tokens read, cached and written; None: not known.
    `grading`: None where scripts/grade.sh has graded nothing."""

    experiment: str
    complete: bool
    started: str
    ended: str
    model: dict[str, Any]
    engine: dict[str, Any]
    problem_set: dict[str, Any]
    config: dict[str, Any]
    provenance: dict[str, Any]
    metrics: Metrics
    warnings: list[str]
    runs: Runs | None = None
    prices: dict[str, float] | None = None
    grading: Grading | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The same as plain values, as tables, plots and the page take it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CallCost:
    """One completion: its key in the journal, how it ended, and what it took. Tokens are None where the server counted
    none."""

    key: str
    finish_reason: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    seconds: float
    error: str | None

    @property
    def is_counted(self) -> bool:
        return self.prompt_tokens is not None and self.completion_tokens is not None


@dataclass(frozen=True, slots=True)
class Reading:
    """An answer and its grade."""

    answer: str | None
    correct: bool | None


@dataclass(frozen=True, slots=True)
class Points:
    """What scripts/grade.sh brought a proof: its `worth` in means, in [0, 1], None where it is missing, and why it is
    `ungraded`; of each grading the `grades` (None: missing) and the grader's own words (`reasons`), and all
    completions that these took. `left_out`: characters of a self-evaluation that the grader was not shown."""

    worth: float | None
    ungraded: str | None
    grades: list[int | None]
    reasons: list[str]
    calls: list[CallCost]
    left_out: int


@dataclass(frozen=True, slots=True)
class MemberResult:
    """One member of a population. `correct`: None where nobody has graded it; `grade`: the points of a proof, 0 to 7,
    or what a grader gives that has more to say than right or wrong. `points`: of a proof that was graded, or was to be.
    `group`: members of one group say the same, and
    0 is the largest; None without an answer. `unforced`: the answer as the model left it, where another was forced;
    `before_waits`: its answers before each wait. `self_score` and `verdicts` are None where nobody asked for
    verdicts."""

    cost: CallCost
    answer: str | None
    correct: bool | None
    doubt: str | None
    undecided: bool
    group: int | None
    parents: list[int]
    unforced: Reading | None
    carried_over: bool
    self_score: float | None
    verdicts: list[float | None] | None
    side_calls: list[CallCost]
    notes: list[str]
    before_waits: list[Reading] = field(default_factory=list)
    grade: float | None = None
    points: Points | None = None

    @property
    def doubts(self) -> list[str]:
        """All that is doubtful about its grade."""
        return list(dict.fromkeys(filter(None, [self.doubt, "undecided" if self.undecided else None])))

    @property
    def calls(self) -> list[CallCost]:
        """All completions that were made for it."""
        return [self.cost, *self.side_calls]


@dataclass(frozen=True, slots=True)
class StepResult:
    """The population of a step of one problem, and its vote. A tie in the vote scores its share of right answers; what
    has no vote, its mean grade. None: nobody has graded it."""

    step: int
    stage: str
    mean_accuracy: float | None
    majority_answer: str | None
    majority_correct: float | None
    members: list[MemberResult]


@dataclass(frozen=True, slots=True)
class ProblemResult:
    """One problem. `answer` is the reference, `finished` whether its scaffold came to its end, `columns` its row in the
    data set as it was read, `split` its part of that. `seed`: of its run, in merged results, which have a problem
    once for each; else None. `graded_by`: of a proof, the texts that it is graded by, under their names in Problem."""

    id: str
    statement: str | None
    answer: str | None
    finished: bool
    steps: list[StepResult]
    columns: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    split: str = ""
    graded_by: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What tells it from every other of its results."""
        return self.id if self.seed is None else f"{self.id} SEED={self.seed}"


def read(path: Path) -> tuple[Head, Iterator[ProblemResult]]:
    """Everything but "problems", and the problems one by one. Raises UserError where the file can't be read or is no
    results file of schema 1; of the problems, as they come."""
    with refusing(path):
        head, problems = parsed(path)
        return _head(path, head), _checked(path, problems)


def parsed(path: Path) -> tuple[dict[str, Any], Iterator[Any]]:
    """The same as it stands in the file, unchecked. A file that is laid out otherwise is read whole. Raises UserError
    where it can't be read or is no JSON, and TypeError or ValueError where the JSON is no object with problems."""
    lines = read_lines(path, "results", FIX)
    before: list[str] = []
    for line in lines:
        if line == START:
            return dict(_json(path, [*before, '"problems": []}'])), _problems(path, lines)
        before.append(line)
    whole = dict(_json(path, before))
    return whole, iter(whole.pop("problems", []))


def _problems(path: Path, rest: Iterator[str]) -> Iterator[Any]:
    lines: list[str] = []
    for line in rest:
        if lines and (line == END or line.startswith("  {")):
            yield _json(path, ["".join(lines).rstrip(",\n")])
            lines.clear()
        if line == END:
            return
        lines.append(line)
    raise UserError(f"results {path} end in the middle. {FIX}")


def _json(path: Path, lines: list[str]) -> Any:
    return parse_json("".join(lines), f"results {path}", FIX)


# Checks


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """What is read of the results in `path` and is not as it should be is a UserError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(f"{path} is not a results file of this project ({type(error).__name__}: {error})") from None


def _checked(path: Path, problems: Iterator[Any]) -> Iterator[ProblemResult]:
    for problem in problems:
        with refusing(path):
            checked = _problem(problem)
        yield checked


def _head(path: Path, head: dict[str, Any]) -> Head:
    schema = head["schema"]
    if schema is True or schema != SCHEMA:
        raise UserError(f"results {path} have schema {schema!r:.40}; this version reads {SCHEMA}")
    parts = {
        name: {text_of(key, 60): _plain(value) for key, value in head[name].items()}
        for name in ("model", "engine", "problem_set", "config", "provenance")
    }
    for name, key in (("model", "name"), ("engine", "kind"), ("problem_set", "name"), ("problem_set", "sha256")):
        text_of(parts[name][key])
    amount(parts["problem_set"]["n"])
    metrics = head["metrics"]
    checked = metrics.get("verification")
    return Head(
        experiment=text_of(head["experiment"], 100),
        complete=head["complete"] is True,
        started=text_of(head["started"], 40),
        ended=text_of(head["ended"], 40),
        **parts,
        metrics=Metrics(
            steps=[_step_metrics(step) for step in metrics["steps"]],
            tokens={kind: tokens_of(metrics["tokens"][kind]) for kind in ("prompt", "cached", "completion")},
            seconds=amount(metrics["seconds"]),
            verification=_verification(checked) if checked else None,
            cost=_dollars(metrics.get("cost")),
            spent=_dollars(metrics.get("spent")),
            proofs=_proofs(proofs) if (proofs := metrics.get("proofs")) else None,
        ),
        warnings=[text_of(warning) for warning in head["warnings"]],
        runs=_runs(runs) if (runs := head.get("runs")) else None,
        prices={name: amount(prices[name]) for name in PRICES} if (prices := head.get("prices")) else None,
        grading=_grading(grading) if (grading := head.get("grading")) else None,
    )


def _runs(runs: dict[str, Any]) -> Runs:
    if runs["by"] not in MERGED_BY or not runs["seeds"]:
        raise ValueError("runs that are not merged by mean, max or min")
    return Runs(text_of(runs["of"], 100), runs["by"], [seed_of(seed) for seed in runs["seeds"]])


def _over_runs(over: dict[str, Any], names: Sequence[str] = ACCURACIES) -> dict[str, OverRuns]:
    return {
        name: OverRuns(amount(of["mean"], 1), amount(of["std"], 1), [amount(value, 1) for value in of["values"]])
        for name, of in ((name, over[name]) for name in names)
    }


def _proofs(of: dict[str, Any]) -> Proofs:
    return Proofs(
        **_shares(of),
        proofs=count_of(of["proofs"]),
        graded=count_of(of["graded"]),
        not_delivered=counts_of(of["not_delivered"]),
        missing=counts_of(of["missing"]),
        written={
            kind: Written(count_of(w["proofs"]), *(_dollars(w[name]) for name in ("thinking", "answer")))
            for kind, w in ((kind, of["written"][kind]) for kind in ("right", "wrong"))
        },
        groups={
            text_of(name, 60): {text_of(group, 100): Shares(**_shares(each)) for group, each in groups.items()}
            for name, groups in of["groups"].items()
        },
        runs=_over_runs(over, SHARES) if (over := of.get("runs")) else None,
    )


def _shares(of: dict[str, Any]) -> dict[str, Any]:
    return {name: rate_of(of[name]) for name in SHARES}


def _grading(of: dict[str, Any]) -> Grading:
    return Grading(
        model=text_of(of["model"]["name"]),
        prompt=_text_or_none(of["prompt"]),
        grades=count_of(of["config"]["GRADES"]),
        gradings=count_of(of["gradings"]),
        missing_gradings=counts_of(of["missing_gradings"]),
        input_tokens=tokens_of(of["input_tokens"]),
        output_tokens=tokens_of(of["output_tokens"]),
        cost=_dollars(of["cost"]),
    )


def counts_of(counts: dict[str, Any]) -> dict[str, int]:
    return {text_of(why, 60): count_of(count) for why, count in counts.items()}


def _step_metrics(step: dict[str, Any]) -> StepMetrics:
    counts = ("step", "completions", "problems", "truncated", "forced", "unread", "doubtful", "failed", "identical")
    rare = ("uncounted", "undecided", "undecided_pairs")
    return StepMetrics(
        stage=text_of(step.get("stage", ""), 60),
        **{name: count_of(step[name]) for name in counts},
        **{name: count_of(step.get(name, 0)) for name in rare},
        completion_tokens=tokens_of(step["completion_tokens"]),
        verification_tokens=tokens_of(step["verification_tokens"]),
        generation_seconds=amount(step["generation_seconds"]),
        mean_accuracy=rate_of(step["mean_accuracy"]),
        majority_accuracy=rate_of(step["majority_accuracy"]),
        pass_at_k={str(int(k)): rate_of(rate) for k, rate in step["pass_at_k"].items()},
        runs=_over_runs(over) if (over := step.get("runs")) else None,
        cost=_dollars(step.get("cost")),
        waits=[_after_waits(after) for after in step.get("waits", ())],
    )


def _verification(checked: dict[str, Any]) -> Verification:
    within = rate_of(checked["auc_within"]) if "auc_within" in checked else None
    return Verification(count_of(checked["right"]), count_of(checked["wrong"]), _share_or_none(checked["auc"]), within)


def _problem(problem: dict[str, Any]) -> ProblemResult:
    statement, answer, columns = problem.get("statement"), problem["answer"], problem.get("columns", {})
    if not isinstance(columns, dict):
        raise TypeError("columns that are no object")
    return ProblemResult(
        id=text_of(problem["id"], None),
        statement=None if statement is None else text_of(statement, STATEMENT),
        answer=None if answer is None else text_of(answer, None),
        finished=problem.get("finished") is True,
        steps=[step_result(step) for step in problem["steps"]],
        columns=columns,
        seed=seed_of(problem["seed"]) if "seed" in problem else None,
        split=text_of(problem.get("split", ""), 100),
        graded_by={
            name: text_of(problem[name], STATEMENT)
            for name in ("solution", "guidelines", "grading_scheme")
            if name in problem
        },
    )


def step_result(step: dict[str, Any]) -> StepResult:
    """A step of a problem, as a results file has it, checked. Raises KeyError, TypeError or ValueError."""
    members = step["members"]
    if not members:
        raise ValueError("a population without members")
    groups = _groups(members)
    return StepResult(
        step=count_of(step["step"]),
        stage=text_of(step.get("stage", ""), 60),
        mean_accuracy=_share_or_none(step["mean_accuracy"]),
        majority_answer=_text_or_none(step["majority_answer"]),
        majority_correct=_share_or_none(step["majority_correct"]),
        members=[_member(m, group) for m, group in zip(members, groups, strict=True)],
    )


def _groups(members: Sequence[dict[str, Any]]) -> list[int | None]:
    """The group of each member. Results of earlier versions name none; there, answers of one spelling are a group."""
    if all("group" in m for m in members):
        return [None if m["group"] is None else count_of(m["group"]) for m in members]
    answers = [_text_or_none(m["answer"]) for m in members]
    ranks = {name: rank for rank, name in enumerate(Groups(tuple(answers), {}).counts)}
    return [None if answer is None else ranks[answer] for answer in answers]


def _member(m: dict[str, Any], group: int | None) -> MemberResult:
    unforced, verdicts = m.get("unforced"), m.get("verdicts")
    return MemberResult(
        cost=_cost(m),
        answer=_text_or_none(m["answer"]),
        correct=_correct(m),
        doubt=_text_or_none(m["doubt"]),
        undecided=m.get("undecided") is True,
        group=group,
        parents=[count_of(j) for j in m["parents"]],
        unforced=None if unforced is None else Reading(_text_or_none(unforced["answer"]), _correct(unforced)),
        carried_over=m.get("again") is True,
        self_score=None if verdicts is None else _share_or_none(m["score"]),
        verdicts=None if verdicts is None else [_share_or_none(verdict) for verdict in verdicts],
        side_calls=[_cost(call) for call in m.get("checks", ())],
        notes=[text_of(note, 100) for note in m.get("notes", ())],
        before_waits=[Reading(_text_or_none(r["answer"]), _correct(r)) for r in m.get("before_waits", ())],
        grade=None if m.get("grade") is None else amount(m["grade"], MAX_POINTS),
        points=_points(m) if "worth" in m else None,
    )


def _points(m: dict[str, Any]) -> Points:
    return Points(
        worth=_share_or_none(m["worth"]),
        ungraded=_text_or_none(m.get("ungraded")),
        grades=[None if grade is None else int(amount(grade, MAX_POINTS)) for grade in m.get("grades", ())],
        reasons=[text_of(reason, STATEMENT) for reason in m.get("reasons", ())],
        calls=[_cost(call) for call in m.get("grading", ())],
        left_out=count_of(m.get("self_evaluation_left_out", 0)),
    )


def _correct(reading: dict[str, Any]) -> bool | None:
    return None if reading["correct"] is None else reading["correct"] is True


def _cost(made: dict[str, Any]) -> CallCost:
    key = made["key"]
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r:.40} is no journal key")
    return CallCost(
        key=key,
        finish_reason=_text_or_none(made["finish_reason"]),
        prompt_tokens=tokens_of(made["prompt_tokens"]),
        cached_tokens=tokens_of(made["cached_tokens"]),
        completion_tokens=tokens_of(made["completion_tokens"]),
        seconds=amount(made["seconds"]),
        error=_text_or_none(made.get("error")),
    )


def seed_of(value: Any) -> int:
    """A SEED, which may be larger than an amount. Raises ValueError."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r:.40} is no seed")
    return value


def count_of(value: Any) -> int:
    return int(amount(value))


def tokens_of(value: Any) -> int | None:
    return None if value is None else int(amount(value))


def _dollars(value: Any) -> float | None:
    return None if value is None else amount(value)


def _after_waits(after: dict[str, Any]) -> AfterWaits:
    gain = after.get("gain")
    return AfterWaits(
        count_of(after["waits"]),
        count_of(after["waited"]),
        rate_of(after["mean_accuracy"]),
        None
        if gain is None
        else Gain(change_of(gain["value"]), change_of(gain["low"]), change_of(gain["high"]), count_of(gain["n"])),
        tokens_of(after["completion_tokens"]),
    )


def change_of(value: Any) -> float:
    """A difference of shares. Raises ValueError or TypeError."""
    return math.copysign(amount(abs(value), 1), value)


def rate_of(rate: dict[str, Any]) -> Rate:
    return Rate(_share_or_none(rate["value"]), amount(rate["low"], 1), amount(rate["high"], 1), count_of(rate["n"]))


def _share_or_none(value: Any) -> float | None:
    return None if value is None else amount(value, 1)


def text_of(value: Any, most: int | None = TEXT) -> str:
    """`value`, cut off behind `most` characters."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value if most is None or len(value) <= most else value[: most - 1] + "…"


def _text_or_none(value: Any) -> str | None:
    return None if value is None else text_of(value)


def _plain(value: Any) -> Any:
    """A number, a truth value or a text; of anything else, its JSON."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return text_of(value if isinstance(value, str) else json.dumps(value, sort_keys=True))
