"""Define the types and ranges of the fields of the results JSON (schema 1) that code reads.

harness/results/schema.json states the whole format. tests/harness/results/test_schema.py compares
the two. Fields that core/types.py also has keep their names here.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from core.base.fields import Amount, Count, Finite, Share
from core.base.prices import Counted, Prices
from core.grading.kinds.choice import published_answer
from core.types import CUT, MAX_POINTS, end_of

SCHEMA = 1
TEXT = 2000  # maximum characters of a reference answer on the page

Time = Annotated[str, Meta(max_length=40)]
# key of a completion in the journal
Key = Annotated[str, Meta(pattern="^[0-9a-f]{32}$", max_length=32)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_POINTS = Meta(ge=0, le=MAX_POINTS)
GradePoints = Annotated[int, _POINTS] | Annotated[float, _POINTS]  # integers stay integers
Tokens = Count | None  # None if the server does not count tokens
Dollars = Amount | None  # None if prices or tokens are unknown
Counts = dict[str, Count]
Row = dict[str, Any]  # a problem as stored in the file
Shown = dict[str, Any]  # figures that reports only show


def total(counts: Iterable[float | None]) -> float | None:
    """Sum the counts. The sum is None (unknown) if any of them is."""
    result: float = 0
    for count in counts:
        if count is None:
            return None
        result += count
    return result


class Record(Struct, frozen=True, kw_only=True, gc=False):
    """A part of the file. A reader ignores fields that the part's class does not define."""


class Rate(Record, frozen=True, kw_only=True):
    """A share with its 95% interval, over `n` problems. `value` is None if `n` is 0."""

    value: Share | None
    low: Share
    high: Share
    n: Count


class AfterWaits(Record, frozen=True, kw_only=True):
    """A step after at most `waits` waits. `gain` is the change of `mean_accuracy` from 0 waits
    (None for 0 waits)."""

    waits: Count
    waited: Count  # members with `waits` waits or more, but 0 for 0 waits
    mean_accuracy: Rate
    gain: Shown | None = None
    completion_tokens: Tokens  # up to this wait


_Rank = Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,8}$(?!\n)")]


def is_unread(member: Mapping[str, Any]) -> bool:
    """Return whether a reply lacks a readable answer. A proof needs no answer."""
    is_wrong = member["correct"] is False and "written" not in member
    return (
        is_wrong
        and member["answer"] is None
        and member["doubt"] is not None
        and "error" not in member
    )


def is_partly_right(member: Mapping[str, Any]) -> bool:
    """Return whether a member's grade is between 0 and 1. The points of a proof are no such
    grade."""
    grade = member.get("grade")
    return grade is not None and "points_share" not in member and 0 < grade < 1


def has_scores(document: Mapping[str, Any]) -> bool:
    """Return whether some grades of a document's answers are between 0 and 1."""
    return any(step.get("partly_right") for step in document["metrics"]["steps"])


# The counts of a step, each with a test for one member. A count in SELDOM is written only if it is
# not 0. A new count needs a line here and in schema.json. For COUNTS it also needs a field below
# and a column in harness/report/run_table.py.
COUNTS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "truncated": lambda member: member["finish_reason"] == "length",
    "forced": lambda member: "unforced" in member and end_of(member["finish_reason"]) == CUT,
    "unread": is_unread,
    "doubtful": lambda member: (
        member["doubt"] is not None and "error" not in member and not is_unread(member)
    ),
    "failed": lambda member: "error" in member,
}
SELDOM: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "empty": lambda member: "empty" in member,
    "filtered": lambda member: "filtered" in member,
    "only_thinks": lambda member: "only_thinks" in member,
    "only_calls": lambda member: "only_calls" in member,
    "context_ended": lambda member: "context" in member,
    "elicited": lambda member: "unforced" in member and end_of(member["finish_reason"]) != CUT,
    "undecided": lambda member: "undecided" in member,
    "partly_right": is_partly_right,
}


