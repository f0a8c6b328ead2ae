"""Merge several runs of one experiment into one results file.

The accuracy of a problem is the mean, best (max) or worst (min) of its runs, with 95% intervals
over problems. The file contains every problem once for each run, with the run's seed. Reports show
all members.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import convert

from core.base.errors import UserError, one_line
from core.base.files import amount
from core.base.prices import Prices
from core.constants import OnProblems, Paid, Repeated, Seeded, Served, rules
from harness.results import read, warnings, write
from harness.results.metrics import of_rows
from harness.results.model import Row, Seed
from harness.results.server_warnings import COUNTS

# Constants in which runs may differ. Problems are compared by their hash.
FREE = {name for part in (OnProblems, Seeded, Repeated, Paid) for name in rules(part)}
WEIGHTS = ("model revision", "model sha256")  # only some servers report these fields
FRAMING = ("shots_sha256", "system_sha256", "prompt_sha256")
ONE = ("grading", "prices")  # optional fields that merged results have if all runs agree
# prompts of graders are compared by their hash
FREE_OF_GRADING = {*FREE, *rules(Served), "GRADER", "PROMPT"}


@dataclass(frozen=True)
class _Source:
    """A results file of one run, with its stored head and its problems."""

    path: Path
    head: dict[str, Any]
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
) -> tuple[Path, dict[str, Any]]:
    """Merge the complete results in `paths`, save them in `folder`, and return the file and its
    document.

    If `name` is "", it becomes "BY-EXPERIMENT" (see `by`). Set `complete` to False if runs are
    missing. `more` adds fields to the document. Raises UserError if results are partial, unreadable
    or different, or have the same SEED.
    """
    sources = [_source(path) for path in paths]
    of, seeds = sources[0].experiment, [source.seed for source in sources]
    for other in sources[1:]:
        _check(sources[0], other)
    if again := [seed for seed, count in Counter(seeds).items() if count > 1]:
        raise UserError(
            f"two of the results have SEED={again[0]}. Name each run once, and run each with its "
            "own SEED"
        )
    heads, first = [source.head for source in sources], sources[0].head
    with read.refusing(paths[0]):
        # A grading or price list of the first run would not describe runs with another one.
        of_all = {
            n: value
            for n, value in first.items()
            if n not in ONE or all(h.get(n) == value for h in heads)
        }
        prices = of_all.get("prices")
        figures = of_rows(
            [source.rows for source in sources], by, Prices(**prices) if prices else None
        )
        seconds = sum(amount(head["metrics"]["seconds"]) for head in heads)
        counts = {what: Counter[str]() for what in COUNTS}
        for head, what in product(heads, counts):
            counts[what].update(head["metrics"].get(what, {}))
        document = of_all | {
            "experiment": name or f"{by}-{of}",
            "complete": complete,
            "started": min(head["started"] for head in heads),
            "ended": max(head["ended"] for head in heads),
            "config": first["config"] | {"SEED": seeds[0], "RUNS": len(seeds)},
            "runs": {"of": of, "by": by, "seeds": seeds},
            "metrics": figures.metrics(seconds) | counts,
            **more,
        }
        document["warnings"] = warnings.of_run(document, figures.commonest_error) + _differing(
            heads
        )
    rows = chain.from_iterable(zip(*(source.rows for source in sources), strict=True))
    return write.save(document, map(write.stored, rows), folder), document


def _source(path: Path) -> _Source:
    """Read the results in `path`. Raises UserError if the file can't be read or is partial."""
    checked, head, both = read.read_raw(path)
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
        return _Source(path, head, experiment, seed, [row | {"seed": seed} for row, _ in both])


def _check(one: _Source, other: _Source) -> None:
    """Raise UserError if the files belong to different experiments. The message names all
    differences."""
    with read.refusing(other.path):
        mine, theirs = _shared(one), _shared(other)
    differing = [
        f"{name} ({_text(mine.get(name))}; {_text(theirs.get(name))})"
        for name in dict.fromkeys([*mine, *theirs])
        if mine.get(name) != theirs.get(name)
        and not (name in WEIGHTS and None in (mine[name], theirs[name]))
    ]
    if differing:
        raise UserError(
            f"{one.path} and {other.path} can't be merged, because they differ in "
            f"{', '.join(differing)}"
        )
    if [(row["id"], row["answer"]) for row in one.rows] != [
        (row["id"], row["answer"]) for row in other.rows
    ]:
        raise UserError(f"{one.path} and {other.path} differ in problems. Repeat both runs")


def _shared(source: _Source) -> dict[str, Any]:
    """Return the properties that must be equal in all runs of an experiment, by their names in
    messages."""
    head = source.head
    shared = {
        "experiment": source.experiment,
        "problem set": head["problem_set"]["sha256"],
        "model": head["model"]["name"],
        **{name: head["model"].get(name.removeprefix("model ")) for name in WEIGHTS},
        "grader": head["grader"],
        "prompts": head["provenance"]["prompts_sha256"],
        **{name: head["provenance"].get(name) for name in FRAMING},
        **{name: value for name, value in head["config"].items() if name not in FREE},
    }
    if grading := head.get("grading"):
        shared["grader's model"] = (grading["model"]["name"], grading["model"].get("sha256"))
        shared["grader's prompts"] = grading["prompts_sha256"]
        config = grading["config"].items()
        shared |= {
            f"grader's {name}": value for name, value in config if name not in FREE_OF_GRADING
        }
    return shared


def _differing(heads: Sequence[dict[str, Any]]) -> list[str]:
    """Return warnings about differences between runs that do not prevent a merge."""
    compared = {
        "engine": [(head["engine"]["kind"], head["engine"].get("version")) for head in heads],
        "the server's description of its model": [head["model"].get("reported") for head in heads],
        "prices": [head.get("prices") for head in heads],
        "commit": [head["provenance"].get("git_commit") for head in heads],
    }
    return [
        f"the runs differ in {name}: {'; '.join(dict.fromkeys(map(_text, values)))}"
        for name, values in compared.items()
        if any(value != values[0] for value in values)
    ]


def _text(value: Any) -> str:
    parts = [
        str(part) for part in (value if isinstance(value, tuple) else (value,)) if part is not None
    ]
    return one_line(" ".join(parts) or "none", 90)
