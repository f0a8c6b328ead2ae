"""Merge several runs of one experiment into one results file.

The accuracy of a problem is the mean, best (max) or worst (min) of its runs, with 95% intervals
over problems. The file contains every problem once for each run, with the run's seed. Reports show
all members.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import convert

from core.base.errors import UserError, one_line
from core.base.files import checked_amount
from core.constants import OnProblems, Paid, Repeated, Seeded, Served, rules
from core.grading.kinds.choice import published_answer
from harness.results import read, warnings, write
from harness.results.metrics import of_rows
from harness.results.model import Row, Seed
from harness.results.scorer import prices_in
from harness.results.server_warnings import COUNTS

# Constants in which runs may differ. Problems are compared by their hash.
FREE = {*rules(OnProblems), *rules(Seeded), *rules(Repeated), *rules(Paid)}
WEIGHTS = ("model revision", "model sha256")  # only some servers report these fields
FRAMING = ("shots_sha256", "system_sha256", "prompt_sha256")
IF_EQUAL = ("grading", "prices")  # fields that merged results have only if all runs agree
# prompts of graders are compared by their hash
FREE_OF_GRADING = {*FREE, *rules(Served), "GRADER", "PROMPT"}

Document = dict[str, Any]
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class _Source:
    """A results file of one run, with its stored head and its problems."""

    path: Path
    head: Document
    experiment: str
    seed: int
    rows: list[Row]


def merge(
    paths: Sequence[Path],
    name: str,
    folder: Path,
    by: str = "mean",
    complete: bool = True,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Path, Document]:
    """Merge the complete results in `paths`, save them in `folder`, and return the file and its
    document.

    If `name` is "", it becomes "BY-EXPERIMENT" (see `by`). Set `complete` to False if runs are
    missing. `more` adds fields to the document. Raises UserError if results are partial, unreadable
    or different, or have the same SEED.
    """
    sources = _each(_source, paths)
    first = sources[0]
    _each(lambda other: _check(first, other), sources[1:])
    seeds = [source.seed for source in sources]
    _check_seeds(seeds)
    heads = [source.head for source in sources]
    with read.refusing(first.path):
        document = _common_fields(heads)
        document |= {
            "experiment": name or f"{by}-{first.experiment}",
            "complete": complete,
            "started": min(head["started"] for head in heads),
            "ended": max(head["ended"] for head in heads),
            "config": first.head["config"] | {"SEED": first.seed, "RUNS": len(seeds)},
            "runs": {"of": first.experiment, "by": by, "seeds": seeds},
        }
        all_rows = [source.rows for source in sources]
        scorer_prices = prices_in(document.get("scorer", {}))
        figures = of_rows(all_rows, by, prices_in(document), scorer_prices)
        document["metrics"] = figures.metrics(_seconds(heads)) | _counts(heads)
        document |= more
        noted = warnings.of_run(document, figures.commonest_error)
        document["warnings"] = noted + _differing(heads)
    rows = chain.from_iterable(zip(*all_rows, strict=True))
    return write.save(document, map(write.stored, rows), folder), document


def _each(check: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Call `check` for each item, and return its results. Raises UserError with the errors of all
    items."""
    results = []
    errors = []
    for item in items:
        try:
            results.append(check(item))
        except UserError as error:
            errors.append(str(error))
    if errors:
        raise UserError(". ".join(errors))
    return results


def _common_fields(heads: Sequence[Document]) -> Document:
    """Return the fields of the first run. A grading or price list that another run lacks is left
    out, because it would not describe that run."""
    fields = dict(heads[0])
    for name in IF_EQUAL:
        if name in fields and any(head.get(name) != fields[name] for head in heads):
            del fields[name]
    return fields


def _seconds(heads: Sequence[Document]) -> float:
    return sum(checked_amount(head["metrics"]["seconds"]) for head in heads)


