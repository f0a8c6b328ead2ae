"""The time that a run has left: the plan's work, corrected by what has arrived so far. Pure: it knows no clock.

Completions of one kind (the solutions of step t, the verifications of step t) are alike; those of different kinds are
not: later steps read longer prompts and may write longer answers. So what is left is summed kind by kind, in units of
planned time, and the run's own speed turns it into seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

PRIOR = 8  # arrivals that the expected length of a kind counts as: one short completion must not halve a forecast

Kind = tuple[str | int, ...]
ANY: Kind = ()  # all of them, where the plan does not part them


def kind(names: tuple[str | int, ...]) -> Kind:
    """The kind of the completion that a scaffold asked for under `names`: (t, i) and (t, j) are both (t,), and
    ("verify", t, i, j) is ("verify", t)."""
    for place, name in enumerate(names):
        if isinstance(name, int):
            return names[: place + 1]
    return names


@dataclass(frozen=True)
class Expected:
    """What the plan expects of one kind: `count` completions of `tokens` each, which take `seconds` in all. Only the
    ratios of tokens, and of seconds, between kinds matter."""

    count: int
    tokens: float
    seconds: float


@dataclass
class _Seen:
    count: int = 0
    tokens: float = 0


class Forecast:
    """It is given every completion, and says how long the rest will take."""

    def __init__(self, expected: Mapping[Kind, Expected], is_bound: bool | None = None) -> None:
        """`expected`: the plan, in the order of the steps. `is_bound`: whether it is of as many completions as there
        can be, and the time left may be less; None: where it does not part them."""
        self._expected = dict(expected)
        self.is_bound = ANY in expected if is_bound is None else is_bound
        self._seen = {kind: _Seen() for kind in expected}
        self._spared = dict.fromkeys(expected, 0.0)  # completions that nobody will ask for
        self._done = 0.0  # work done in this run, in planned seconds

    def arrived(self, kind: Kind, tokens: float | None, is_new: bool = True) -> None:
        """One more of `kind` is there. From the journal (not `is_new`), it teaches its length but no speed; of unknown
        length (None), it is as long as the plan has it."""
        if kind not in self._seen:
            kind = ANY
        if kind not in self._seen:
            return  # no part of the plan
        tokens = self._expected[kind].tokens if tokens is None else tokens
        self._seen[kind].count += 1
        self._seen[kind].tokens += tokens
        if is_new:
            self._done += tokens * self._per_token(kind)

    def ended(self, asked: Mapping[Kind, int], problems: int, allotted: int) -> None:
        """One of so many problems has ended with these completions asked for; it may have spared some, also of those
        that were `allotted` to it of ANY kind."""
        for kind, expected in self._expected.items():
            planned = allotted if kind == ANY else expected.count / problems
            self._spared[kind] += planned - (sum(asked.values()) if kind == ANY else asked.get(kind, 0))

    def seconds_left(self, elapsed: float) -> float | None:
        """Seconds that the rest takes, after `elapsed` in this run; None before anything new has arrived."""
        if self._done == 0:
            return None
        return elapsed / self._done * self._left()

    def _left(self) -> float:
        """Work left, in planned seconds. The lengths of a step are looked for where those of the step before were,
        against the plan; its own arrivals count more and more."""
        planned = sum(seen.count * self._expected[kind].tokens for kind, seen in self._seen.items())
        all_told = sum(seen.tokens for seen in self._seen.values()) / planned
        ratios: dict[Kind, float] = {}  # tokens against the plan: of solutions, of verifications
        left = 0.0
        for kind, seen in self._seen.items():
            expected, family = self._expected[kind], kind[:-1]
            prior = PRIOR * ratios.get(family, all_told) * expected.tokens
            mean = (prior + seen.tokens) / (PRIOR + seen.count)
            ratios[family] = mean / expected.tokens
            left += max(0.0, expected.count - self._spared[kind] - seen.count) * mean * self._per_token(kind)
        return left

    def _per_token(self, kind: Kind) -> float:
        expected = self._expected[kind]
        return expected.seconds / (expected.count * expected.tokens)
