"""Does the order in which states are expanded matter, and does the energy give a better one? One policy searches the
same theorems at equal nodes in several orders; each is compared with log probability alone, paired by theorem.

    log probability   of the tactics that lead to a state; no energy
    both              weighed by ALPHA
    energy            alone (ALPHA=0)
    random            a number that follows from the state's text: what any order is worth
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.base import seeds
from core.base.stats import holm, mean_by_problem, paired
from core.report.table import Column, Table
from core.report.tables import interval, shift
from core.session.session import Session
from labs.lean import figures
from labs.lean.constants import AblationConstants
from labs.lean.embeddings import text_of
from labs.lean.guide import ALONE, Guidance, guided
from labs.lean.outcome import Outcome
from labs.lean.search import State
from labs.lean.searching import Searching
from labs.lean.served import embedding, need
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain
from labs.lean.world import Scores
from labs.training.served import Weights, served

LOGPROB, BOTH, ENERGY, RANDOM = "log probability", "both", "energy", "random"
ORDERS = (LOGPROB, BOTH, ENERGY, RANDOM)

Found = dict[str, list[list[Outcome]]]  # by order: of each seed the outcomes of all theorems


@dataclass
class Ablation:
    """Of the `policy` with the energy in a folder, both of one iteration; outcomes go to `folder`, by order and
    seed."""

    session: Session[AblationConstants]
    policy: Weights
    energy: Path
    theorems: Sequence[Theorem]
    lean: Toolchain
    folder: Path

    def run(self) -> Found:
        """Raises UserError; ends the process where it is stopped."""
        found: Found = {}
        config = self.session.config
        with (
            embedding(self.policy, self.folder) as embeds,
            served(self.policy, need(self.policy, config, beside=True), self.folder) as server,
        ):
            session = self.session.at(server)
            by_energy = guided(self.energy, embeds, config)
            for order in ORDERS:
                found[order] = []
                guidance = {LOGPROB: ALONE, RANDOM: Guidance(_random, RANDOM)}.get(order, by_energy)
                alpha = {LOGPROB: 1.0, BOTH: config.ALPHA}.get(order, 0.0)
                for seed in range(config.SEED, config.SEED + config.SEEDS):
                    own = session.but(name=f"{order}, seed {seed}", config=replace(config.exploring(seed), ALPHA=alpha))
                    out = self.folder / order.replace(" ", "-") / f"seed{seed}"
                    found[order].append(Searching(own, self.lean, out, guidance).of(self.theorems))
        return found


@asynccontextmanager
async def _random() -> AsyncIterator[Scores]:
    async def scores(states: Sequence[State]) -> list[float]:
        return [seeds.rng("random order", text_of(state.pp)).random() for state in states]

    yield scores


def compared(found: Found, budgets: Sequence[int]) -> dict[str, Any]:
    """For the record: of each order its rates by budget, over theorems, the seeds of one taken together; and what it
    changes against LOGPROB at the last of them, with p also corrected for the number of orders."""
    told: dict[str, Any] = {}
    first = _solved(found[LOGPROB], budgets[-1])
    for order, runs in found.items():
        rates = {str(nodes): mean_by_problem(_solved(runs, nodes)).to_json() for nodes in budgets}
        whole = figures.figures([outcome for of in runs for outcome in of], budgets)
        told[order] = {
            "solved": rates,
            "by_seed": [mean_by_problem(figures.solved(of, budgets[-1])).value for of in runs],
            **{name: whole[name] for name in ("nodes_to_proof", "seconds", "reasons")},
        }
        if order != LOGPROB:
            told[order]["gain"] = vars(paired(first, _solved(runs, budgets[-1])))
    others = [order for order in told if order != LOGPROB]
    for order, p in zip(others, holm([told[order]["gain"]["p"] for order in others]), strict=True):
        told[order]["gain"]["p_holm"] = p
    return told


def _solved(runs: Sequence[Sequence[Outcome]], nodes: int) -> list[list[float]]:
    """By theorem, of each seed whether it is solved."""
    return [list(of) for of in zip(*(figures.solved(outcomes, nodes) for outcomes in runs), strict=True)]


def table(told: dict[str, Any], budgets: Sequence[int], width: int = 0) -> str:
    """The figures of `compared`, fit to be read, at most so wide (0: as wide as it gets)."""
    gains = [of.get("gain") for of in told.values()]
    shifts = [shift(gain["difference"], gain["low"], gain["high"]) if gain else "" for gain in gains]
    rates = [
        Column(f"{nodes} nodes, %", [interval(of["solved"][str(nodes)]) for of in told.values()], rank=place)
        for place, nodes in enumerate(reversed(budgets))
    ]
    rows = [
        Column("order", list(told)),
        *reversed(rates),
        Column("minus log probability", shifts),
        Column("won, lost", [f"{gain['wins']}, {gain['losses']}" if gain else "" for gain in gains]),
        Column("p, Holm", [f"{gain['p_holm']:.2g}" if gain else "" for gain in gains]),
    ]
    ended = figures.counts(told[LOGPROB]["reasons"])
    table = Table("", rows).body(width)
    return f"{table}\n\nlog probability alone, not proved: {ended}"
