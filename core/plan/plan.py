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
from core.plan import local, provider
from core.plan.estimate import beside, machine, make, problems_of, text
from core.plan.lengths import ASSUMED, Lengths, measured
from core.plan.loads import OTHERS, carry, loads
from core.plan.subject import OnGpu, Subject, subject
from core.plan.work import SaysItsWork, Work, elsewhere, on_gpu
from core.problems import sets
from core.results import labs
from core.scaffolds import experiment_file
from core.types import EITHER, Planned


def _count(config: Constants, asked: int | None, card: Card) -> tuple[int, str]:
    """The number of problems that the run of a card's model will have, and the name of their set. A set that is known
    by name is not fetched for it."""
    name = card.own_sets.get(config.PROBLEMS, config.PROBLEMS)
    if asked is not None:
        return asked, name
    known = sets.PUBLISHED.get(name)
    have = known.rows if known else len(sets.load(name, EITHER).problems)
    return min(have, config.LIMIT or have), name


def _gpus(args: argparse.Namespace) -> tuple[list[Gpu], str]:
    """Those to plan for, and why."""
    if args.gpu and args.gpu_file:
        raise UserError("give --gpu or --gpu-file, not both")
    if args.gpu:
        return [gpus.named(name) for name in args.gpu], "as asked"
    if args.gpu_file:
        return [gpus.from_file(Path(args.gpu_file))], "from the file"
    if here := gpus.detect():
        return [here], "in this machine"
    return [gpus.DEFAULT], "assumed: no NVIDIA GPU is here; --gpu names another"


def _kv(gpu: Gpu, asked: str | None) -> str:
    kv = asked or ("fp8" if gpu.fp8 else "bf16")
    if kv == "fp8" and not gpu.fp8:
        raise UserError(f"{gpu.name} has no fp8 arithmetic. Plan with --kv bf16")
    return kv


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="plan.sh", description="What a run will take, before a token is spent.")
    parser.add_argument("experiment", nargs="?", default="", help="such as 02_rsa_basic")
    parser.add_argument("constants", nargs="*", metavar="NAME=value", help="constants, as for run.sh")
    parser.add_argument(
        "--gpu", action="append", help="one of " + ", ".join(gpus.GPUS) + "; given again, they stand side by side"
    )
    parser.add_argument("--gpu-file", help="a GPU described in JSON")
    parser.add_argument("--kv", choices=("bf16", "fp8"), help="type of the KV cache; fp8 where the GPU supports it")
    parser.add_argument("--price", type=float, help="of one hour, in any currency")
    parser.add_argument("--problems", type=int, help="number of problems, where the set can't be read here")
    parser.add_argument("--embedded", action="store_true", help="the embedded engine, from measured results alone")
    with command():
        args = parser.parse_intermixed_args(argv)
        if args.price is not None and not 0 <= args.price <= 1e9:
            raise UserError(f"--price {args.price} is not the price of an hour. Give a number from 0 up")
        if args.problems is not None and not 1 <= args.problems <= 1_000_000:
            raise UserError(f"--problems {args.problems} is not a number of problems. Give one from 1 to 1,000,000")
        if command_of := labs.plan_of(args.experiment):
            name, planned, words = command_of(args.constants)
            namespace, asked = dict[str, Any](), 1 if args.problems is None else args.problems
        else:
            experiment = experiment_file.load(args.experiment)
            name, planned, words = experiment.name, experiment.planned, args.constants
            namespace, asked = experiment.namespace, args.problems
        config = constants.read(planned.constants, namespace, words)
        with environment.choosing(getattr(config, "GRADER", "")):
            of = subject(args.embedded)
        if isinstance(planned, SaysItsWork):
            return _plan_work(name, planned.work(config, of.card), config, of, args)
        count, problems = _count(config, asked, of.card)
        _check_place(of, args)

        def show_head(on: str, what: str) -> None:
            told = f"{problems_of(count, config.RUNS)} ({one_line(problems, 60)}): {what}"
            print(wrapped(f"{name} with {of.shown}{on}, {told}") + "\n")

        folder = results_dir()
        lengths = measured(folder, of.model, name)
        if of.place == "embedded":
            _check_measured(name, config, planned, lengths, count, folder)
        if of.place is None:
            show_head("", "nothing was run")
            print(provider.text(of.card, of.model, config, count, lengths or ASSUMED, planned))
            return
        if not isinstance(of.place, OnGpu):
            show_head(" on this machine", "planned, not run")
            print(local.text(of.place, name, config, count, lengths or ASSUMED, planned, args.price))
            return
        lengths = lengths or ASSUMED
        chosen, why_gpu = _gpus(args)
        kv = args.kv or environment.kv_cache()
        plans = [make(config, count, lengths, of.place.shape, gpu, _kv(gpu, kv), planned) for gpu in chosen]
        on = f" on one {chosen[0].name}" if len(plans) == 1 else " on one GPU"
        show_head(on, "a computation on paper, nothing was run")
        if len(plans) == 1:
            print(
                text(plans[0], lengths, args.price, why_gpu, of.place.why, of.shown, of.place.engine, of.place.longest)
            )
        else:
            print(beside(plans, lengths, args.price))
            print(wrapped(f"\nlengths: {lengths.source}. For all figures of one, give one --gpu", "  "))
        if not (of.is_chosen or args.gpu or args.gpu_file or environment.engine() or gpus.has_gpu()):
            print(wrapped("note: without a GPU, a run here takes the embedded model; --embedded plans that", "  "))


