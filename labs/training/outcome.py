"""The options of a training, its progress while it runs, and its outcome."""

import math
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import SupportsFloat

from core.base.errors import UserError

TELL_SECONDS = 3.0  # between lines of progress
RECORD = "train.json"  # the outcome, in the folder of a training
LINE = "training: "  # beginning of a line of progress


@dataclass(frozen=True)
class Options:
    """The options of a training. `rate`: AdamW's peak; `lora_rank`: 0 for all weights; `tokens`: replace `epochs`."""

    model: Path
    data: Path
    out: Path
    epochs: float = 3.0
    rate: float = 2e-4
    lora_rank: int = 16
    seed: int = 0
    adapter: Path | None = None
    tokens: int | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome of a training. `left_out`: rows that were too long; `tokens`: of prompts and replies;
    `trained_tokens`: of replies; `peak_memory`: bytes."""

    rows: int
    left_out: int
    tokens: int
    trained_tokens: int
    device: str
    peak_memory: int
    versions: dict[str, str]


def peak_memory() -> int:
    """Return this process's peak memory in bytes. On Linux, rusage would include the parent's peak."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


@dataclass
class Progress:
    """The losses so far, and a line of progress every few seconds."""

    losses: list[tuple[int, float]] = field(default_factory=list)
    _steps: int = 0
    _tokens: int = 0
    _began: float = 0.0
    _printed: float = 0.0

    def begin(self, steps: int, tokens: int) -> None:
        self._steps, self._tokens, self._began = steps, tokens, time.monotonic()

    def step(self, step: int, seen: int, value: SupportsFloat) -> None:
        """Record a step: its number, the tokens so far, its loss. Raises UserError if the loss is not finite."""
        if not math.isfinite(loss := float(value)):
            raise UserError(f"the training diverged: its loss is {loss} after step {step:,}. Lower the rate (RATE)")
        self.losses.append((seen, loss))
        now = time.monotonic()
        if now - self._printed < TELL_SECONDS and step < self._steps:
            return
        self._printed = now
        speed = seen / max(1e-3, now - self._began)
        left = max(0, self._tokens - seen) / speed
        print(
            f"{LINE}step {step:,} of {self._steps:,}, loss {loss:.3f}, {speed:,.0f} tokens/s, {left:,.0f} s left",
            flush=True,
        )
