"""A control without a model: the tactics of the known states that look most like the one at hand.

States are bags of tokens, weighed by TF-IDF; how near two are is the cosine. Tactics stay as they were written: giving
them the names that the state at hand has did not help.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from labs.lean.pairs import Pair
from labs.lean.search import Candidate, State

SHARPNESS = 10.0  # of the softmax over cosines
_TOKEN = re.compile(r"[^\W\d][\w'✝]*(?:\.[^\W\d][\w']*)*|\d+|[^\s\w]")


class Index:
    """Of `pairs`; it proposes `candidates` tactics for a state."""

    def __init__(self, pairs: Iterable[Pair], candidates: int) -> None:
        self.candidates = candidates
        known: dict[str, dict[str, None]] = {}
        for pair in pairs:
            known.setdefault(pair.state, {})[pair.tactic] = None
        self.tactics = [tuple(tactics) for tactics in known.values()]  # by known state
        self._ids: dict[str, int] = {}
        # A row for each token of each state: which token, of which state, and how often it stands there.
        ids, states, counts = array("i"), array("i"), array("i")
        for number, state in enumerate(known):
            for token, count in bag(state).items():
                ids.append(self._ids.setdefault(token, len(self._ids)))
                states.append(number)
                counts.append(count)
        of, numbers = np.array(ids, dtype=np.int32), np.array(states, dtype=np.int32)
        self._idf = np.log(len(known) / np.bincount(of)) + 1
        weights = np.array(counts) * self._idf[of]
        weights /= np.sqrt(np.bincount(numbers, weights**2))[numbers]
        order = np.argsort(of, kind="stable")
        self._states, self._weights = numbers[order], weights[order]  # by token, whose rows begin at _starts
        self._starts = np.searchsorted(of[order], np.arange(len(self._ids) + 1))

    def cosines(self, state: str) -> NDArray[np.float64]:
        """How near each known state is to this one: (states,), from 0 to 1."""
        near, squares = np.zeros(len(self.tactics)), 0.0
        unseen = np.log(len(self.tactics)) + 1
        for token, count in bag(state).items():
            number = self._ids.get(token)
            weight = count * (unseen if number is None else self._idf[number])
            squares += weight**2
            if number is not None:
                rows = slice(self._starts[number], self._starts[number + 1])
                near[self._states[rows]] += weight * self._weights[rows]
        near /= max(np.sqrt(squares), 1e-12)
        return near

    async def __call__(self, state: State) -> list[Candidate]:
        """Different tactics, the likeliest first, as World.propose has them."""
        near = self.cosines(state.pp)
        best: dict[str, float] = {}
        for number in np.argsort(-near, kind="stable"):
            for tactic in self.tactics[number]:
                best.setdefault(tactic, float(near[number]))
            if len(best) >= self.candidates:
                break
        chosen = list(best.items())[: self.candidates]
        logits = SHARPNESS * np.array([cosine for _, cosine in chosen])
        logprobs = logits - np.logaddexp.reduce(logits)
        return [(tactic, float(logprob)) for (tactic, _), logprob in zip(chosen, logprobs, strict=True)]


def bag(state: str) -> Counter[str]:
    """The tokens of a state's first goal, where the next tactic begins."""
    return Counter(_TOKEN.findall(state.partition("\n\n")[0]))
