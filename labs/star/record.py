"""What a run in rounds (STaR) has come to, in one file beside its results: what was run, and of each round its stages.

A stage stands in the record once its files are whole. The same command goes on behind the last one; what was asked
within a stage is in the journal. Paths are given from the folder of the experiment.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from core.base.errors import UserError
from core.base.files import amount, read_json
from core.results import stages
from core.results.read import change_of, count_of, counts_of, rate_of, text_of, tokens_of
from core.results.stages import NAME
from core.results.write import now

SCHEMA = 1
# The ways in which a trace came to be; the last was shown the answer.
FIRST, RETRY, RATIONALISED = WAYS = ("first", "retry", "rationalised")
SHOWN = (("collected", "results"), ("evaluated", "greedy"))
FIX = "Move its folder away and run the command again; what was asked is in the journal"


class Record(stages.Record):
    """The record of a run in rounds. Its folder is named by its label and belongs to the folder of an experiment.

    Round 0 has the last stage alone.
    """

    STAGES = ("collected", "trained", "evaluated")
    PRODUCTS: ClassVar = {"collected": "traces_sha256", "trained": "digest"}
    AT_END = ("last", "ended_by", "best")

    @property
    def label(self) -> str:
        return self.own.name

    @property
    def folder(self) -> Path:
        """The folder of the experiment."""
        return self.own.parent

    @classmethod
    def begun(cls, folder: Path, label: str, head: dict[str, Any]) -> "Record":
        """Begin or resume the run that `head` describes. Another run under the label is put aside. Raises UserError."""
        whole = {"schema": SCHEMA, "complete": False, "started": now(), "ended": None} | head
        return cls.begin(folder / label, whole, read, head, "data", folder.glob(f"{label}-round*"))


def read(path: Path) -> Record:
    """The record in `path`; what is shown of it, or used as a path, is checked. Raises UserError where it is none."""
    found = read_json(path, "the record", FIX)
    if not isinstance(found, dict) or type(found.get("schema")) is not int or found["schema"] != SCHEMA:
        raise UserError(f"{path} is not a record of STaR of schema {SCHEMA}. {FIX}")
    with _refusing(path):
        _check(found, path.parent.name)
    rounds = found.pop("rounds")
    return Record(path.parent, found, rounds)


NOT_ROUNDS = "lean"  # proof searches have records of their own (labs/lean/record.py)


def paths(folder: Path) -> list[Path]:
    """Of the records of all runs in the `folder` of an experiment, but for those put aside."""
    if folder.name == NOT_ROUNDS:
        return []
    return sorted(path for path in folder.glob(f"*/{NAME}") if "." not in path.parent.name)


def records(folder: Path) -> list[Record]:
    """What stands in them, in the order in which they were begun. Raises UserError."""
    return sorted((read(path) for path in paths(folder)), key=lambda each: (str(each.head["started"]), each.label))


def results(of: Record) -> list[Path]:
    """The results of a run, round by round: collected, and then evaluated at temperature 0; those that are there. (What
    SEEDS drew has its own, beside them.)"""
    names = [each[stage][what] for each in of.rounds for stage, what in SHOWN if stage in each]
    return [path for name in names if name and (path := of.folder / f"{name}.json").exists()]


# Checks. A record may come from anyone. The loop goes on with it as it stands, and so its values are not made anew.

_LABEL = re.compile(r"[\w-]{1,100}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """What is no record in `path` is a UserError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path} is not a record of STaR ({type(error).__name__}: {error}). {FIX}") from None


