"""Estimate a run without running it: `python -m harness.plan.plan 02_rsa_basic [N=16 …]`.

The number of completions follows from the experiment's constants. Tokens follow from assumed or
measured lengths. Hours on a GPU follow from the roofline model (roofline.py), and hours with
llama.cpp from its measured speed.
"""

from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
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
from harness.plan.roofline import BEST, WORST, Load
from harness.plan.subject import OnGpu, Subject, Unplanned, find_subject
from harness.plan.work import OTHERS, Requests, Work, loads_of
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
    published = sets.PUBLISHED.get(name)
    rows = published.rows if published else len(sets.load(name, EITHER).problems)
    return min(rows, config.LIMIT or rows), name


def _lengths(config: Any, subject: Subject, name: str) -> Lengths:
    """Return the lengths in the results of OUT or of the experiment `name`, or else assumed
    ones."""
    earlier = measured(results_dir(), subject.model, getattr(config, "OUT", ""), name)
    if earlier:
        return earlier
    before_problem = framing.from_config(config, subject.card).tokens
    return replace(ASSUMED, prompt=ASSUMED.prompt + before_problem)


def refusal(error: TooMany, name: str, args: Namespace = NO_GPU) -> UserError:
    """Return the error for a sweep of the experiment `name` that is too large, with its hours on a
    GPU. The sum assumes that all runs take as long as the last one."""
    last = error.last
    try:
        subject = find_subject(args)
        if not isinstance(subject.runs_on, OnGpu):
            return error
        lengths = _lengths(last.config, subject, name)
        count, _ = _count(last.config, subject.card)
        plan = estimate.Plan(last.config, count, lengths, subject.runs_on, last.scaffold)
        low, high = plan.seconds
    except UserError:  # for example, the embedded model has no plan
        return error
    run_hours = f"{hours((low, high))} with {subject.label}{subject.on}"
    all_hours = hours((error.count * low, error.count * high))
    return UserError(
        f"{error}. If each run takes as long as {last.name} ({run_hours}), all take {all_hours}"
    )


def run(
    config: Constants,
    count: int,
    lengths: Lengths,
    subject: Subject,
    planned: Bounded,
    price: float | None,
) -> str:
    """Format the plan of a run."""
    config = _without_forcing(config, subject)
    rows: Rows = []
    if isinstance(subject.runs_on, Path):
        rows, config = _on_llamacpp(config, subject.runs_on, planned)
    elif isinstance(subject.runs_on, Unplanned):
        rows = estimate.unplanned_rows(subject.runs_on, subject.label)
    loads = _all_runs(config, count, lengths, planned)
    request_rows = _request_rows(config, count, lengths, loads)
    notes = _notes(loads)
    if isinstance(subject.runs_on, OnGpu):
        plan = estimate.Plan(config, count, lengths, subject.runs_on, planned)
        rows += estimate.model_rows(subject.runs_on, subject.label)
        rows += request_rows
        rows += estimate.time_rows(plan, price)
        notes = [ROOFLINE, *notes, *estimate.notes(plan)]
    else:
        rows += request_rows
        rows += without_gpu(subject, loads, lengths, price)
    return labelled(rows) + "".join(wrapped(f"\nnote: {note}", "  ") for note in notes)


def _request_rows(config: Constants, count: int, lengths: Lengths, loads: Sequence[Load]) -> Rows:
    """Return the rows about a run's completions and tokens."""
    total = sum(load.count for load in loads)
    for_each = total // (count * config.RUNS)
    solutions = [load for load in loads if isinstance(load.kind[0], int)]
    mean = np.mean([load.lengths.mean() for load in solutions])
    solution = f"A solution has {mean:,.0f} tokens on average (cap: {config.MAX_TOKENS:,})"
    return [
        ("lengths", f"{lengths.source}. {solution}"),
        ("completions", f"{total:,} ({for_each} for each of {problems_of(count, config.RUNS)})"),
        *token_rows(loads),
    ]


def _notes(loads: Sequence[Load]) -> list[str]:
    """Return a note if a scaffold sends more requests than RSA's."""
    others = sum(load.count for load in loads if load.kind == OTHERS)
    if not others:
        return []
    return [
        f"up to {others:,} completions follow the first solutions. The plan counts each as a "
        "solution that reads one candidate. The scaffold may stop earlier, and its reviews and "
        "selections may be shorter"
    ]


