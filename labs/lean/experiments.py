"""Run a baseline, expert iteration or a comparison of search orders in Lean, and plan their work
for plan.sh."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from core.base import seeds
from core.base.errors import UserError
from core.base.files import results_dir, sha256, write_atomically
from core.base.stats import holm, mean_by_problem, paired
from core.base.terminal import columns
from core.client.journal import content_key
from core.engines.cards import Card
from core.engines.need import Need
from harness.plan.work import Requests, Task, Work
from harness.report.table import Column, Table
from harness.report.tables import shift
from harness.session import session
from harness.session.checks import check_context
from harness.session.session import Session
from labs.lean import burnqed, constants, control, outcome, served, toolchain
from labs.lean.constants import (
    AblationConstants,
    BaselineConstants,
    ControlledConstants,
    IterationConstants,
    exploring,
)
from labs.lean.energy import ALONE, WEIGHTS, Guidance, guided, text_of
from labs.lean.iterate import Iterations
from labs.lean.iteration_files import check_apart, folder_of, numbers, policy_in
from labs.lean.outcome import TABLE, Outcome, Record, keep
from labs.lean.searching import Searching
from labs.lean.tables import overview
from labs.lean.theorem import State, Theorem
from labs.lean.theorems import TEST, TRAIN, count_of, elaborating, given, is_minif2f
from labs.lean.toolchain import Toolchain
from labs.training import process
from labs.training import served as weights
from labs.training.served import Weights

PROMPT_TOKENS = 200  # assumed length of a prompt with a state and its hypotheses
TACTIC_TOKENS = 16  # assumed median length of a tactic
# Orders of a search's states. Random numbers are computed from a state's text.
LOGPROB, BOTH, ENERGY, RANDOM = "log probability", "both", "energy", "random"
ORDERS = (LOGPROB, BOTH, ENERGY, RANDOM)

Found = dict[str, list[list[Outcome]]]  # an order, and for each seed the outcomes of all theorems


def baseline(experiment: Task[ControlledConstants], namespace: Mapping[str, Any]) -> None:
    """Run the baseline whose experiment file has the globals `namespace`, with the command line's
    NAME=value overrides. Ends the process if the run fails or is stopped (harness.run.run)."""
    with session.command(experiment.constants, namespace) as (name, config):
        config = config.tried()
        chosen, where, lean = given(config.THEOREMS, TEST, config.EVAL_THEOREMS, toolchain.find())
        results = results_dir()
        chosen = elaborating(chosen, where, lean, config)
        known = control.given(config, chosen, lean)
        kind = f"_{config.THEOREMS.replace(':', '_')}" if is_minif2f(config.THEOREMS) else ""
        out = place(results, config) / f"baseline{kind}"
        with served.policy(Need(0, config.MAX_TOKENS, 0), out.parent) as server:
            check_context(server, config)
            rows = [
                ("model", server.model),
                ("theorems", f"{where}, n={len(chosen)}"),
                ("engine", server.choice),
            ]
            rows += [("Lean", lean.name), *burnqed.rows(config), *config.trial_rows()]
            with session.open_session(name, config, results, server, rows=rows) as opened:
                searching = Searching(opened, lean, out / "trajectories")
                record = Record.begun(
                    out, content_key([searching.run, *map(vars, chosen)]), config, lean, where
                )
                outcomes = searching.of(chosen)
                result = outcome.figures(outcomes, constants.budgets(config.MAX_NODES))
                record.save(complete=not known, model=server.model_info(), figures=result)
                keep(out, outcomes, result)
                print(f"\n{outcome.table(result)}")
                if known:
                    compared = control.compared(*known, searching, chosen, outcomes)
                    record.save(complete=True, **{control.FOLDER: compared})
                    print(control.line(compared, config.MAX_NODES))
        print(f"results {out}")
        goes, why = outcome.baseline(outcomes, config.MAX_NODES)
        print(f"{'go' if goes else 'no go'}: {why}")


def place(results: Path, config: BaselineConstants) -> Path:
    """Make and return the results folder of Lean experiments. SMOKE=1 uses a separate folder."""
    folder = results / "lean" / "smoke" if config.SMOKE else results / "lean"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def iterate(experiment: Task[IterationConstants], namespace: Mapping[str, Any]) -> None:
    """Run expert iteration. `namespace`: the globals of the experiment file, as for `baseline`."""
    with session.command(experiment.constants, namespace) as (name, config):
        config = config.tried()
        lean, start = toolchain.find(), served.first()
        weights.check(start)
        learned, its, lean = given(config.TRAIN_THEOREMS, TRAIN, config.MAX_THEOREMS, lean)
        held_out, where, lean = given(config.THEOREMS, TEST, config.EVAL_THEOREMS, lean)
        check_apart(learned, held_out)
        results = results_dir()
        out = place(results, config)
        rank = 0 if start.is_gguf else config.LORA_RANK
        untrained = sum(
            not (folder_of(out, number) / "model").exists() for number in numbers(config)
        )
        process.check(start.path, rank, config.MAX_TOKENS, untrained)
        process.python_of()
        if config.ENERGY:
            served.check_embeds(start, config)
        learned = elaborating(learned, its, lean, config)
        held_out = elaborating(held_out, where, lean, config)
        rows = [
            ("model", start.label),
            ("training", f"{its}, n={len(learned)}"),
            ("evaluation", f"{where}, n={len(held_out)}"),
            ("Lean", lean.name),
            *burnqed.rows(config),
            *config.trial_rows(),
        ]
        with session.open_session(name, config, results, rows=rows) as opened:
            Iterations(opened, start, learned, held_out, (its, where), lean, out).run()
        if config.ITERATION < 0:
            print(f"\n{overview(out)}\n")
        print(f"results {out}")


# Search orders


def ablate(experiment: Task[AblationConstants], namespace: Mapping[str, Any]) -> None:
    """Compare orders in which a search expands states, with one policy, the same theorems and equal
    nodes. States are ordered by log probability, by energy, by both with the weight ALPHA, or at
    random. `namespace`: the globals of the experiment file, as for `baseline`."""
    with session.command(experiment.constants, namespace) as (name, config):
        config = config.tried()
        chosen, where, lean = given(config.THEOREMS, TEST, config.EVAL_THEOREMS, toolchain.find())
        results = results_dir()
        own = folder_of(place(results, config), config.ITERATION)
        policy, out = iteration_of(own), own / "orders"
        served.check_embeds(policy, config)
        chosen = elaborating(chosen, where, lean, config)
        text = f"{policy.label}, of iteration {config.ITERATION}, with its energy model"
        rows = [("model", text), ("theorems", f"{where}, n={len(chosen)}"), ("Lean", lean.name)]
        rows += burnqed.rows(config) + config.trial_rows()
        known_by = {**config.closed, **vars(config)}
        run = content_key(
            [policy.digest, sha256(own / "energy" / WEIGHTS), known_by, *map(vars, chosen)]
        )
        with session.open_session(name, config, results, rows=rows) as opened:
            record = Record.begun(out, run, config, lean, where)
            with served.serving(policy, config, out) as (server, embeds):
                by_energy = guided(own / "energy", embeds)
                found = {
                    order: _ordered(order, opened.with_server(server), chosen, lean, out, by_energy)
                    for order in ORDERS
                }
        budgets = constants.budgets(config.MAX_NODES)
        orders = compared(found, budgets)
        record.save(complete=True, orders=orders)
        write_atomically(out / TABLE, f"{table(orders, budgets)}\n".encode())
        print(f"\n{table(orders, budgets, columns())}\nresults {out}")


def iteration_of(folder: Path) -> Weights:
    """Return the policy that an iteration trained. Raises UserError if the policy or its energy
    model is missing."""
    policy = served.trained(policy_in(folder))
    if not policy.path.exists() or not (folder / "energy").is_dir():
        number = folder.name.removeprefix("iteration_")
        smoke = " SMOKE=1" if folder.parent.name == "smoke" else ""
        raise UserError(
            f"{folder} contains no policy with an energy model. Train both first: bash "
            f"scripts/run.sh 24_lean_iteration ITERATION={number} MAX_ITERATION={number} "
            f"ENERGY=1{smoke}"
        )
    return policy


def _ordered(
    order: str,
    session: Session[Any],
    theorems: Sequence[Theorem],
    lean: Toolchain,
    folder: Path,
    energy: Guidance,
) -> list[list[Outcome]]:
    """Search the theorems in an order with each seed."""
    config: AblationConstants = session.config
    guidance = {LOGPROB: ALONE, RANDOM: Guidance(lambda: nullcontext(_random), RANDOM)}.get(
        order, energy
    )
    alpha = {LOGPROB: 1.0, BOTH: config.ALPHA}.get(order, 0.0)
    found = []
    for seed in range(config.SEED, config.SEED + config.SEEDS):
        own = session.with_changes(
            name=f"{order}, seed {seed}", config=exploring(config, SEED=seed, ALPHA=alpha)
        )
        out = folder / order.replace(" ", "-") / f"seed{seed}"
        found.append(Searching(own, lean, out, guidance).of(theorems))
    return found


async def _random(states: Sequence[State]) -> list[float]:
    return [seeds.rng("random order", text_of(state.pp)).random() for state in states]


def compared(found: Found, budgets: Sequence[int]) -> dict[str, Any]:
    """Return each order's solve rates by node budget, and its gain over LOGPROB at the last budget,
    for the record. Each theorem's result is the mean over seeds. `p_holm` is the gain's p with
    Holm's correction for all gains."""
    orders: dict[str, Any] = {}
    for order, runs in found.items():
        solved = {nodes: _mean_over_seeds(runs, nodes) for nodes in budgets}
        by_seed = [outcome.solved(outcomes, budgets[-1]) for outcomes in runs]
        whole = outcome.figures(list(chain.from_iterable(runs)), budgets)
        orders[order] = {
            "solved": {
                str(nodes): mean_by_problem(shares).to_json() for nodes, shares in solved.items()
            },
            "by_seed": [mean_by_problem(shares).value for shares in by_seed],
            "nodes_to_proof": whole["nodes_to_proof"],
            "seconds": whole["seconds"],
            "reasons": whole["reasons"],
        }
        if order == LOGPROB:
            first = solved[budgets[-1]]
        else:
            orders[order]["gain"] = vars(paired(first, solved[budgets[-1]]))
    gains = [orders[order]["gain"] for order in orders if order != LOGPROB]
    for gain, p in zip(gains, holm([gain["p"] for gain in gains]), strict=True):
        gain["p_holm"] = p
    return orders


