"""The door to searching in Lean: what stands before the searches, and what is shown and kept behind them."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core import constants
from core.base import interrupts as interrupts
from core.base.errors import UserError, command
from core.base.files import results_dir, sha256, write_atomically
from core.base.signals import Stop
from core.base.terminal import columns
from core.engines.need import Need
from core.generate.journal import content_key
from core.plan.work import Task
from core.session.run import check_context, open_journal
from labs.lean import ablation, control, energy, figures, minif2f, plan, served, theorems, toolchain
from labs.lean.ablation import Ablation
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
    with command():
        stop = Stop()
        config = constants.of_command(experiment.constants, namespace, TAKEN).tried()
        lean = toolchain.find()
        chosen, where, lean = given(config.THEOREMS, TEST, config.EVAL_THEOREMS, lean)
        folder = results_dir()
        chosen = checked(lean, chosen, where, config)
        beside = control.given(config, chosen, lean)
        name, out = Path(namespace["__file__"]).stem, place(folder, config) / "baseline"
        with (
            served.policy(Need(0, config.MAX_TOKENS, 0), out.parent) as server,
            open_journal(folder / "journal" / f"{name}.jsonl") as journal,
        ):
            check_context(server, config)
            print(f"{name}: {server.model} on {len(chosen)} theorems of {where}, {lean.name}", flush=True)
            searching = Searching(name, config, server, journal, lean, out / "trajectories")
            record = Record.begun(out, content_key([searching.run, *map(vars, chosen)]), config, lean, where)
            outcomes = searching.of(chosen, stop)
            made = figures.figures(outcomes, config.budgets)
            record.save(complete=not beside, model=server.model_info(), figures=made)
            keep(out, outcomes, made)
            print(f"\n{figures.table(made)}")
            if beside:
                told = beside.compared(searching, chosen, outcomes, stop)
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
            if minif2f.is_named(where):
                return await theorems.elaborating(chosen, workers, where)
            await theorems.check(chosen, workers, where)
            return list(chosen)

    return asyncio.run(looked())


def iterate(experiment: Task[IterationConstants], namespace: Mapping[str, Any]) -> None:
    """Run the experiment whose file's globals are `namespace`, with NAME=value overrides from the command line. Ends
    the process as core.session.run.run does."""
    with command():
        stop = Stop()
        config = constants.of_command(experiment.constants, namespace, TAKEN).tried()
        lean, start = toolchain.find(), served.first()
        weights.check(start)
        learned, its, lean = given(config.TRAIN_THEOREMS, TRAIN, config.MAX_THEOREMS, lean)
        held_out, where, lean = given(config.THEOREMS, TEST, config.EVAL_THEOREMS, lean)
        check_apart(learned, held_out)
        folder = results_dir()
        rank = 0 if start.is_gguf else config.LORA_RANK
        process.check(start.path, rank, config.MAX_TOKENS, folder, untrained(place(folder, config), config))
        process.python_of()
        if config.ENERGY:
            served.check_embeds(start, config)
        learned = checked(lean, learned, its, config)
        held_out = checked(lean, held_out, where, config)
        name = Path(namespace["__file__"]).stem
        print(
            f"{name}: from {start.path.name} ({start.digest[:12]}) on {len(learned)} theorems of {its}, evaluated on "
            f"{len(held_out)} of {where}, {lean.name}",
            flush=True,
        )
        with open_journal(folder / "journal" / f"{name}.jsonl") as journal:
            out = place(folder, config)
            Iterations(config, start, learned, held_out, (its, where), lean, out, journal, stop).run()
            if config.ITERATION < 0:
                print(f"\n{overview(out)}\n")
            print(f"results {out}")


def ablate(experiment: Task[AblationConstants], namespace: Mapping[str, Any]) -> None:
    """Run the experiment whose file's globals are `namespace`, with NAME=value overrides from the command line. Ends
    the process as core.session.run.run does."""
    with command():
        stop = Stop()
        config = constants.of_command(experiment.constants, namespace, TAKEN).tried()
        lean = toolchain.find()
        chosen, where, lean = given(config.THEOREMS, TEST, config.EVAL_THEOREMS, lean)
        folder = results_dir()
        own = folder_of(place(folder, config), config.ITERATION)
        made = iteration_of(own)
        served.check_embeds(made, config)
        chosen = checked(lean, chosen, where, config)
        name, out = Path(namespace["__file__"]).stem, own / "orders"
        print(
            f"{name}: the policy and the energy of iteration {config.ITERATION} ({made.digest[:12]}) on {len(chosen)} "
            f"theorems of {where}, {lean.name}",
            flush=True,
        )
        known_by = {**config.closed, **vars(config)}
        run = content_key([made.digest, sha256(own / "energy" / energy.WEIGHTS), known_by, *map(vars, chosen)])
        record = Record.begun(out, run, config, lean, where)
        with open_journal(folder / "journal" / f"{name}.jsonl") as journal:
            found = Ablation(config, made, own / "energy", chosen, lean, out, journal, stop).run()
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
