"""Plan a task that is not a scaffold, such as grading, training in rounds or proof search.

core/plan/loads.py computes a scaffold's requests from its constants and the number of problems. For any other task, the
method `work` of a Task computes the requests.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, runtime_checkable

import numpy as np

from core.base.prices import shown
from core.base.terminal import labelled
from core.constants import A
from core.engines.cards import Card
from core.plan.estimate import hours, money, tokens
from core.plan.lengths import Lengths, log_normal
from core.plan.roofline import BEST, WORST, Load, Machine


@dataclass(frozen=True)
class Requests:
    """At most `count` requests of one kind. Each request reads about `prompt` tokens and writes at most `cap` tokens.
    `median` is the assumed median of the written tokens. If it is 0, the requests are as long as solutions."""

    kind: str
    count: int
    prompt: float
    cap: int
    median: float = 0


@dataclass(frozen=True)
class Work:
    """The work of a task: its `requests`, and at most `trained` tokens of training. `of` describes it in a few words.
    `rows` are further rows of the plan."""

    of: str
    requests: tuple[Requests, ...]
    trained: float = 0
    rows: tuple[tuple[str, str], ...] = ()

    def loads(self, lengths: Lengths) -> list[Load]:
        """Return the requests as loads for the roofline model."""
        loads = []
        for each in self.requests:
            if each.count:
                sample = log_normal(each.median) if each.median else lengths.solutions[-1]
                loads.append(Load((each.kind,), each.count, each.prompt, np.minimum(sample, each.cap)))
        return loads


@dataclass(frozen=True)
class Task(Generic[A]):
    """A task that can be run and planned. `work` computes its work from constants and a card, or raises UserError."""

    constants: type[A]
    work: Callable[[A, Card], Work]


@runtime_checkable
class SaysItsWork(Protocol):
    """A Task, or another object with the same method `work`."""

    def work(self, config: Any, card: Card) -> Work: ...


def rows(work: Work, lengths: Lengths) -> list[tuple[str, str]]:
    loads = work.loads(lengths)
    assumed = [f"{each.median:,.0f} for {each.kind}" for each in work.requests if each.count and each.median]
    has_solutions = any(each.count and not each.median for each in work.requests)
    sources = [f"solutions: {lengths.source}"] * has_solutions
    sources += [f"{'A' if has_solutions else 'a'}ssumed medians in tokens: {', '.join(assumed)}"] * bool(assumed)
    total = sum(each.count for each in work.requests)
    kinds = ", ".join(f"{each.count:,} {each.kind}" for each in work.requests if each.count)
    most = sum(each.count * each.cap for each in work.requests)
    return [
        ("lengths", ". ".join(sources)),
        ("completions", f"{total:,} at most: {kinds}"),
        ("output", f"{tokens(sum(load.tokens for load in loads))} expected, {tokens(most)} at most"),
        ("input", f"{tokens(sum(load.prompts for load in loads))} expected, without cache hits"),
    ]


def on_gpu(work: Work, lengths: Lengths, on: Machine, price: float | None, why_gpu: str, model: str) -> str:
    """Format the plan of `work` on a GPU. `price` is the price of an hour, and `why_gpu` the reason for the GPU."""
    loads, gpu = work.loads(lengths), on.gpu
    # Assume that requests are independent, because the order in searches and rounds is unknown.
    low, high = on.seconds(loads, max(load.count for load in loads))
    shown = [
        ("GPU", f"{gpu.name} ({why_gpu})"),
        ("model", f"{model}, {on.shape.parameters / 1e9:.2f} B parameters"),
        *rows(work, lengths),
        ("time", f"{hours((low, high))} for generating"),
    ]
    if work.trained:
        least, most = (6 * on.shape.parameters * work.trained / (gpu.flops * of.compute) for of in (BEST, WORST))
        text = f"{tokens(work.trained)} at most, {hours((least, most))} at 6 operations per parameter and token"
        shown.append(("training", text))
        low, high = low + least, high + most
    return labelled([*shown, *work.rows, *money((low, high), price)])


def elsewhere(work: Work, lengths: Lengths, card: Card, price: float | None = None) -> str:
    """Format the plan of `work` without a GPU: its tokens, and cost and time if prices and speed are known."""
    loads, found = work.loads(lengths), rows(work, lengths)
    if card.price:
        written, read = sum(load.tokens for load in loads), sum(load.prompts for load in loads)
        cost = card.price.dollars((round(read), 0, round(written)))
        assert cost is not None
        found.append(("cost", f"{shown(cost)} expected, at prices of {card.price.on}, without cache hits"))
    if lengths.speed:
        seconds = [sum(load.tokens for load in loads) * speed for speed in lengths.speed]
        found += [("time", f"{hours(seconds)} for generating, at the measured speed"), *money(seconds, price)]
    else:
        found.append(("time", "not planned: no earlier results show the model's speed. Run 02_rsa_basic LIMIT=1"))
    if work.trained:
        found.append(("training", f"{tokens(work.trained)} at most. The time is unknown"))
    return labelled([*found, *work.rows])
