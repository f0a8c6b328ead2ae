"""The constants of proof search in Lean."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

from core.base.errors import UserError
from core.constants import Asking, constant, rules

# Tactics that proofs of data/lean's lemmas need and that the tiny policy was hardly taught.
LEMMAS = "constructor;exfalso;apply h1;apply h2;rcases h1 with ⟨h2, h3⟩;rcases h1 with h2 | h2"
# The separator of tactics in PROBES is ";", but "<;>" belongs to a tactic.
_BETWEEN = re.compile(r"(?<!<);|;(?!>)")


def budgets(nodes: int) -> list[int]:
    """Return the node budgets at which rates are reported, up to `nodes`."""
    return sorted({max(1, nodes // part) for part in (8, 4, 2, 1)})


@dataclass(frozen=True, kw_only=True)
class LeanConstants(Asking):
    """The constants of a search. A node is a tactic sent to Lean, whatever its result.
    Tactics take most of Lean's time, in any order of states. So searches with equal MAX_NODES do equal work, however
    many states they expand and however often the model repeats a tactic."""

    closed = MappingProxyType({"ANSWER_TOKENS": 0, "WAITS": 0, "WAIT_WORD": "Wait"})  # until the end of issue 33
    ALPHA: float = constant(0.5, "weight of log probability against energy in a state's priority; 1: no energy", 0, 1)
    CANDIDATES: int = constant(4, "tactics requested from the model for a state, one per request", 1, 1024)
    MAX_NODES: int = constant(100, "tactics sent to Lean in one search, at most", 1, 1_000_000)
    MAX_DEPTH: int = constant(50, "tactics of one proof, at most", 1, 10_000)
    SECONDS: float = constant(120.0, "seconds of one search, at most, without its proof's check", 0.1, 1_000_000)
    BATCH: int = constant(32, "states expanded together, at most; 1: strictly best-first", 1, 1024)
    LENGTH_NORMALISED: int = constant(0, "1: a state's log probability is the mean over its tactics, not the sum", 0, 1)
    PROBES: str = constant("assumption", 'tactics tried in every state before the model\'s, joined by ";"; "" is none')
    PROBE_LOGPROB: float = constant(-2.0, "log probability of a probe", -1000, 0)
    NUM_WORKERS: int = constant(2, "processes of Lean", 1, 1024, free=True)
    TACTIC_SECONDS: float = constant(30.0, "seconds of one tactic, at most", 0.1, 100_000)
    ACCEPT_SECONDS: float = constant(300.0, "seconds of the check of a whole proof, at most", 1, 100_000)
    TEMPERATURE: float = constant(1.0, "sampling temperature of tactics", 0, 5)
    MAX_TOKENS: int = constant(256, "tokens of one tactic, at most", 1, 1_000_000)
    ENDS: str = constant("line", "end of a tactic: its line, or the model's own end", choices=("line", "model"))
    OPENING: str = constant("", 'words that begin each tactic, for a model that would think first; "" is none')

    @property
    def probes(self) -> tuple[str, ...]:
        """The tactics in PROBES, each once."""
        return tuple(dict.fromkeys(filter(None, (probe.strip() for probe in _BETWEEN.split(self.PROBES)))))

    def check(self) -> None:
        if not self.TEMPERATURE and self.CANDIDATES > 1:
            raise UserError(
                f"CANDIDATES={self.CANDIDATES} at TEMPERATURE=0 would repeat one tactic {self.CANDIDATES} times. Set "
                "CANDIDATES=1, or a TEMPERATURE such as 0.7"
            )
        if len(self.probes) >= self.MAX_NODES:
            raise UserError(
                f"PROBES contains {len(self.probes)} tactics, so that MAX_NODES={self.MAX_NODES} leaves no node for "
                "the model. Set fewer PROBES or a higher MAX_NODES"
            )


@dataclass(frozen=True, kw_only=True)
class EnergyConstants(Asking):
    """The constants of an energy's training."""

    closed = MappingProxyType({"ENCODE_BATCH_SIZE": 64, "ENCODE_CONCURRENCY": 2, "RESUME": "auto"})
    STEPS: int = constant(1500, "training steps of the energy", 1, 1_000_000)


@dataclass(frozen=True, kw_only=True)
class BaselineConstants(LeanConstants):
    """The constants of searches without training."""

    trial: ClassVar[Mapping[str, Any]] = {"EVAL_THEOREMS": 6, "MAX_NODES": 4, "PROBES": "assumption"}

    THEOREMS: str = constant(
        "auto", 'theorems: a file, "minif2f" (or "minif2f:valid"), or "auto", the held-out lemmas of data/lean'
    )
    EVAL_THEOREMS: int = constant(500, "only the first of them", 1, 1_000_000)
    SMOKE: int = constant(0, "1: a trial of 6 theorems with 4 nodes a search, in its own folder", 0, 1)

    @property
    def budgets(self) -> list[int]:
        """The node budgets at which rates are reported, up to MAX_NODES."""
        return budgets(self.MAX_NODES)

    def tried(self) -> Self:
        """Return the constants of the run, reduced with SMOKE=1."""
        return replace(self, **self.trial) if self.SMOKE else self


