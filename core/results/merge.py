"""Merge several runs of one experiment into one results file.

The accuracy of a problem is the mean of its runs, or their best (max) or worst (min), with 95% intervals over problems.
Beside it stands how much a metric varies from run to run. The file holds every problem once for each run, with the
run's seed, so that reports show all members, and so that merged files can be merged again.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import convert

from core.base.errors import UserError, one_line
from core.base.files import amount
from core.base.prices import Prices
from core.constants import OnProblems, Paid, Repeated, Seeded, Served, rules
from core.results import read, warnings, write
from core.results.metrics import RunMetrics
from core.results.model import ProblemResult, Runs
from core.results.points import Worths
from core.results.read import Row

# Runs may differ in these: the hash of the problems says more than their name.
FREE = {name for part in (OnProblems, Seeded, Repeated, Paid) for name in rules(part)}
WEIGHTS = ("model revision", "model sha256")  # known of some servers alone
FREE_OF_GRADING = {*FREE, *rules(Served), "GRADER", "PROMPT"}  # of gradings, whose prompts are compared by their hash
# Of a grading, what of several is added up.
SUMMED = (
    "proofs", "graded", "by_math_verify", "self_evaluations", "gradings", "asked_again", "input_tokens",
    "output_tokens", "cost",
)  # fmt: skip
COUNTED = ("not_delivered", "missing", "missing_gradings")
MOST = 1_000_000  # problems, as many as a run may have


@dataclass(frozen=True)
class _Source:
    """A results file: its head as it stands, what that says of its runs, and its problems."""

    path: Path
    head: dict[str, Any]
    runs: Runs
    both: Iterator[tuple[Row, ProblemResult]]

    def problems(self) -> Iterator[tuple[Row, ...]]:
        """Yield the rows of each problem, one for each run."""
        while some := tuple(row for row, _ in islice(self.both, len(self.runs.seeds))):
            yield some


def merge(
    paths: Sequence[Path],
    name: str,
    folder: Path,
    by: str = "mean",
    complete: bool = True,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Path, dict[str, Any]]:
    """Merge the complete results in `paths`, and save them as `name` in `folder`; not `complete`: there are runs to
    come. `more`: fields of the document. Returns the file and the document (without problems). Raises UserError for
    results that can't be read or don't belong together."""
    sources = [_source(path) for path in paths]
    for other in sources[1:]:
        _check(sources[0], other)
    seeds = [seed for source in sources for seed in source.runs.seeds]
    if again := [seed for seed, count in Counter(seeds).items() if count > 1]:
        raise UserError(f"the results hold SEED={again[0]} twice. Give each run once, and each a SEED of its own")
    heads, first = [source.head for source in sources], sources[0].head
    with read.refusing(paths[0]):
        prices = first.get("prices") if all(h.get("prices") == first.get("prices") for h in heads) else None
        figures, worths, rows = _figures(sources, seeds, by, Prices(**prices) if prices else None)
        counts = {
            what: dict(sum((Counter(head["metrics"].get(what, {})) for head in heads), Counter()))
            for what in warnings.COUNTS
        }
        seconds = sum(amount(head["metrics"]["seconds"]) for head in heads)
        # These are of the first run alone; of runs that were paid at different prices, the sum has none.
        document = {key: value for key, value in first.items() if key not in ("grading", "prices")} | {
            "experiment": name,
            "complete": complete,
            "started": min(head["started"] for head in heads),
            "ended": max(head["ended"] for head in heads),
            "config": first["config"] | {"SEED": seeds[0], "RUNS": len(seeds)},
            "runs": {"of": sources[0].runs.of, "by": by, "seeds": seeds},
            "metrics": figures.metrics(seconds) | worths.metrics() | counts,
            **({"prices": prices} if prices else {}),
            **_gradings(heads),
            **more,
        }
        document["warnings"] = warnings.of_run(document, figures.commonest_error) + _differing(heads)
    return write.save(document, rows, folder), document


def _figures(
    sources: Sequence[_Source], seeds: Sequence[int], by: str, prices: Prices | None
) -> tuple[RunMetrics, Worths, list[bytes]]:
    """Return the metrics of all runs, the worth of their proofs, and the rows of the new file."""
    problems = int(amount(sources[0].head["problem_set"]["n"], MOST))
    figures, worths, made = RunMetrics(problems, len(seeds), by, prices), Worths(len(seeds), by), list[bytes]()
    paths = [source.path for source in sources for _ in source.runs.seeds]
    for together in zip_longest(*(source.problems() for source in sources), fillvalue=()):
        rows = [row for some in together for row in some]
        if len(rows) != len(seeds) or len({(row["id"], row["answer"]) for row in rows}) > 1:
            raise UserError(f"the results do not hold the same problems in the same order; see {rows[0]['id']!r:.60}")
        for run, (path, seed, row) in enumerate(zip(paths, seeds, rows, strict=True)):
            steps = row["steps"]
            if not steps or [step["step"] for step in steps] != list(range(len(steps))):
                raise UserError(f"{path}: problem {row['id']!r:.60} lacks a step")
            with read.refusing(path):
                figures.finished[len(made)] = True  # a problem without a later step ended before it
                for step in steps:
                    figures.add(len(made), step)
                worths.add_row(row, steps, run)
            fields = {key: value for key, value in row.items() if key != "steps"} | {"seed": seed}
            made.append(write.laid_out(fields, (json.dumps(step, ensure_ascii=True).encode() for step in steps)))
    if len(made) < problems * len(seeds):
        raise UserError(f"the results hold {len(made) // len(seeds)} problems of {problems}")
    return figures, worths, made


def experiment_of(path: Path) -> str:
    """Return the experiment of the results in `path`. Raises UserError if they can't be merged."""
    return _source(path).runs.of


