"""Estimate how much longer the requests take that are left, because later prompts show candidates.

RSA's step 0 shows none, for example, and each later step shows K. Durations are assumed to be in
proportion to tokens. A read token takes a share of a written token's time (Dialect.reading).
Problems advance together, so the first share of a run's completions has the
first groups of requests (harness/plan/work.py)."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from core.types import Completion
from harness.plan.lengths import ASSUMED, Lengths
from harness.plan.roofline import Load
from harness.session.time_left import RECENT

Groups = Callable[[Lengths], Sequence[Load]]  # returns a problem's requests, in order
Span = tuple[float, float]  # shares of a run's completions: a begin and an end


@dataclass
class Growth:
    """The growth of the requests of a run. `groups` returns the requests of a problem for lengths
    in tokens. `reading` is the time of reading a token over the time of writing one."""

    groups: Groups
    reading: float
    _written: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    _answers: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    _shortest: float = np.inf  # tokens of the shortest prompt

    def add(self, completion: Completion) -> None:
        """Note the tokens of a completion."""
        if completion.error or not completion.completion_tokens:
            return
        letters = len(completion.thinking) + len(completion.text)
        share = len(completion.text) / letters if letters else 1.0
        self._written.append(completion.completion_tokens)
        self._answers.append(share * completion.completion_tokens)
        if completion.prompt_tokens:
            self._shortest = min(self._shortest, completion.prompt_tokens)

    def factor(self, ended: Span, left: Span) -> float:
        """Return how many times longer the requests in the span `left` take than those in the span
        `ended`, or 1 if it is unknown."""
        if not self._written or np.isinf(self._shortest):
            return 1.0
        written = np.array(self._written)
        lengths = Lengths(
            solutions=(written,),
            verifications=ASSUMED.verifications,
            prompt=self._shortest,
            answer=float(np.mean(self._answers)),
        )
        loads = self.groups(lengths)
        work = np.array([self.reading * load.prompt + load.lengths.mean() for load in loads])
        ends = np.cumsum([load.count for load in loads])
        bounds = ends / ends[-1]
        return _mean(work, bounds, left) / _mean(work, bounds, ended)


def _mean(work: NDArray[np.float64], bounds: NDArray[np.float64], span: Span) -> float:
    """Return the mean work of the requests in a span. `bounds` are the ends of the groups."""
    begin, end = span
    begins = np.append(0.0, bounds[:-1])
    shares = np.clip(np.minimum(bounds, end) - np.maximum(begins, begin), 0.0, None)
    return float(np.average(work, weights=shares))
