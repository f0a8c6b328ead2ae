"""Learning rates, counted in tokens."""

import math
from dataclasses import dataclass

WARM_UP = 0.1  # of the tokens of a fine-tuning


@dataclass(frozen=True)
class Schedule:
    """Rates over `tokens` (padding not counted): from a share of their peaks to another along a cosine, behind a
    warm-up of so many tokens, the optimizers being new."""

    tokens: int
    rate_from: float
    rate_to: float
    warm_up: int

    @classmethod
    def of_finetuning(cls, tokens: int, peak: float) -> "Schedule":
        """Up over a tenth of the tokens, and down to nothing."""
        return cls(tokens, peak, 0.0, math.ceil(WARM_UP * tokens))

    def scale(self, seen: int, size: int) -> float:
        """The share of the peak rates, for a batch of `size` tokens after those `seen`."""
        cosine = (1 + math.cos(math.pi * seen / self.tokens)) / 2
        scale = self.rate_to + (self.rate_from - self.rate_to) * cosine
        return scale * min(1.0, (seen + size) / self.warm_up)