def _check(found: dict[str, Any], folder: str) -> None:
    """Raises KeyError, TypeError, ValueError or AttributeError where `found` is not what a run in `folder` leaves."""
    label = _like(_LABEL, found["label"])
    if folder.partition(".")[0] != label:
        raise ValueError(f"the label is {label!r}")
    _one_of((True, False), found["complete"])
    text_of(found["started"])
    text_of(found["start"]["name"])
    _like(_DIGEST, found["start"]["digest"])
    for name in ("name", "held_out_name"):
        text_of(found["data"][name])
    for name in ("train", "held_out"):
        count_of(found["data"][name])
    count_of(found["config"]["VOTES"])
    rounds = found["rounds"]
    if not isinstance(rounds, list):
        raise TypeError(f"rounds are {rounds!r:.40}")
    for number, of in enumerate(rounds):
        _check_round(of, number, label, number == len(rounds) - 1)
    last = found.get("last")
    if last is not None and (type(last) is not int or not 0 <= last < len(rounds) or "evaluated" not in rounds[last]):
        raise ValueError(f"the last round is {last!r:.40}")


def _check_round(of: dict[str, Any], number: int, label: str, is_last: bool) -> None:
    """The stages of round `number`, which are all there but for the last round's."""
    if type(of["round"]) is not int or of["round"] != number:
        raise ValueError(f"round {of['round']!r:.40} is the number {number}")
    stages, all_of = [stage for stage in Record.STAGES if stage in of], Record.STAGES if number else Record.STAGES[-1:]
    if stages != list(all_of[: len(stages)]) or (len(stages) < len(all_of) and not is_last):
        raise ValueError(f"round {number} has the stages {', '.join(stages) or 'none'}")
    name = f"{label}-round{number}"
    checks: dict[str, Callable[[], None]] = {
        "collected": lambda: _check_collected(of["collected"], f"{name}-collected"),
        "trained": lambda: _check_trained(of["trained"], f"{label}/round{number}/trained/"),
        "evaluated": lambda: _check_evaluated(of["evaluated"], name),
    }
    for stage in stages:
        checks[stage]()


def _check_collected(of: dict[str, Any], name: str) -> None:
    count_of(of["rows"])
    _like(_DIGEST, of["traces_sha256"])
    if _one_of((0, 1), of["repeats"]):
        _one_of((None,), of["results"])
        return
    _one_of((name,), of["results"])
    for what in ("problems", "samples", "truncated", "failed", "timed_out"):
        count_of(of[what])
    for what in ("kept", "unsound"):
        for way in WAYS:
            count_of(of[what][way])
    for way, reasons in of["dropped"].items():
        _one_of(WAYS, way)
        counts_of(reasons)
    counts_of(of.get("malformed", {}))  # records of old releases have none
    tokens_of(of["tokens"])
    amount(of["seconds"])


def _check_trained(of: dict[str, Any], folder: str) -> None:
    _one_of((f"{folder}model.gguf", f"{folder}model"), of["weights"])
    _like(_DIGEST, of["digest"])
    for what in ("rows", "tokens"):
        count_of(of[what])
    for what in ("seconds", "first_loss", "last_loss"):
        amount(of[what])


def _check_evaluated(of: dict[str, Any], name: str) -> None:
    _one_of((name,), of["greedy"])
    _one_of((None, f"{name}-sampled"), of["sampled"])
    text_of(of["model"])
    for what in ("accuracy", "format"):
        _check_rate(of[what])
    for what in ("sampled_accuracy", "vote"):
        if of[what] is not None:
            _check_rate(of[what])
    if of["gain"] is not None:
        for what in ("difference", "low", "high"):
            change_of(of["gain"][what])
    for what in ("truncated", "failed", "timed_out"):
        count_of(of[what])
    if of["steps"] is not None:
        amount(of["steps"])
    tokens_of(of["tokens"])
    amount(of["seconds"])


def _check_rate(rate: dict[str, Any]) -> None:
    if rate_of(rate).value is None:
        raise ValueError("a rate over no problems")


def _like(pattern: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{value!r:.40} is not as it is written")
    return value


def _one_of(known: tuple[Any, ...], value: Any) -> Any:
    """`value`, where it is one of the `known`, also in its type."""
    if not any(type(value) is type(each) and value == each for each in known):
        raise ValueError(f"{value!r:.40} is not {' or '.join(map(repr, known))}")
    return value
