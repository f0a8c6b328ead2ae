"""Estimate a run without running it: `python -m harness.plan.plan 02_rsa_basic [N=16 …] [--gpu NAME]`.

The number of completions follows from the experiment's constants. Tokens follow from assumed or
measured lengths. Hours on a GPU follow from the roofline model (roofline.py), and hours with
llama.cpp from its measured speed."""

from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from core import constants
from core.base.errors import Parser, UserError, command, one_line
from core.base.files import results_dir
from core.base.terminal import labelled, wrapped
from core.constants import Constants
from core.engines import environment, gpus
from core.engines.cards import Card
from core.engines.dialects import llamacpp
from core.engines.need import Need
from core.types import EITHER, Bounded, Scaffold
from harness import experiment_file, framing
from harness.grid import Grid, TooMany, expand
from harness.plan import estimate
from harness.plan.estimate import Rows, hours, money, problems_of, token_rows, tokens, without_gpu
from harness.plan.lengths import ASSUMED, Lengths, measured
from harness.plan.roofline import BEST, WORST, Load, Machine
from harness.plan.subject import OnGpu, Subject, subject
from harness.plan.work import OTHERS, Work, loads
from harness.problems import sets
from harness.results import registry

NO_GPU = Namespace(gpu=None, gpu_file=None)  # no option names a GPU
ROOFLINE = (
    f"the time is computed from data sheets. It assumes {BEST.bandwidth:.0%} to "
    f"{WORST.bandwidth:.0%} of the bandwidth, {BEST.compute:.0%} to {WORST.compute:.0%} of the "
    f"FLOP/s, and {BEST.fill:.0%} to {WORST.fill:.0%} of the KV cache. Completions in the journal "
    "are not subtracted"
)


def _count(config: Constants, card: Card) -> tuple[int, str]:
    """Return the number of a run's problems and the name of the set. A published set is downloaded
    only for a part."""
    name = card.own_sets.get(config.PROBLEMS, config.PROBLEMS)
    known = sets.PUBLISHED.get(name)
    have = known.rows if known else len(sets.load(name, EITHER).problems)
    return min(have, config.LIMIT or have), name


def _lengths(config: Any, of: Subject, name: str) -> Lengths:
    """Return the lengths in the results of OUT or of the experiment `name`, or else assumed
    ones."""
    earlier = measured(results_dir(), of.model, getattr(config, "OUT", ""), name)
    return earlier or replace(ASSUMED, prompt=ASSUMED.prompt + framing.of(config, of.card).tokens)


def refusal(error: TooMany, name: str, args: Namespace = NO_GPU) -> UserError:
    """Return the error for a sweep of the experiment `name` that is too large, with its hours on a
    GPU. The sum assumes that all runs take as long as the last one."""
    last = error.last
    with suppress(UserError):  # for example, the embedded model has no plan
        of = subject(args)
        if isinstance(of.place, OnGpu):
            lengths, count = _lengths(last.config, of, name), _count(last.config, of.card)[0]
            seconds = estimate.Plan(last.config, count, lengths, of.place, last.scaffold).seconds
            one, whole = hours(seconds), hours([error.count * each for each in seconds])
            each = f"{last.name} ({one} with {of.shown}{of.on})"
            return UserError(f"{error}. If each run takes as long as {each}, all take {whole}")
    return error


