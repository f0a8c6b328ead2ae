"""Compare orders in which a search expands states. Each order uses one policy, the same theorems and equal nodes.

States are ordered by log probability, by energy, by both with the weight ALPHA, or by random numbers computed from a
state's text. Each order is compared with the order by log probability, paired by theorem.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from core.base import seeds
from core.base.errors import UserError
from core.base.files import results_dir, sha256, write_atomically
from core.base.stats import holm, mean_by_problem, paired
from core.base.terminal import columns
from core.engines.cards import Card
from core.generate.journal import content_key
from core.plan.work import Task, Work
from core.report.table import Column, Table
from core.report.tables import interval, shift
from core.session import session
from core.session.session import Session
from labs.lean import outcome, served, toolchain
from labs.lean.constants import AblationConstants, exploring
from labs.lean.energy import ALONE, WEIGHTS, Guidance, guided, text_of
from labs.lean.experiments import TAKEN, place, work_of
from labs.lean.iterate import folder_of, policy_in
from labs.lean.outcome import TABLE, Outcome, Record
from labs.lean.searching import Searching
from labs.lean.theorem import State, Theorem
from labs.lean.theorems import TEST, count_of, elaborating, given
from labs.lean.toolchain import Toolchain
from labs.training.served import Weights

LOGPROB, BOTH, ENERGY, RANDOM = "log probability", "both", "energy", "random"
ORDERS = (LOGPROB, BOTH, ENERGY, RANDOM)

Found = dict[str, list[list[Outcome]]]  # an order, and for each seed the outcomes of all theorems


def ablate(experiment: Task[AblationConstants], namespace: Mapping[str, Any]) -> None:
    """Run the comparison of search orders. `namespace`: the globals of the experiment file, as for `baseline`."""
    with session.command(experiment.constants, namespace, TAKEN) as (name, config, stop):
        config = config.tried()
        chosen, where, lean = given(config.THEOREMS, TEST, config.EVAL_THEOREMS, toolchain.find())
        results = results_dir()
        own = folder_of(place(results, config), config.ITERATION)
        policy, out = iteration_of(own), own / "orders"
        served.check_embeds(policy, config)
        chosen = elaborating(chosen, where, lean, config)
        text = f"of iteration {config.ITERATION} ({policy.digest[:12]}), with its energy model"
        rows = [("policy", text), ("theorems", f"{where}, n={len(chosen)}"), ("Lean", lean.name)]
        rows += served.rows(config)
        known_by = {**config.closed, **vars(config)}
        run = content_key([policy.digest, sha256(own / "energy" / WEIGHTS), known_by, *map(vars, chosen)])
        with session.open(name, config, stop, results, opening=rows) as opened:
            record = Record.begun(out, run, config, lean, where)
            with served.serving(policy, config, out) as (server, embeds):
                by_energy = guided(own / "energy", embeds)
                found = searched(opened.at(server), chosen, lean, out, by_energy)
        orders = compared(found, config.budgets)
        record.save(complete=True, orders=orders)
        write_atomically(out / TABLE, f"{table(orders, config.budgets)}\n".encode())
        print(f"\n{table(orders, config.budgets, columns())}\nresults {out}")


def iteration_of(folder: Path) -> Weights:
    """Return the policy that an iteration trained. Raises UserError if the policy or its energy model is missing."""
    policy = served.trained(policy_in(folder))
    if not policy.path.exists() or not (folder / "energy").is_dir():
        number = folder.name.removeprefix("iteration_")
        raise UserError(
            f"{folder} contains no policy with an energy model. Train both first: bash scripts/run.sh 24_lean_iteration"
            f" ITERATION={number} MAX_ITERATION={number} ENERGY=1{' SMOKE=1' * (folder.parent.name == 'smoke')}"
        )
    return policy


def searched(
    session: Session[AblationConstants], theorems: Sequence[Theorem], lean: Toolchain, folder: Path, energy: Guidance
) -> Found:
    """Search the theorems in each order and with each seed. Raises UserError. Ends the process if the user stops it."""
    found: Found = {order: [] for order in ORDERS}
    config = session.config
    for order in ORDERS:
        guidance = {LOGPROB: ALONE, RANDOM: Guidance(lambda: nullcontext(_random), RANDOM)}.get(order, energy)
        alpha = {LOGPROB: 1.0, BOTH: config.ALPHA}.get(order, 0.0)
        for seed in range(config.SEED, config.SEED + config.SEEDS):
            own = session.but(name=f"{order}, seed {seed}", config=exploring(config, SEED=seed, ALPHA=alpha))
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


def _work(config: AblationConstants, card: Card) -> Work:
    config = config.tried()
    count = count_of(config.THEOREMS, TEST, config.EVAL_THEOREMS)
    searches = count * len(ORDERS) * config.SEEDS
    of = f"{count:,} theorems in {len(ORDERS)} orders with {config.SEEDS} seeds"
    return work_of(config, of, [("tactics", searches, config.MAX_NODES)], searches * config.MAX_NODES)


ABLATION = Task(AblationConstants, _work)