def _plan_work(name: str, work: Work, config: Constants, of: Subject, args: argparse.Namespace) -> None:
    """Print the plan of what is no scaffold."""
    _check_place(of, args)
    lengths = measured(results_dir(), of.model, name)
    if not isinstance(of.place, OnGpu):
        print(wrapped(f"{name} with {of.shown}, {work.of}: planned, not run") + "\n")
        print(elsewhere(work, lengths or ASSUMED, of.card, args.price))
        return
    chosen, why_gpu = _gpus(args)
    kv = args.kv or environment.kv_cache()
    for gpu in chosen:
        print(wrapped(f"{name} with {of.shown} on one {gpu.name}, {work.of}: a computation on paper, nothing was run"))
        on = machine(of.place.shape, gpu, _kv(gpu, kv), config)
        print(f"\n{on_gpu(work, lengths or ASSUMED, on, args.price, why_gpu, of.shown)}\n")


def _check_place(of: Subject, args: argparse.Namespace) -> None:
    """Raises UserError for a model that no engine of ours serves on a GPU, if one is asked for."""
    if not isinstance(of.place, OnGpu) and (args.gpu or args.gpu_file):
        raise UserError(
            f"{of.shown} is not planned on a GPU: no engine of ours serves it there. Leave out --gpu, or unset "
            "MODEL, ENGINE and BASE_URL to plan QED-Nano"
        )


def _check_measured(
    name: str, config: Constants, planned: Planned, lengths: Lengths | None, count: int, folder: Path
) -> None:
    """Raises UserError if no results of the embedded model measure all that a run takes: assumed lengths are those of
    models that reason."""
    if any(load.kind == OTHERS for load in loads(config, count, ASSUMED, planned)):
        raise UserError(f"{name} is not RSA: from measured lengths alone it can't be planned. Leave out --embedded")
    if lengths is None:
        raise UserError(f"no results of the embedded model in {folder}. Run {name} once with LIMIT=4")
    needed = {"answer"} if vars(config).get("T") and carry(config) == "answer" else set()
    needed |= {"verifications"} if vars(config).get("VERIFY_MODE") == "verdict" else set()
    if lacking := sorted(needed.intersection(lengths.assumed)):
        raise UserError(f"no results in {folder} hold {' and '.join(lacking)}. Run {name} once with LIMIT=4")


if __name__ == "__main__":
    main()