def run(
    config: Constants,
    count: int,
    lengths: Lengths,
    of: Subject,
    planned: Bounded,
    price: float | None,
) -> str:
    """Format the plan of a run."""
    rows, config = Rows(), _without_forcing(config, of)
    if isinstance(of.place, Path):
        rows, config = _on_llamacpp(config, of.place, planned)
    expected = _all_runs(config, count, lengths, planned)
    total, runs = sum(load.count for load in expected), config.RUNS
    mean = np.mean([load.lengths.mean() for load in expected if isinstance(load.kind[0], int)])
    shared = [
        (
            "lengths",
            (
                f"{lengths.source}. A solution has {mean:,.0f} tokens on average (cap: "
                f"{config.MAX_TOKENS:,})"
            ),
        ),
        (
            "completions",
            f"{total:,} ({total // (count * runs)} for each of {problems_of(count, runs)})",
        ),
        *token_rows(expected),
    ]
    notes = []
    if extra := sum(load.count for load in expected if load.kind == OTHERS):
        notes.append(
            f"up to {extra:,} completions follow the first solutions. The plan counts each as a "
            "solution that reads one candidate. The scaffold may stop earlier, and its reviews "
            "and selections may be shorter"
        )
    if isinstance(of.place, OnGpu):
        plan = estimate.Plan(config, count, lengths, of.place, planned)
        rows = [*estimate.model_rows(of.place, of.shown), *shared, *estimate.time_rows(plan, price)]
        notes = [ROOFLINE, *notes, *estimate.notes(plan)]
    else:
        rows += [*shared, *without_gpu(of, expected, lengths, price)]
    return labelled(rows) + "".join(wrapped(f"\nnote: {note}", "  ") for note in notes)


def _sweep(runs: Grid, count: int, lengths: Lengths, of: Subject, price: float | None) -> str:
    """Format the plan of a sweep: add up the runs that send requests. Other runs only read the
    first steps of these."""
    asking = [(_without_forcing(cell.config, of), cell.scaffold) for cell in runs.asking]
    expected = [
        load for config, scaffold in asking for load in _all_runs(config, count, lengths, scaffold)
    ]
    why = ", ".join(dict.fromkeys(runs.left_out.values()))
    shared = f", {len(runs.cells) - len(asking)} of them from the first steps of others"
    rows = [
        ("runs", f"{len(runs.cells)}{shared if len(asking) < len(runs.cells) else ''}"),
        *([("left out", f"{len(runs.left_out)} combinations: {why:.300}")] if why else []),
        ("lengths", lengths.source),
        (
            "completions",
            f"{sum(e.count for e in expected):,}. Samples that runs share are counted for each run",
        ),
        *token_rows(expected),
    ]
    if isinstance(place := of.place, OnGpu):
        seconds = (
            estimate.Plan(config, count, lengths, place, scaffold).seconds
            for config, scaffold in asking
        )
        whole = [sum(ends) for ends in zip(*seconds, strict=True)]
        return labelled([*rows, ("time", hours(whole)), *money(whole, price)])
    return labelled([*rows, *without_gpu(of, expected, lengths, price)])


def _all_runs(config: Constants, count: int, lengths: Lengths, planned: Bounded) -> list[Load]:
    return [
        replace(each, count=config.RUNS * each.count)
        for each in loads(config, count, lengths, planned)
    ]


def _without_forcing(config: Constants, of: Subject) -> Constants:
    """Return the constants without forced answers if the server can't force them."""
    return (
        replace(config, ANSWER_TOKENS=0)
        if of.place is None and of.card.continues is False
        else config
    )


def _on_llamacpp(config: Constants, file: Path, planned: Bounded) -> tuple[Rows, Constants]:
    """Return rows about llama.cpp on this machine, and the constants within its context. Raises
    UserError if the GGUF `file` is unreadable, or its model does not fit this machine."""
    from core.engines.gguf_header import Gguf  # slow to import

    model = Gguf.read(file)
    shots = framing.of(config, environment.card()).tokens
    need = Need(planned.texts_shown(config), config.MAX_TOKENS, config.ANSWER_TOKENS, shots)
    size = llamacpp.size(
        model,
        need,
        llamacpp.memory(),
        llamacpp.physical_cores(),
        environment.hosting().exact(False),
    )
    engine = (
        f"llama.cpp with {file.name} ({model.bytes / 1e6:,.0f} MB, {model.shape.layers} layers): "
        f"at most {size.slots} requests at a time, contexts of {size.context:,} tokens, "
        f"{size.threads} threads"
        + ("" if environment.engine() else ". Set ENGINE=llamacpp for the run")
    )
    rows = [("engine", engine)]
    if need.context > size.context:
        text = (
            f"too short: a request may need {need.context:,} tokens, and then fails. Lower "
            "MAX_TOKENS, or K in RSA"
        )
        rows.append(("context", text))
    # llama.cpp truncates there
    return rows, replace(config, MAX_TOKENS=min(config.MAX_TOKENS, size.context))


