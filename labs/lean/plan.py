"""The work of searching proofs in Lean, for plan.sh: tactics that a model is asked for, and those that Lean gets."""

from pathlib import Path

from core.engines.cards import Card
from core.plan.work import Requests, Work
from labs.lean import minif2f, theorems
from labs.lean.ablation import ORDERS
from labs.lean.constants import AblationConstants, BaselineConstants, ControlledConstants, IterationConstants
from labs.lean.iterate import numbers
from labs.lean.theorems import TEST, TRAIN
from labs.training import served

PROMPT_TOKENS = 200  # of a state with its hypotheses, assumed
TACTIC_TOKENS = 16  # median of a tactic, assumed


def baseline(config: ControlledConstants, card: Card) -> Work:
    """Return the work of 23_lean_baseline."""
    config = config.tried()
    count = _count(config.THEOREMS, TEST, config.EVAL_THEOREMS)
    searches = count * (2 if config.INDEX != "none" else 1)  # the control asks no model
    return _work(config, f"{count:,} theorems", [("tactics", count, config.MAX_NODES)], searches * config.MAX_NODES)


def iterations(config: IterationConstants, card: Card) -> Work:
    """Return the work of 24_lean_iteration and 25_lean_all, with every search at its limit."""
    served.check_is_here()
    config = config.tried()
    learned = _count(config.TRAIN_THEOREMS, TRAIN, config.MAX_THEOREMS)
    held_out = _count(config.THEOREMS, TEST, config.EVAL_THEOREMS)
    those = numbers(config)
    noisy = round(config.NOISE * learned) if 0 in those else 0
    before = 0 if config.SKIP_BASELINE else (1 + config.ENERGY) * (0 in those)
    evaluations = before + len(those) * (1 + config.ENERGY)
    searches = [
        ("tactics to learn from", learned * len(those), config.TRAIN_NODES),
        ("tactics at NOISE_TEMPERATURE", noisy, config.TRAIN_NODES),
        ("tactics for held-out theorems", held_out * evaluations, config.MAX_NODES),
    ]
    times = "1 iteration" if len(those) == 1 else f"{len(those)} iterations"
    of = f"{times} of {learned:,} theorems, evaluated on {held_out:,}"
    return _work(config, of, searches, sum(count * nodes for _, count, nodes in searches))


def orders(config: AblationConstants, card: Card) -> Work:
    """Return the work of 26_lean_energy."""
    config = config.tried()
    count = _count(config.THEOREMS, TEST, config.EVAL_THEOREMS)
    searches = count * len(ORDERS) * config.SEEDS
    of = f"{count:,} theorems in {len(ORDERS)} orders with {config.SEEDS} seeds"
    # Not SMOKE=1: its four nodes are fewer than the tactics of PROBES, so that the run refuses it.
    return _work(config, of, [("tactics", searches, config.MAX_NODES)], searches * config.MAX_NODES, "SEEDS=1")


def _work(
    config: BaselineConstants, of: str, searches: list[tuple[str, int, int]], tactics: int, smaller: str = "SMOKE=1"
) -> Work:
    """Return the work of `searches`: of each a name, how many there are, and the nodes of one. `smaller`: the constant
    that is advised for a trial."""
    requests = tuple(
        Requests(kind, count * nodes * config.CANDIDATES, PROMPT_TOKENS, config.MAX_TOKENS, TACTIC_TOKENS)
        for kind, count, nodes in searches
    )
    lean = f"{tactics:,} tactics at most go to Lean, whose time no data sheet tells; neither is training. Try {smaller}"
    return Work(of, requests, rows=(("Lean", lean),))


def _count(named: str, default: Path, most: int) -> int:
    """Return the number of theorems that are searched. Raises UserError."""
    if minif2f.is_named(named):
        return min(minif2f.EACH, most)
    return min(most, len(theorems.read(default if named == "auto" else Path(named).expanduser())))
