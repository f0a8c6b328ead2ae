"""Estimate a run without running it: `python -m core.plan.plan 02_rsa_basic [N=16 …] [--gpu NAME]`.

The number of completions follows from the experiment's constants. Tokens follow from assumed or measured lengths. Hours
on a GPU follow from the roofline model (roofline.py), and hours with llama.cpp from its measured speed."""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from core import constants
from core.base.arguments import Parser
from core.base.errors import UserError, command, one_line
from core.base.files import results_dir
from core.base.terminal import wrapped
from core.constants import Constants
from core.engines import environment, gpus
from core.engines.cards import Card
from core.engines.gpus import Gpu
from core.plan import sweep
from core.plan.elsewhere import at_a_provider, on_this_machine
from core.plan.estimate import machine, make, problems_of, text
from core.plan.lengths import ASSUMED, Lengths, measured
from core.plan.subject import OnGpu, Subject, subject
from core.plan.work import SaysItsWork, Work, elsewhere, on_gpu
from core.problems import sets
from core.results import labs
from core.scaffolds import experiment_file, framing
from core.scaffolds.grid import Grid, TooMany, expand
from core.types import EITHER, Scaffold

NO_GPU = argparse.Namespace(gpu=None, gpu_file=None)  # no option names a GPU
ESTIMATE = "an estimate (nothing was run)"


def _count(config: Constants, card: Card) -> tuple[int, str]:
    """Return the number of a run's problems and the name of the set. A published set is downloaded only for a part."""
    name = card.own_sets.get(config.PROBLEMS, config.PROBLEMS)
    known = sets.PUBLISHED.get(name)
    have = known.rows if known else len(sets.load(name, EITHER).problems)
    return min(have, config.LIMIT or have), name


def _gpu(args: argparse.Namespace) -> tuple[Gpu, str, str]:
    """Return the GPU, the reason for choosing it, and the type of its KV cache. Raises UserError if the GPU is unknown
    or its file is invalid, or if the GPU lacks arithmetic for KV=fp8."""
    if args.gpu:
        gpu, why = gpus.named(args.gpu), "chosen by --gpu"
    elif args.gpu_file:
        gpu, why = gpus.from_file(Path(args.gpu_file)), "from --gpu-file"
    elif here := gpus.detect():
        gpu, why = here, "in this machine"
    else:
        gpu, why = gpus.DEFAULT, "assumed, because this machine has no NVIDIA GPU. Choose another with --gpu"
    kv = environment.kv_cache() or ("fp8" if gpu.fp8 else "bf16")
    if kv == "fp8" and not gpu.fp8:
        raise UserError(f"{gpu.name} has no fp8 arithmetic. Set KV=bf16")
    return gpu, why, kv


def refusal(error: TooMany, name: str, args: argparse.Namespace = NO_GPU) -> UserError:
    """Return the error for a sweep of the experiment `name` that is too large, with its hours if these are known."""
    config = error.last.config
    try:
        of = subject()
        gpu, _, kv = _gpu(args) if isinstance(of.place, OnGpu) else (None, "", "")
        pair = (gpu, kv) if gpu else None
        return sweep.refusal(error, _count(config, of.card)[0], _lengths(config, of, name), of, pair)
    except UserError:  # for example, the embedded model has no plan
        return error


