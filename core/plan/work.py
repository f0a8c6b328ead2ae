"""The work of a task that is no scaffold: its requests, kind by kind and at most, and what no data sheet tells.

A scaffold asks about one problem after the other, so that its constants and a number of problems say what a run takes
(core/plan/loads.py). Grading, training in rounds and proof search ask in other ways: each says so by a Task of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, runtime_checkable

import numpy as np

from core.base.prices import shown
from core.constants import C
from core.engines.cards import Card
from core.plan.estimate import aligned_rows, hours, money, tokens
from core.plan.lengths import Lengths, log_normal
from core.plan.roofline import BEST, WORST, Load, Machine


@dataclass(frozen=True)
class Requests:
    """`count` requests of one kind, at most. Each reads about `prompt` tokens and writes at most `cap`; `median`: of
    the tokens it writes, assumed; 0: as many as a solution."""

    kind: str
    count: int
    prompt: float
    cap: int
    median: float = 0


@dataclass(frozen=True)
class Work:
    """`of`: what is asked about, in words. `trained`: tokens that are trained on, at most. `rows`: what no data sheet
    tells, a name and a line each."""

    of: str
    requests: tuple[Requests, ...]
    trained: float = 0
    rows: tuple[tuple[str, str], ...] = ()

    def loads(self, lengths: Lengths) -> list[Load]:
        """Return the requests as loads of the roofline, those without any left out."""
        return [
            Load((each.kind,), each.count, each.prompt, np.minimum(_sample(each, lengths), each.cap))
            for each in self.requests
            if each.count
        ]


@dataclass(frozen=True)
class Task(Generic[C]):
    """A task that can be run and planned: the class of its constants, and the work that they and a model's card make.
    `work` raises UserError."""

    constants: type[C]
    work: Callable[[C, Card], Work]


@runtime_checkable
class SaysItsWork(Protocol):
    """A Task, or what says its work as one does."""

    def work(self, config: Any, card: Card) -> Work: ...


def _sample(each: Requests, lengths: Lengths) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return log_normal(each.median) if each.median else lengths.solutions[-1]


def rows(work: Work, lengths: Lengths) -> list[tuple[str, str]]:
    """Return the requests and their tokens, a name and a line each."""
    made = work.loads(lengths)
    assumed = [f"{each.median:,.0f} for {each.kind}" for each in work.requests if each.count and each.median]
    has_solutions = any(each.count and not each.median for each in work.requests)
    sources = [f"samples {lengths.source}"] * has_solutions
    sources += [f"assumed medians in tokens: {', '.join(assumed)}"] * bool(assumed)
    total = sum(each.count for each in work.requests)
    kinds = ", ".join(f"{each.count:,} {each.kind}" for each in work.requests if each.count)
    most = sum(each.count * each.cap for each in work.requests)
    return [
        ("lengths", "; ".join(sources)),
        ("generations", f"{total:,} at most: {kinds}"),
        ("completion", f"{tokens(sum(load.tokens for load in made))} expected, {tokens(most)} at most"),
        ("prompt", f"{tokens(sum(load.prompts for load in made))} expected, before any cache"),
    ]


def on_gpu(work: Work, lengths: Lengths, on: Machine, price: float | None, why_gpu: str, model: str) -> str:
    """Return the plan for people, on a GPU: a computation on paper."""
    made, gpu = work.loads(lengths), on.gpu
    # Each request waits for no other here: of searches and rounds, which do, no data sheet tells the order.
    low, high = on.seconds(made, max(load.count for load in made))
    found = [
        ("GPU", f"{gpu.name} ({why_gpu})"),
        ("model", f"{model}, {on.shape.parameters / 1e9:.2f} B parameters"),
        *rows(work, lengths),
        ("time", f"{hours((low, high))} of generating"),
    ]
    if work.trained:
        least, most = (6 * on.shape.parameters * work.trained / (gpu.flops * of.compute) for of in (BEST, WORST))
        found.append(
            ("training", f"{tokens(work.trained)} at most: {hours((least, most))} at 6 operations a parameter")
        )
        low, high = low + least, high + most
    return aligned_rows([*found, *work.rows, *money((low, high), price)])


def elsewhere(work: Work, lengths: Lengths, card: Card, price: float | None = None) -> str:
    """Return the plan for people, if no GPU is planned: tokens, dollars at the card's prices, time as measured."""
    made, found = work.loads(lengths), rows(work, lengths)
    if card.price:
        written, read = sum(load.tokens for load in made), sum(load.prompts for load in made)
        cost = card.price.dollars((round(read), 0, round(written)))
        assert cost is not None
        found.append(("cost", f"{shown(cost)} expected, at the prices of {card.price.on}, before any cache"))
    if lengths.speed:
        seconds = [sum(load.tokens for load in made) * speed for speed in lengths.speed]
        found += [("time", f"{hours(seconds)} of generating, at the speed of those results"), *money(seconds, price)]
    else:
        found.append(("time", "not planned: no results of this model say how fast it writes. Try it with LIMIT=1"))
    if work.trained:
        found.append(("training", f"{tokens(work.trained)} at most; no data sheet says how long that takes here"))
    return aligned_rows([*found, *work.rows])