class StepMetrics(Record, frozen=True, kw_only=True):
    """The figures of a step, over the problems that reached it. Accuracies also include problems
    that ended earlier."""

    step: Count
    stage: str = ""  # the scaffold's name of the step, if it has one
    completions: Count
    problems: Count
    truncated: Count
    forced: Count
    unread: Count
    doubtful: Count
    failed: Count
    identical: Count
    uncounted: Count = 0
    elicited: Count | UnsetType = UNSET  # only with ELICIT=1
    undecided: Count = 0
    undecided_pairs: Count = 0
    partly_right: Count | UnsetType = UNSET  # only if some grades are between 0 and 1
    completion_tokens: Tokens
    verification_tokens: Tokens
    generation_seconds: Amount
    mean_accuracy: Rate
    majority_accuracy: Rate
    pass_at_k: dict[_Rank, Rate]
    runs: Shown | None = None  # only in merged results, if every run is graded
    cost: Dollars = None
    waits: list[AfterWaits] = []  # after 0, 1 … waits, if any member waited


class Verification(Record, frozen=True, kw_only=True):
    """The AUC of self-scores, for right against wrong candidates. `auc` is None if one kind is
    missing."""

    right: Count
    wrong: Count
    auc: Share | None
    auc_within: Rate  # mean of the AUCs within problems that have both kinds


class Proofs(Record, frozen=True, kw_only=True):
    """The points of the proofs in the last populations (harness/results/proof_points.py)."""

    points: Rate  # the mean, divided by 7
    good: Rate  # the share of proofs with at least 6 points
    full: Rate  # the share of proofs with 7 points
    proofs: Count
    graded: Count
    not_delivered: Counts  # by reason
    missing: Counts  # by reason
    written: Shown  # the mean tokens of right and of wrong proofs
    groups: Shown  # by split, level and category, if problems have these fields
    runs: Shown | None = None  # only in merged results, if every run is graded


class Grading(Record, frozen=True, kw_only=True):
    """The grading of proofs. `prompt` is None if it depends on the problem. `grades`: gradings per
    proof (GRADES)."""

    model: str
    prompt: str | None
    grades: Count
    gradings: Count
    missing_gradings: Counts
    input_tokens: Tokens
    output_tokens: Tokens
    cost: Dollars


class Metrics(Record, frozen=True, kw_only=True):
    """The figures of a run. `spent`: the dollars paid for the experiment so far, also by earlier or
    failed requests."""

    steps: list[StepMetrics]
    tokens: Annotated[dict[Literal["prompt", "cached", "completion"], Tokens], Meta(min_length=3)]
    seconds: Amount
    verification: Verification | None = None
    cost: Dollars = None
    spent: Dollars = None
    proofs: Proofs | None = None
    scorer: Shown | UnsetType = UNSET  # the figures of the second model


class Runs(Record, frozen=True, kw_only=True):
    """The runs in merged results. `of` is their experiment, and `by` says how the runs of a problem
    are merged."""

    of: str
    by: Literal["mean", "max", "min"]
    seeds: Annotated[list[Seed], Meta(min_length=1)]


class CallCost(Record, frozen=True, kw_only=True):
    """A completion: its key in the journal, finish reason, tokens, seconds and error."""

    key: Key
    finish_reason: str | None
    prompt_tokens: Tokens
    cached_tokens: Tokens
    completion_tokens: Tokens
    seconds: Amount
    error: str | None = None

    @property
    def counted(self) -> Counted:
        return self.prompt_tokens, self.cached_tokens, self.completion_tokens

    @property
    def is_counted(self) -> bool:
        return self.prompt_tokens is not None and self.completion_tokens is not None


class Reading(Record, frozen=True, kw_only=True, omit_defaults=True):
    """An answer and its grade."""

    answer: str | None
    correct: bool | None
    grade: GradePoints | None = None