def _mean_over_seeds(runs: Sequence[Sequence[Outcome]], nodes: int) -> list[float]:
    """Return for each theorem the share of seeds that solve it within `nodes`."""
    by_seed = [outcome.solved(outcomes, nodes) for outcomes in runs]
    return [fmean(solved) for solved in zip(*by_seed, strict=True)]


def table(orders: dict[str, Any], budgets: Sequence[int], width: int = 0) -> str:
    """Format the result of `compared` as a table of at most `width` characters (0: no limit)."""
    rows = [Column("order", list(orders))]
    for number, nodes in enumerate(budgets, 1):
        rates = [outcome.rate(figures, nodes) for figures in orders.values()]
        rows.append(Column(f"{nodes} nodes, %", rates, rank=len(budgets) - number))
    shifts, counts, ps = [], [], []
    for figures in orders.values():
        gain = figures.get("gain")  # LOGPROB lacks it
        shifts.append(shift(gain["difference"], gain["low"], gain["high"]) if gain else "")
        counts.append(f"{gain['wins']}, {gain['losses']}" if gain else "")
        ps.append(f"{gain['p_holm']:.2g}" if gain else "")
    rows.append(Column("gain over log probability", shifts))
    rows.append(Column("won, lost", counts))
    rows.append(Column("p, Holm", ps))
    reasons = outcome.counts(orders[LOGPROB]["reasons"])
    return (
        f"{Table('', rows).body(width)}\n\nsearches by log probability without a proof, by "
        f"reason: {reasons}"
    )


