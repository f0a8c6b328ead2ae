"""Define the constants of the Lean experiments."""

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

from core.base.errors import UserError
from core.constants import Asking, constant, rules
from labs.lean import guard

# Tactics that proofs of data/lean's lemmas need, but that are rare or missing in the tiny policy's
# training data.
LEMMAS = "constructor;exfalso;apply h1;apply h2;rcases h1 with ⟨h2, h3⟩;rcases h1 with h2 | h2"
# The separator of tactics in PROBES is ";", but "<;>" belongs to a tactic.
_BETWEEN = re.compile(r"(?<!<);|;(?!>)")


def budgets(nodes: int) -> list[int]:
    """Return the node budgets for which solve rates are reported: an eighth, a quarter, a half and
    all of `nodes`."""
    return sorted({max(1, nodes // part) for part in (8, 4, 2, 1)})


class LeanConstants(Asking):
    """The constants of a search. A node is a tactic that Lean tried, even if it failed. Lean spends
    most of its time on tactics. So searches with equal MAX_NODES do about equal work, even if they
    expand different numbers of states or the model repeats tactics."""

    # removed constants
    closed = MappingProxyType({"ANSWER_TOKENS": 0, "WAITS": 0, "WAIT_WORD": "Wait"})
    ALPHA: float = constant(
        0.5, "weight of log probability if states have energies (energy's weight: 1 - ALPHA)", 0, 1
    )
    CANDIDATES: int = constant(
        4, "requests to the model for each state, each for one tactic", 1, 1024
    )
    MAX_NODES: int = constant(100, "most tactics that one search sends to Lean", 1, 1_000_000)
    MAX_DEPTH: int = constant(50, "most tactics in one proof", 1, 10_000)
    SECONDS: float = constant(
        120.0, "time limit of a search in seconds (proof checks may exceed it)", 0.1, 1_000_000
    )
    BATCH: int = constant(
        32, "most states expanded together (1: strictly best-first search)", 1, 1024
    )
    LENGTH_NORMALISED: int = constant(
        0, "1: use the mean log probability of a state's tactics, not their sum", 0, 1
    )
    PROBES: str = constant(
        "assumption", 'tactics to try first in every state, joined by ";" ("": none)'
    )
    PROBE_LOGPROB: float = constant(
        -2.0, "log probability assumed for each tactic in PROBES", -1000, 0
    )
    NUM_WORKERS: int = constant(
        2, "number of Lean servers, and of parallel proof checks", 1, 1024, free=True
    )
    TACTIC_SECONDS: float = constant(
        30.0, "time limit in seconds to try a tactic and redo earlier ones", 0.1, 100_000
    )
    ACCEPT_SECONDS: float = constant(
        300.0, "time limit in seconds to check a whole proof", 1, 100_000
    )
    TEMPERATURE: float = constant(1.0, "sampling temperature for tactics", 0, 5)
    MAX_TOKENS: int = constant(256, "token cap of one tactic", 1, 1_000_000)
    ENDS: str = constant(
        "line",
        "end of a tactic: line break (line) or reply's end (model)",
        choices=("line", "model"),
    )
    OPENING: str = constant(
        "", 'text with which each reply starts, for example to prevent thinking ("": none)'
    )

    @classmethod
    def words(cls) -> list[str]:
        from labs.lean import burnqed  # loads the engines

        return burnqed.words_of(cls)

    @classmethod
    def settings(cls) -> dict[str, str]:
        from labs.lean import burnqed

        return burnqed.settings_of(cls)

    @property
    def probes(self) -> tuple[str, ...]:
        """The tactics in PROBES without repeats."""
        probes = [probe.strip() for probe in _BETWEEN.split(self.PROBES)]
        return tuple(dict.fromkeys(filter(None, probes)))

    def check(self) -> None:
        if not self.TEMPERATURE and self.CANDIDATES > 1:
            raise UserError(
                f"with TEMPERATURE=0, CANDIDATES={self.CANDIDATES} requests the same tactic "
                f"{self.CANDIDATES} times. Set CANDIDATES=1, or a TEMPERATURE such as 0.7"
            )
        for probe in self.probes:
            if reason := guard.refused(probe):
                raise UserError(
                    f"the tactic {probe!r:.80} in PROBES or EXPLORE is refused ({reason}). Remove "
                    "it"
                )
        if len(self.probes) >= self.MAX_NODES:
            raise UserError(
                f"{len(self.probes)} tactics in PROBES and EXPLORE leave none of the "
                f"{self.MAX_NODES} nodes for the model. Remove some tactics. Without SMOKE=1, you "
                "can also raise MAX_NODES (in training: TRAIN_NODES)"
            )


class EnergyConstants(Asking):
    """The constants for training an energy model."""

    closed = MappingProxyType({"ENCODE_BATCH_SIZE": 64, "ENCODE_CONCURRENCY": 2, "RESUME": "auto"})
    STEPS: int = constant(1500, "training steps of the energy model", 1, 1_000_000)


class BaselineConstants(LeanConstants):
    """The constants of an experiment that only searches."""

    trial: ClassVar[Mapping[str, Any]] = {
        "EVAL_THEOREMS": 6,
        "MAX_NODES": 4,
        "PROBES": "assumption",
    }

    THEOREMS: str = constant(
        "auto",
        (
            'theorems to evaluate on: a file, "minif2f", "minif2f:valid", or "auto" (data/lean\'s '
            "held-out lemmas)"
        ),
    )
    EVAL_THEOREMS: int = constant(
        500, "most theorems to evaluate on, from the start of THEOREMS", 1, 1_000_000
    )
    SMOKE: int = constant(
        0, "1: run a short trial in a separate folder (6 theorems a set, 4 nodes a search)", 0, 1
    )

    def tried(self) -> Self:
        """Return the constants of the run, with the values of a short trial if SMOKE=1."""
        return replace(self, **self.trial) if self.SMOKE else self

    def trial_rows(self) -> list[tuple[str, str]]:
        """Return a row of a run's opening with the constants that SMOKE=1 sets, if it does."""
        if not self.SMOKE:
            return []
        values = " ".join(f"{name}={value}" for name, value in self.trial.items())
        return [("trial", f"SMOKE=1 sets {values}")]


class ControlledConstants(BaselineConstants):
    """The constants of a baseline, and of its control search without a model."""

    INDEX: str = constant(
        "none",
        (
            'pairs for a control search: a file pairs.jsonl, "none" or "auto" (the tiny policy\'s '
            "if THEOREMS=auto)"
        ),
    )


class IterationConstants(BaselineConstants, EnergyConstants):
    """The constants of expert iteration. Searches of training theorems add EXPLORE to PROBES, and
    are limited by TRAIN_NODES instead of MAX_NODES."""

    closed = MappingProxyType({**LeanConstants.closed, **EnergyConstants.closed})
    trial: ClassVar[Mapping[str, Any]] = {
        **BaselineConstants.trial,
        "MAX_THEOREMS": 6,
        "TRAIN_NODES": 4,
        "EXPLORE": "none",
        "HARVEST": 4,
        "STEPS": 20,
        "GO": 1,
    }

    RESET: int = constant(
        0,
        "1: begin again with the first policy and the searches of all iterations (2: once more)",
        0,
        1000,
        free=True,
    )
    ITERATION: int = constant(
        -1, "the iteration to run, or -1 for all up to MAX_ITERATION", -1, 100, free=True
    )
    MAX_ITERATION: int = constant(
        2, "last iteration (from 0), or -1: only test the first policy", -1, 100, free=True
    )
    TRAIN_THEOREMS: str = constant(
        "auto", 'training theorems: a file, "minif2f:valid" or "auto" (lemmas of data/lean)'
    )
    MAX_THEOREMS: int = constant(
        2000, "most training theorems, from the start of TRAIN_THEOREMS", 1, 1_000_000
    )
    TRAIN_NODES: int = constant(
        60, "most tactics that one search of a training theorem sends to Lean", 1, 1_000_000
    )
    EXPLORE: str = constant(
        "none", 'more PROBES in training: "none", "lemmas" (of data/lean) or tactics joined by ";"'
    )
    NOISE: float = constant(
        0.3, "share of training theorems that iteration 0 also searches at NOISE_TEMPERATURE", 0, 1
    )
    NOISE_TEMPERATURE: float = constant(
        1.2, "sampling temperature of the searches that NOISE adds", 0.01, 5
    )
    HARVEST: int = constant(
        16, "most untried tactics to apply in a proof's states, as data for the energy", 0, 10_000
    )
    TRACED: str = constant(  # free, because the record's key has its content
        "none",
        'traced proofs of training theorems, for the energy: a file pairs.jsonl, or "none"',
        free=True,
    )
    START: str = constant(
        "last", "policy to train: the newest (last) or the first (base)", choices=("last", "base")
    )
    GUISES: int = constant(
        0, "renamed copies of each pair, some with more hypotheses (0: the pair itself)", 0, 1000
    )
    EPOCHS: float = constant(2.0, "training epochs of each iteration", 0.01, 1000)
    RATE: float = constant(2e-4, "peak learning rate of AdamW", 1e-8, 1)
    LORA_RANK: int = constant(
        16, "LoRA rank for a Hugging Face folder (0, or a GGUF file: all weights)", 0, 9999
    )
    ENERGY: int = constant(
        1, "1: train an energy model. Training searches use it if it is shown to help", 0, 1
    )
    ENERGY_START: str = constant(
        "none",
        "first weights of an energy: the last (auto) or random (none)",
        choices=("none", "auto"),
        free=True,
    )
    SKIP_BASELINE: int = constant(
        0, "1: do not evaluate the first policy, so that iteration 0 reports no gain", 0, 1
    )
    GO: int = constant(
        0, "1: continue after a no go (the policy proves or gains too little)", 0, 1, free=True
    )

    def check(self) -> None:
        super().check()
        if self.ITERATION > self.MAX_ITERATION:
            raise UserError(
                f"ITERATION={self.ITERATION} exceeds MAX_ITERATION={self.MAX_ITERATION}. Set a "
                "higher MAX_ITERATION"
            )
        if self.RESET and self.ITERATION > 0:
            raise UserError(
                f"RESET={self.RESET} begins with iteration 0. Set ITERATION=0, or remove RESET"
            )
        _ = self.learning

    @property
    def learning(self) -> LeanConstants:
        """The constants for searching training theorems. Raises UserError if PROBES and EXPLORE
        leave no node."""
        return exploring(self, MAX_NODES=self.TRAIN_NODES)


class AblationConstants(BaselineConstants, EnergyConstants):
    """The constants of an experiment that compares search orders, with one policy and equal
    nodes."""

    trial: ClassVar[Mapping[str, Any]] = {**BaselineConstants.trial, "EXPLORE": "none", "SEEDS": 1}
    closed = MappingProxyType(
        {**IterationConstants.closed, "LIMIT": 0, "MAX_DOLLARS": 0.0, "PROBLEMS": "auto", "RUNS": 1}
    )
    ITERATION: int = constant(
        0, "number of the iteration that trained the policy and the energy model", 0, 100
    )
    EXPLORE: str = constant(
        "none", 'additional PROBES: "none", "lemmas" (for data/lean), or tactics joined by ";"'
    )
    SEEDS: int = constant(
        3, "searches of each theorem in each order, with seeds SEED, SEED + 1, …", 1, 100
    )

    def check(self) -> None:
        super().check()
        exploring(self)


def exploring(config: IterationConstants | AblationConstants, **changes: Any) -> LeanConstants:
    """Return search constants with EXPLORE added to PROBES and with `changes`. Raises UserError if
    they are invalid."""
    values = {name: getattr(config, name) for name in rules(LeanConstants)}
    more = {"none": "", "lemmas": LEMMAS}.get(config.EXPLORE, config.EXPLORE)
    values["PROBES"] = f"{config.PROBES};{more}"
    return LeanConstants(**values | changes)
