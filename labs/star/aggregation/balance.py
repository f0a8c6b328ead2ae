"""Choose the rows to train on: aggregations, balanced by their number of right parents, and plain
solutions in a given share."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from statistics import fmean

import numpy as np

from core.base import seeds
from labs.star.aggregation.constants import LearnConstants
from labs.star.traces import Trace

Groups = Mapping[int, Sequence[Trace]]  # aggregations by their number of right parents


def chosen(pools: Sequence[Sequence[Trace]], config: LearnConstants, number: int) -> list[Trace]:
    """Choose the rows of round `number` from the traces of all rounds so far.

    Each problem gives at most one plain solution, and one aggregation for each number of right
    parents: one of the newest round, drawn by SEED. If the run does not teach aggregation, all
    traces without parents are chosen. Without an aggregation of right parents, return no rows."""
    rng = seeds.rng(config.SEED, "learn", number)
    plain: list[Trace] = []
    groups = defaultdict[int, list[Trace]](list)
    for row in _one_each(pools, rng):
        if row.right_parents is None:
            plain.append(row)
        else:
            groups[row.right_parents].append(row)
    if not config.teaches_aggregation:
        return plain
    aggregations = _balanced(groups)
    if not aggregations:
        return []
    without_right = _most(config.NO_RIGHT, len(aggregations))
    aggregations += groups[0][:without_right]
    others = _most(config.MIX, len(aggregations))
    return aggregations + plain[:others]


def _one_each(pools: Sequence[Sequence[Trace]], rng: np.random.Generator) -> list[Trace]:
    """Keep a trace for each problem, way and number of right parents, in random order."""
    best: dict[tuple[str, str, int | None], Trace] = {}
    for pool in pools:  # a later round replaces an earlier one
        for trace in _shuffled(sorted(pool, key=_name), rng):
            kind = (trace.problem, trace.way, trace.right_parents)
            best[kind] = trace
    return _shuffled(best.values(), rng)


def _name(trace: Trace) -> tuple[str, str]:
    return trace.problem, trace.key


def _shuffled(rows: Iterable[Trace], rng: np.random.Generator) -> list[Trace]:
    listed = list(rows)
    order: list[int] = rng.permutation(len(listed)).tolist()
    return [listed[i] for i in order]


def _balanced(groups: Groups) -> list[Trace]:
    """Take aggregations with right parents. Each number of right parents keeps at most its equal
    share of all of them."""
    with_right = [groups[number] for number in sorted(groups) if number > 0]
    if not with_right:
        return []
    equal = ceil(fmean(map(len, with_right)))
    rows: list[Trace] = []
    for group in with_right:
        rows += group[:equal]
    return rows


def _most(share: float, others: int) -> int:
    """Return the number of rows that are a `share` of all rows, if there are `others`."""
    return round(share / (1 - share) * others)