def _work(work: Work, config: Constants, lengths: Lengths, of: Subject, price: float | None) -> str:
    """Format the plan of a task that is not a scaffold."""
    requests = [each for each in work.requests if each.count]
    expected = [each.load(lengths) for each in requests]
    sources = [f"solutions: {lengths.source}"] * any(not each.median for each in requests)
    if assumed := ", ".join(
        f"{each.median:,.0f} for {each.kind}" for each in requests if each.median
    ):
        sources.append(f"{'A' if sources else 'a'}ssumed medians in tokens: {assumed}")
    total, kinds = (
        sum(each.count for each in requests),
        ", ".join(f"{each.count:,} {each.kind}" for each in requests),
    )
    rows = [
        ("lengths", ". ".join(sources)),
        ("completions", f"{total:,} at most: {kinds}"),
        *token_rows(expected),
    ]
    trained = f"{tokens(work.trained)} at most"
    if isinstance(place := of.place, OnGpu):
        # Assume that requests are independent, because the order in searches and rounds is unknown.
        machine = Machine.of(place.shape, place.gpu, place.kv, config)
        low, high = machine.seconds(expected, max(load.count for load in expected))
        operations = 6 * place.shape.parameters * work.trained  # per parameter and token
        least, most = (operations / (place.gpu.flops * reach.compute) for reach in (BEST, WORST))
        rows = [*estimate.model_rows(place, of.shown, whole=False), *rows]
        rows.append(("time", f"{hours((low, high))} for generating"))
        trained += f", {hours((least, most))} at 6 operations per parameter and token"
        cost = money((low + least, high + most), price)
    else:
        rows, cost, trained = (
            [*rows, *without_gpu(of, expected, lengths, price)],
            [],
            f"{trained}. The time is unknown",
        )
    training = [("training", trained)] if work.trained else []
    return labelled([*rows, *training, *work.rows, *cost])


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="plan.sh", description="Estimate tokens, time and cost of a run.")
    parser.add_argument(
        "experiment", nargs="?", default="", help="an experiment (02_rsa_basic), grade or serve_rsa"
    )
    parser.add_argument(
        "constants",
        nargs="*",
        metavar="NAME=value",
        help="constants of the experiment, as for run.sh",
    )
    named = parser.add_mutually_exclusive_group()
    named.add_argument("--gpu", help="name of a known GPU: " + ", ".join(gpus.GPUS))
    named.add_argument("--gpu-file", help="JSON file that describes another GPU")
    parser.add_argument(
        "--price", type=float, help="price of one hour of the GPU or machine, in any currency"
    )
    with command(), ExitStack() as settings:
        args = parser.parse_intermixed_args(argv)
        namespace: dict[str, Any] = {}
        runs = Grid([], {})
        if command_of := registry.plan_of(args.experiment):
            name, planned, words = command_of(args.constants)
        else:
            found = experiment_file.load(args.experiment)
            name, planned, namespace, words = (
                found.name,
                found.planned,
                found.namespace,
                args.constants,
            )
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
            of = subject(args)
        lengths = _lengths(config, of, name)
        if hasattr(planned, "work"):  # a task
            work = planned.work(config, of.card)
            about, plan = work.of, _work(work, config, lengths, of, args.price)
        else:
            count, problems = _count(config, of.card) if namespace else (1, config.PROBLEMS)
            about = f"{problems_of(count, config.RUNS)} ({one_line(problems, 60)})"
            if is_sweep:
                plan = _sweep(runs, count, lengths, of, args.price)
            else:
                plan = run(config, count, lengths, of, planned, args.price)
        print(wrapped(f"{name} with {of.shown}{of.on}, {about}: an estimate (nothing was run)"))
        print("", plan, sep="\n")


if __name__ == "__main__":
    main()
