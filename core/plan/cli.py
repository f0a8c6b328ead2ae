"""What a run will take, before a token is spent: python -m core.plan.cli 02_rsa_basic [N=16 …] [--gpu NAME]

From an experiment's constants to completions, from assumed or measured lengths to tokens, and by the roofline
(core/plan/roofline.py) to hours. Nothing is run: it is a computation on paper, and says so.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from core import constants, experiment_file
from core.arguments import Parser
from core.constants import Constants
from core.engines import cards, environment, gpus, weights
from core.engines.cards import Card
from core.engines.embedded_model import embedded_card, embedded_name
from core.engines.gpus import Gpu
from core.errors import UserError, command
from core.files import results_dir
from core.plan import provider
from core.plan.estimate import beside, embedded_text, make, problems_of, shape_of_model, text
from core.plan.lengths import ASSUMED, measured
from core.plan.loads import OTHERS, carry, loads
from core.problems import sets
from core.terminal import wrapped
from core.types import EITHER


def _count(config: Constants, asked: int | None, card: Card) -> int:
    """Problems that the run of a card's model will have; a set that is known by name is not fetched for it."""
    if asked is not None:
        return asked
    name = card.own_sets.get(config.PROBLEMS, config.PROBLEMS)
    known = sets.PUBLISHED.get(name)
    have = known.rows if known else len(sets.load(name, EITHER).problems)
    return min(have, config.LIMIT or have)


def _providers_card() -> Card:
    """The card of MODEL, where it is of a server elsewhere; else NONE: the plan is for a GPU. Raises UserError."""
    card = environment.card()
    return cards.NONE if card.engine else card


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
        experiment = experiment_file.load(args.experiment)
        name, planned = experiment.name, experiment.planned
        config = constants.read(planned.constants, experiment.namespace, args.constants)
        if "GRADED" in vars(config):
            raise UserError(
                f"{name} solves no problems: it grades the proofs of GRADED, and says itself how many gradings that "
                "takes. Put a limit on it with MAX_DOLLARS, or try it with LIMIT=1"
            )
        if "TRAIN_PROBLEMS" in vars(config):
            raise UserError(
                f"{name} trains between its rounds, and how long that takes is told by no data sheet, so that it is "
                "not planned. Run it with ROUNDS=1 LIMIT=20: its table has the tokens and seconds of a round"
            )
        card = _providers_card()
        count = _count(config, args.problems, embedded_card() if args.embedded else card)
        folder = results_dir()
        if args.embedded:
            if any(load.kind == OTHERS for load in loads(config, count, ASSUMED, planned)):
                raise UserError(
                    f"{name} is not RSA: from measured lengths alone it can't be planned. Leave out --embedded"
                )
            lengths = measured(folder, embedded_name(), name)
            if lengths is None:
                raise UserError(f"no results of the embedded model in {folder}. Run {name} once with LIMIT=4")
            needed = {"answer"} if vars(config).get("T") and carry(config) == "answer" else set()
            needed |= {"verifications"} if vars(config).get("VERIFY_MODE") == "verdict" else set()
            if lacking := sorted(needed.intersection(lengths.assumed)):
                raise UserError(f"no results in {folder} hold {' and '.join(lacking)}. Run {name} once with LIMIT=4")
            print(f"{name} on the embedded engine, {problems_of(count, config.RUNS)}: planned, not run\n")
            print(embedded_text(config, count, lengths, args.price))
            return
        if card.name and not (args.gpu or args.gpu_file):
            head = f"{name} with {card.model} (card {card.name}), {problems_of(count, config.RUNS)}: nothing was run"
            lengths = measured(folder, card.model, name) or ASSUMED
            print(f"{wrapped(head)}\n\n{provider.text(card, config, count, lengths, planned)}")
            return
        chosen, why_gpu = _gpus(args)
        shape, why_shape = shape_of_model()
        lengths = measured(folder, weights.REPO, name) or ASSUMED
        plans = [make(config, count, lengths, shape, gpu, _kv(gpu, args.kv), planned) for gpu in chosen]
        on = f"one {chosen[0].name}" if len(plans) == 1 else "one GPU"
        head = (
            f"{name} with QED-Nano on {on}, {problems_of(count, config.RUNS)}: a computation on paper, nothing was run"
        )
        print(wrapped(head) + "\n")
        if len(plans) == 1:
            print(text(plans[0], lengths, args.price, why_gpu, why_shape))
        else:
            print(beside(plans, lengths, args.price))
            print(wrapped(f"\nlengths: {lengths.source}. For all figures of one, give one --gpu", "  "))


if __name__ == "__main__":
    main()