def _sweep(runs: Grid, count: int, lengths: Lengths, subject: Subject, price: float | None) -> str:
    """Format the plan of a sweep: add up the runs that send requests. Other runs only read the
    first steps of these."""
    asking = [(_without_forcing(cell.config, subject), cell.scaffold) for cell in runs.asking]
    loads: list[Load] = []
    for config, scaffold in asking:
        loads += _all_runs(config, count, lengths, scaffold)
    shared = len(runs.cells) - len(asking)
    cells = f"{len(runs.cells)}"
    if shared:
        cells += f", {shared} of them from the first steps of others"
    rows = [("runs", cells)]
    if runs.left_out:
        reasons = ", ".join(dict.fromkeys(runs.left_out.values()))
        rows.append(("left out", f"{len(runs.left_out)} combinations: {reasons:.300}"))
    total = sum(load.count for load in loads)
    completions = f"{total:,}. Samples that runs share are counted for each run"
    rows += [("lengths", lengths.source), ("completions", completions), *token_rows(loads)]
    if not isinstance(subject.runs_on, OnGpu):
        return labelled([*rows, *without_gpu(subject, loads, lengths, price)])
    low = high = 0.0
    for config, scaffold in asking:
        plan = estimate.Plan(config, count, lengths, subject.runs_on, scaffold)
        low += plan.seconds[0]
        high += plan.seconds[1]
    return labelled([*rows, ("time", hours((low, high))), *money((low, high), price)])


def _all_runs(config: Constants, count: int, lengths: Lengths, planned: Bounded) -> list[Load]:
    """Return the requests of all RUNS."""
    loads = loads_of(config, count, lengths, planned)
    return [replace(load, count=config.RUNS * load.count) for load in loads]


def _without_forcing(config: Constants, subject: Subject) -> Constants:
    """Return the constants without forced answers if the server can't force them."""
    if subject.runs_on is None and subject.card.continues is False:
        return replace(config, ANSWER_TOKENS=0)
    return config


def _on_llamacpp(config: Constants, file: Path, planned: Bounded) -> tuple[Rows, Constants]:
    """Return rows about llama.cpp on this machine, and the constants within its context. Raises
    UserError if the GGUF `file` is unreadable, or its model does not fit this machine."""
    from core.engines.gguf_header import Gguf  # slow to import

    model = Gguf.read(file)
    shots = framing.from_config(config, environment.card()).tokens
    need = Need(planned.texts_shown(config), config.MAX_TOKENS, config.ANSWER_TOKENS, shots)
    is_exact = environment.hosting().exact(False)
    cores = llamacpp.physical_cores()
    size = llamacpp.size(model, need, llamacpp.memory(), cores, is_exact)
    contexts = f"contexts of {size.context:,} tokens" if size.context else "a context that fits"
    engine = (
        f"llama.cpp with {file.name} ({model.bytes / 1e6:,.0f} MB, {model.layers} layers): "
        f"at most {size.slots} requests at a time, {contexts}, {size.threads} threads"
    )
    if not environment.engine():
        engine += ". Set ENGINE=llamacpp for the run"
    rows = [("engine", engine)]
    if not size.context:
        return rows, config
    if need.context > size.context:
        text = (
            f"too short: a request may need {need.context:,} tokens, and then fails. Lower "
            "MAX_TOKENS, or K in RSA"
        )
        rows.append(("context", text))
    # llama.cpp truncates there
    return rows, replace(config, MAX_TOKENS=min(config.MAX_TOKENS, size.context))