def _source(path: Path) -> _Source:
    """Open the results in `path`. Raises UserError if they can't be read, or are of a run that goes on."""
    checked, head, both = read.read_raw(path)
    if not checked.complete:
        raise UserError(f"{path} is partial. Run it to its end first: the same command goes on")
    with read.refusing(path):
        seed = head["config"]["SEED"]
        experiment = checked.experiment.removesuffix(f"-seed{seed}")  # of one of several runs; see core/session/runs.py
        runs = checked.runs or convert({"of": experiment, "by": "mean", "seeds": [seed]}, Runs)
        return _Source(path, head, runs, both)


def _check(one: _Source, other: _Source) -> None:
    """Raise UserError if the two are no runs of one experiment: it names all in which they differ."""
    with read.refusing(other.path):
        mine, theirs = _shared(one), _shared(other)
    differing = [
        f"{name} ({_told(mine.get(name))}; {_told(theirs.get(name))})"
        for name in dict.fromkeys([*mine, *theirs])
        if mine.get(name) != theirs.get(name) and not (name in WEIGHTS and None in (mine[name], theirs[name]))
    ]
    if differing:
        raise UserError(f"{one.path} and {other.path} can't be merged: they differ in {', '.join(differing)}")


def _shared(source: _Source) -> dict[str, Any]:
    """Return what runs of one experiment have in common, by the words for it."""
    head = source.head
    return {
        "experiment": source.runs.of,
        "problem set": head["problem_set"]["sha256"],
        "model": head["model"]["name"],
        **{name: head["model"].get(name.removeprefix("model ")) for name in WEIGHTS},
        "grader": head["grader"],
        **_graded_by(head.get("grading")),
        "prompts": head["provenance"]["prompts_sha256"],
        **{name: value for name, value in head["config"].items() if name not in FREE},
    }


def _graded_by(grading: dict[str, Any] | None) -> dict[str, Any]:
    """Return the same for the points of one experiment's runs: the grader, its prompts, and its constants."""
    if grading is None:
        return {}
    constants = {f"grader's {name}": value for name, value in grading["config"].items() if name not in FREE_OF_GRADING}
    model = (grading["model"]["name"], grading["model"].get("sha256"))
    return {"grader's model": model, "grader's prompts": grading["prompts_sha256"]} | constants


def _gradings(heads: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the field of the grading; of several gradings (each of which may have been of several runs), the sums."""
    each = {json.dumps(head["grading"], sort_keys=True): head["grading"] for head in heads if "grading" in head}
    found = list(each.values())
    if len(found) < 2:
        return {"grading": found[0]} if found else {}
    made = found[0] | {"ended": max(grading["ended"] for grading in found)}
    for name in SUMMED:
        known = [grading.get(name) for grading in found]
        made[name] = None if None in known else sum(known)
    for name in COUNTED:
        made[name] = dict(sum((Counter(grading[name]) for grading in found), Counter()))
    made.pop("spent", None)  # it belongs to one budget
    made.pop("spread", None)  # a mean
    return {"grading": made}


def _differing(heads: Sequence[dict[str, Any]]) -> list[str]:
    """Return warnings of what runs may differ in, and better had not."""
    asked = {
        "engine": [(head["engine"]["kind"], head["engine"].get("version")) for head in heads],
        "server's word on the model": [head["model"].get("told") for head in heads],
        "prices": [head.get("prices") for head in heads],
        "commit": [head["provenance"].get("git_commit") for head in heads],
    }
    return [
        f"the runs differ in {name}: {'; '.join(dict.fromkeys(map(_told, values)))}"
        for name, values in asked.items()
        if any(value != values[0] for value in values)
    ]


def _told(value: Any) -> str:
    parts = [str(part) for part in (value if isinstance(value, tuple) else (value,)) if part is not None]
    return one_line(" ".join(parts) or "none", 90)
