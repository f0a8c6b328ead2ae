"""Read and write the record of a STaR run: a file with the run's constants and the stages of each
round. A stage is recorded after all its files are written. Paths are relative to the experiment's
folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from msgspec import Struct

from core.base.fields import fitted
from core.base.files import read_json
from harness.results.write import now
from labs.training import stages
from labs.training.stages import NAME

SCHEMA = 1
# How a sample was drawn. Only the prompt of "rationalised" contains the reference answer. The
# prompt of "aggregated" contains candidates (labs/star/aggregation).
Way = Literal["first", "retry", "rationalised", "aggregated"]
FIRST, RETRY, RATIONALISED, AGGREGATED = WAYS = get_args(Way)
OF_STAR = WAYS[:3]
FIX = (
    "Move the record's folder away and run the experiment again. The journal still has the replies"
)


class Record(stages.Record):
    """The record of a STaR run. The run's folder is named after its label and is inside the
    experiment's folder. Round 0 only evaluates the first weights."""

    STAGES = ("collected", "trained", "evaluated")
    PRODUCTS: ClassVar = {"collected": "traces_sha256", "trained": "digest"}
    AT_END = ("last", "ended_by", "best")

    @property
    def label(self) -> str:
        return self.run_folder.name

    @property
    def folder(self) -> Path:
        """The experiment's folder."""
        return self.run_folder.parent

    def is_ended(self, rounds: int) -> bool:
        """Return whether all of `rounds` rounds are trained, or PATIENCE ended the run."""
        by_patience = self.head["complete"] and self.head.get("ended_by") == "PATIENCE"
        trained = [round_ for round_ in self.rounds if "trained" in round_]
        return by_patience or len(trained) >= rounds

    @classmethod
    def begun(cls, folder: Path, label: str, head: dict[str, Any]) -> "Record":
        """Begin or resume the run that `head` describes. Another run with this label is renamed.
        Raises UserError."""
        whole = {"schema": SCHEMA, "complete": False, "started": now(), "ended": None} | head
        return cls.begin(folder / label, whole, read, head, "data", folder.glob(f"{label}-round*"))


Round = dict[str, Any]  # the outcomes of one round's stages, by stage


def done(run: Record, stage: str = "evaluated") -> list[Round]:
    """Return the rounds that have `stage`, up to the run's last round. A longer run may have
    recorded later rounds."""
    last = run.head.get("last") if run.head["complete"] else None
    end = None if last is None else last + 1
    return [round_ for round_ in run.rounds[:end] if stage in round_]


def samples(round_: Round) -> dict[str, str]:
    """Return the link to a round's samples, or {} if the round collected none."""
    name = round_.get("collected", {}).get("results")
    return {"samples": name} if name else {}


@dataclass(frozen=True)
class Headline:
    """The figures of an evaluation by which rounds are ranked and drawn. If the round evaluated
    RSA, they belong to RSA."""

    accuracy: dict[str, Any]  # at RSA's last step, or at temperature 0
    sampled: dict[str, Any] | None  # at RSA's step 0, or the mean over SEEDS
    gain: dict[str, Any] | None  # the change of `accuracy` since round 0
    results: str  # the name of the results with this `accuracy`


def headline(round_: Round) -> Headline:
    """Return the headline figures of an evaluated round."""
    evaluated = round_["evaluated"]
    rsa = evaluated.get("rsa")
    if not rsa:
        sampled = evaluated["sampled_accuracy"]
        return Headline(evaluated["accuracy"], sampled, evaluated["gain"], evaluated["greedy"])
    first, *_, last = rsa["steps"]
    return Headline(last["mean"], first["mean"], rsa.get("gain"), rsa["results"])


def score(round_: Round) -> float:
    """Return the accuracy by which rounds are ranked."""
    return float(headline(round_).accuracy["value"])


def best(run: Record) -> int:
    """Return the number of the round with the highest score. In a tie the earliest round wins."""

    def rank(round_: Round) -> tuple[float, int]:
        return score(round_), -round_["round"]

    return int(max(done(run), key=rank)["round"])


class _File(Struct):
    """The fields that identify a record. A run writes its stages whole, so they are not checked
    again."""

    schema: Literal[1]
    complete: bool
    started: str
    rounds: list[dict[str, Any]]


def read(path: Path) -> Record:
    """Read the record in `path`. Raises UserError if it is not a record of STaR."""
    head = read_json(path, "the record", FIX)
    fitted(head, _File, f"{path} is not a record of STaR", FIX)
    rounds = head.pop("rounds")
    return Record(path.parent, head, rounds)


def paths(folder: Path) -> list[Path]:
    """List the records of all STaR runs in an experiment's `folder`. Skip renamed folders of
    earlier runs."""
    if folder.name == "lean":
        return []  # proof searches have another kind of record (labs/lean/outcome.py)
    return sorted(path for path in folder.glob(f"*/{NAME}") if "." not in path.parent.name)


def records(folder: Path) -> list[Record]:
    """Read the records in `folder`, in the order in which the runs began. Raises UserError."""
    found = map(read, paths(folder))
    return sorted(found, key=lambda run: (str(run.head["started"]), run.label))
