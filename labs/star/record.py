"""Read and write the record of a STaR run: a file with the run's constants and the stages of each round.
A stage is recorded after all its files are written. Paths are relative to the experiment's folder."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

from core.base.errors import UserError
from core.base.fields import Amount, Change, Count, Sha256, Share, fitted
from core.base.files import read_json
from core.results import stages
from core.results.stages import NAME
from core.results.write import now

SCHEMA = 1
# How a sample was drawn. Only the prompt of "rationalised" contains the reference answer.
Way = Literal["first", "retry", "rationalised"]
FIRST, RETRY, RATIONALISED = WAYS = get_args(Way)
FIX = "Move the record's folder away and run the experiment again. The journal still has the replies"


class Record(stages.Record):
    """The record of a STaR run. The run's folder is named after its label and is inside the experiment's folder.
    Round 0 only evaluates the first weights."""

    STAGES = ("collected", "trained", "evaluated")
    PRODUCTS: ClassVar = {"collected": "traces_sha256", "trained": "digest"}
    AT_END = ("last", "ended_by", "best")

    @property
    def label(self) -> str:
        return self.own.name

    @property
    def folder(self) -> Path:
        """The experiment's folder."""
        return self.own.parent

    def is_ended(self, rounds: int) -> bool:
        """Return whether all of `rounds` rounds are trained, or PATIENCE ended the run."""
        by_patience = self.head["complete"] and self.head.get("ended_by") == "PATIENCE"
        return by_patience or sum("trained" in each for each in self.rounds) >= rounds

    @classmethod
    def begun(cls, folder: Path, label: str, head: dict[str, Any]) -> "Record":
        """Begin or resume the run that `head` describes. Another run with this label is renamed. Raises UserError."""
        whole = {"schema": SCHEMA, "complete": False, "started": now(), "ended": None} | head
        return cls.begin(folder / label, whole, read, head, "data", folder.glob(f"{label}-round*"))


def read(path: Path) -> Record:
    """Read the record in `path`, with its values unchanged. Raises UserError if a field is missing or invalid."""
    found, wrong = read_json(path, "the record", FIX), f"{path} is not a record of STaR"
    label = fitted(found, _File, wrong, FIX).label
    if path.parent.name.partition(".")[0] != label:
        raise UserError(f"{wrong}. Its label is {label!r}, but its folder is named {path.parent.name!r}. {FIX}")
    rounds = found.pop("rounds")
    return Record(path.parent, found, rounds)


def paths(folder: Path) -> list[Path]:
    """List the records of all STaR runs in an experiment's `folder`. Skip renamed folders of earlier runs."""
    if folder.name == "lean":
        return []  # proof searches have another kind of record (labs/lean/outcome.py)
    return sorted(path for path in folder.glob(f"*/{NAME}") if "." not in path.parent.name)


def records(folder: Path) -> list[Record]:
    """Read the records in `folder`, in the order in which the runs began. Raises UserError."""
    return sorted((read(path) for path in paths(folder)), key=lambda each: (str(each.head["started"]), each.label))


def results(record: Record) -> list[Path]:
    """List a run's existing results files by round: the collected samples, then the evaluation at temperature 0."""
    names = []
    for each in record.rounds:
        collected, evaluated = each.get("collected", {}), each.get("evaluated", {})
        names += [collected.get("results"), evaluated.get("with_shots", {}).get("greedy"), evaluated.get("greedy")]
    return [path for name in names if name and (path := record.folder / f"{name}.json").exists()]


# The schema of a record. A record is untrusted, so the schema has every field that is shown, used as a path or resumed.


class _Rate(Struct):
    value: Share
    low: Share
    high: Share
    n: Count


class _Gain(Struct):
    difference: Change
    low: Change
    high: Change


class _Ways(Struct, forbid_unknown_fields=True):
    first: Count
    retry: Count
    rationalised: Count


class _Repeated(Struct, tag_field="repeats", tag=1):
    """A round that trains again on round 1's traces (REPEAT=1)."""

    rows: Count
    traces_sha256: Sha256
    results: None
    malformed: dict[str, Count] = {}


class _Asked(Struct, kw_only=True):
    truncated: Count
    failed: Count
    timed_out: Count
    tokens: Count | None
    seconds: Amount


class _Sampled(_Asked, tag_field="repeats", tag=0):
    rows: Count
    traces_sha256: Sha256
    results: str
    problems: Count
    samples: Count
    kept: _Ways
    dropped: dict[Way, dict[str, Count]]
    unsound: _Ways
    malformed: dict[str, Count] = {}  # absent from older records


class _Trained(Struct):
    weights: str
    digest: Sha256
    rows: Count
    tokens: Count
    seconds: Amount
    first_loss: Amount
    last_loss: Amount


class _Greedy(_Asked):
    greedy: str
    accuracy: _Rate
    gain: _Gain | None
    format: _Rate
    steps: Amount | None


class _Evaluated(_Greedy, kw_only=True):
    model: str
    sampled: str | None
    sampled_accuracy: _Rate | None
    vote: _Rate | None
    with_shots: _Greedy | UnsetType = UNSET  # round 0 with SHOTS
    gain_on_shots: _Gain | UnsetType = UNSET  # later rounds, minus round 0 with SHOTS


class _Round(Struct):
    round: Count
    collected: _Repeated | _Sampled | UnsetType = UNSET
    trained: _Trained | UnsetType = UNSET
    evaluated: _Evaluated | UnsetType = UNSET

    def check(self, number: int, label: str, is_last: bool) -> None:
        """Raise ValueError if the number, the stages or the names are wrong. Only the last round may lack stages."""
        if self.round != number:
            raise ValueError(f"round {number} has the number {self.round}")
        stages, every = [name for name in Record.STAGES if getattr(self, name)], Record.STAGES[0 if number else -1 :]
        if stages != list(every[: len(stages)]) or (len(stages) < len(every) and not is_last):
            raise ValueError(f"round {number} has the wrong stages: {', '.join(stages) or 'none'}")
        name, folder = f"{label}-round{number}", f"{label}/round{number}/trained"
        allowed: dict[tuple[str, str], tuple[str | None, ...]] = {
            ("collected", "results"): (None, f"{name}-collected"),
            ("trained", "weights"): (f"{folder}/model.gguf", f"{folder}/model"),
            ("evaluated", "greedy"): (name,),
            ("evaluated", "sampled"): (None, f"{name}-sampled"),
        }
        for (stage, what), names in allowed.items():
            if stage in stages and (found := getattr(getattr(self, stage), what)) not in names:
                raise ValueError(f"{stage}.{what} of round {number} has the wrong value {found!r:.60}")
        if self.evaluated and self.evaluated.with_shots and self.evaluated.with_shots.greedy != f"{name}-shots":
            raise ValueError(f"evaluated.with_shots of round {number} has the wrong name")


class _Start(Struct):
    name: str
    digest: Sha256


class _Data(Struct):
    name: str
    train: Count
    held_out: Count
    held_out_name: str


class _Config(Struct):
    VOTES: Count


class _File(Struct):
    schema: Literal[1]
    complete: bool
    started: str
    label: Annotated[str, Meta(pattern=r"\A[\w-]{1,100}\Z")]
    config: _Config
    start: _Start
    data: _Data
    rounds: list[_Round]
    last: Count | None = None

    def __post_init__(self) -> None:
        for number, each in enumerate(self.rounds):
            each.check(number, self.label, number == len(self.rounds) - 1)
        if self.last is not None and not any(each.evaluated for each in self.rounds[self.last : self.last + 1]):
            raise ValueError(f"the last round ({self.last}) has no evaluation")
