"""Tabulate runs that learn to aggregate: all arms in one table, RSA by step, and aggregations by
their number of right parents."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from core.base.stats import paired
from harness.report.table import BETWEEN, NONE, Column, Table
from harness.report.tables import interval, shift
from labs.star.aggregation import evaluate
from labs.star.aggregation.evaluate import RSA, VOTE
from labs.star.record import Record, Round, done

MEANINGS = {
    "one sample": "mean accuracy of RSA's step 0",
    "RSA": "mean accuracy of RSA's last step",
    "minus before": "paired by problem with the model before, as all differences",
    "minus first arm": "RSA's last step, under the same seeds",
    "majority": "of a population",
    "vote": "of plain samples, with at most RSA's tokens so far on the same problem",
    "minus vote": "majority of RSA's population minus vote",
    "tokens": "of a problem so far",
}
LEGEND = (
    "accuracies in % of the held-out problems, with 95% confidence intervals over problems",
    BETWEEN.join(map(": ".join, MEANINGS.items())),
    "candidates: the number of aggregations in brackets, and the share of right ones in %",
    "the tables of arms have each arm's last round, and no held-out problem chose it",
)
Arms = Mapping[str, Sequence[Record]]  # the runs of each arm under several seeds


def is_learnt(run: Record) -> bool:
    """Return whether a run has evaluated RSA."""
    return any("rsa" in round_["evaluated"] for round_ in done(run))


def tables(runs: Sequence[Record]) -> list[Table]:
    """Return tables of all arms, then of each run RSA's steps and the rows to train on."""
    arms = _arms(runs)
    before = [run for run in runs if _rounds(run)][:1]
    tables = [_accuracies(before, arms), _candidates(before, arms)]
    for run in runs:
        tables += [_steps(run), *_rows(run)]
    return tables


def curve(run: Record) -> list[tuple[int, dict[str, Any]]]:
    """Return the rounds' numbers, and the mean accuracy of RSA's last step."""
    return [
        (round_["round"], round_["evaluated"]["rsa"]["steps"][-1]["mean"])
        for round_ in _rounds(run)
    ]


def _arms(runs: Sequence[Record]) -> Arms:
    """Return the runs of each arm. A run without an evaluated training is left out, because it has
    only the model before."""
    arms: dict[str, list[Record]] = {}
    for run in runs:
        if len(_rounds(run)) > 1:
            arm, _, _ = run.label.rpartition("-seed")
            arms.setdefault(arm, []).append(run)
    return arms


def _accuracies(before: Sequence[Record], arms: Arms) -> Table:
    """Compare the model before and all arms after their last round. The runs of an arm under
    several seeds are averaged for each problem."""
    first = next(iter(arms.values()), [])
    rows = [_before(before), *(_after(arm, runs, first) for arm, runs in arms.items())]
    return _table("all arms after their last round", rows)


def _before(runs: Sequence[Record]) -> dict[str, str]:
    """Return the cells of the model before."""
    return {"arm": "before", "seeds": NONE, **_cells(runs, 0)}


def _after(arm: str, runs: Sequence[Record], first: Sequence[Record]) -> dict[str, str]:
    """Return the cells of an arm after its last round."""
    cells = {"arm": arm, "seeds": str(len(runs)), **_cells(runs, -1)}
    after = _by_problem(runs, -1, -1)
    samples = _by_problem(runs, -1, 0)
    cells["one sample minus before"] = _difference(_by_problem(runs, 0, 0), samples)
    cells["minus before"] = _difference(_by_problem(runs, 0, -1), after)
    if runs is not first:
        seeds = {_seed(run) for run in runs}
        peers = [run for run in first if _seed(run) in seeds]
        if peers:
            cells["minus first arm"] = _difference(_by_problem(peers, -1, -1), after)
    cells["trained tokens"] = f"{_trained(runs):,.0f}"
    return cells


def _cells(runs: Sequence[Record], number: int) -> dict[str, str]:
    """Return the cells of RSA and of the vote after the round with this index."""
    steps = _figures(runs, number)["steps"]
    last = steps[-1]
    return {
        "one sample": interval(steps[0]["mean"]),
        "RSA": interval(last["mean"]),
        "vote": interval(last["vote"]),
        "minus vote": _shift(last["minus_vote"]),
    }


