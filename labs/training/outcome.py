"""Define the options of a training and its learning rates, and report its progress and memory."""

import math
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import SupportsFloat

from core.base.errors import UserError

TELL_SECONDS = 3.0  # between progress lines
RECORD = "train.json"  # the file of the outcome, in the folder `out`
LINE = "training: "  # how a progress line begins
WARM_UP = 0.1  # share of the tokens in a fine-tuning
Losses = list[tuple[int, float]]  # after each step: the tokens in all, and the step's loss


@dataclass(frozen=True)
class Options:
    """The options of a training."""

    model: Path
    data: Path
    out: Path
    epochs: float = 3.0
    rate: float = 2e-4  # AdamW's peak learning rate
    lora_rank: int = 16  # 0: train all weights
    seed: int = 0
    adapter: Path | None = None  # continue from the matrices in this folder
    tokens: int | None = None  # the number of tokens to train on, instead of `epochs`


@dataclass(frozen=True)
class Schedule:
    """A schedule of learning rates: a cosine from `rate_from` to `rate_to`, multiplied by a linear
    warm-up."""

    tokens: int  # in the whole training, without padding
    rate_from: float  # as a share of the optimizers' peak rates
    rate_to: float  # as a share of the peak rates
    warm_up: int  # tokens

    @classmethod
    def of_finetuning(cls, tokens: int, peak: float) -> "Schedule":
        """Return a schedule that warms up over a tenth of the tokens and decays to 0. `peak` is its
        `rate_from`."""
        return cls(tokens, peak, 0.0, math.ceil(WARM_UP * tokens))

    def scale(self, seen: int, size: int) -> float:
        """Return the factor to multiply the peak rates by, for a batch of `size` tokens after
        `seen` tokens."""
        cosine = (1 + math.cos(math.pi * seen / self.tokens)) / 2
        scale = self.rate_to + (self.rate_from - self.rate_to) * cosine
        return scale * min(1.0, (seen + size) / self.warm_up)


def peak_memory() -> int:
    """Return this process's peak memory in bytes."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # On Linux, rusage would include the parent's peak.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


@dataclass
class Progress:
    """The progress of a training with so many `steps`. It stores their losses, and prints a line
    every few seconds."""

    steps: int
    losses: Losses = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _printed: float = 0.0

    def step(self, step: int, seen: int, value: SupportsFloat) -> None:
        """Record the loss `value` of a step, after `seen` tokens in all. Raises UserError if the
        loss is not finite."""
        if not math.isfinite(loss := float(value)):
            raise UserError(
                f"the training diverged: loss {loss} at step {step:,}. Lower RATE (--rate), or "
                "change SEED"
            )
        self.losses.append((seen, loss))
        now = time.monotonic()
        if now - self._printed < TELL_SECONDS and step < self.steps:
            return
        self._printed = now
        left = (self.steps - step) * (now - self._began) / step
        print(
            f"{LINE}step {step:,} of {self.steps:,}, loss {loss:.3f}, {left:,.0f} s left",
            flush=True,
        )