@dataclass(frozen=True, kw_only=True)
class ControlledConstants(BaselineConstants):
    """The constants of a baseline and its control without a model."""

    INDEX: str = constant(
        "none",
        'pairs.jsonl whose nearest states propose tactics in a second search; "auto": the taught lemmas if '
        'THEOREMS=auto; "none"',
    )


@dataclass(frozen=True, kw_only=True)
class IterationConstants(BaselineConstants, EnergyConstants):
    """The constants of expert iteration.
    Training lemmas are searched with EXPLORE and TRAIN_NODES, held-out lemmas with PROBES and MAX_NODES alone."""

    closed = MappingProxyType({**LeanConstants.closed, **EnergyConstants.closed})
    trial: ClassVar[Mapping[str, Any]] = {
        **BaselineConstants.trial,
        **{"MAX_THEOREMS": 6, "TRAIN_NODES": 4, "EXPLORE": "none", "HARVEST": 4, "STEPS": 20, "GO": 1},
    }

    ITERATION: int = constant(-1, "the only iteration to run; -1: all from 0 up to MAX_ITERATION", -1, 100, free=True)
    MAX_ITERATION: int = constant(2, "the last iteration, counted from 0", 0, 100, free=True)
    TRAIN_THEOREMS: str = constant(
        "auto", 'theorems to learn from: a file, or "auto", the training lemmas of data/lean'
    )
    MAX_THEOREMS: int = constant(2000, "only the first of them", 1, 1_000_000)
    TRAIN_NODES: int = constant(60, "MAX_NODES of a search to learn from", 1, 1_000_000)
    EXPLORE: str = constant(
        "none", 'more PROBES in searches to learn from: "none", "lemmas" (data/lean\'s), or tactics joined by ";"'
    )
    NOISE: float = constant(0.3, "share of iteration 0's theorems that are searched again, at NOISE_TEMPERATURE", 0, 1)
    NOISE_TEMPERATURE: float = constant(1.2, "sampling temperature of these searches", 0.01, 5)
    HARVEST: int = constant(16, "proposed tactics applied on a proof's path after it is found, at most", 0, 10_000)
    START: str = constant(
        "last", "weights that an iteration trains: the last policy's, or the first's", choices=("last", "base")
    )
    GUISES: int = constant(0, "renamed copies of each pair (labs/lean/pairs.py); 0: each pair unchanged", 0, 1000)
    EPOCHS: float = constant(2.0, "training epochs of an iteration", 0.01, 1000)
    RATE: float = constant(2e-4, "peak learning rate of AdamW", 1e-8, 1)
    LORA_RANK: int = constant(
        16, "rank of LoRA for a folder in Hugging Face's layout; a GGUF file is trained in full", 0, 9999
    )
    ENERGY: int = constant(1, "1: train an energy, compare it at equal nodes, and use it if it helps", 0, 1)
    SKIP_BASELINE: int = constant(0, "1: do not search with the first policy; iteration 0 then has no gain", 0, 1)
    GO: int = constant(0, "1: continue even if the last iteration did not improve", 0, 1, free=True)

    def check(self) -> None:
        super().check()
        if self.ITERATION > self.MAX_ITERATION:
            raise UserError(
                f"ITERATION={self.ITERATION} exceeds MAX_ITERATION={self.MAX_ITERATION}. Raise MAX_ITERATION"
            )
        _ = self.learning

    @property
    def learning(self) -> LeanConstants:
        """The constants of searches to learn from. Raises UserError if EXPLORE leaves the model no node."""
        return exploring(self, MAX_NODES=self.TRAIN_NODES)


@dataclass(frozen=True, kw_only=True)
class AblationConstants(BaselineConstants, EnergyConstants):
    """The constants of one policy's searches in several orders, at equal nodes."""

    closed = MappingProxyType(
        {**IterationConstants.closed, "LIMIT": 0, "MAX_DOLLARS": 0.0, "PROBLEMS": "auto", "RUNS": 1}
    )  # until the end of issue 33
    ITERATION: int = constant(0, "iteration whose policy and energy are used", 0, 100)
    EXPLORE: str = constant("none", 'more PROBES: "none", "lemmas" (data/lean\'s), or tactics joined by ";"')
    SEEDS: int = constant(3, "searches of each theorem in each order, with seeds from SEED on", 1, 100)

    def check(self) -> None:
        super().check()
        exploring(self)


def exploring(config: IterationConstants | AblationConstants, **changes: Any) -> LeanConstants:
    """Return the constants of searches with EXPLORE. Raises UserError if it leaves the model no node."""
    own = {name: getattr(config, name) for name in rules(LeanConstants)}
    more = {"none": "", "lemmas": LEMMAS}.get(config.EXPLORE, config.EXPLORE)
    return LeanConstants(**own | {"PROBES": f"{config.PROBES};{more}"} | changes)
