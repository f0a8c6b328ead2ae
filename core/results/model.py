"""The results JSON (schema 1) as its readers see it: the type and the range of each field that they use.

core/results/schema.json states the whole format, and tests/results/test_schema.py compares the two. The reader parses
JSON with core/base/files.py and checks the values with msgspec, whose errors name the place of a field. (msgspec's own
parser refuses halves of surrogate pairs, which files may hold.)

Fields have the names of core/types.py if the file has others: its `checks` are side calls, `again` means carried over,
`score` is a self-score.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta, Struct, field

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
    """Mark a text that is one of `names`."""
    return Meta(pattern=rf"^({'|'.join(names)})$(?!\n)")


class Part(Struct, frozen=True, kw_only=True, gc=False):
    """A part of the file. Fields of the file that no reader uses are ignored."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields under their names here, as plain values."""
        return {name: _builtin(getattr(self, name)) for name in self.__struct_fields__}


def _builtin(value: Any) -> Any:
    if isinstance(value, Part):
        return value.to_dict()
    if isinstance(value, dict):
        return {key: _builtin(each) for key, each in value.items()}
    return [_builtin(each) for each in value] if isinstance(value, list) else value


class Rate(Part, frozen=True, kw_only=True):
    """A share with its 95% interval, over `n` problems. None: over no problems."""

    value: Share | None
    low: Share
    high: Share
    n: Count


class OverRuns(Part, frozen=True, kw_only=True):
    """A metric of several runs: the value of each, their mean, and their standard deviation (n - 1 in its
    denominator)."""

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
    """The members of a step after at most so many waits, `waited` of which waited as often. `gain`: over no wait.
    `completion_tokens`: up to there."""

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
    """Return whether there is a reply in which no answer could be found or read. A proof has none to be read."""
    is_wrong = member["correct"] is False and "written" not in member
    return is_wrong and member["answer"] is None and member["doubt"] is not None and "error" not in member


# The counts of a step, each with the members that it counts (core/results/records.py); those of SELDOM are written only
# if there are any. A new one is a line here and in schema.json, its field below, and its column in
# core/report/tables.py.
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
    """The figures of a step over all problems that reached it. `runs`: of merged results, the two accuracies over runs.
    `waits`: after 0, 1 … waits, if any member waited."""

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
    waits: list[AfterWaits] = []


class Verification(Part, frozen=True, kw_only=True):
    """How well self-scores separate right candidates from wrong ones. `auc` is None if one kind is missing. `within`:
    the AUC within a problem, the mean over those with both kinds."""

    right: Count
    wrong: Count
    auc: Share | None
    within: Rate = field(name="auc_within")


class Shares(Part, frozen=True, kw_only=True):
    """Of graded proofs, over problems: mean points / 7, and the shares with 6 points or more (`good`) and with 7."""

    points: Rate
    good: Rate
    full: Rate


class Written(Part, frozen=True, kw_only=True):
    """The mean tokens of so many proofs, if they are known."""

    proofs: Count
    thinking: Amount | None
    answer: Amount | None


class Proofs(Shares, frozen=True, kw_only=True):
    """The points of the proofs of last populations (core/results/points.py). `not_delivered` and `missing`: by why.
    `written`: of "right" and "wrong" ones. `groups`: by split, level and category, if problems have these. `runs`: of
    merged results."""

    proofs: Count
    graded: Count
    not_delivered: Counts
    missing: Counts
    written: Annotated[dict[Annotated[str, _one_of("right", "wrong")], Written], Meta(min_length=2)]
    groups: dict[str, dict[str, Shares]]
    runs: Figures | None = None


class Grading(Part, frozen=True, kw_only=True):
    """The grader's `model`, its prompt (None: the one that fits each problem), the grades of each proof, the gradings,
    and what all of them took: tokens and dollars, None if they are not known."""

    model: str
    prompt: str | None
    grades: Count
    gradings: Count
    missing_gradings: Counts
    input_tokens: Tokens
    output_tokens: Tokens
    cost: Dollars


class AllTokens(TypedDict):
    """The tokens of prompts, the cached ones of those, and the tokens of completions."""

    prompt: Tokens
    cached: Tokens
    completion: Tokens


class Metrics(Part, frozen=True, kw_only=True):
    """The figures of a run. `spent`: dollars that the run has paid, also for failed requests. `proofs`: None if none
    are graded."""

    steps: list[StepMetrics]
    tokens: AllTokens
    seconds: Amount
    verification: Verification | None = None
    cost: Dollars = None
    spent: Dollars = None
    proofs: Proofs | None = None


