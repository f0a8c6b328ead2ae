"""Define the type and the range of each field of the results JSON (schema 1) that is read.

core/results/schema.json states the whole format, and tests/results/test_schema.py compares the two. JSON is parsed by
core/base/files.py: msgspec's own parser refuses halves of surrogate pairs, which files may contain. Fields have the
names of core/types.py: `checks` in the file are side calls, `again` means carried over, `score` is a self-score.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta, Struct, field, to_builtins

from core.base.fields import Amount, Change, Count, Share
from core.types import MAX_POINTS

SCHEMA = 1
TEXT = 2000  # characters of a reference that are shown
NOT_A_PROOF: Any = -1  # in place of `worth`

Time = Annotated[str, Meta(max_length=40)]
Key = Annotated[str, Meta(pattern="^[0-9a-f]{32}$", max_length=32)]  # names the completion in the journal
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_POINTS = Meta(ge=0, le=MAX_POINTS)
GradePoints = Annotated[int, _POINTS] | Annotated[float, _POINTS]  # whole points stay whole
Tokens = Count | None  # None: the server counted none
Dollars = Amount | None  # None: prices or tokens are not known
Counts = dict[str, Count]


def _one_of(*names: str) -> Meta:
    """Restrict a text to `names`."""
    return Meta(pattern=rf"^({'|'.join(names)})$(?!\n)")


class Part(Struct, frozen=True, kw_only=True, gc=False):
    """A part of the file. Other fields of the file are ignored."""


class Rate(Part, frozen=True, kw_only=True):
    """A share with its 95% interval, over `n` problems. It is None over no problems."""

    value: Share | None
    low: Share
    high: Share
    n: Count


class OverRuns(Part, frozen=True, kw_only=True):
    """A metric of several runs: the value of each, their mean, and their standard deviation (of a sample)."""

    mean: Share
    std: Share
    values: list[Share]


class Gain(Part, frozen=True, kw_only=True):
    """A difference of two shares of the same `n` problems, with its 95% interval."""

    value: Change
    low: Change
    high: Change
    n: Count


class AfterWaits(Part, frozen=True, kw_only=True):
    """The members of a step after at most `waits` waits, of which `waited` waited as often. `gain` is over no wait."""

    waits: Count
    waited: Count
    mean_accuracy: Rate
    gain: Gain | None = None
    completion_tokens: Tokens


Accuracies = Annotated[
    dict[Annotated[str, _one_of("mean_accuracy", "majority_accuracy")], OverRuns], Meta(min_length=2)
]
Figures = Annotated[dict[Annotated[str, _one_of("points", "good", "full")], OverRuns], Meta(min_length=3)]
_Rank = Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,8}$(?!\n)")]


def is_unread(member: Mapping[str, Any]) -> bool:
    """Return whether there is a reply without a readable answer. Proofs need none."""
    is_wrong = member["correct"] is False and "written" not in member
    return is_wrong and member["answer"] is None and member["doubt"] is not None and "error" not in member


# The counts of a step, each with the members that it counts. SELDOM ones are written only if there are any. A new one
# is a line here and in schema.json, a field below, and a column in core/report/tables.py.
COUNTS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "truncated": lambda member: member["finish_reason"] == "length",
    "forced": lambda member: "unforced" in member,
    "unread": is_unread,
    "doubtful": lambda member: member["doubt"] is not None and "error" not in member and not is_unread(member),
    "failed": lambda member: "error" in member,
}
SELDOM: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "empty": lambda member: "empty" in member,
    "filtered": lambda member: "filtered" in member,
    "undecided": lambda member: "undecided" in member,
}


class StepMetrics(Part, frozen=True, kw_only=True):
    """The figures of a step over all problems that reached it. Merged results have `runs`, the accuracies over runs."""

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
    undecided: Count = 0
    undecided_pairs: Count = 0
    completion_tokens: Tokens
    verification_tokens: Tokens
    generation_seconds: Amount
    mean_accuracy: Rate
    majority_accuracy: Rate
    pass_at_k: dict[_Rank, Rate]
    runs: Accuracies | None = None
    cost: Dollars = None
    waits: list[AfterWaits] = []  # after 0, 1 … waits, if any member waited


class Verification(Part, frozen=True, kw_only=True):
    """A measure of how well self-scores separate right candidates from wrong ones: AUC, None if one kind is missing."""

    right: Count
    wrong: Count
    auc: Share | None
    auc_within: Rate  # the mean AUC within problems that have both kinds


class Shares(Part, frozen=True, kw_only=True):
    """The mean points of graded proofs as a share of 7, and the shares with 6 points or more (`good`) and with 7."""

    points: Rate
    good: Rate
    full: Rate


class Written(Part, frozen=True, kw_only=True):
    """The mean tokens of this many proofs, or None if they are not known."""

    proofs: Count
    thinking: Amount | None
    answer: Amount | None


class Proofs(Shares, frozen=True, kw_only=True):
    """The points of the proofs of last populations (core/results/points.py)."""

    proofs: Count
    graded: Count
    not_delivered: Counts  # by reason
    missing: Counts  # by reason
    written: Annotated[dict[Annotated[str, _one_of("right", "wrong")], Written], Meta(min_length=2)]
    groups: dict[str, dict[str, Shares]]  # by split, level and category, if problems have these
    runs: Figures | None = None  # of merged results


class Grading(Part, frozen=True, kw_only=True):
    """The grader, its prompt (None: the one that fits each problem), the grades of each proof, and all gradings."""

    model: str
    prompt: str | None
    grades: Count
    gradings: Count
    missing_gradings: Counts
    input_tokens: Tokens
    output_tokens: Tokens
    cost: Dollars


class AllTokens(TypedDict):
    """The tokens of prompts, the cached tokens of prompts, and the tokens of completions."""

    prompt: Tokens
    cached: Tokens
    completion: Tokens


class Metrics(Part, frozen=True, kw_only=True):
    """The figures of a run. `spent` are the dollars that it has paid, also for failed requests."""

    steps: list[StepMetrics]
    tokens: AllTokens
    seconds: Amount
    verification: Verification | None = None
    cost: Dollars = None
    spent: Dollars = None
    proofs: Proofs | None = None


class Runs(Part, frozen=True, kw_only=True):
    """The runs of the experiment `of` from which results were merged. `by` is the merge of a problem's runs."""

    of: str
    by: Literal["mean", "max", "min"]
    seeds: Annotated[list[Seed], Meta(min_length=1)]