def _task(
    work: Work, config: Constants, lengths: Lengths, subject: Subject, price: float | None
) -> str:
    """Format the plan of a task that is not a scaffold."""
    requests = [request for request in work.requests if request.count]
    loads = [request.load(lengths) for request in requests]
    total = sum(request.count for request in requests)
    kinds = ", ".join(f"{request.count:,} {request.kind}" for request in requests)
    rows = [
        ("lengths", _sources(requests, lengths)),
        ("completions", f"{total:,} at most: {kinds}"),
        *token_rows(loads),
    ]
    training = f"{tokens(work.trained)} at most"
    cost: Rows = []
    if isinstance(subject.runs_on, OnGpu):
        # Assume that requests are independent, because the order in searches and rounds is unknown.
        on = subject.runs_on
        machine = estimate.machine_of(on, config)
        low, high = machine.seconds(loads, max(load.count for load in loads))
        rows = [*estimate.model_rows(on, subject.label, whole=False), *rows]
        rows.append(("time", f"{hours((low, high))} for generating"))
        lowest, highest = _training_seconds(work, on)
        training += f", {hours((lowest, highest))} at 6 operations per parameter and token"
        cost = money((low + lowest, high + highest), price)
    else:
        rows += without_gpu(subject, loads, lengths, price)
        training += ". The time is unknown"
    if work.trained:
        rows.append(("training", training))
    return labelled([*rows, *work.rows, *cost])


def _sources(requests: Sequence[Requests], lengths: Lengths) -> str:
    """Describe where the lengths of a task's completions come from."""
    with_median = [request for request in requests if request.median]
    medians = ", ".join(f"{request.median:,.0f} for {request.kind}" for request in with_median)
    solutions = f"solutions: {lengths.source}"
    if not medians:
        return solutions
    if len(with_median) == len(requests):
        return f"assumed medians in tokens: {medians}"
    return f"{solutions}. Assumed medians in tokens: {medians}"


def _training_seconds(work: Work, on: OnGpu) -> tuple[float, float]:
    """Return the shortest and the longest time of training, at 6 operations per parameter and
    token."""
    operations = 6 * on.shape.parameters * work.trained
    lowest = operations / (on.gpu.flops * BEST.compute)
    highest = operations / (on.gpu.flops * WORST.compute)
    return lowest, highest


def _parser() -> Parser:
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
    named.add_argument("--gpu", help="a known GPU, or several (8xH100): " + ", ".join(gpus.GPUS))
    named.add_argument("--gpu-file", help="JSON file that describes another GPU")
    parser.add_argument(
        "--price", type=float, help="price of one hour of all GPUs or the machine, in any currency"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = _parser()
    with command(), ExitStack() as settings:
        args = parser.parse_intermixed_args(argv)
        namespace: dict[str, Any] = {}
        if lab_plan := registry.plan_of(args.experiment):
            name, planned, words = lab_plan(args.constants)
        else:
            experiment = experiment_file.load(args.experiment)
            name = experiment.name
            planned = experiment.planned
            words = args.constants
            settings.enter_context(environment.setting(**planned.constants.settings()))
            namespace = experiment.namespace
            namespace |= environment.card().constants_of(planned.constants)
        runs = _runs(name, planned, namespace, words, args)
        is_sweep = any(cell.values for cell in runs.cells)
        config = runs.common if is_sweep else constants.read(planned.constants, namespace, words)
        with environment.choosing(getattr(config, "GRADER", "")):
            subject = find_subject(args)
        lengths = _lengths(config, subject, name)
        if hasattr(planned, "work"):  # a task
            work = planned.work(config, subject.card)
            size = work.title
            plan = _task(work, config, lengths, subject, args.price)
        else:
            count, problems = _count(config, subject.card) if namespace else (1, config.PROBLEMS)
            size = f"{problems_of(count, config.RUNS)} ({one_line(problems, 60)})"
            if is_sweep:
                plan = _sweep(runs, count, lengths, subject, args.price)
            else:
                plan = run(config, count, lengths, subject, planned, args.price)
        title = f"{name} with {subject.label}{subject.on}, {size}"
        print(wrapped(f"{title}: an estimate (nothing was run)"))
        print("", plan, sep="\n")


def _runs(
    name: str, planned: Any, namespace: dict[str, Any], words: Sequence[str], args: Namespace
) -> Grid:
    """Return the runs of a sweep if the constants have lists, else none. Raises UserError."""
    if not isinstance(planned, Scaffold) or not any("," in word for word in words):
        return Grid([], {})
    try:
        return expand(planned, namespace, words)
    except TooMany as error:
        raise refusal(error, name, args) from None


if __name__ == "__main__":
    main()
