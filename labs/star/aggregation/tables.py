"""Tabulate runs that learn to aggregate: all arms in one table, RSA by step, and aggregations by
their number of right parents."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from core.base.stats import mean_by_problem, paired
from harness.report.table import NONE, Column, Table
from harness.report.tables import interval, shift
from labs.star.aggregation import evaluate
from labs.star.record import Record, Round, done

MEANINGS = {
    "one sample": "mean accuracy of RSA's step 0",
    "RSA": "mean accuracy of RSA's last step",
    "minus before": "paired by problem with the model before, as all differences",
    "minus first arm": "RSA's last step, under the same seeds",
    "majority": "of a population",
    "vote": "of plain samples, with at most RSA's tokens so far on the same problem",
    "minus vote": "majority minus vote",
    "tokens": "of a problem so far",
}
ABOUT = "accuracies in % of the held-out problems, with 95% confidence intervals over problems"
OF_PARENTS = (
    "share of right aggregations by the number of their right candidates, in % with 95% intervals "
    "over problems. The first number in brackets is the number of aggregations"
)

LEGEND = (
    f"{ABOUT}, at the run's TEMPERATURE",
    *(f"{name}: {meaning}" for name, meaning in MEANINGS.items()),
    "the table of all arms has each arm's last round, which no held-out problem chose",
)


def is_learnt(run: Record) -> bool:
    """Return whether a run has evaluated RSA."""
    return any("rsa" in round_["evaluated"] for round_ in done(run))


def tables(runs: Sequence[Record]) -> list[Table]:
    """Return a table of all arms, and of each run RSA's steps, transitions and rows."""
    tables = [_arms(runs)]
    for run in runs:
        tables += [_steps(run), _parents(run), *_rows(run)]
    return tables


def curve(run: Record) -> list[tuple[int, dict[str, Any]]]:
    """Return the rounds' numbers, and the mean accuracy of RSA's last step."""
    return [
        (round_["round"], round_["evaluated"]["rsa"]["steps"][-1]["mean"])
        for round_ in _rounds(run)
    ]


def _arms(runs: Sequence[Record]) -> Table:
    """Compare the model before and all arms after their last round. The runs of an arm under
    several seeds are averaged for each problem."""
    arms: dict[str, list[Record]] = {}
    for run in runs:
        arms.setdefault(run.label.rpartition("-seed")[0], []).append(run)
    first = next(iter(arms.values()))
    rows = [_arm("before", first, first, 0), *(_arm(arm, arms[arm], first, -1) for arm in arms)]
    return _table("all arms after their last round", rows, ABOUT)


def _arm(name: str, runs: Sequence[Record], first: Sequence[Record], number: int) -> dict[str, str]:
    """Return the cells of an arm after the round with this index."""
    samples = _by_problem(runs, number, 0)
    solved = _by_problem(runs, number, -1)
    cells = {
        "arm": name,
        "seeds": str(len(runs)),
        "one sample": _rate(samples),
        "RSA": _rate(solved),
    }
    if number:
        cells["one sample minus before"] = _difference(_by_problem(runs, 0, 0), samples)
        cells["minus before"] = _difference(_by_problem(runs, 0, -1), solved)
        cells["trained tokens"] = f"{_trained(runs):,.0f}"
    if number and runs is not first:
        seeds = {_seed(run) for run in runs}
        peers = [run for run in first if _seed(run) in seeds]
        cells["minus first arm"] = _difference(_by_problem(peers, -1, -1), solved)
    last = [_rounds(run)[number]["evaluated"]["rsa"]["steps"][-1] for run in runs]
    if len(runs) == 1:
        cells["vote"] = interval(last[0]["vote"])
        cells["minus vote"] = _shift(last[0]["minus_vote"])
    return cells


def _seed(run: Record) -> str:
    return run.label.rpartition("seed")[2]


def _rounds(run: Record) -> list[Round]:
    return [round_ for round_ in done(run) if "rsa" in round_["evaluated"]]


def _by_problem(runs: Sequence[Record], number: int, step: int) -> list[float]:
    """Return each problem's accuracy at a step of RSA, as the mean over `runs`."""
    in_runs = [evaluate.means(_files(run, number), step) for run in runs]
    return [fmean(values) for values in zip(*in_runs, strict=True)]


def _files(run: Record, number: int) -> list[Path]:
    """Return the paths of RSA's results after the round with this index, one for each seed."""
    names = _rounds(run)[number]["evaluated"]["rsa"]["files"]
    return [run.folder / f"{name}.json" for name in names[: len(names) // 2]]


def _trained(runs: Sequence[Record]) -> float:
    """Return the mean number of tokens that a run has trained on."""
    return fmean(sum(round_["trained"]["tokens"] for round_ in done(run)[1:]) for run in runs)


def _rate(values: Sequence[float]) -> str:
    return interval(mean_by_problem(values).to_json())


def _difference(before: Sequence[float], after: Sequence[float]) -> str:
    return _shift(vars(paired(before, after)))


def _shift(pair: Mapping[str, Any]) -> str:
    return shift(pair["difference"], pair["low"], pair["high"])


def _steps(run: Record) -> Table:
    """Tabulate RSA's steps in each round."""
    rows = [
        _step(round_["round"], step)
        for round_ in _rounds(run)
        for step in round_["evaluated"]["rsa"]["steps"]
    ]
    return _table(f"{run.label}: RSA on the held-out problems", rows)


def _step(number: int, step: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells of a step of RSA in round `number`."""
    return {
        "round": str(number),
        "t": str(step["step"]),
        "mean": interval(step["mean"]),
        "majority": interval(step["majority"]),
        "vote": interval(step["vote"]),
        "minus vote": _shift(step["minus_vote"]),
        "tokens": f"{step['tokens']:,.0f}",
    }


def _parents(run: Record) -> Table:
    """Tabulate the share of right aggregations by the number of right candidates."""
    rows = []
    for round_ in _rounds(run):
        cells = {"round": str(round_["round"])}
        for row in round_["evaluated"]["rsa"]["transitions"]:
            name = f"{row['right_parents']} of {row['parents']} right"
            cells[name] = f"({row['aggregations']}) {interval(row['right'])}"
        rows.append(cells)
    return _table(f"{run.label}: what aggregations make of their candidates", rows, OF_PARENTS)


def _rows(run: Record) -> list[Table]:
    """Tabulate the solutions that each round collected, and the rows that it trained on."""
    rows = []
    for round_ in done(run, "collected"):
        collected = round_["collected"]
        dropped: dict[str, int] = {}
        for reasons in collected["dropped"].values():
            for reason, count in reasons.items():
                dropped[reason] = dropped.get(reason, 0) + count
        cells = {"round": str(round_["round"]), "solutions": str(collected["samples"])}
        cells |= {f"kept {way}": str(count) for way, count in collected["kept"].items() if count}
        cells |= {f"dropped: {reason}": str(count) for reason, count in dropped.items()}
        cells["rows"] = str(collected["rows"])
        parents = collected.get("by_parents", {})
        cells |= {f"rows with {right} right": str(count) for right, count in parents.items()}
        rows.append(cells)
    return [_table(f"{run.label}: solutions and rows to train on", rows)] if rows else []


def _table(title: str, rows: Sequence[Mapping[str, str]], legend_end: str = "") -> Table:
    """Return a table of `rows`, which map columns to cells. Any row may lack a column."""
    heads = dict.fromkeys(head for row in rows for head in row)
    columns = [
        Column(head, [row.get(head, NONE) for row in rows], MEANINGS.get(head, ""))
        for head in heads
    ]
    return Table(title, columns, legend_end=legend_end)
