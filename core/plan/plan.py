"""What a run will take, before a token is spent: python -m core.plan.plan 02_rsa_basic [N=16 …] [--gpu NAME]

From an experiment's constants to completions, from assumed or measured lengths to tokens, and by the roofline
(core/plan/roofline.py) to hours. Nothing is run: it is a computation on paper, and says so.
"""

import argparse
from collections.abc import Sequence
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
from core.plan.elsewhere import at_a_provider, on_this_machine
from core.plan.estimate import machine, make, problems_of, text
from core.plan.lengths import ASSUMED, Lengths, measured
from core.plan.subject import OnGpu, Subject, subject
from core.plan.work import SaysItsWork, Work, elsewhere, on_gpu
from core.problems import sets
from core.results import labs
from core.scaffolds import experiment_file
from core.types import EITHER


def _count(config: Constants, card: Card) -> tuple[int, str]:
    """Return the number of problems that the run of a card's model will have, and the name of their set. A set that is
    known by name is not fetched."""
    name = card.own_sets.get(config.PROBLEMS, config.PROBLEMS)
    known = sets.PUBLISHED.get(name)
    have = known.rows if known else len(sets.load(name, EITHER).problems)
    return min(have, config.LIMIT or have), name


def _gpu(args: argparse.Namespace) -> tuple[Gpu, str, str]:
    """Return the GPU to plan for, the reason, and the type of its KV cache. Raises UserError."""
    if args.gpu:
        gpu, why = gpus.named(args.gpu), "as asked"
    elif args.gpu_file:
        gpu, why = gpus.from_file(Path(args.gpu_file)), "from the file"
    elif here := gpus.detect():
        gpu, why = here, "in this machine"
    else:
        gpu, why = gpus.DEFAULT, "assumed: no NVIDIA GPU is here; --gpu names another"
    kv = environment.kv_cache() or ("fp8" if gpu.fp8 else "bf16")
    if kv == "fp8" and not gpu.fp8:
        raise UserError(f"{gpu.name} has no fp8 arithmetic. Plan with KV=bf16")
    return gpu, why, kv


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="plan.sh", description="What a run will take, before a token is spent.")
    parser.add_argument("experiment", nargs="?", default="", help="such as 02_rsa_basic")
    parser.add_argument("constants", nargs="*", metavar="NAME=value", help="constants, as for run.sh")
    named = parser.add_mutually_exclusive_group()
    named.add_argument("--gpu", help="one of " + ", ".join(gpus.GPUS))
    named.add_argument("--gpu-file", help="a GPU described in JSON")
    parser.add_argument("--price", type=float, help="of one hour, in any currency")
    with command():
        args = parser.parse_intermixed_args(argv)
        if args.price is not None and not 0 <= args.price <= 1e9:
            raise UserError(f"--price {args.price} is not the price of an hour. Give a number from 0 up")
        namespace: dict[str, Any] = {}
        if command_of := labs.plan_of(args.experiment):
            name, planned, words = command_of(args.constants)
        else:
            found = experiment_file.load(args.experiment)
            name, planned, namespace, words = found.name, found.planned, found.namespace, args.constants
        config = constants.read(planned.constants, namespace, words)
        with environment.choosing(getattr(config, "GRADER", "")):
            of = subject()
        if not isinstance(of.place, OnGpu) and (args.gpu or args.gpu_file):
            raise UserError(
                f"{of.shown} is not planned on a GPU: no engine of ours serves it there. Leave out --gpu, or unset "
                "MODEL, ENGINE and BASE_URL to plan QED-Nano"
            )
        lengths = measured(results_dir(), of.model, name) or ASSUMED
        if isinstance(planned, SaysItsWork):
            return _plan_work(name, planned.work(config, of.card), config, of, lengths, args)
        count, problems = _count(config, of.card) if namespace else (1, config.PROBLEMS)

        def show(on: str, what: str, plan: str) -> None:
            head = f"{problems_of(count, config.RUNS)} ({one_line(problems, 60)}): {what}"
            print(f"{wrapped(f'{name} with {of.shown}{on}, {head}')}\n\n{plan}")

        if of.place is None:
            show("", "nothing was run", at_a_provider(of.card, of.model, config, count, lengths, planned))
        elif isinstance(of.place, Path):
            plan = on_this_machine(of.place, name, config, count, lengths, planned, args.price)
            show(" on this machine", "planned, not run", plan)
        else:
            gpu, why, kv = _gpu(args)
            made = make(config, count, lengths, of.place.shape, gpu, kv, planned)
            plan = text(made, lengths, args.price, why, of.place, of.shown)
            show(f" on one {gpu.name}", "a computation on paper, nothing was run", plan)
            if not (of.is_chosen or args.gpu or args.gpu_file or environment.engine() or gpus.has_gpu()):
                print(wrapped("note: without a GPU, a run here takes the embedded model, which is not planned", "  "))


def _plan_work(
    name: str, work: Work, config: Constants, of: Subject, lengths: Lengths, args: argparse.Namespace
) -> None:
    """Print the plan of a task that is no scaffold."""
    if not isinstance(of.place, OnGpu):
        print(wrapped(f"{name} with {of.shown}, {work.of}: planned, not run") + "\n")
        print(elsewhere(work, lengths, of.card, args.price))
        return
    gpu, why, kv = _gpu(args)
    print(wrapped(f"{name} with {of.shown} on one {gpu.name}, {work.of}: a computation on paper, nothing was run"))
    on = machine(of.place.shape, gpu, kv, config)
    print(f"\n{on_gpu(work, lengths, on, args.price, why, of.shown)}\n")


if __name__ == "__main__":
    main()
