"""The results JSON (schema 1): one definition of each field, which the reader checks and schema.json states.

msgspec and not pydantic: importing it takes 40 ms and not 150, it checks a member in 3 µs, and its errors name the
place of the field, which is what a user reads. The reader parses JSON with core/base/files.py and checks the values:
msgspec's own parser refuses halves of surrogate pairs, which files may hold. `python -m core.results.schema` writes
schema.json.

Names are those of core/types.py if the file has older ones: its `checks` are side calls, `again` means carried over,
`score` is a self-score.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypedDict, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from core.base.fields import Amount, Change, Count, Positive, Sha256, Share
from core.grading.answers import Groups
from core.types import MAX_POINTS

if TYPE_CHECKING:
    from typing import Optional as IfThere
else:

    class IfThere:
        """The type of a field that a file may lack, which is None then; in a file it is never null."""

        def __class_getitem__(cls, kind: Any) -> Any:
            return kind


SCHEMA = 1
TEXT = 2000  # characters that are kept of an answer, a doubt, an error; the journal has all of them
STATEMENT = 100_000
PROVENANCE = ("git_commit", "git_dirty", "prompts_sha256", "python", "packages", "platform", "cpus", "gpu")
LACKING: Any = -1  # stands for a number that the file of an earlier version lacks


def _kept(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _cut(most: int) -> Meta:
    """Mark a text of which `most` characters are kept."""
    return Meta(extra={"kept": lambda text: _kept(text, most)})


def _required(*names: str) -> Meta:
    """Mark an object that is always written with these names, and that the reader takes without them."""
    return Meta(extra_json_schema={"required": [*names]})


def _one_of(*names: str) -> Meta:
    """Mark a text that is one of `names`."""
    return Meta(pattern=rf"^({'|'.join(names)})$(?!\n)")


def _plain(value: Any) -> Any:
    """Return a number, a truth value or a text as it is, and the JSON of anything else."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return _kept(value if isinstance(value, str) else json.dumps(value, sort_keys=True), TEXT)


Text = Annotated[str, _cut(TEXT)]
LongText = Annotated[str, _cut(STATEMENT)]
Name = Annotated[str, _cut(60)]
LongName = Annotated[str, _cut(100)]
Time = Annotated[str, _cut(40), Meta(extra_json_schema={"format": "date-time"})]
Key = Annotated[str, Meta(pattern="^[0-9a-f]{32}$", max_length=32, description="names the completion in the journal")]
Flag = Annotated[bool, Meta(extra_json_schema={"const": True})]  # written only if it is true
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, Meta(ge=0, le=1e15, description="seconds")]
Dollars = Annotated[float, Meta(ge=0, le=1e15, description="dollars")]
_POINTS = Meta(ge=0, le=MAX_POINTS, description="points of a proof")
GradePoints = Annotated[int, _POINTS] | Annotated[float, _POINTS]  # whole points stay whole
Tokens = Annotated[int, Meta(ge=0, le=10**15, description="tokens; null: the server counted none")] | None
Counts = dict[Name, Count]
Plain = dict[Name, Annotated[Any, Meta(extra={"kept": _plain})]]  # numbers, truth values, texts; of the rest, its JSON


class Part(Struct, frozen=True, kw_only=True, gc=False):
    """A part of the file. `also`: fields that are written and that the reader ignores, or that are written in fewer
    ways than it takes. `always`: fields that are always written and that older files may lack."""

    also: ClassVar[dict[str, Any]] = {}
    always: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, kept in _keepers(type(self)):
            if value := getattr(self, name):
                force_setattr(self, name, kept(value))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields under their names here, as plain values."""
        return {name: _builtin(getattr(self, name)) for name in self.__struct_fields__}


def _builtin(value: Any) -> Any:
    if isinstance(value, Part):
        return value.to_dict()
    if isinstance(value, dict):
        return {key: _builtin(each) for key, each in value.items()}
    return [_builtin(each) for each in value] if isinstance(value, list) else value


Keeper = Callable[[Any], Any]  # returns what is kept of a value


@cache
def _keepers(part: type[Part]) -> list[tuple[str, Keeper]]:
    """Return the fields of `part` that are not kept as they are in the file."""
    hints = get_type_hints(part, include_extras=True)
    found = ((name, _keeper(hints[name])) for name in part.__struct_fields__)
    return [(name, kept) for name, kept in found if kept]


def _keeper(kind: Any) -> Keeper | None:
    """Return what is kept of a value of the type `kind`; None: all of it."""
    marks = (mark.extra["kept"] for mark in getattr(kind, "__metadata__", ()) if mark.extra)
    if kept := next(marks, None):
        return kept  # type: ignore[no-any-return]
    parts = [_keeper(each) for each in get_args(kind) if get_origin(kind) is not Literal]
    if not any(parts):
        return None
    inner = [part or (lambda value: value) for part in parts]
    if get_origin(kind) is dict:
        return lambda value: {inner[0](key): inner[1](each) for key, each in value.items()}
    if get_origin(kind) in (list, Sequence):
        return lambda value: [inner[0](each) for each in value]
    return lambda value: value if value is None else inner[0](value)  # T | None, or a marked list


class Rate(Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
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

    also = {"values": Annotated[list[Share], Meta(min_length=2)]}


class Gain(Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
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

    also = {"gain": Gain}


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
# if there are any. A new one is a line here, its field below, and its column in core/report/tables.py.
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
    `cost` is None if prices or tokens are not known. `waits`: after 0, 1 … waits, if any member waited."""

    step: Count
    stage: Name = ""  # the scaffold's name of the step, if it has one
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
    generation_seconds: Seconds
    mean_accuracy: Rate
    majority_accuracy: Rate
    pass_at_k: dict[_Rank, Rate]
    runs: IfThere[Accuracies] = None
    cost: Dollars | None = None
    waits: Annotated[list[AfterWaits], Meta(min_length=2)] = []

    also = {"empty": Count, "filtered": Count}


