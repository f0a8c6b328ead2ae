"""What waits bring, from one run: of the members of a step, accuracy and tokens after 0, 1, 2 … waits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Waits:
    """Of one step of all problems. A member that waited less often than others counts with its last reading; so does
    all that came before any waited: `mean`, their accuracies by problem, and their tokens."""

    def __init__(self, mean: NDArray[np.float64], tokens: int, uncounted: int) -> None:
        self._means = [mean.copy()]
        self.tokens, self.uncounted = [tokens], [uncounted]  # of completions, and of how many nobody has counted them
        self.waited = [0]  # members that waited as often

    def __len__(self) -> int:
        return len(self._means)

    def mean(self, waits: int) -> NDArray[np.float64]:
        """Mean accuracy after so many waits, by problem."""
        return self._means[min(waits, len(self) - 1)]

    def add(self, problem: int, members: Sequence[dict[str, Any]]) -> None:
        """The members (core/results/records.py) of the next population."""
        readings = [[*m.get("before_waits", []), m] for m in members]
        while len(self) < max(map(len, readings)):
            self._means.append(self._means[-1].copy())
            self.tokens.append(self.tokens[-1])
            self.uncounted.append(self.uncounted[-1])
            self.waited.append(0)
        for waits, mean in enumerate(self._means):
            now = [each[min(waits, len(each) - 1)] for each in readings]
            mean[problem] = np.mean([reading.get("grade", reading["correct"]) for reading in now])
            self.waited[waits] += sum(len(each) > waits > 0 for each in readings)
            # What stood in an earlier population was paid for there.
            paid = [reading["completion_tokens"] for reading, m in zip(now, members, strict=True) if "again" not in m]
            self.tokens[waits] += sum(tokens or 0 for tokens in paid)
            self.uncounted[waits] += paid.count(None)