# Plans


def _baseline_work(config: ControlledConstants, card: Card) -> Work:
    config = config.tried()
    count = count_of(config.THEOREMS, TEST, config.EVAL_THEOREMS)
    # sends no requests to a model
    control = 0 if config.INDEX == "none" else count * config.MAX_NODES
    return _work(
        config, f"{count:,} theorems", ("tactics", count, config.MAX_NODES), control=control
    )


def _iterations_work(config: IterationConstants, card: Card) -> Work:
    weights.check_is_here()
    config = config.tried()
    learned = count_of(config.TRAIN_THEOREMS, TRAIN, config.MAX_THEOREMS)
    held_out = count_of(config.THEOREMS, TEST, config.EVAL_THEOREMS)
    chosen = numbers(config)
    begun = chosen or [0]  # the first policy alone is evaluated on the searches of iteration 0
    before = 0 if config.SKIP_BASELINE else (1 + config.ENERGY) * (0 in begun)
    times = "1 iteration" if len(chosen) == 1 else f"{len(chosen)} iterations"
    return _work(
        config,
        f"{times} of {learned:,} theorems, evaluated on {held_out:,}",
        ("tactics of training theorems", learned * len(begun), config.TRAIN_NODES),
        (
            "tactics at NOISE_TEMPERATURE",
            round(config.NOISE * learned) * (0 in begun),
            config.TRAIN_NODES,
        ),
        (
            "tactics of held-out theorems",
            held_out * (before + len(chosen) * (1 + config.ENERGY)),
            config.MAX_NODES,
        ),
    )


def _ablation_work(config: AblationConstants, card: Card) -> Work:
    config = config.tried()
    count = count_of(config.THEOREMS, TEST, config.EVAL_THEOREMS)
    of = f"{count:,} theorems in {len(ORDERS)} orders with {config.SEEDS} seeds"
    return _work(config, of, ("tactics", count * len(ORDERS) * config.SEEDS, config.MAX_NODES))


def _work(
    config: BaselineConstants, of: str, *searches: tuple[str, int, int], control: int = 0
) -> Work:
    """Return the work of `searches` (for each: name, number, nodes), and of a control with so many
    tactics."""
    requests = tuple(
        Requests(
            kind, count * nodes * config.CANDIDATES, PROMPT_TOKENS, config.MAX_TOKENS, TACTIC_TOKENS
        )
        for kind, count, nodes in searches
    )
    tactics = control + sum(count * nodes for _, count, nodes in searches)
    lean = (
        f"at most {tactics:,} tactics in searches. The estimate excludes Lean and training. A "
        "shorter run: SMOKE=1"
    )
    return Work(of, requests, rows=(("Lean", lean),))


BASELINE = Task(ControlledConstants, _baseline_work)
ITERATION = Task(IterationConstants, _iterations_work)
ABLATION = Task(AblationConstants, _ablation_work)