def _candidates(before: Sequence[Record], arms: Arms) -> Table:
    """Tabulate the share of right aggregations by the number of right candidates."""
    rows = [_shares("before", before, 0)]
    rows += [_shares(arm, runs, -1) for arm, runs in arms.items()]
    return _table("right aggregations, by their candidates", rows)


def _shares(name: str, runs: Sequence[Record], number: int) -> dict[str, str]:
    cells = {"arm": name}
    for row in _figures(runs, number)["transitions"]:
        candidates = f"{row['right_parents']} of {row['parents']} right"
        cells[candidates] = f"({row['aggregations']:,}) {interval(row['right'])}"
    return cells


def _figures(runs: Sequence[Record], number: int) -> dict[str, Any]:
    """Compute the figures of several runs together."""
    rsa = [path for run in runs for path in _files(run, number, RSA)]
    vote = [path for run in runs for path in _files(run, number, VOTE)]
    return evaluate.figures(rsa, vote)


def _seed(run: Record) -> str:
    return run.label.rpartition("seed")[2]


def _rounds(run: Record) -> list[Round]:
    return [round_ for round_ in done(run) if "rsa" in round_["evaluated"]]


def _by_problem(runs: Sequence[Record], number: int, step: int) -> list[float]:
    """Return each problem's accuracy at a step of RSA, as the mean over `runs`."""
    return evaluate.means([path for run in runs for path in _files(run, number, RSA)], step)


def _files(run: Record, number: int, kind: str) -> list[Path]:
    """Return the paths of results after the round with this index, one for each seed."""
    names = _rounds(run)[number]["evaluated"]["rsa"]["files"][kind]
    return [run.folder / f"{name}.json" for name in names]


def _trained(runs: Sequence[Record]) -> float:
    """Return the mean number of tokens that a run has trained on."""
    return fmean(sum(round_["trained"]["tokens"] for round_ in done(run)[1:]) for run in runs)


def _difference(before: Sequence[float], after: Sequence[float]) -> str:
    return _shift(vars(paired(before, after)))


def _shift(pair: Mapping[str, Any]) -> str:
    return shift(pair["difference"], pair["low"], pair["high"])


def _steps(run: Record) -> Table:
    """Tabulate a greedy reply and RSA's steps in each round."""
    rows = []
    for round_ in _rounds(run):
        number = str(round_["round"])
        evaluated = round_["evaluated"]
        rows.append({"round": number, "t": "greedy", "mean": interval(evaluated["accuracy"])})
        rows += [_step(number, step) for step in evaluated["rsa"]["steps"]]
    return _table(f"{run.label}: RSA on the held-out problems", rows)


def _step(number: str, step: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells of a step of RSA in round `number`."""
    return {
        "round": number,
        "t": str(step["step"]),
        "mean": interval(step["mean"]),
        "majority": interval(step["majority"]),
        "vote": interval(step["vote"]),
        "minus vote": _shift(step["minus_vote"]),
        "tokens": f"{step['tokens']:,.0f}",
    }


def _rows(run: Record) -> list[Table]:
    """Tabulate the solutions that each round collected, and the rows that it trained on."""
    rows = [_collected(round_) for round_ in done(run, "collected")]
    return [_table(f"{run.label}: solutions and rows to train on", rows)] if rows else []


def _collected(round_: Round) -> dict[str, str]:
    """Return the cells of a round's solutions and rows."""
    collected = round_["collected"]
    dropped = Counter[str]()
    for reasons in collected["dropped"].values():
        dropped.update(reasons)
    cells = {"round": str(round_["round"]), "solutions": str(collected["samples"])}
    cells |= {f"kept {way}": str(count) for way, count in collected["kept"].items()}
    cells |= {f"dropped: {reason}": str(count) for reason, count in dropped.items()}
    cells["rows"] = str(collected["rows"])
    for right, count in collected.get("by_parents", {}).items():
        cells[f"rows with {right} right"] = str(count)
    return cells


def _table(title: str, rows: Sequence[Mapping[str, str]]) -> Table:
    """Return a table of `rows`, which map columns to cells. Any row may lack a column."""
    heads = dict.fromkeys(head for row in rows for head in row)
    columns = []
    for head in heads:
        cells = [row.get(head, NONE) for row in rows]
        columns.append(Column(head, cells, MEANINGS.get(head, "")))
    return Table(title, columns)
