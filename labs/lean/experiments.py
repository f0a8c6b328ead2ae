"""Run a baseline or expert iteration in Lean, and plan the work of Lean experiments for plan.sh."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.base.files import results_dir
from core.engines.cards import Card
from core.engines.need import Need
from core.generate.journal import content_key
from core.plan.work import Requests, Task, Work
from core.session import session
from core.session.checks import check_context
from labs.lean import control, outcome, served, toolchain
from labs.lean.constants import BaselineConstants, ControlledConstants, IterationConstants
from labs.lean.iterate import Iterations, check_apart, folder_of, numbers
from labs.lean.outcome import Record, keep
from labs.lean.report import overview
from labs.lean.searching import Searching
from labs.lean.theorems import TEST, TRAIN, count_of, elaborating, given, is_minif2f
from labs.training import process
from labs.training import served as weights

TAKEN = "Use THEOREMS=FILE to search your own theorems"  # the remedy if PROBLEMS is set
PROMPT_TOKENS = 200  # assumed length of a prompt with a state and its hypotheses
TACTIC_TOKENS = 16  # assumed median length of a tactic


def baseline(experiment: Task[ControlledConstants], namespace: Mapping[str, Any]) -> None:
    """Run the baseline whose experiment file has the globals `namespace`, with the command line's NAME=value overrides.
    Ends the process if the run fails or is stopped (core.session.run.run)."""
    with session.command(experiment.constants, namespace, TAKEN) as (name, config, stop):
        config = config.tried()
        chosen, where, lean = given(config.THEOREMS, TEST, config.EVAL_THEOREMS, toolchain.find())
        results = results_dir()
        chosen = elaborating(chosen, where, lean, config)
        known = control.given(config, chosen, lean)
        kind = f"_{config.THEOREMS.replace(':', '_')}" if is_minif2f(config.THEOREMS) else ""
        out = place(results, config) / f"baseline{kind}"
        with served.policy(Need(0, config.MAX_TOKENS, 0), out.parent) as server:
            check_context(server, config)
            theorems_shown = ("theorems", f"{where}, n={len(chosen)}")
            rows = [("model", server.model), theorems_shown, ("engine", server.choice), ("Lean", lean.name)]
            rows += served.rows(config)
            with session.open(name, config, stop, results, server, opening=rows) as opened:
                searching = Searching(opened, lean, out / "trajectories")
                record = Record.begun(out, content_key([searching.run, *map(vars, chosen)]), config, lean, where)
                outcomes = searching.of(chosen)
                result = outcome.figures(outcomes, config.budgets)
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
        untrained = sum(not (folder_of(out, number) / "model").exists() for number in numbers(config))
        process.check(start.path, rank, config.MAX_TOKENS, results, untrained)
        process.python_of()
        if config.ENERGY:
            served.check_embeds(start, config)
        learned = elaborating(learned, its, lean, config)
        held_out = elaborating(held_out, where, lean, config)
        rows = [
            ("policy", f"{start.path.name} ({start.digest[:12]})"),
            ("training", f"{its}, n={len(learned)}"),
            ("evaluation", f"{where}, n={len(held_out)}"),
            ("Lean", lean.name),
            *served.rows(config),
        ]
        with session.open(name, config, stop, results, opening=rows) as opened:
            Iterations(opened, start, learned, held_out, (its, where), lean, out).run()
        if config.ITERATION < 0:
            print(f"\n{overview(out)}\n")
        print(f"results {out}")


# Plans


def _baseline_work(config: ControlledConstants, card: Card) -> Work:
    config = config.tried()
    count = count_of(config.THEOREMS, TEST, config.EVAL_THEOREMS)
    searches = count * (2 if config.INDEX != "none" else 1)  # the control sends no requests to a model
    return work_of(config, f"{count:,} theorems", [("tactics", count, config.MAX_NODES)], searches * config.MAX_NODES)


def _iterations_work(config: IterationConstants, card: Card) -> Work:
    weights.check_is_here()
    config = config.tried()
    learned = count_of(config.TRAIN_THEOREMS, TRAIN, config.MAX_THEOREMS)
    held_out = count_of(config.THEOREMS, TEST, config.EVAL_THEOREMS)
    chosen = numbers(config)
    begun = chosen or [0]  # the first policy alone is evaluated on the searches of iteration 0
    noisy = round(config.NOISE * learned) if 0 in begun else 0
    before = 0 if config.SKIP_BASELINE else (1 + config.ENERGY) * (0 in begun)
    evaluations = before + len(chosen) * (1 + config.ENERGY)
    searches = [
        ("tactics of training theorems", learned * len(begun), config.TRAIN_NODES),
        ("tactics at NOISE_TEMPERATURE", noisy, config.TRAIN_NODES),
        ("tactics of held-out theorems", held_out * evaluations, config.MAX_NODES),
    ]
    times = "1 iteration" if len(chosen) == 1 else f"{len(chosen)} iterations"
    of = f"{times} of {learned:,} theorems, evaluated on {held_out:,}"
    return work_of(config, of, searches, sum(count * nodes for _, count, nodes in searches))


def work_of(config: BaselineConstants, of: str, searches: list[tuple[str, int, int]], tactics: int) -> Work:
    """Return the work of `searches` (for each: name, number, nodes)."""
    requests = tuple(
        Requests(kind, count * nodes * config.CANDIDATES, PROMPT_TOKENS, config.MAX_TOKENS, TACTIC_TOKENS)
        for kind, count, nodes in searches
    )
    lean = f"at most {tactics:,} tactics in searches. The estimate excludes Lean and training. A shorter run: SMOKE=1"
    return Work(of, requests, rows=(("Lean", lean),))


BASELINE = Task(ControlledConstants, _baseline_work)
ITERATION = Task(IterationConstants, _iterations_work)
