"""Compute learning rates from the number of tokens so far."""

import math
from dataclasses import dataclass

WARM_UP = 0.1  # share of the tokens in a fine-tuning


@dataclass(frozen=True)
class Schedule:
    """A schedule of learning rates: a cosine from `rate_from` to `rate_to`, multiplied by a linear warm-up."""

    tokens: int  # in the whole training, without padding
    rate_from: float  # as a share of the optimizers' peak rates
    rate_to: float  # as a share of the peak rates
    warm_up: int  # tokens

    @classmethod
    def of_finetuning(cls, tokens: int, peak: float) -> "Schedule":
        """Return a schedule that warms up over a tenth of the tokens and decays to 0. `peak` is its `rate_from`."""
        return cls(tokens, peak, 0.0, math.ceil(WARM_UP * tokens))

    def scale(self, seen: int, size: int) -> float:
        """Return the factor to multiply the peak rates by, for a batch of `size` tokens after `seen` tokens."""
        cosine = (1 + math.cos(math.pi * seen / self.tokens)) / 2
        scale = self.rate_to + (self.rate_from - self.rate_to) * cosine
        return scale * min(1.0, (seen + size) / self.warm_up)
