"""Tabulate runs that learn to aggregate: all arms in one table, RSA by step, and aggregations by
their number of right parents."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from core.base.stats import paired
from harness.report.table import BETWEEN, NONE, Column, Table
from harness.report.tables import interval, shift
from labs.star.aggregation import evaluate
from labs.star.aggregation.evaluate import RSA, VOTE
from labs.star.record import Record, Round, done, samples

MEANINGS = {
    "one sample": "mean accuracy of RSA's step 0",
    "RSA": "mean accuracy of RSA's last step",
    "minus before": "paired by problem with the model before, as all differences",
    "minus first arm": "RSA's last step, under the same seeds",
    "majority": "of a population",
    "vote": "of plain samples, with at most RSA's tokens so far on the same problem",
    "minus vote": "majority of RSA's population minus vote",
    "tokens": "of a problem so far",
    "trained tokens": "with prompts, as many in all arms",
    "reply tokens": "trained tokens without prompts, from which an arm learns",
}
LAST = "the tables of arms have each arm's last round, and no held-out problem chose it"
LEGEND = (
    "accuracies in % of the held-out problems, with 95% confidence intervals over problems",
    BETWEEN.join(map(": ".join, MEANINGS.items())),
    "candidates: the number of aggregations in brackets, and the share of right ones in %",
    LAST,
)
# the words of charts
WORDS = {
    "axis": "right at RSA's last step, %",
    "accuracy": "RSA's last step",
    "sampled": "one sample",
}
Arms = Mapping[str, Sequence[Record]]  # the runs of each arm under several seeds


def is_learnt(run: Record) -> bool:
    """Return whether a run has evaluated RSA."""
    return bool(_rounds(run))


def tables(runs: Sequence[Record]) -> list[Table]:
    """Return tables of all arms, then of each run RSA's steps and the rows to train on."""
    arms = _arms(runs)
    before = list(filter(is_learnt, runs))[:1]
    tables = [_accuracies(before, arms), _candidates(before, arms)]
    for run in runs:
        tables.append(_steps(run))
        tables += _rows(run)
    return tables


def results(round_: Round) -> dict[str, str]:
    """Return the names of a round's results by kind: RSA and the vote, each with all seeds."""
    names = {}
    for kind, files in _rsa(round_)["files"].items():
        # a seed's file is inside the folder of the results with all seeds
        names[kind], _, _ = files[0].partition("/")
    return names


def _arms(runs: Sequence[Record]) -> Arms:
    """Return the runs of each arm. A run without an evaluated training is left out, because it has
    only the model before."""
    arms = defaultdict[str, list[Record]](list)
    for run in runs:
        if len(_rounds(run)) > 1:
            arm, _, _ = run.label.rpartition("-seed")
            arms[arm].append(run)
    return arms


def _accuracies(before: Sequence[Record], arms: Arms) -> Table:
    """Compare the model before and all arms after their last round. The runs of an arm under
    several seeds are averaged for each problem."""
    first = next(iter(arms.values()), [])
    rows = [{"arm": "before", "seeds": NONE} | _cells(before, 0)]
    for arm, runs in arms.items():
        row = {"arm": arm, "seeds": str(len(runs))}
        row |= _cells(runs, -1)
        peers = [] if runs is first else _peers(runs, first)
        row |= _changes(runs, peers)
        row |= _trained(runs)
        rows.append(row)
    return _table("all arms after their last round", rows)


def _peers(runs: Sequence[Record], first: Sequence[Record]) -> list[Record]:
    """Return the runs of the first arm under the seeds of `runs`."""
    seeds = set(map(_seed, runs))
    return [run for run in first if _seed(run) in seeds]


def _changes(runs: Sequence[Record], peers: Sequence[Record]) -> dict[str, str]:
    """Return the changes since the model before, and from `peers` in the first arm, if any."""
    samples_before = _by_problem(runs, 0, 0)
    samples = _by_problem(runs, -1, 0)
    before = _by_problem(runs, 0, -1)
    after = _by_problem(runs, -1, -1)
    cells = {
        "one sample minus before": _difference(samples_before, samples),
        "minus before": _difference(before, after),
    }
    if peers:
        after_first = _by_problem(peers, -1, -1)
        cells["minus first arm"] = _difference(after_first, after)
    return cells


def _trained(runs: Sequence[Record]) -> dict[str, str]:
    """Return the mean numbers of tokens that a run has trained on."""
    tokens = fmean(_total(run, "tokens") for run in runs)
    replies = fmean(_total(run, "trained_tokens") for run in runs)
    return {"trained tokens": f"{tokens:,.0f}", "reply tokens": f"{replies:,.0f}"}


def _total(run: Record, count: str) -> int:
    """Sum a count of tokens over the trainings of a run."""
    trainings = [round_["trained"] for round_ in done(run)[1:]]
    return sum(training[count] for training in trainings)


def _cells(runs: Sequence[Record], number: int) -> dict[str, str]:
    """Return the cells of RSA and of the vote after the round with this index."""
    steps = _figures(runs, number)["steps"]
    last = steps[-1]
    return {
        "one sample": interval(steps[0]["mean"]),
        "RSA": interval(last["mean"]),
        **_vote(last),
    }