class Prices(TypedDict):
    """The dollars for a million tokens read, cached and written."""

    read: Amount
    cached: Amount
    written: Amount


class CallCost(Part, frozen=True, kw_only=True):
    """A completion: its key in the journal, how it ended, its tokens and seconds."""

    key: Key
    finish_reason: str | None
    prompt_tokens: Tokens
    cached_tokens: Tokens
    completion_tokens: Tokens
    seconds: Amount
    error: str | None = None

    @property
    def is_counted(self) -> bool:
        return self.prompt_tokens is not None and self.completion_tokens is not None


class Reading(Part, frozen=True, kw_only=True):
    """An answer and its grade."""

    answer: str | None
    correct: bool | None


class MemberResult(CallCost, frozen=True, kw_only=True):
    """A member of a population: a completion with its grade."""

    answer: str | None
    correct: bool | None  # None: not graded
    doubt: str | None
    undecided: bool = False
    group: Count | None = None  # of equal answers: 0 is the largest; None without an answer
    parents: list[Count]
    unforced: Reading | None = None  # the answer before another one was forced
    carried_over: bool = field(default=False, name="again")
    self_score: Share | None = field(default=None, name="score")
    verdicts: list[Share | None] | None = None
    side_calls: list[CallCost] = field(default=[], name="checks")
    notes: list[str] = []
    before_waits: list[Reading] = []  # the answers before each wait
    grade: GradePoints | None = None  # of a proof, or of a grader with more than right and wrong
    worth: Share | None = NOT_A_PROOF  # of a proof in means: None if its grade is missing
    ungraded: str | None = None  # why a proof has no grade
    grades: list[Annotated[int, Meta(ge=0, le=MAX_POINTS)] | None] = []  # by grading; None: missing
    reasons: list[str] = []  # the grader's, by grading
    grading_calls: list[CallCost] = field(default=[], name="grading")
    left_out: Count = field(default=0, name="self_evaluation_left_out")  # characters that the grader was not shown

    @property
    def cost(self) -> CallCost:
        return self

    @property
    def is_proof(self) -> bool:
        """True for a proof that was graded or should have been."""
        return bool(self.worth != NOT_A_PROOF)

    @property
    def doubts(self) -> list[str]:
        return list(dict.fromkeys(filter(None, [self.doubt, "undecided" if self.undecided else None])))

    @property
    def calls(self) -> list[CallCost]:
        """The completion and its side calls."""
        return [self, *self.side_calls]


class StepResult(Part, frozen=True, kw_only=True):
    """The population of a step of one problem, and its vote. None means not graded."""

    step: Count
    stage: str = ""
    mean_accuracy: Share | None
    majority_answer: str | None
    majority_correct: Share | None  # of a tie, its share of right answers; without a vote, the mean grade
    members: Annotated[list[MemberResult], Meta(min_length=1)]


class ProblemResult(Part, frozen=True, kw_only=True):
    """A problem with its steps. Merged results contain it once for each run."""

    id: str
    statement: str
    answer: str | None  # the reference
    finished: bool  # its scaffold has ended
    steps: list[StepResult]
    columns: dict[str, Any] = {}  # its row in the data set as it was read
    seed: Seed | None = None  # of its run, in merged results
    split: str = ""
    solution: str | None = None
    guidelines: str | None = None
    grading_scheme: str | None = None

    @property
    def name(self) -> str:
        """The name that is unique in its results."""
        return self.id if self.seed is None else f"{self.id} SEED={self.seed}"

    @property
    def graded_by(self) -> dict[str, str]:
        """The texts by which a proof is graded, under their names in Problem."""
        names = ("solution", "guidelines", "grading_scheme")
        return {name: text for name in names if (text := getattr(self, name)) is not None}


class Model(TypedDict):
    name: str


class Engine(TypedDict):
    kind: str


class ProblemSet(TypedDict):
    name: str
    n: Amount  # problems that were asked
    sha256: str


class Origins(Part, frozen=True, kw_only=True):
    """The parts of the head that users get as dictionaries, with the fields that these always have."""

    model: Model
    engine: Engine
    problem_set: ProblemSet


class Head(Part, frozen=True, kw_only=True):
    """Everything but the problems. `runs`, `prices` and `grading` are None for single, unpriced or ungraded runs."""

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

    @property
    def document(self) -> dict[str, Any]:
        """The head as plain values, for tables, plots and the page."""
        found: dict[str, Any] = to_builtins(self)
        return found