class MemberResult(CallCost, frozen=True, kw_only=True, omit_defaults=True):
    """A member of a population: a completion with its grade."""

    answer: str | None
    correct: bool | None  # whether the grade is 1, or None if not graded
    doubt: str | None
    undecided: bool = False
    group: Count | None = None  # number of the group of equal answers, 0 for the largest group
    parents: list[Count]
    unforced: Reading | None = None  # the answer before a forced or elicited answer
    carried_over: bool = False
    # verdicts give a share, other scores any number
    self_score: Finite | None = None
    verdicts: list[Share | None] | None = None
    side_calls: list[CallCost] = []
    notes: list[str] = []
    before_waits: list[Reading] = []  # the answers before each wait
    grade: GradePoints | None = None  # points of a proof, or a grade between wrong and right
    # points / 7 of a proof, None if the grade is missing. Answers and ungraded proofs lack it
    points_share: Share | UnsetType | None = UNSET
    ungraded: str | None = None  # the reason why a proof has no grade
    # by grading, None if missing
    grades: list[Annotated[int, Meta(ge=0, le=MAX_POINTS)] | None] = []
    reasons: list[str] = []  # the grader's reasons, by grading
    grading_calls: list[CallCost] = []
    self_evaluation_left_out: Count = 0  # characters hidden from the grader

    @property
    def is_proof(self) -> bool:
        """True for a proof after grading, also if its grade is missing, or if it is truncated or
        empty (0 points)."""
        return self.points_share is not UNSET

    @property
    def known_worth(self) -> float | None:
        """The share of a proof's points, or None if it is missing."""
        return None if self.points_share is UNSET else self.points_share

    @property
    def doubts(self) -> list[str]:
        doubts = [self.doubt] if self.doubt else []
        if self.undecided and self.doubt != "undecided":
            doubts.append("undecided")
        return doubts

    @property
    def calls(self) -> list[CallCost]:
        """The completion and its side calls."""
        return [self, *self.side_calls]


class StepResult(Record, frozen=True, kw_only=True):
    """The population of a step of one problem, and its vote. Accuracies are None without grades."""

    step: Count
    stage: str = ""
    partial: bool = False  # True if its solutions are unfinished
    mean_accuracy: Share | None
    majority_answer: str | None
    # mean grade of the tied answers, or of all members without a vote
    majority_correct: Share | None
    members: Annotated[list[MemberResult], Meta(min_length=1)]

    @property
    def new_calls(self) -> list[CallCost]:
        """The calls of this step, without the completions of members that an earlier step made."""
        calls: list[CallCost] = []
        for member in self.members:
            calls += member.side_calls if member.carried_over else member.calls
        return calls

    @property
    def completion_tokens(self) -> float | None:
        return total(call.completion_tokens for call in self.new_calls)


class ProblemResult(Record, frozen=True, kw_only=True):
    """A problem with its steps. Merged results contain the problem once for each run."""

    id: str
    statement: str
    answer: str | None  # the reference answer
    answer_type: str = "math"
    finished: bool  # True if the scaffold has ended
    steps: list[StepResult]
    details: dict[str, Any] = {}  # what its kind of answer needs, such as the options
    columns: dict[str, Any] = {}  # the problem's row in the data set
    seed: Seed | None = None  # the run's seed, in merged results
    split: str = ""
    solution: str | None = None
    guidelines: str | None = None
    grading_scheme: str | None = None

    @property
    def name(self) -> str:
        """The problem's unique name within the results."""
        return self.id if self.seed is None else f"{self.id} SEED={self.seed}"

    @property
    def published_answer(self) -> str | None:
        """The reference answer before the options were shuffled."""
        return published_answer(self.answer, self.details)

    @property
    def graded_by(self) -> dict[str, str]:
        """The texts that a grader of proofs may receive, by their names in Problem."""
        texts = {
            "solution": self.solution,
            "guidelines": self.guidelines,
            "grading_scheme": self.grading_scheme,
        }
        return {name: text for name, text in texts.items() if text is not None}


class Head(Record, frozen=True, kw_only=True):
    """The fields that code reads, without problems. `runs`, `prices` and `grading` are None if the
    file lacks them."""

    experiment: str
    complete: bool
    started: Time
    ended: Time
    model: dict[str, Any]
    engine: dict[str, Any]
    problem_set: dict[str, Any]
    config: dict[str, Any]
    provenance: dict[str, Any]
    metrics: Metrics
    warnings: list[str]
    runs: Runs | None = None
    prices: Prices | None = None
    grading: Grading | None = None
    scorer: Shown | UnsetType = UNSET  # the second model

    @property
    def document(self) -> dict[str, Any]:
        """The head as plain values, for tables, plots and the page."""
        document: dict[str, Any] = to_builtins(self)
        return document
