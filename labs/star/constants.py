"""Define the constants of a STaR experiment."""

import re
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self

from core.base.errors import UserError
from core.constants import Answered, Asking, Framed, Waiting, constant, rules
from core.engines.cards import Card

_UNFRAMED = ("card", "0", "")  # values of SHOTS, SYSTEM and PROMPT that FEWSHOT may ignore


class StarConstants(Answered, Framed, Waiting, Asking):
    """The constants of STaR. TEMPERATURE does not apply to the greedy evaluation of each round.
    SHOTS apply only to the sampling of traces."""

    # removed constants
    closed = MappingProxyType({"ANSWER_TOKENS": 0, "PROBLEMS": "auto", "RUNS": 1})
    ROUNDS: int = constant(
        5, "maximum number of rounds of sampling, training and evaluation", 1, 100, free=True
    )
    DATA: str = constant(
        "auto",
        (
            'training problems: a set\'s name, hub:owner/name, gym:task, a file, or "auto" (the '
            "card's set, "
            'else "openr1")'
        ),
    )
    EVAL: str = constant(
        "auto",
        (
            'held-out problems: a set\'s name, hub:owner/name, gym:task, a file, or "auto" (the '
            "card's set, "
            "or part of DATA)"
        ),
    )
    HELD_OUT: int = constant(
        200,
        "number of problems of DATA to hold out (chosen by a hash) if EVAL selects no set",
        1,
        100_000,
    )
    TRAIN_PROBLEMS: int = constant(
        300, "number of problems to sample in each round, drawn by SEED", 1, 1_000_000
    )
    TRIES: int = constant(
        1, "maximum number of samples for each problem until a sample is kept", 1, 1024
    )
    VOTES: int = constant(
        1, "number of samples in each majority vote, in the evaluation with SEEDS", 1, 1024
    )
    TEMPERATURE: float = constant(
        0.0, "sampling temperature, or 0 for greedy decoding (SEEDS is then ignored)", 0, 5
    )
    FEWSHOT: str = constant(
        "none",
        "prompt that asks for a solution (see labs/star/prompts.py)",
        choices=("none", "format", "math"),
    )
    RATIONALISE: int = constant(
        1, "1: if no sample is kept, draw one more, prompted with the reference answer", 0, 1
    )
    FILTER: int = constant(
        1, "0: draw one sample of each problem, and keep it even if it is wrong (a control)", 0, 1
    )
    SOUND: int = constant(0, "1: drop samples with a false equation", 0, 1)
    REPEAT: int = constant(0, "1: every round trains on the traces of round 1 (a control)", 0, 1)
    START: str = constant(
        "last",
        'model to train: "last" (from the previous round) or "base" (the first model)',
        choices=("last", "base"),
    )
    MIN_STEPS: int = constant(
        2, "minimum number of lines before the answer of a solution", 1, 10_000
    )
    MAX_STEPS: int = constant(
        8, "maximum number of lines before the answer of a solution", 1, 10_000
    )
    EPOCHS: float = constant(3.0, "number of passes over the traces in each training", 0.01, 1000)
    RATE: float = constant(2e-4, "peak learning rate of AdamW", 1e-8, 1)
    LORA_RANK: str = constant(
        "auto", 'rank of LoRA, 0 to train all weights, or "auto" for 16 (0 for a GGUF file)'
    )
    SEEDS: str = constant("63-70", "seeds of the evaluation at TEMPERATURE, such as 63 or 63-70")
    PATIENCE: int = constant(
        2, "number of rounds without a gain that end the run, or 0 for off", 0, 100, free=True
    )
    LIMIT: int = constant(
        0, "maximum number of problems in each round and evaluation, or 0 for all", 0, 1_000_000
    )

    def check(self) -> None:
        for name, count in (("TRIES", self.TRIES), ("VOTES", self.VOTES)):
            if count > 1 and not self.TEMPERATURE:
                raise UserError(
                    f"{name}={count} at TEMPERATURE=0 draws equal samples. Set {name}=1 or "
                    "TEMPERATURE=0.7"
                )
        if self.MIN_STEPS > self.MAX_STEPS:
            raise UserError(
                f"MIN_STEPS={self.MIN_STEPS} exceeds MAX_STEPS={self.MAX_STEPS}. Lower MIN_STEPS"
            )
        if framed := [
            name
            for name in rules(Framed)
            if not self.takes_box and getattr(self, name) not in _UNFRAMED
        ]:
            raise UserError(
                f"{framed[0]} needs FEWSHOT=none, because FEWSHOT={self.FEWSHOT} has its own prompt"
            )
        self.lora_rank(is_gguf=False)
        _ = self.seeds

    @property
    def takes_box(self) -> bool:
        """True if a box may state the answer. If False, the prompt of FEWSHOT asks for a `Final:`
        line."""
        return self.FEWSHOT == "none"

    def of(self, card: Card) -> Self:
        """Return the constants, with the fields of the `card` for ANSWER, SHOTS, SYSTEM and PROMPT
        that are "card"."""
        changes: dict[str, Any] = (
            {} if self.takes_box else {"SHOTS": "0", "SYSTEM": "", "PROMPT": ""}
        )
        return card.framed(replace(self, ANSWER=card.answer_form(self), **changes))

    @property
    def candidates(self) -> int:
        """The maximum number of candidates in a prompt."""
        return 0

    @property
    def in_a_round(self) -> int:
        """The maximum number of problems in a round."""
        return min(self.TRAIN_PROBLEMS, self.LIMIT or self.TRAIN_PROBLEMS)

    def lora_rank(self, is_gguf: bool) -> int:
        """Return LORA_RANK as a number (0: train all weights). "auto" is 0 for GGUF, else 16.
        Raises UserError."""
        if self.LORA_RANK == "auto":
            return 0 if is_gguf else 16
        if not re.fullmatch("[0-9]{1,4}", self.LORA_RANK):
            raise UserError(
                f"LORA_RANK={self.LORA_RANK:.40} is neither auto nor a whole number from 0 to 9999"
            )
        return int(self.LORA_RANK)

    @property
    def seeds(self) -> range:
        """The seeds for the evaluation at TEMPERATURE. Raises UserError if SEEDS is invalid."""
        found = re.fullmatch("([0-9]{1,9})(?:-([0-9]{1,9}))?", self.SEEDS)
        seeds = range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0)
        if not seeds:
            raise UserError(
                f"SEEDS={self.SEEDS:.40} is neither a seed such as 63 nor a range such as 63-70"
            )
        return seeds
