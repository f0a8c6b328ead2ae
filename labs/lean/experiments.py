"""The experiments in Lean as commands: a baseline, expert iteration, and the orders of a search."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import results_dir, sha256, write_atomically
from core.base.terminal import columns
from core.engines.need import Need
from core.generate.journal import content_key
from core.plan.work import Task
from core.session import session
from core.session.checks import check_context
from labs.lean import ablation, control, energy, figures, minif2f, plan, served, theorems, toolchain
from labs.lean.constants import (
    AblationConstants,
    BaselineConstants,
    ControlledConstants,
    IterationConstants,
    LeanConstants,
)
from labs.lean.iterate import Iterations, folder_of, policy_in, untrained
from labs.lean.record import NO_GO, TABLE, Record, keep
from labs.lean.report import overview
from labs.lean.searching import Searching
from labs.lean.theorem import Theorem
from labs.lean.theorems import TEST, TRAIN
from labs.lean.toolchain import Toolchain
from labs.lean.workers import Workers
from labs.training import process
from labs.training import served as weights
from labs.training.served import Weights

TAKEN = "THEOREMS=FILE is searched"  # in place of PROBLEMS


BASELINE = Task(ControlledConstants, plan.baseline)
ITERATION = Task(IterationConstants, plan.iterations)
ABLATION = Task(AblationConstants, plan.orders)


def baseline(experiment: Task[ControlledConstants], namespace: Mapping[str, Any]) -> None:
    """Run the experiment whose file's globals are `namespace`, with NAME=value overrides from the command line. Ends
    the process as core.session.run.run does."""
    with session.command(experiment.constants, namespace, TAKEN) as (name, config, stop):
        config = config.tried()
        chosen, where, lean = given(config.THEOREMS, TEST, config.EVAL_THEOREMS, toolchain.find())
        results = results_dir()
        chosen = checked(lean, chosen, where, config)
        beside = control.given(config, chosen, lean)
        out = place(results, config) / "baseline"
        with served.policy(Need(0, config.MAX_TOKENS, 0), out.parent) as server:
            check_context(server, config)
            line = f"{name}: {server.model} on {len(chosen)} theorems of {where}, {lean.name}"
            with session.open(name, config, stop, results, server, opening=line) as opened:
                searching = Searching(opened, lean, out / "trajectories")
                record = Record.begun(out, content_key([searching.run, *map(vars, chosen)]), config, lean, where)
                outcomes = searching.of(chosen)
                made = figures.figures(outcomes, config.budgets)
                record.save(complete=not beside, model=server.model_info(), figures=made)
                keep(out, outcomes, made)
                print(f"\n{figures.table(made)}")
                if beside:
                    told = control.compared(*beside, searching, chosen, outcomes)
                    record.save(complete=True, **{control.FOLDER: told})
                    print(control.said(told, config.MAX_NODES))
        print(f"results {out}")
        goes, why = figures.baseline(outcomes, config.MAX_NODES, NO_GO)
        print(f"{'go' if goes else 'no go'}: {why}")


def place(results: Path, config: BaselineConstants) -> Path:
    """The folder of all that Lean's experiments leave; a trial's own."""
    folder = results / "lean" / "smoke" if config.SMOKE else results / "lean"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def given(named: str, default: Path, most: int, lean: Toolchain) -> tuple[list[Theorem], str, Toolchain]:
    """The first theorems of the file or set that is named, what it is called, and `lean` with what they are written
    behind. Raises UserError."""
    if minif2f.is_named(named):
        found, lean = minif2f.given(named, lean, results_dir() / "lean" / "downloads")
        return found[:most], named, lean
    path = default if named == "auto" else Path(named).expanduser()
    return theorems.read(path)[:most], path.name, lean


def checked(lean: Toolchain, chosen: Sequence[Theorem], where: str, config: LeanConstants) -> list[Theorem]:
    """The theorems whose statements elaborate. Raises UserError where Lean does not run, or one of a file does not."""

    async def looked() -> list[Theorem]:
        async with Workers(lean, config.NUM_WORKERS, config.TACTIC_SECONDS) as workers:
            return await theorems.elaborating(chosen, workers, where, minif2f.is_named(where))

    return asyncio.run(looked())


def iterate(experiment: Task[IterationConstants], namespace: Mapping[str, Any]) -> None:
    """Run the experiment whose file's globals are `namespace`, with NAME=value overrides from the command line. Ends
    the process as core.session.run.run does."""
    with session.command(experiment.constants, namespace, TAKEN) as (name, config, stop):
        config = config.tried()
        lean, start = toolchain.find(), served.first()
        weights.check(start)
        learned, its, lean = given(config.TRAIN_THEOREMS, TRAIN, config.MAX_THEOREMS, lean)
        held_out, where, lean = given(config.THEOREMS, TEST, config.EVAL_THEOREMS, lean)
        check_apart(learned, held_out)
        results = results_dir()
        out = place(results, config)
        rank = 0 if start.is_gguf else config.LORA_RANK
        process.check(start.path, rank, config.MAX_TOKENS, results, untrained(out, config))
        process.python_of()
        if config.ENERGY:
            served.check_embeds(start, config)
        learned = checked(lean, learned, its, config)
        held_out = checked(lean, held_out, where, config)
        line = (
            f"{name}: from {start.path.name} ({start.digest[:12]}) on {len(learned)} theorems of {its}, evaluated on "
            f"{len(held_out)} of {where}, {lean.name}"
        )
        with session.open(name, config, stop, results, opening=line) as opened:
            Iterations(opened, start, learned, held_out, (its, where), lean, out).run()
        if config.ITERATION < 0:
            print(f"\n{overview(out)}\n")
        print(f"results {out}")


def ablate(experiment: Task[AblationConstants], namespace: Mapping[str, Any]) -> None:
    """Run the experiment whose file's globals are `namespace`, with NAME=value overrides from the command line. Ends
    the process as core.session.run.run does."""
    with session.command(experiment.constants, namespace, TAKEN) as (name, config, stop):
        config = config.tried()
        chosen, where, lean = given(config.THEOREMS, TEST, config.EVAL_THEOREMS, toolchain.find())
        results = results_dir()
        own = folder_of(place(results, config), config.ITERATION)
        made, out = iteration_of(own), own / "orders"
        served.check_embeds(made, config)
        chosen = checked(lean, chosen, where, config)
        line = (
            f"{name}: the policy and the energy of iteration {config.ITERATION} ({made.digest[:12]}) on {len(chosen)} "
            f"theorems of {where}, {lean.name}"
        )
        known_by = {**config.closed, **vars(config)}
        run = content_key([made.digest, sha256(own / "energy" / energy.WEIGHTS), known_by, *map(vars, chosen)])
        with session.open(name, config, stop, results, opening=line) as opened:
            record = Record.begun(out, run, config, lean, where)
            found = ablation.run(opened, made, own / "energy", chosen, lean, out)
        told = ablation.compared(found, config.budgets)
        record.save(complete=True, orders=told)
        write_atomically(out / TABLE, f"{ablation.table(told, config.budgets)}\n".encode())
        print(f"\n{ablation.table(told, config.budgets, columns())}\nresults {out}")


def iteration_of(folder: Path) -> Weights:
    """The policy of an iteration that has an energy too. Raises UserError."""
    made = served.trained(policy_in(folder))
    if not made.path.exists() or not (folder / "energy").is_dir():
        number = folder.name.removeprefix("iteration_")
        raise UserError(
            f"{folder} holds no policy with an energy. Run it first: bash scripts/run.sh 24_lean_iteration "
            f"ITERATION={number} ENERGY=1"
        )
    return made


def check_apart(learned: Sequence[Theorem], held_out: Sequence[Theorem]) -> None:
    """Raises UserError where a held-out theorem is one to learn from."""
    known = {" ".join(theorem.statement.split()): theorem.name for theorem in learned}
    for theorem in held_out:
        if found := known.get(" ".join(theorem.statement.split())):
            raise UserError(
                f"{theorem.name} is held out and has the statement of {found}, which is trained on. Remove one"
            )