class Verification(Part, frozen=True, kw_only=True):
    """How well self-scores separate right candidates from wrong ones. `auc` is None if one kind is missing. `within`:
    the AUC within a problem, the mean over those with both kinds; results of earlier versions lack it."""

    right: Count
    wrong: Count
    auc: Share | None
    within: IfThere[Rate] = field(default=None, name="auc_within")

    also = dict.fromkeys(("verdicts", "unreadable", "selections", "uniform_selections"), Count)
    always = ("verdicts", "unreadable", "selections", "uniform_selections")


class Shares(Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of graded proofs, over problems: mean points / 7, and the shares with 6 points or more (`good`) and with 7."""

    points: Rate
    good: Rate
    full: Rate


class Written(Part, frozen=True, kw_only=True):
    """The mean tokens of so many proofs, if they are known."""

    proofs: Count
    thinking: Amount | None
    answer: Amount | None


class Proofs(Shares, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The points of the proofs of last populations (core/results/points.py). `not_delivered` and `missing`: by why.
    `written`: of "right" and "wrong" ones. `groups`: by split, level and category, if problems have these. `runs`: of
    merged results."""

    proofs: Count
    graded: Count
    not_delivered: Counts
    missing: Counts
    written: Annotated[dict[Annotated[str, _one_of("right", "wrong")], Written], Meta(min_length=2)]
    groups: dict[Name, dict[LongName, Shares]]
    runs: IfThere[Figures] = None

    also = {"groups": dict[Annotated[str, _one_of("split", "level", "category")], dict[str, Shares]]}


class Grader(Part, frozen=True, kw_only=True):
    """The model that graded."""

    name: Text


class GradingConfig(Part, frozen=True, kw_only=True):
    """The constants of a grading."""

    GRADES: Count


class Grading(Part, frozen=True, kw_only=True):
    """The grader, its prompt (None: the one that fits each problem), how often it graded, and what all gradings took:
    tokens and dollars, None if they are not known."""

    grader: Grader = field(name="model")
    prompt: Text | None
    constants: GradingConfig = field(name="config")
    gradings: Count
    missing_gradings: Counts
    input_tokens: Tokens
    output_tokens: Tokens
    cost: Dollars | None

    also = dict.fromkeys(("ended", "engine", "prompts_sha256", "proofs", "problems", "graded"), Any)
    also |= {"not_delivered": Counts, "missing": Counts, "spent": Dollars | None}
    always = ("ended", "engine", "prompts_sha256", "proofs", "problems", "graded", "not_delivered", "missing")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as reports have them."""
        found = super().to_dict()
        model, prompt, config = (found.pop(name) for name in ("grader", "prompt", "constants"))
        return {"model": model["name"], "prompt": prompt, "grades": config["GRADES"], **found}


class AllTokens(TypedDict):
    """The tokens of prompts, the cached ones of those, and the tokens of completions."""

    prompt: Tokens
    cached: Tokens
    completion: Tokens


class Final(Part, frozen=True, kw_only=True):
    """The figures of the last step; none of a run without steps."""

    also = {"mean_accuracy": Rate, "majority_accuracy": Rate, "pass_at_k": dict[str, Any]}
    also |= {"runs": Accuracies}


class Metrics(Part, frozen=True, kw_only=True):
    """The figures of a run. `cost`: dollars, None if prices or tokens are not known. `spent`: dollars that the run has
    paid, also for failed requests. `proofs`: None if none are graded."""

    steps: list[StepMetrics]
    tokens: AllTokens
    seconds: Seconds
    verification: Verification | None = None
    cost: Dollars | None = None
    spent: Dollars | None = None
    proofs: Proofs | None = None

    also = {"final": Final, "verification": Verification, "proofs": Proofs}
    also |= {"tokens": Annotated[dict[str, Tokens], _required("prompt", "cached", "completion")]}
    also |= {"no_reference": Annotated[list[Count], Meta(min_length=1)]}
    also |= dict.fromkeys(("reused", "reused_by", "models", "notes", "not_forced", "not_waited", "checks"), Counts)
    always = ("final",)


class Runs(Part, frozen=True, kw_only=True):
    """The runs of the experiment `of` that results were merged from, by their seeds. `by`: the merge of a problem's
    runs."""

    of: LongName
    by: Literal["mean", "max", "min"]
    seeds: Annotated[list[Seed], Meta(min_length=1, extra_json_schema={"uniqueItems": True})]


class Prices(TypedDict):
    """Dollars for a million tokens read, cached and written."""

    read: Dollars
    cached: Dollars
    written: Dollars


class DatedPrices(Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars for a million tokens, as they were looked up `on` that day."""

    also = get_type_hints(Prices, include_extras=True)
    also |= {"on": Annotated[str, Meta(extra_json_schema={"format": "date"})]}
    always = ("read", "cached", "written")


class CallCost(Part, frozen=True, kw_only=True):
    """One completion: its key in the journal, how it ended, and what it took."""

    key: Key
    finish_reason: Text | None
    prompt_tokens: Tokens
    cached_tokens: Tokens
    completion_tokens: Tokens
    seconds: Seconds
    error: Text | None = None

    also = {"seed": Seed, "error": str, "empty": Flag, "filtered": Flag, "not_forced": str, "not_waited": str}
    always = ("seed",)

    @property
    def is_counted(self) -> bool:
        return self.prompt_tokens is not None and self.completion_tokens is not None


_GRADE = {"doubt": str | None, "undecided": Flag, "grade": GradePoints | None, "reason": str}


class Reading(Part, frozen=True, kw_only=True):
    """An answer and its grade."""

    answer: Text | None
    correct: bool | None

    also = _GRADE
    always = ("doubt",)


class EarlierReading(Reading, frozen=True, kw_only=True):
    """The answer of a member before a wait."""

    also = {"completion_tokens": Tokens}
    always = ("completion_tokens",)


class MemberResult(CallCost, frozen=True, kw_only=True):
    """One member of a population, which is a completion with its grade. `correct`: None if it is not graded. `grade`:
    the points of a proof, or of a grader that says more than right or wrong. `group`: members of one group say the
    same, and 0 is the largest; None without an answer. `unforced`: the answer before another one was forced.
    `before_waits`: its answers before each wait. `self_score` and `verdicts` are None if no verdicts were asked for.

    Of a proof that was graded, or should be: its `worth` in means, None if it is missing, and why it is `ungraded`; the
    `grades` of each grading (None: missing), the grader's own words (`reasons`), all completions of these
    (`grading_calls`), and the characters of a self-evaluation that the grader was not shown (`left_out`)."""

    answer: Text | None
    correct: bool | None
    doubt: Text | None
    undecided: bool = False
    group: Count | None = LACKING
    parents: list[Count]
    unforced: Reading | None = None
    carried_over: bool = field(default=False, name="again")
    self_score: Share | None = field(default=LACKING, name="score")
    verdicts: list[Share | None] | None = None
    side_calls: list[CallCost] = field(default=[], name="checks")
    notes: list[LongName] = []
    before_waits: Annotated[list[EarlierReading], Meta(min_length=1)] = []
    grade: GradePoints | None = None
    worth: Share | None = LACKING
    ungraded: Text | None = None
    grades: Annotated[Sequence[Annotated[int, Meta(ge=0, le=MAX_POINTS)] | None], Meta(min_length=1)] = ()
    reasons: Sequence[LongText] = ()
    grading_calls: Sequence[CallCost] = field(default=(), name="grading")
    left_out: Count = field(default=0, name="self_evaluation_left_out")

    also = _GRADE | {"unforced": Reading, "again": Flag, "verdicts": list[Share | None]}
    also |= {"ungraded": str, "graded_by": Literal["grader", "math-verify"], "spread": Amount | None, "scheme": str}
    also |= {"written": Annotated[dict[str, Tokens], _required("thinking", "answer")]}

    also |= {"grade_cost": Annotated[dict[str, Dollars | None], _required("input_tokens", "output_tokens", "cost")]}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.verdicts is None:
            force_setattr(self, "self_score", None)
        elif self.self_score == LACKING:
            raise ValueError("verdicts without a score")

    @property
    def cost(self) -> CallCost:
        """Return the member as what its completion took."""
        return self

    @property
    def points(self) -> "MemberResult | None":
        """Return the member if it is a proof that was graded, or should be."""
        return None if self.worth == LACKING else self

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
    stage: Name = ""
    mean_accuracy: Share | None
    majority_answer: Text | None
    majority_correct: Share | None
    members: Annotated[list[MemberResult], Meta(min_length=1)]

    also = {"majority_tied": list[str], "identical": Count, "undecided_pairs": Count}
    always = ("majority_tied", "identical")

    def __post_init__(self) -> None:
        """Group the answers by their spelling if the file names no groups, as those of earlier versions."""
        super().__post_init__()
        if any(m.group == LACKING for m in self.members):
            answers = tuple(m.answer for m in self.members)
            ranks = {name: rank for rank, name in enumerate(Groups(answers, {}).counts)}
            for m in self.members:
                force_setattr(m, "group", None if m.answer is None else ranks[m.answer])


class ProblemResult(Part, frozen=True, kw_only=True):
    """One problem. `answer` is the reference, `finished` whether its scaffold came to its end, `columns` its row in the
    data set as it was read, `split` its part of that. `seed`: of its run, in merged results, which have a problem
    once for each run; else None."""

    id: str
    statement: LongText | None = None
    answer: str | None
    finished: bool = False
    steps: list[StepResult]
    columns: dict[str, Any] = {}
    seed: IfThere[Seed] = None
    split: LongName = ""
    solution: IfThere[LongText] = None
    guidelines: IfThere[LongText] = None
    grading_scheme: IfThere[LongText] = None

    also = {"statement": str, "answer_type": Literal["integer", "math", "proof"], "cost": Dollars | None}
    always = ("statement", "finished")

    @property
    def name(self) -> str:
        """Return what tells it from every other of its results."""
        return self.id if self.seed is None else f"{self.id} SEED={self.seed}"

    @property
    def graded_by(self) -> dict[str, str]:
        """Return the texts that a proof is graded by, under their names in Problem."""
        names = ("solution", "guidelines", "grading_scheme")
        return {name: text for name in names if (text := getattr(self, name)) is not None}


class Card(TypedDict):
    """The card of a model."""

    name: Annotated[str, Meta(min_length=1)]


class Model(Part, frozen=True, kw_only=True):
    """The model that answered. `told`: the server's own words on it."""

    name: str

    also = {"revision": str | None, "sha256": Sha256 | None, "embedded": bool}
    also |= {"told": dict[str, str], "card": Card | None}
    always = ("revision", "sha256", "embedded")


class Engine(Part, frozen=True, kw_only=True):
    """The engine that served it, and its limits."""

    kind: str

    also = {"version": str | None, "origin": str}
    also |= {"context": int | None, "seeds": bool | None, "concurrency": Positive, "why": str}
    always = ("version", "context", "concurrency", "why")


class ProblemSet(Part, frozen=True, kw_only=True):
    """The problem set, and how many of its problems were asked."""

    name: str
    n: Amount
    sha256: str

    also = {"n": Positive, "sha256": Sha256, "source": str}
    also |= dict.fromkeys(("licence", "version", "revision"), str | None)


class Origins(Part, frozen=True, kw_only=True):
    """The parts of the head that users get as dictionaries, and what they hold by all means."""

    model: Model
    engine: Engine
    problem_set: ProblemSet


class Head(Part, frozen=True, kw_only=True):
    """Everything but the problems. `runs`: None of a single run. `prices`: None if they are not known. `grading`: None
    if scripts/grade.sh has graded nothing."""

    experiment: LongName
    complete: bool
    started: Time
    ended: Time
    model: Plain
    engine: Plain
    problem_set: Plain
    config: Annotated[Plain, _required("MAX_TOKENS", "TEMPERATURE", "SEED")]
    provenance: Annotated[Plain, _required(*PROVENANCE)]
    metrics: Metrics
    warnings: list[Text]
    runs: Runs | None = None
    prices: Prices | None = None
    grading: Grading | None = None

    also = {
        "schema": Literal[1],
        "experiment": Annotated[str, Meta(min_length=1)],
        **{"model": Model, "engine": Engine, "problem_set": ProblemSet},
        "grader": str,
        "regraded": Time,
        "runs": Runs,
        "prices": DatedPrices,
        "grading": Grading,
        "problems": list[ProblemResult],
    }
    always = ("schema", "problems")

    @property
    def document(self) -> dict[str, Any]:
        """Return the head as plain values, as tables, plots and the page take it."""
        return self.to_dict()
