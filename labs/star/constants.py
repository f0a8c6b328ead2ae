"""The constants of a STaR experiment."""

import re
from dataclasses import dataclass
from types import MappingProxyType

from core.base.errors import UserError
from core.constants import Asking, Waiting, constant

MOST_SEEDS = 64


@dataclass(frozen=True, kw_only=True)
class StarConstants(Waiting, Asking):
    """The constants of STaR. TEMPERATURE holds for collecting and for SEEDS; each round is also evaluated at 0."""

    closed = MappingProxyType({"ANSWER_TOKENS": 0, "PROBLEMS": "auto", "RUNS": 1})  # until the end of issue 33
    ROUNDS: int = constant(5, "rounds, each of sampling, training and evaluating", 1, 100, free=True)
    DATA: str = constant(
        "auto", 'problems to train on: "auto" (the model\'s own), "openr1", a name, hub:owner/name, or a file'
    )
    EVAL: str = constant(
        "auto", 'evaluated on: "auto" (the model\'s own, or HELD_OUT of DATA), a name, hub:owner/name, or a file'
    )
    HELD_OUT: int = constant(
        200, "problems of DATA that are held out, chosen by a hash of their statements", 1, 100_000
    )
    TRAIN_PROBLEMS: int = constant(300, "problems a round, drawn by SEED", 1, 1_000_000)
    TRIES: int = constant(1, "samples of a problem until one is right, at most", 1, 1024)
    VOTES: int = constant(1, "samples of a vote when evaluating with SEEDS", 1, 1024)
    TEMPERATURE: float = constant(0.0, "sampling temperature; 0: one sample of a problem, and no SEEDS", 0, 5)
    FEWSHOT: str = constant(
        "none", "how solutions are asked for (labs/star/prompts.py)", choices=("none", "format", "math")
    )
    RATIONALISE: int = constant(1, "1: if no sample is right, one more is shown the answer", 0, 1)
    FILTER: int = constant(1, "0: wrong samples are kept too (a control)", 0, 1)
    SOUND: int = constant(0, "1: samples with a false equation are dropped", 0, 1)
    REPEAT: int = constant(0, "1: rounds after the first train on its samples again (a control)", 0, 1)
    START: str = constant(
        "last", "weights that a round trains: the last round's, or the start's", choices=("last", "base")
    )
    MIN_STEPS: int = constant(2, "lines of a solution before its answer, at least", 1, 10_000)
    MAX_STEPS: int = constant(8, "the same, at most", 1, 10_000)
    EPOCHS: float = constant(3.0, "times that a round trains on each row", 0.01, 1000)
    RATE: float = constant(2e-4, "peak learning rate, of AdamW", 1e-8, 1)
    LORA_RANK: str = constant("auto", '"auto" (16; of a GGUF file 0), or a number; 0 trains all weights')
    SEEDS: str = constant("63-70", "seeds of evaluating at TEMPERATURE: one, or first-last")
    PATIENCE: int = constant(2, "the run ends after so many rounds without a gain; 0: never", 0, 100, free=True)
    LIMIT: int = constant(0, "first problems of the set only; 0 is all", 0, 1_000_000)

    def check(self) -> None:
        for name, count in (("TRIES", self.TRIES), ("VOTES", self.VOTES)):
            if count > 1 and not self.TEMPERATURE:
                raise UserError(
                    f"{name}={count} at TEMPERATURE=0 would be the same sample {count} times. Give {name}=1, or a "
                    "TEMPERATURE such as 0.7"
                )
        if self.MIN_STEPS > self.MAX_STEPS:
            raise UserError(f"MIN_STEPS={self.MIN_STEPS} is larger than MAX_STEPS={self.MAX_STEPS}")
        if self.REPEAT and self.ROUNDS < 2:
            raise UserError("REPEAT=1 needs at least two rounds. Set ROUNDS=2 or higher")
        self.lora_rank(is_gguf=False)
        _ = self.seeds

    @property
    def takes_box(self) -> bool:
        """The choice of FEWSHOT: a box states the answer, or (False) a `Final:` line."""
        return self.FEWSHOT == "none"

    @property
    def in_a_round(self) -> int:
        """The problems of a round."""
        return min(self.TRAIN_PROBLEMS, self.LIMIT or self.TRAIN_PROBLEMS)

    def lora_rank(self, is_gguf: bool) -> int:
        """Return LORA_RANK, resolved. Raises UserError if it is no rank."""
        if self.LORA_RANK == "auto":
            return 0 if is_gguf else 16
        if not re.fullmatch("[0-9]{1,4}", self.LORA_RANK):
            raise UserError(f"LORA_RANK={self.LORA_RANK:.40} is neither auto nor a number from 0 to 9999")
        return int(self.LORA_RANK)

    @property
    def seeds(self) -> range:
        """The seeds to evaluate with at TEMPERATURE. Raises UserError if SEEDS names none."""
        found = re.fullmatch("([0-9]{1,9})(?:-([0-9]{1,9}))?", self.SEEDS)
        if not found:
            raise UserError(f"SEEDS={self.SEEDS:.40} is neither a seed nor first-last, such as 63-70")
        first, last = int(found[1]), int(found[2] or found[1])
        if not 0 <= last - first < MOST_SEEDS:
            raise UserError(f"SEEDS={self.SEEDS} are not 1 to {MOST_SEEDS} seeds, first-last")
        return range(first, last + 1)