def _lengths(config: Any, of: Subject, name: str) -> Lengths:
    """Return the lengths in the results of OUT or of the experiment `name`, or else assumed ones."""
    earlier = measured(results_dir(), of.model, getattr(config, "OUT", ""), name)
    return earlier or replace(ASSUMED, prompt=ASSUMED.prompt + framing.of(config, of.card).tokens)


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="plan.sh", description="Estimate tokens, time and cost of a run.")
    parser.add_argument("experiment", nargs="?", default="", help="an experiment (02_rsa_basic), grade or serve_rsa")
    parser.add_argument("constants", nargs="*", metavar="NAME=value", help="constants of the experiment, as for run.sh")
    named = parser.add_mutually_exclusive_group()
    named.add_argument("--gpu", help="name of a known GPU: " + ", ".join(gpus.GPUS))
    named.add_argument("--gpu-file", help="JSON file that describes another GPU")
    parser.add_argument("--price", type=float, help="price of one hour of the GPU or machine, in any currency")
    with command(), ExitStack() as settings:
        args = parser.parse_intermixed_args(argv)
        namespace: dict[str, Any] = {}
        runs = Grid([], {})
        if command_of := labs.plan_of(args.experiment):
            name, planned, words = command_of(args.constants)
        else:
            found = experiment_file.load(args.experiment)
            name, planned, namespace, words = found.name, found.planned, found.namespace, args.constants
            settings.enter_context(environment.setting(**planned.constants.settings()))
            namespace |= environment.card().constants_of(planned.constants)
        if isinstance(planned, Scaffold) and any("," in word for word in words):
            try:
                runs = expand(planned, namespace, words)
            except TooMany as error:
                raise refusal(error, name, args) from None
        is_sweep = any(cell.values for cell in runs.cells)
        config = runs.common if is_sweep else constants.read(planned.constants, namespace, words)
        with environment.choosing(getattr(config, "GRADER", "")):
            of = subject()
        if not isinstance(of.place, OnGpu) and (args.gpu or args.gpu_file):
            raise UserError(
                f"{of.shown} has no plan on a GPU: it runs with llama.cpp or on another server. Leave out --gpu and "
                "--gpu-file, or unset MODEL, ENGINE and BASE_URL to plan QED-Nano"
            )
        lengths = _lengths(config, of, name)
        if isinstance(planned, SaysItsWork):
            return _plan_work(name, planned.work(config, of.card), config, of, lengths, args)
        count, problems = _count(config, of.card) if namespace else (1, config.PROBLEMS)

        on, of_card = "", of.card.constants_in(config) if namespace else ""
        notes = [f"note: constants {of_card}"] if of_card else []
        if is_sweep:
            gpu, _, kv = _gpu(args) if isinstance(of.place, OnGpu) else (None, "", "")
            on, pair = (f" on one {gpu.name}", (gpu, kv)) if gpu else ("", None)
            plan = sweep.text(runs, count, lengths, of, pair, args.price)
        elif of.place is None:
            plan = at_a_provider(of.card, of.model, config, count, lengths, planned)
        elif isinstance(of.place, Path):
            on = " on this machine"
            plan = on_this_machine(of.place, config, count, lengths, planned, args.price)
        else:
            gpu, why, kv = _gpu(args)
            on = f" on one {gpu.name}"
            estimate = make(config, count, lengths, of.place.shape, gpu, kv, planned)
            plan = text(estimate, lengths, args.price, why, of.place, of.shown)
            if not (of.is_chosen or args.gpu or args.gpu_file or environment.engine() or gpus.has_gpu()):
                notes += ["note: this machine has no GPU. A run would use the embedded model, which has no plan"]
        head = f"{problems_of(count, config.RUNS)} ({one_line(problems, 60)})"
        print(wrapped(f"{name} with {of.shown}{on}, {head}: {ESTIMATE}"))
        print("", plan, *(wrapped(note, "  ") for note in notes), sep="\n")


def _plan_work(
    name: str, work: Work, config: Constants, of: Subject, lengths: Lengths, args: argparse.Namespace
) -> None:
    on = ""
    if isinstance(of.place, OnGpu):
        gpu, why, kv = _gpu(args)
        on = f" on one {gpu.name}"
        plan = on_gpu(work, lengths, machine(of.place.shape, gpu, kv, config), args.price, why, of.shown)
    else:
        plan = elsewhere(work, lengths, of.card, args.price)
    print(wrapped(f"{name} with {of.shown}{on}, {work.of}: {ESTIMATE}") + f"\n\n{plan}")


if __name__ == "__main__":
    main()
