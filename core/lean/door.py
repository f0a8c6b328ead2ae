"""The door to searching in Lean: what stands before the searches, and what is shown and kept behind them."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core import constants
from core import interrupts as interrupts
from core.engines.need import Need
from core.errors import UserError, command
from core.files import DATA, results_dir
from core.generate.journal import content_key
from core.lean import control, figures, minif2f, served, theorems, toolchain
from core.lean.constants import BaselineConstants, ControlledConstants, IterationConstants, LeanConstants
from core.lean.iterate import Iterations
from core.lean.record import NO_GO, Record, keep
from core.lean.searching import Searching
from core.lean.theorem import Theorem
from core.lean.toolchain import Toolchain
from core.lean.workers import Workers
from core.run import check_context, open_journal
from core.signals import Stop
from core.training import process
from core.training import served as weights

TEST, TRAIN = (DATA / "lean" / f"lemmas_{part}.json" for part in ("test", "train"))
TAKEN = "THEOREMS=FILE is searched"  # in place of PROBLEMS


@dataclass(frozen=True)
class Search:
    """What can be planned: one theorem's search."""

    constants: type[BaselineConstants] = BaselineConstants

    def max_completions(self, config: LeanConstants) -> int:
        return config.MAX_NODES * config.CANDIDATES

    def texts_shown(self, config: LeanConstants) -> int:
        return 0


@dataclass(frozen=True)
class Baseline(Search):
    """The same of a baseline."""

    constants: type[ControlledConstants] = ControlledConstants


@dataclass(frozen=True)
class Iteration(Search):
    """The same of iterations."""

    constants: type[IterationConstants] = IterationConstants


BASELINE, ITERATION = Baseline(), Iteration()


def baseline(experiment: Baseline, namespace: Mapping[str, Any]) -> None:
    """Run the experiment whose file's globals are `namespace`, with NAME=value overrides from the command line. Ends
    the process as core.run.run does."""
    with command():
        if constants.asks_for_help(sys.argv[1:]):
            return print(constants.explained(experiment.constants, namespace))
        stop = Stop()
        config = constants.of_command(experiment.constants, namespace, TAKEN)
        lean = toolchain.find()
        chosen, where, lean = given(config.THEOREMS, TEST, config.EVAL_THEOREMS, lean)
        folder = results_dir()
        check(lean, chosen, where, config)
        beside = control.given(config, chosen, lean)
        name, out = Path(namespace["__file__"]).stem, folder / "lean" / "baseline"
        out.parent.mkdir(exist_ok=True)
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


def given(named: str, default: Path, most: int, lean: Toolchain) -> tuple[list[Theorem], str, Toolchain]:
    """The first theorems of the file or set that is named, what it is called, and `lean` with what they are written
    behind. Raises UserError."""
    if minif2f.is_named(named):
        found, lean = minif2f.given(named, lean, results_dir() / "lean" / "downloads")
        return found[:most], named, lean
    path = default if named == "auto" else Path(named).expanduser()
    return theorems.read(path)[:most], path.name, lean


def check(lean: Toolchain, chosen: Sequence[Theorem], where: str, config: LeanConstants) -> None:
    """Raises UserError where Lean does not run, or a statement does not elaborate."""

    async def checked() -> None:
        async with Workers(lean, config.NUM_WORKERS, config.TACTIC_SECONDS) as workers:
            await theorems.check(chosen, workers, where)

    asyncio.run(checked())


def iterate(experiment: Iteration, namespace: Mapping[str, Any]) -> None:
    """Run the experiment whose file's globals are `namespace`, with NAME=value overrides from the command line. Ends
    the process as core.run.run does."""
    with command():
        if constants.asks_for_help(sys.argv[1:]):
            return print(constants.explained(experiment.constants, namespace))
        stop = Stop()
        config = constants.of_command(experiment.constants, namespace, TAKEN)
        lean, start = toolchain.find(), served.first()
        weights.check_port(start)
        if config.ENERGY and not start.is_gguf:
            raise UserError(
                f"ENERGY=1 has llama.cpp embed states, and {start.path.name} is no .gguf file. Give ENERGY=0, or a file"
            )
        learned, its, lean = given(config.TRAIN_THEOREMS, TRAIN, config.MAX_THEOREMS, lean)
        held_out, where, lean = given(config.THEOREMS, TEST, config.EVAL_THEOREMS, lean)
        check_apart(learned, held_out)
        folder = results_dir()
        process.python_of()
        check(lean, learned, its, config)
        check(lean, held_out, where, config)
        name = Path(namespace["__file__"]).stem
        print(
            f"{name}: from {start.path.name} ({start.digest[:12]}) on {len(learned)} theorems of {its}, evaluated on "
            f"{len(held_out)} of {where}, {lean.name}",
            flush=True,
        )
        with open_journal(folder / "journal" / f"{name}.jsonl") as journal:
            out = folder / "lean"
            Iterations(config, start, learned, held_out, (its, where), lean, out, journal, stop).run()
            print(f"results {out}")


def check_apart(learned: Sequence[Theorem], held_out: Sequence[Theorem]) -> None:
    """Raises UserError where a held-out theorem is one to learn from."""
    known = {" ".join(theorem.statement.split()): theorem.name for theorem in learned}
    for theorem in held_out:
        if found := known.get(" ".join(theorem.statement.split())):
            raise UserError(
                f"{theorem.name} is held out and has the statement of {found}, which is trained on. Remove one"
            )
