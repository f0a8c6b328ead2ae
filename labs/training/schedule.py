"""Learning rates, counted in tokens."""

import math
from dataclasses import dataclass

WARM_UP = 0.1  # of the tokens of a fine-tuning


@dataclass(frozen=True)
class Schedule:
    """A schedule of rates over `tokens` (without padding): from one share of their peaks to another along a cosine,
    after `warm_up` tokens, as the optimizers are new."""

    tokens: int
    rate_from: float
    rate_to: float
    warm_up: int

    @classmethod
    def of_finetuning(cls, tokens: int, peak: float) -> "Schedule":
        """Warm up over a tenth of the tokens, then decay to 0."""
        return cls(tokens, peak, 0.0, math.ceil(WARM_UP * tokens))

    def scale(self, seen: int, size: int) -> float:
        """Return the share of the peak rates for a batch of `size` tokens after `seen` tokens."""
        cosine = (1 + math.cos(math.pi * seen / self.tokens)) / 2
        scale = self.rate_to + (self.rate_from - self.rate_to) * cosine
        return scale * min(1.0, (seen + size) / self.warm_up)
