"""The constants of proof search in Lean."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

from core.base.errors import UserError
from core.constants import Asking, constant, rules

# What proofs of the lemmas of data/lean take, and the tiny policy was hardly taught.
LEMMAS = "constructor;exfalso;apply h1;apply h2;rcases h1 with ⟨h2, h3⟩;rcases h1 with h2 | h2"
# Tactics are joined by ";" in PROBES, and "<;>" is a part of one.
_BETWEEN = re.compile(r"(?<!<);|;(?!>)")


def budgets(nodes: int) -> list[int]:
    """Nodes at which rates of searches with MAX_NODES=`nodes` are told, the last `nodes`."""
    return sorted({max(1, nodes // part) for part in (8, 4, 2, 1)})


@dataclass(frozen=True, kw_only=True)
class LeanConstants(Asking):
    """A node is a tactic that Lean was sent, whatever came of it: that is what takes Lean's time, and what no order of
    states makes cheaper. So searches with equal MAX_NODES have done the same work, however many states they expanded,
    and however many tactics the model repeated."""

    closed = MappingProxyType({"ANSWER_TOKENS": 0, "WAITS": 0, "WAIT_WORD": "Wait"})  # until the end of issue 33
    ALPHA: float = constant(0.5, "weight of log probability against energy in a state's priority; 1: it alone", 0, 1)
    CANDIDATES: int = constant(4, "tactics that the model is asked for in a state, each by itself", 1, 1024)
    MAX_NODES: int = constant(100, "tactics that Lean is sent in one search, at most", 1, 1_000_000)
    MAX_DEPTH: int = constant(50, "tactics of one proof, at most", 1, 10_000)
    SECONDS: float = constant(120.0, "of one search, at most, but for the check of its proof", 0.1, 1_000_000)
    BATCH: int = constant(32, "states that are expanded together, at most; 1 is best-first to the letter", 1, 1024)
    LENGTH_NORMALISED: int = constant(0, "1: a state's log probability is the mean over its tactics, not the sum", 0, 1)
    PROBES: str = constant("assumption", 'tactics tried in every state before the model\'s, joined by ";"; "" is none')
    PROBE_LOGPROB: float = constant(-2.0, "log probability that a probe counts with", -1000, 0)
    NUM_WORKERS: int = constant(2, "processes of Lean", 1, 1024, free=True)
    TACTIC_SECONDS: float = constant(30.0, "that Lean may take for one tactic", 0.1, 100_000)
    ACCEPT_SECONDS: float = constant(300.0, "that the check of a whole proof may take", 1, 100_000)
    TEMPERATURE: float = constant(1.0, "sampling temperature of tactics", 0, 5)
    MAX_TOKENS: int = constant(256, "cap of one tactic", 1, 1_000_000)
    ENDS: str = constant(
        "line", "where a tactic ends: with its line, or where the model ends it", choices=("line", "model")
    )
    OPENING: str = constant("", 'words that a tactic is begun with for a model that would think first; "" is none')

    @property
    def probes(self) -> tuple[str, ...]:
        """PROBES, each once."""
        return tuple(dict.fromkeys(filter(None, (probe.strip() for probe in _BETWEEN.split(self.PROBES)))))

    def check(self) -> None:
        if not self.TEMPERATURE and self.CANDIDATES > 1:
            raise UserError(
                f"CANDIDATES={self.CANDIDATES} at TEMPERATURE=0 would be the same tactic {self.CANDIDATES} times. Give "
                "CANDIDATES=1, or a TEMPERATURE such as 0.7"
            )
        if len(self.probes) >= self.MAX_NODES:
            raise UserError(
                f"PROBES are {len(self.probes)} tactics and MAX_NODES={self.MAX_NODES} leaves the model none. Give "
                "fewer PROBES or more MAX_NODES"
            )


@dataclass(frozen=True, kw_only=True)
class EnergyConstants(Asking):
    """What the energy of an iteration is learned with."""

    ENCODE_BATCH_SIZE: int = constant(64, "states that are sent together to be embedded", 1, 4096)
    ENCODE_CONCURRENCY: int = constant(2, "such batches on their way at once", 1, 256)
    STEPS: int = constant(1500, "steps of training the energy", 1, 1_000_000)
    RESUME: str = constant("auto", 'of training that was broken off: "auto" goes on, "none" begins anew',
                           choices=("auto", "none"))  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BaselineConstants(LeanConstants):
    """Of searching theorems that nothing is trained on."""

    trial: ClassVar[Mapping[str, Any]] = {"EVAL_THEOREMS": 6, "MAX_NODES": 4, "PROBES": "assumption"}

    THEOREMS: str = constant(
        "auto", 'theorems: a file, "minif2f" (or "minif2f:valid"), or "auto", the held-out lemmas of data/lean'
    )
    EVAL_THEOREMS: int = constant(500, "first of them only", 1, 1_000_000)
    SMOKE: int = constant(0, "1: a trial of 6 theorems and 4 nodes a search, in a folder of its own", 0, 1)

    @property
    def budgets(self) -> list[int]:
        """Nodes at which rates are told, the last MAX_NODES."""
        return budgets(self.MAX_NODES)

    def tried(self) -> Self:
        """Return the constants of the run: these, or with SMOKE what is left of them."""
        return replace(self, **self.trial) if self.SMOKE else self


@dataclass(frozen=True, kw_only=True)
class ControlledConstants(BaselineConstants):
    """Of the same beside a control without a model."""

    INDEX: str = constant(
        "none",
        'pairs.jsonl, whose nearest states propose tactics in a second search; "auto": of the taught lemmas, where '
        'THEOREMS=auto; "none"',
    )


@dataclass(frozen=True, kw_only=True)
class IterationConstants(BaselineConstants, EnergyConstants):
    """Of expert iteration. Training lemmas are searched with EXPLORE and TRAIN_NODES; held-out ones, before and after,
    with PROBES and MAX_NODES alone."""

    trial: ClassVar[Mapping[str, Any]] = {
        **BaselineConstants.trial,
        **{"MAX_THEOREMS": 6, "TRAIN_NODES": 4, "EXPLORE": "none", "HARVEST": 4, "STEPS": 20, "GO": 1},
    }

    ITERATION: int = constant(-1, "the only iteration to run; -1: all from 0 up to MAX_ITERATION", -1, 100, free=True)
    MAX_ITERATION: int = constant(2, "the last iteration, counted from 0", 0, 100, free=True)
    TRAIN_THEOREMS: str = constant(
        "auto", 'searched to learn from: a file, or "auto", the training lemmas of data/lean'
    )
    MAX_THEOREMS: int = constant(2000, "first of them only", 1, 1_000_000)
    TRAIN_NODES: int = constant(60, "MAX_NODES of a search to learn from", 1, 1_000_000)
    EXPLORE: str = constant(
        "none", 'PROBES besides, in searches to learn from: "none", "lemmas" (data/lean\'s), or joined by ";"'
    )
    NOISE: float = constant(0.3, "share of iteration 0's theorems that are searched again, at NOISE_TEMPERATURE", 0, 1)
    NOISE_TEMPERATURE: float = constant(1.2, "sampling temperature of that", 0.01, 5)
    HARVEST: int = constant(16, "tactics that are applied beside a proof once it is found, at most", 0, 10_000)
    START: str = constant(
        "last", "weights that an iteration trains: the last's, or the first", choices=("last", "base")
    )
    GUISES: int = constant(0, "copies of each pair, under other names (labs/lean/pairs.py); 0: as it is", 0, 1000)
    EPOCHS: float = constant(2.0, "times that an iteration trains on each of these", 0.01, 1000)
    RATE: float = constant(2e-4, "peak learning rate, of AdamW", 1e-8, 1)
    LORA_RANK: int = constant(
        16, "of a folder in Hugging Face's layout; of a GGUF file all weights are trained", 0, 9999
    )
    ENERGY: int = constant(1, "1: an energy is trained and compared, at equal nodes, and used where it gains", 0, 1)
    SKIP_BASELINE: int = constant(0, "1: what the first policy solves is not looked at, nor iteration 0's gain", 0, 1)
    RESET: int = constant(
        0, "1: begins anew with the first policy; what was there is kept under other names", 0, 1, free=True
    )
    GO: int = constant(0, "1: goes on where the figures say no go", 0, 1, free=True)

    def check(self) -> None:
        super().check()
        if self.ITERATION > self.MAX_ITERATION:
            raise UserError(f"ITERATION={self.ITERATION} is behind MAX_ITERATION={self.MAX_ITERATION}. Raise that")
        if self.RESET and self.ITERATION > 0:
            raise UserError("RESET=1 begins with iteration 0. Give it with ITERATION=0, or leave it out")
        _ = self.learning

    @property
    def learning(self) -> LeanConstants:
        """Of the searches to learn from. Raises UserError where EXPLORE leaves the model no node."""
        return exploring(self, MAX_NODES=self.TRAIN_NODES)


@dataclass(frozen=True, kw_only=True)
class AblationConstants(BaselineConstants, EnergyConstants):
    """Of one policy's searches in several orders, at equal nodes."""

    closed = MappingProxyType(
        {**LeanConstants.closed, "LIMIT": 0, "MAX_DOLLARS": 0.0, "PROBLEMS": "auto", "RUNS": 1}
    )  # until the end of issue 33
    ITERATION: int = constant(0, "whose policy and energy", 0, 100)
    EXPLORE: str = constant("none", 'PROBES besides: "none", "lemmas" (data/lean\'s), or joined by ";"')
    SEEDS: int = constant(3, "searches of each theorem in each order; seeds are counted on from SEED", 1, 100)

    def check(self) -> None:
        super().check()
        _ = self.exploring(self.SEED)

    def exploring(self, seed: int) -> LeanConstants:
        """Of the searches with one seed. Raises UserError where EXPLORE leaves the model no node."""
        return exploring(self, SEED=seed)


def exploring(config: IterationConstants | AblationConstants, **changes: Any) -> LeanConstants:
    """Those of searches that try the tactics of EXPLORE too, with changes. Raises UserError."""
    own = {name: getattr(config, name) for name in rules(LeanConstants)}
    more = {"none": "", "lemmas": LEMMAS}.get(config.EXPLORE, config.EXPLORE)
    return LeanConstants(**own | {"PROBES": f"{config.PROBES};{more}"} | changes)