class Runs(Part, frozen=True, kw_only=True):
    """The runs of the experiment `of` that results were merged from, by their seeds. `by`: the merge of a problem's
    runs."""

    of: str
    by: Literal["mean", "max", "min"]
    seeds: Annotated[list[Seed], Meta(min_length=1)]


class Prices(TypedDict):
    """Dollars for a million tokens read, cached and written."""

    read: Amount
    cached: Amount
    written: Amount


class CallCost(Part, frozen=True, kw_only=True):
    """One completion: its key in the journal, how it ended, and what it took."""

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
    """One member of a population, which is a completion with its grade. `correct`: None if it is not graded. `grade`:
    the points of a proof, or of a grader that says more than right or wrong. `group`: members of one group say the
    same, and 0 is the largest; None without an answer. `unforced`: the answer before another one was forced.
    `before_waits`: its answers before each wait. `self_score` and `verdicts` are None if no verdicts were asked for.

    Of a proof that was graded, or should be: its `worth` in means, None if it is missing, and why it is `ungraded`; the
    `grades` of each grading (None: missing), the grader's own words (`reasons`), all completions of these
    (`grading_calls`), and the characters of a self-evaluation that the grader was not shown (`left_out`)."""

    answer: str | None
    correct: bool | None
    doubt: str | None
    undecided: bool = False
    group: Count | None = None
    parents: list[Count]
    unforced: Reading | None = None
    carried_over: bool = field(default=False, name="again")
    self_score: Share | None = field(default=None, name="score")
    verdicts: list[Share | None] | None = None
    side_calls: list[CallCost] = field(default=[], name="checks")
    notes: list[str] = []
    before_waits: list[Reading] = []
    grade: GradePoints | None = None
    worth: Share | None = NOT_A_PROOF
    ungraded: str | None = None
    grades: list[Annotated[int, Meta(ge=0, le=MAX_POINTS)] | None] = []
    reasons: list[str] = []
    grading_calls: list[CallCost] = field(default=[], name="grading")
    left_out: Count = field(default=0, name="self_evaluation_left_out")

    @property
    def cost(self) -> CallCost:
        """Return the member as what its completion took."""
        return self

    @property
    def points(self) -> "MemberResult | None":
        """Return the member if it is a proof that was graded, or should be."""
        return None if self.worth == NOT_A_PROOF else self

    @property
    def doubts(self) -> list[str]:
        """List all that is doubtful about its grade."""
        return list(dict.fromkeys(filter(None, [self.doubt, "undecided" if self.undecided else None])))

    @property
    def calls(self) -> list[CallCost]:
        """List all completions that were made for it."""
        return [self, *self.side_calls]


class StepResult(Part, frozen=True, kw_only=True):
    """The population of a step of one problem, and its vote. A tie in the vote scores its share of right answers;
    without a vote, the mean grade. None: not graded."""

    step: Count
    stage: str = ""
    mean_accuracy: Share | None
    majority_answer: str | None
    majority_correct: Share | None
    members: Annotated[list[MemberResult], Meta(min_length=1)]


class ProblemResult(Part, frozen=True, kw_only=True):
    """One problem. `answer` is the reference, `finished` whether its scaffold came to its end, `columns` its row in the
    data set as it was read, `split` its part of that. `seed`: of its run, in merged results, which have a problem
    once for each run; else None."""

    id: str
    statement: str
    answer: str | None
    finished: bool
    steps: list[StepResult]
    columns: dict[str, Any] = {}
    seed: Seed | None = None
    split: str = ""
    solution: str | None = None
    guidelines: str | None = None
    grading_scheme: str | None = None

    @property
    def name(self) -> str:
        """Return what tells it from every other of its results."""
        return self.id if self.seed is None else f"{self.id} SEED={self.seed}"

    @property
    def graded_by(self) -> dict[str, str]:
        """Return the texts that a proof is graded by, under their names in Problem."""
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
    """The parts of the head that users get as dictionaries, with what they hold by all means."""

    model: Model
    engine: Engine
    problem_set: ProblemSet


class Head(Part, frozen=True, kw_only=True):
    """Everything but the problems. `runs`: None of a single run. `prices`: None if they are not known. `grading`: None
    if scripts/grade.sh has graded nothing."""

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
        """Return the head as plain values, as tables, plots and the page take it."""
        return self.to_dict()