def _counts(heads: Sequence[Document]) -> dict[str, Counter[str]]:
    """Sum the counts of completions by server and model."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in COUNTS}
    for head in heads:
        for name in COUNTS:
            counts[name].update(head["metrics"].get(name, {}))
    return counts


def _source(path: Path) -> _Source:
    """Read the results in `path`. Raises UserError if the file can't be read or is partial."""
    checked, head, problems = read.read_raw(path)
    if not checked.complete:
        raise UserError(
            f"{path} is partial. Complete its run first, with the command that started it"
        )
    if checked.runs:
        raise UserError(
            f"{path} is merged. Name the files of its runs instead: {checked.runs.of}-seed*.json"
        )
    with read.refusing(path):
        seed = convert(head["config"]["SEED"], Seed)
        # harness/run.py adds this suffix
        experiment = checked.experiment.removesuffix(f"-seed{seed}")
        rows = [row | {"seed": seed} for row, _ in problems]
        return _Source(path, head, experiment, seed, rows)


def _check_seeds(seeds: Sequence[int]) -> None:
    """Raise UserError if seeds occur twice."""
    repeated = [f"SEED={seed}" for seed, count in Counter(seeds).items() if count > 1]
    if repeated:
        raise UserError(
            f"several of the results have {' and '.join(repeated)}. Name each run once, and run "
            "each with its own SEED"
        )


def _check(first: _Source, other: _Source) -> None:
    """Raise UserError if the files belong to different experiments. The message names all
    differences."""
    with read.refusing(other.path):
        mine = _shared(first)
        theirs = _shared(other)
    differing = []
    for name in dict.fromkeys([*mine, *theirs]):
        values = (mine.get(name), theirs.get(name))
        is_unreported = name in WEIGHTS and None in values
        if values[0] != values[1] and not is_unreported:
            differing.append(f"{name} ({_text(values[0])}; {_text(values[1])})")
    if differing:
        raise UserError(
            f"{first.path} and {other.path} can't be merged, because they differ in "
            f"{', '.join(differing)}"
        )
    if _problems(first) != _problems(other):
        raise UserError(f"{first.path} and {other.path} differ in problems. Repeat both runs")


def _problems(source: _Source) -> list[tuple[str, str | None]]:
    """Return the ids and the published answers of the problems."""
    answers = (published_answer(row["answer"], row.get("details", {})) for row in source.rows)
    return [(row["id"], answer) for row, answer in zip(source.rows, answers, strict=True)]


def _shared(source: _Source) -> dict[str, Any]:
    """Return the properties that must be equal in all runs of an experiment, by their names in
    messages."""
    head = source.head
    shared = {
        "experiment": source.experiment,
        "problem set": head["problem_set"]["sha256"],
        "model": head["model"]["name"],
    }
    for name in WEIGHTS:
        shared[name] = head["model"].get(name.removeprefix("model "))
    shared["grader"] = head["grader"]
    shared["scorer"] = head.get("scorer", {}).get("model", {}).get("name")
    shared["prompts"] = head["provenance"]["prompts_sha256"]
    for name in FRAMING:
        shared[name] = head["provenance"].get(name)
    config = head["config"]
    shared |= {name: config[name] for name in config if name not in FREE}
    if grading := head.get("grading"):
        model = grading["model"]
        shared["grader's model"] = (model["name"], model.get("sha256"))
        shared["grader's prompts"] = grading["prompts_sha256"]
        for name, value in grading["config"].items():
            if name not in FREE_OF_GRADING:
                shared[f"grader's {name}"] = value
    return shared


def _differing(heads: Sequence[Document]) -> list[str]:
    """Return warnings about differences between runs that do not prevent a merge."""
    compared = {
        "engine": [(head["engine"]["kind"], head["engine"].get("version")) for head in heads],
        "the server's description of its model": [head["model"].get("reported") for head in heads],
        "prices": [head.get("prices") for head in heads],
        "commit": [head["provenance"].get("git_commit") for head in heads],
    }
    differences = []
    for name, values in compared.items():
        if any(value != values[0] for value in values):
            texts = dict.fromkeys(map(_text, values))
            differences.append(f"the runs differ in {name}: {'; '.join(texts)}")
    return differences


def _text(value: Any) -> str:
    values = value if isinstance(value, tuple) else (value,)
    parts = [str(part) for part in values if part is not None]
    return one_line(" ".join(parts) or "none", 90)
