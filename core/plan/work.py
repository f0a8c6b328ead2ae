"""Plan a task that is not a scaffold, such as grading, training in rounds or proof search.

core/plan/loads.py computes a scaffold's requests from its constants and the number of problems. For any other task, the
method `work` of a Task computes the requests.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, runtime_checkable

import numpy as np

from core.constants import A
from core.engines.cards import Card
from core.plan.lengths import Lengths, log_normal
from core.plan.roofline import Load


@dataclass(frozen=True)
class Requests:
    """At most `count` requests of one kind. Each request reads about `prompt` tokens and writes at most `cap` tokens.
    `median` is the assumed median of the written tokens. If it is 0, the requests are as long as solutions."""

    kind: str
    count: int
    prompt: float
    cap: int
    median: float = 0

    def load(self, lengths: Lengths) -> Load:
        """Return the requests as a load for the roofline model."""
        sample = log_normal(self.median) if self.median else lengths.solutions[-1]
        return Load((self.kind,), self.count, self.prompt, np.minimum(sample, self.cap), most=(0, self.cap))


@dataclass(frozen=True)
class Work:
    """The work of a task: its `requests`, and at most `trained` tokens of training. `of` describes it in a few words.
    `rows` are further rows of the plan."""

    of: str
    requests: tuple[Requests, ...]
    trained: float = 0
    rows: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Task(Generic[A]):
    """A task that can be run and planned. `work` computes its work from constants and a card, or raises UserError."""

    constants: type[A]
    work: Callable[[A, Card], Work]


@runtime_checkable
class SaysItsWork(Protocol):
    """A Task, or another object with the same method `work`."""

    def work(self, config: Any, card: Card) -> Work: ...
