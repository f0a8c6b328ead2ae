"""Compare orders in which a search expands states. Each order uses one policy, the same theorems and equal nodes.

States are ordered by log probability, by energy, by both with the weight ALPHA, or by random numbers computed from a
state's text. Each order is compared with the order by log probability, paired by theorem.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from core.base import seeds
from core.base.stats import holm, mean_by_problem, paired
from core.report.table import Column, Table
from core.report.tables import interval, shift
from core.session.session import Session
from labs.lean import outcome
from labs.lean.constants import AblationConstants, exploring
from labs.lean.energy import ALONE, Guidance, guided, text_of
from labs.lean.outcome import Outcome
from labs.lean.searching import Searching
from labs.lean.served import serving
from labs.lean.theorem import State, Theorem
from labs.lean.toolchain import Toolchain
from labs.training.served import Weights

LOGPROB, BOTH, ENERGY, RANDOM = "log probability", "both", "energy", "random"
ORDERS = (LOGPROB, BOTH, ENERGY, RANDOM)

Found = dict[str, list[list[Outcome]]]  # an order, and for each seed the outcomes of all theorems


def run(
    session: Session[AblationConstants],
    policy: Weights,
    energy: Path,
    theorems: Sequence[Theorem],
    lean: Toolchain,
    folder: Path,
) -> Found:
    """Search with the `policy` and the `energy` of one iteration, in each order and with each seed. Raises UserError.
    Outcomes are written to `folder`. Ends the process if the user stops the run."""
    found: Found = {order: [] for order in ORDERS}
    config = session.config
    with serving(policy, config, folder) as (server, embeds):
        by_energy = guided(energy, embeds)
        for order in ORDERS:
            guidance = {LOGPROB: ALONE, RANDOM: Guidance(lambda: nullcontext(_random), RANDOM)}.get(order, by_energy)
            alpha = {LOGPROB: 1.0, BOTH: config.ALPHA}.get(order, 0.0)
            for seed in range(config.SEED, config.SEED + config.SEEDS):
                constants = exploring(config, SEED=seed, ALPHA=alpha)
                own = session.at(server).but(name=f"{order}, seed {seed}", config=constants)
                out = folder / order.replace(" ", "-") / f"seed{seed}"
                found[order].append(Searching(own, lean, out, guidance).of(theorems))
    return found


async def _random(states: Sequence[State]) -> list[float]:
    return [seeds.rng("random order", text_of(state.pp)).random() for state in states]


def compared(found: Found, budgets: Sequence[int]) -> dict[str, Any]:
    """Return each order's solve rates by node budget, and its gain over LOGPROB at the last budget, for the record.
    Each theorem's result is the mean over seeds. `p_holm` is the gain's p with Holm's correction for all gains."""
    orders: dict[str, Any] = {}
    first = _solved(found[LOGPROB], budgets[-1])
    for order, runs in found.items():
        rates = {str(nodes): mean_by_problem(_solved(runs, nodes)).to_json() for nodes in budgets}
        whole = outcome.figures([each for of in runs for each in of], budgets)
        orders[order] = {
            "solved": rates,
            "by_seed": [mean_by_problem(outcome.solved(of, budgets[-1])).value for of in runs],
            **{name: whole[name] for name in ("nodes_to_proof", "seconds", "reasons")},
        }
        if order != LOGPROB:
            orders[order]["gain"] = vars(paired(first, _solved(runs, budgets[-1])))
    gains = [of["gain"] for order, of in orders.items() if order != LOGPROB]
    for gain, p in zip(gains, holm([gain["p"] for gain in gains]), strict=True):
        gain["p_holm"] = p
    return orders


def _solved(runs: Sequence[Sequence[Outcome]], nodes: int) -> list[list[float]]:
    """Return a list for each theorem: 1 for each seed that solves it within `nodes`, else 0."""
    return [list(of) for of in zip(*(outcome.solved(outcomes, nodes) for outcomes in runs), strict=True)]


def table(orders: dict[str, Any], budgets: Sequence[int], width: int = 0) -> str:
    """Format the result of `compared` as a table of at most `width` characters (0: no limit)."""
    gains = [of.get("gain") for of in orders.values()]
    shifts = [shift(gain["difference"], gain["low"], gain["high"]) if gain else "" for gain in gains]
    rates = [
        Column(f"{nodes} nodes, %", [interval(of["solved"][str(nodes)]) for of in orders.values()], rank=place)
        for place, nodes in enumerate(reversed(budgets))
    ]
    rows = [
        Column("order", list(orders)),
        *reversed(rates),
        Column("gain over log probability", shifts),
        Column("won, lost", [f"{gain['wins']}, {gain['losses']}" if gain else "" for gain in gains]),
        Column("p, Holm", [f"{gain['p_holm']:.2g}" if gain else "" for gain in gains]),
    ]
    ended = outcome.counts(orders[LOGPROB]["reasons"])
    return f"{Table('', rows).body(width)}\n\nsearches by log probability without a proof, by reason: {ended}"