def _vote(step: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells of the vote at a step of RSA, if tokens were counted."""
    if step["vote"] is None:
        return {"vote": NONE, "minus vote": NONE}
    return {"vote": interval(step["vote"]), "minus vote": _shift(step["minus_vote"])}


def _candidates(before: Sequence[Record], arms: Arms) -> Table:
    """Tabulate the share of right aggregations by the number of right candidates."""
    rows = [_shares("before", before, 0)]
    for arm, runs in arms.items():
        rows.append(_shares(arm, runs, -1))
    return _table("right aggregations, by their candidates", rows)


def _shares(name: str, runs: Sequence[Record], number: int) -> dict[str, str]:
    cells = {"arm": name}
    for row in _figures(runs, number)["transitions"]:
        candidates = f"{row['right_parents']} of {row['parents']} right"
        cells[candidates] = f"({row['aggregations']:,}) {interval(row['right'])}"
    return cells


def _figures(runs: Sequence[Record], number: int) -> dict[str, Any]:
    """Compute the figures of several runs together."""
    of_rsa = _files(runs, number, RSA)
    of_vote = _files(runs, number, VOTE)
    return evaluate.figures(of_rsa, of_vote)


def _seed(run: Record) -> str:
    return run.label.rpartition("seed")[2]


def _rounds(run: Record) -> list[Round]:
    """Return the rounds in which RSA was evaluated."""
    return [round_ for round_ in done(run) if "rsa" in round_["evaluated"]]


def _rsa(round_: Round) -> dict[str, Any]:
    figures: dict[str, Any] = round_["evaluated"]["rsa"]
    return figures


def _by_problem(runs: Sequence[Record], number: int, step: int) -> list[float]:
    """Return each problem's accuracy at a step of RSA, as the mean over `runs`."""
    return evaluate.means(_files(runs, number, RSA), step)


def _files(runs: Sequence[Record], number: int, kind: str) -> list[Path]:
    """Return the paths of results after the round with this index, one for each run and seed."""
    paths: list[Path] = []
    for run in runs:
        round_ = _rounds(run)[number]
        names = _rsa(round_)["files"][kind]
        paths += [run.folder / f"{name}.json" for name in names]
    return paths


def _difference(before: Sequence[float], after: Sequence[float]) -> str:
    return _shift(vars(paired(before, after)))


def _shift(pair: Mapping[str, Any]) -> str:
    return shift(pair["difference"], pair["low"], pair["high"])


def _steps(run: Record) -> Table:
    """Tabulate a greedy reply and RSA's steps in each round. Each row opens its results."""
    rows = []
    opens = []
    for round_ in _rounds(run):
        number = str(round_["round"])
        evaluated = round_["evaluated"]
        greedy = interval(evaluated["accuracy"])
        rows.append({"round": number, "t": "greedy", "mean": greedy})
        opens.append({"greedy": evaluated["greedy"]})
        names = results(round_)
        for step in _rsa(round_)["steps"]:
            rows.append(_step(number, step))
            opens.append({"RSA": names[RSA], "vote": names[VOTE]})
    return _table(f"{run.label}: RSA on the held-out problems", rows, opens)


def _step(number: str, step: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells of a step of RSA in round `number`."""
    return {
        "round": number,
        "t": str(step["step"]),
        "mean": interval(step["mean"]),
        "majority": interval(step["majority"]),
        **_vote(step),
        "tokens": f"{step['tokens']:,.0f}",
    }


def _rows(run: Record) -> list[Table]:
    """Tabulate the solutions that each round collected, and the rows that it trained on."""
    rounds = done(run, "collected")
    if not rounds:
        return []
    rows = list(map(_collected, rounds))
    opens = list(map(samples, rounds))
    return [_table(f"{run.label}: solutions and rows to train on", rows, opens)]


def _collected(round_: Round) -> dict[str, str]:
    """Return the cells of a round's solutions and rows."""
    collected = round_["collected"]
    dropped = Counter[str]()
    for reasons in collected["dropped"].values():
        dropped.update(reasons)  # of all ways
    counts = {"round": round_["round"], "solutions": collected["samples"]}
    for way, count in collected["kept"].items():
        counts[f"kept {way}"] = count
    for reason, count in dropped.items():
        counts[f"dropped: {reason}"] = count
    counts["rows"] = collected["rows"]
    for right, count in collected.get("by_parents", {}).items():
        counts[f"rows with {right} right"] = count
    return {name: str(count) for name, count in counts.items()}


def _table(
    title: str, rows: Sequence[Mapping[str, str]], opens: Sequence[Mapping[str, str]] = ()
) -> Table:
    """Return a table of `rows`, which map columns to cells. Any row may lack a column. `opens` has
    the results that each row opens."""
    heads = dict.fromkeys(head for row in rows for head in row)
    columns = []
    for head in heads:
        cells = [row.get(head, NONE) for row in rows]
        columns.append(Column(head, cells, MEANINGS.get(head, "")))
    return Table(title, columns, opens)
