"""Plan a sweep: add up the runs that send requests. Other runs only read the first steps of these."""

from dataclasses import replace

from core.base.errors import UserError
from core.base.prices import shown
from core.base.terminal import labelled
from core.engines.gpus import Gpu
from core.plan.estimate import hours, make, money, tokens
from core.plan.lengths import Lengths
from core.plan.loads import OTHERS, at_most, loads
from core.plan.subject import OnGpu, Subject
from core.scaffolds.grid import Cell, Grid, TooMany


def _size(
    cell: Cell, count: int, lengths: Lengths, of: Subject, gpu: tuple[Gpu, str] | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the completions of a run on `count` problems with all seeds, and its read and written tokens (expected and
    at most). Also return its shortest and its longest time in seconds, or () if the time is unknown."""
    config, runs = cell.config, cell.config.RUNS
    if of.place is None and of.card.continues is False:  # such a server can't force answers
        config = replace(config, ANSWER_TOKENS=0)
    usual = loads(config, count, lengths, cell.scaffold)
    read, written = sum(load.prompts for load in usual), sum(load.tokens for load in usual)
    sizes = (sum(load.count for load in usual), read, written, *at_most(config, usual, count, lengths.prompt))
    seconds: tuple[float, ...] = ()
    if gpu and isinstance(of.place, OnGpu):
        seconds = make(config, count, lengths, of.place.shape, *gpu, cell.scaffold).seconds
    elif of.place and lengths.speed and all(load.kind != OTHERS for load in usual):
        seconds = tuple(runs * written * speed for speed in lengths.speed)
    return tuple(runs * each for each in sizes), seconds


def text(
    runs: Grid, count: int, lengths: Lengths, of: Subject, gpu: tuple[Gpu, str] | None, price: float | None
) -> str:
    """Format the plan of a sweep. `price` is the price of an hour."""
    sizes, seconds = zip(*(_size(cell, count, lengths, of, gpu) for cell in runs.asking), strict=True)
    completions, read, written, most_read, most_written = map(sum, zip(*sizes, strict=True))
    why = ", ".join(dict.fromkeys(runs.left_out.values()))
    shared = f", {len(runs.cells) - len(sizes)} of them from the first steps of others"
    rows = [
        ("runs", f"{len(runs.cells)}{shared if len(sizes) < len(runs.cells) else ''}"),
        *([("left out", f"{len(runs.left_out)} combinations: {why:.300}")] if why else []),
        ("lengths", lengths.source),
        ("completions", f"{completions:,}. Samples that runs share are counted for each run"),
        ("output", f"{tokens(written)} expected, {tokens(most_written)} at most"),
        ("input", f"{tokens(read)} expected, {tokens(most_read)} at most, without cache hits"),
    ]
    if of.place is None and (prices := of.card.price):
        usual, most = (prices.dollars((round(a), 0, round(b))) for a, b in ((read, written), (most_read, most_written)))
        assert usual is not None and most is not None
        limit = runs.common.MAX_DOLLARS
        note = f". With MAX_DOLLARS={limit:g}, the sweep may end before it is complete" if 0 < limit < most else ""
        rows.append(("cost", f"{shown(usual)} expected, {shown(most)} at most, at prices of {prices.on}{note}"))
    if all(seconds):
        ends = [sum(each) for each in zip(*seconds, strict=True)]
        rows += [("time", hours(ends)), *money(ends, price)]
    else:
        rows.append(("time", "not planned: the speed is unknown"))
    return labelled(rows)


def refusal(error: TooMany, count: int, lengths: Lengths, of: Subject, gpu: tuple[Gpu, str] | None) -> UserError:
    """Return the error for a sweep that is too large, with its hours. The sum assumes that all runs take as long as the
    last one. Return `error` if the last run's time is unknown."""
    _, seconds = _size(error.last, count, lengths, of, gpu)
    if not seconds:
        return error
    whole = hours([error.count * each for each in seconds])
    where = f"{of.shown} on {f'one {gpu[0].name}' if gpu else 'this machine'}"
    each = f"{error.last.name} ({hours(seconds)} with {where})"
    return UserError(f"{error}. If each run takes as long as {each}, all take {whole}")
