"""What a run will take, before a token is spent: python -m core.plan.cli 02_rsa_basic [N=16 …] [--gpu NAME]

From an experiment's constants to completions, from assumed or measured lengths to tokens, and by the roofline
(core/plan/roofline.py) to hours. Nothing is run: it is a computation on paper, and says so.
"""

import argparse
import json
import runpy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from core import constants
from core.constants import Config
from core.engines import gpus, weights
from core.engines.embedded_model import embedded_name
from core.engines.gpus import Gpu
from core.engines.need import DETERMINISTIC_COST, running
from core.engines.shape import QED_NANO, Shape, kv_tokens
from core.errors import UserError, command
from core.files import ROOT, results_dir
from core.plan.lengths import ASSUMED, FORCED_TOKENS, Lengths, Sample, measured
from core.plan.roofline import BEST, MIDDLE, WORST, Load, Machine, Reach
from core.problems import sets
from core.progress import Expected, Kind

OTHERS = ("others",)  # the kind of completions that are no step of RSA

# From constants to completions


Generations = Callable[[Config], int]  # the most completions that a problem takes


def loads(config: Config, count: int, lengths: Lengths, generations: Generations | None = None) -> list[Load]:
    """The completions of `count` problems, kind by kind in the order they are made. Of a scaffold that is not RSA, what
    it makes besides N solutions is planned as the most that its `generations` allow: further solutions, each after
    reading one."""
    steps: int = config.get("T", 0)
    cap: int = config.MAX_TOKENS
    made: list[Load] = []
    before = 0.0  # mean length of the last step's solutions
    for t in range(steps + 1):
        solutions = lengths.solutions[min(t, len(lengths.solutions) - 1)]
        prompt = lengths.prompt
        if t > 0:
            carried = {
                "answer": min(lengths.answer, before),
                "tail": min(float(config.get("CARRY_TOKENS", 0)), before),
                "full": before,
            }[_carry(config)]
            prompt += config.get("K", 0) * carried
        before = float(np.minimum(solutions, cap).mean())
        made.append(_load((t,), count * config.get("N", 1), prompt, solutions, cap, config.ANSWER_TOKENS))
        if t < steps and "VERIFY_MODE" in config:
            seen = lengths.prompt + min(lengths.answer, cap)
            times = count * config.N
            if config.VERIFY_MODE == "p_true":  # one token, with thinking closed
                made.append(Load(("verify", t), times, seen, np.ones(1)))
            else:
                times *= config.VERIFY_SAMPLES
                checks, most = lengths.verifications, config.VERIFY_TOKENS
                made.append(_load(("verify", t), times, seen, checks, most, config.ANSWER_TOKENS))
    rest = count * generations(config) - sum(load.count for load in made) if generations else 0
    if rest > 0:
        prompt = lengths.prompt + min(lengths.answer, before)
        made.append(_load(OTHERS, rest, prompt, lengths.solutions[-1], cap, config.ANSWER_TOKENS))
    return made


def _load(kind: Kind, count: int, prompt: float, sample: Sample, cap: int, forced: int) -> Load:
    cut = float((sample >= cap).mean()) if forced else 0.0
    return Load(kind, count, prompt, np.minimum(sample, cap), cut, min(forced, FORCED_TOKENS))


def at_most(config: Config, count: int, statement: float, generations: Generations | None = None) -> tuple[int, int]:
    """The most prompt and completion tokens: every completion runs into its cap, and every carried text is as long as
    it can be. `statement`: tokens of a statement with instructions."""
    steps, n, cap, forced = config.get("T", 0), count * config.get("N", 1), config.MAX_TOKENS, config.ANSWER_TOKENS
    answer, whole = max(cap, forced), cap + forced
    carried = {"answer": answer, "tail": min(config.get("CARRY_TOKENS", 0), whole), "full": whole}[_carry(config)]

    def most(requests: int, prompt: float, most_new: int) -> tuple[float, float]:
        """A forced answer is asked for with the prompt and all thinking once more."""
        again = prompt + most_new if forced else 0
        return requests * (prompt + again), requests * (most_new + forced)

    kinds = [most(n, statement, cap), most(n * steps, statement + config.get("K", 0) * carried, cap)]
    if config.get("VERIFY_MODE") == "p_true":
        kinds.append((n * steps * (statement + answer), n * steps))
    elif "VERIFY_MODE" in config:
        kinds.append(most(n * steps * config.VERIFY_SAMPLES, statement + answer, config.VERIFY_TOKENS))
    rest = next((load.count for load in loads(config, count, ASSUMED, generations) if load.kind == OTHERS), 0)
    kinds.append(most(rest, statement + max(1, config.get("K", 1)) * carried, cap))
    prompts, completions = (sum(column) for column in zip(*kinds, strict=True))
    return round(prompts), round(completions)


def at_cap(config: Config, lengths: Lengths) -> Lengths:
    """`lengths` as they are where every completion runs into its cap; what is carried stays as long as it was."""
    full, checks = np.array([float(config.MAX_TOKENS)]), np.array([float(config.get("VERIFY_TOKENS", 1))])
    return replace(lengths, solutions=(full,), verifications=checks)


def _carry(config: Config) -> str:
    return str(config.get("CARRY", "answer"))


def expected(
    config: Config, count: int, model: str, folder: Path, experiment: str, generations: Generations | None = None
) -> dict[Kind, Expected]:
    """What a Forecast starts from: the plan of `count` problems for QED-Nano on the default GPU, with the measured
    lengths of `model` where there are any. Only ratios matter there, and they differ little between machines. Empty
    for a scaffold that is not RSA: how it goes on depends on what comes."""
    if generations and generations(config) != sum(load.count for load in loads(config, 1, ASSUMED)):
        return {}
    made = loads(config, count, measured(folder, model, experiment) or ASSUMED)
    on = machine(QED_NANO, gpus.DEFAULT, "bf16", config)
    return {
        load.kind: Expected(load.count, load.tokens / load.count, on.parts([load], count, MIDDLE).work) for load in made
    }


# From completions to hours


@dataclass(frozen=True)
class Plan:
    """The estimate for one set of constants on one machine. Seconds are at best and at worst."""

    config: Config
    count: int
    loads: list[Load]
    machine: Machine
    seconds: tuple[float, float]
    generations: Generations | None = None

    @property
    def middle(self) -> float:
        return sum(self.seconds) / 2


def shape_of_model() -> tuple[Shape, str]:
    """QED-Nano's shape, and where it is from: the config.json beside its weights where they are fetched."""
    if weights.fetched() and (path := weights.folder() / "config.json").exists():
        return Shape.from_config(path), "its config.json"
    return QED_NANO, "figures of its config.json; the weights are not fetched"


def machine(shape: Shape, gpu: Gpu, kv: str, config: Config) -> Machine:
    """The server as it would run on `gpu`. Raises UserError where the model does not fit."""
    tokens = kv_tokens(shape, gpu.memory, kv)
    if tokens == 0:
        raise UserError(
            f"{gpu.name} has {gpu.memory / 1e9:.1f} GB and the weights alone take {shape.weight_bytes / 1e9:.1f} GB: "
            "the model does not fit. Choose a larger GPU"
        )
    return Machine(shape, gpu, kv, tokens, config.CONCURRENCY or running(tokens, config.MAX_TOKENS))


def make(
    config: Config,
    count: int,
    lengths: Lengths,
    shape: Shape,
    gpu: Gpu,
    kv: str,
    generations: Generations | None = None,
) -> Plan:
    """The plan of `config` for `count` problems."""
    on, made = machine(shape, gpu, kv, config), loads(config, count, lengths, generations)
    return Plan(config, count, made, on, on.seconds(made, count), generations)


def bottleneck(plan: Plan) -> str:
    """What most of the time goes to, in the middle between best and worst."""
    on = plan.machine
    parts = on.parts(plan.loads, plan.count, MIDDLE)
    if parts.path > parts.work:
        return (
            f"critical path: each step waits for its slowest member, {_hours([parts.path] * 2)} in a row; all the "
            f"work keeps the GPU busy for {_hours([parts.work] * 2)}"
        )
    share, name = max(
        (parts.weights, "weights bandwidth: reading the weights"),
        (parts.kv, "KV bandwidth: reading the KV cache"),
        (parts.compute, "compute: reading prompts and arithmetic"),
    )
    if share == parts.weights and all(on.fits(load.context, MIDDLE) < min(on.limit, load.count) for load in plan.loads):
        name = "KV capacity: so few requests fit that reading the weights"
    return f"{name} takes {share / parts.work:.0%} of the GPU's time"


def alternatives(config: Config, kv: str, gpu: Gpu) -> Iterator[tuple[str, Config, str]]:
    """Every plan that differs by one notch of one constant and may take less time: counts lowered by one, caps
    halved, choices set to each other value. Yields its name, its constants and its KV type."""
    values = dict(config)
    for name, lowest in {"T": 1, "K": 2, "N": 2, "VERIFY_SAMPLES": 2}.items():
        if values.get(name, 0) >= lowest and not (name == "N" and values["N"] == values.get("K")):
            yield f"{name}={values[name] - 1}", Config(values | {name: values[name] - 1}), kv
    for name in ("MAX_TOKENS", "VERIFY_TOKENS", "CARRY_TOKENS"):
        if values.get(name, 0) >= 2 and (name != "CARRY_TOKENS" or values.get("CARRY") == "tail"):
            yield f"{name}={values[name] // 2}", Config(values | {name: values[name] // 2}), kv
    for name, choices in {"CARRY": ("answer", "tail"), "VERIFY_MODE": ("p_true",)}.items():
        for choice in choices:
            if values.get(name, choice) != choice:
                yield f"{name}={choice}", Config(values | {name: choice}), kv
    if values["ANSWER_TOKENS"]:
        yield "ANSWER_TOKENS=0", Config(values | {"ANSWER_TOKENS": 0}), kv
    if values["CONCURRENCY"]:
        yield "CONCURRENCY=0", Config(values | {"CONCURRENCY": 0}), kv
    if kv == "bf16" and gpu.fp8:
        yield "--kv fp8", config, "fp8"


def savings(plan: Plan, lengths: Lengths) -> list[tuple[float, str, Plan]]:
    """The alternatives that take less time, each planned anew: the share of the middle estimate that it saves, its
    name and its plan; the greatest saving first."""
    on = plan.machine
    made = [
        (name, make(config, plan.count, lengths, on.shape, on.gpu, kv, plan.generations))
        for name, config, kv in alternatives(plan.config, on.kv, on.gpu)
    ]
    rows = [(1 - other.middle / plan.middle, name, other) for name, other in made]
    return sorted((row for row in rows if row[0] > 0.005), key=lambda row: -row[0])


# What is shown


def text(plan: Plan, lengths: Lengths, price: float | None, why_gpu: str, why_shape: str) -> str:
    """The plan for people."""
    on, gpu, shape = plan.machine, plan.machine.gpu, plan.machine.shape
    few, many = (_mean_in_flight(plan, reach) for reach in (WORST, BEST))
    context = sum(load.tokens * load.context for load in plan.loads) / sum(load.tokens for load in plan.loads)
    asked = min(on.limit, max(load.count for load in plan.loads))
    rows = [
        (
            "GPU",
            f"{gpu.name} ({why_gpu}): {gpu.memory / gpus.GIB:.1f} GiB, {gpu.bandwidth / 1e9:,.0f} GB/s, "
            f"{gpu.flops / 1e12:.0f} TFLOP/s",
        ),
        (
            "model",
            f"QED-Nano, {shape.parameters / 1e9:.2f} B parameters, {shape.weight_bytes / 1e9:.1f} GB ({why_shape})",
        ),
        *_token_rows(plan.config, plan.count, plan.loads, lengths, plan.generations),
        ("KV cache", f"{on.kv_tokens:,} tokens in {on.kv}, {shape.kv_bytes(on.kv) / 1000:.1f} kB each"),
        (
            "in flight",
            f"{_range(few, many, 0)} requests of {context:,.0f} tokens on average ({asked} asked for at a time)",
        ),
        ("time", _hours(plan.seconds)),
        ("at the cap", f"{_hours(_at_cap(plan, lengths).seconds)}, if every completion runs into it"),
        *_money(plan.seconds, price),
        ("seeds", _seeds(plan.seconds)),
        ("bottleneck", bottleneck(plan)),
    ]
    saved = savings(plan, lengths)
    if saved:
        gain, name, other = saved[0]
        rows.append(("helps most", f"{name}: {_hours(other.seconds)}, {gain:.0%} less{_cut(plan, other)}"))
        others = ", ".join(f"{name} -{gain:.0%}" for gain, name, _ in saved[1:])
        rows += [("then", others)] if others else []
    longest = max(load.prompt + float(load.lengths.max()) for load in plan.loads)
    notes = [
        f"on paper, from data sheets: {BEST.bandwidth:.0%} to {WORST.bandwidth:.0%} of the bandwidth, "
        f"{BEST.compute:.0%} to {WORST.compute:.0%} of the FLOP/s and a KV cache {BEST.fill:.0%} to {WORST.fill:.0%} "
        "full are assumed, and nothing is taken from the journal"
    ]
    if extra := sum(load.count for load in plan.loads if load.kind == OTHERS):
        notes.append(
            f"{extra:,} of the completions are what this scaffold makes besides its first solutions, at most: counted "
            "as solutions that read one candidate; it may stop earlier, and reviews and selections may be shorter"
        )
    if longest > on.kv_tokens:
        notes.append(f"a request of {longest:,.0f} tokens does not fit the KV cache at all: such requests will fail")
    return _aligned(rows) + "".join(f"\nnote: {note}" for note in notes)


def _seeds(seconds: tuple[float, float]) -> str:
    """What it costs that SGLang honours seeds."""
    low, high = DETERMINISTIC_COST
    slower = _hours([seconds[0] * (1 + low), seconds[1] * (1 + high)])
    return (
        f"SGLang ignores them; started with DETERMINISTIC=1 it honours them, for {low:.0%} to {high:.0%} more time "
        f"(its makers' figure): {slower}"
    )


def _at_cap(plan: Plan, lengths: Lengths) -> Plan:
    on = plan.machine
    return make(plan.config, plan.count, at_cap(plan.config, lengths), on.shape, on.gpu, on.kv, plan.generations)


def _cut(plan: Plan, other: Plan) -> str:
    """What a lower cap costs."""
    now, then = (float((p.loads[0].lengths >= p.config.MAX_TOKENS).mean()) for p in (plan, other))
    return f" (it cuts off {then:.0%} of the solutions, not {now:.0%})" if then > now else ""


def _mean_in_flight(plan: Plan, reach: Reach) -> float:
    steps = sum(load.tokens / plan.machine.in_flight(load, reach) for load in plan.loads)
    return sum(load.tokens for load in plan.loads) / steps


def _token_rows(
    config: Config, count: int, made: Sequence[Load], lengths: Lengths, generations: Generations | None = None
) -> list[tuple[str, str]]:
    total = sum(load.count for load in made)
    most_prompt, most = at_most(config, count, lengths.prompt, generations)
    prompt, completion = sum(load.prompts for load in made), sum(load.tokens for load in made)
    source = lengths.source
    if lengths.cap < config.MAX_TOKENS:
        source += "; those cut off will be longer now, by how much is not known"
    mean = np.mean([load.lengths.mean() for load in made if isinstance(load.kind[0], int)])
    return [
        ("lengths", f"{source}; {mean:,.0f} tokens a solution on average, cap {config.MAX_TOKENS:,}"),
        ("generations", f"{total:,} ({total // count} for each of {_problems(count)})"),
        ("completion", f"{_tokens(completion)} expected, {_tokens(most)} at most"),
        ("prompt", f"{_tokens(prompt)} expected, {_tokens(most_prompt)} at most, before any cache"),
    ]


def _money(seconds: Sequence[float], price: float | None) -> list[tuple[str, str]]:
    if price is None:
        return []
    low, high = (price * s / 3600 for s in seconds)
    return [("cost", f"{low:,.2f} to {high:,.2f} at {price:g} an hour")]


def _problems(count: int) -> str:
    return f"{count} problem{'s' if count != 1 else ''}"


def _tokens(n: float) -> str:
    return f"{n / 1e6:,.1f}M tokens" if n >= 1e6 else f"{n:,.0f} tokens"


def _hours(seconds: Sequence[float]) -> str:
    unit, size = ("hours", 3600) if seconds[1] >= 3600 else ("minutes", 60) if seconds[1] >= 60 else ("seconds", 1)
    return f"{_range(seconds[0] / size, seconds[1] / size, 1)} {unit}"


def _range(low: float, high: float, digits: int) -> str:
    """Both, or one where they read the same."""
    shown = [f"{value:,.{digits}f}" for value in (low, high)]
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)


def _aligned(rows: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"{name:<12} {value}" for name, value in rows)


def embedded_text(config: Config, count: int, lengths: Lengths, price: float | None) -> str:
    """The plan for the embedded engine: measured lengths at the measured speed, on the machine that measured them."""
    assert lengths.speed is not None
    made = loads(config, count, lengths)
    seconds, most = (
        [sum(load.tokens for load in each) * speed for speed in lengths.speed]
        for each in (made, loads(config, count, at_cap(config, lengths)))
    )
    rows = [("engine", "embedded, at the speed of those results")]
    rows += [*_token_rows(config, count, made, lengths), ("time", _hours(seconds))]
    rows += [("at the cap", f"{_hours(most)}, if every completion runs into it"), *_money(seconds, price)]
    return _aligned(rows)


# The command


def _experiment(name: str) -> dict[str, Any]:
    """The namespace of an experiment's file, by its name or a beginning of it."""
    known = sorted((ROOT / "experiments").glob("[0-9]*.py"))
    stem = Path(name).stem or "?"
    found = [path for path in known if path.stem == stem] or [path for path in known if path.stem.startswith(stem)]
    if len(found) != 1:
        raise UserError(f"no experiment {name!r:.60}. There are: {' '.join(path.stem for path in known)}")
    return runpy.run_path(str(found[0]))


def _count(config: Config, asked: int | None, is_embedded: bool) -> int:
    """Problems that the run will have, without fetching any."""
    if asked is not None:
        return asked
    name = ("sums" if is_embedded else "aime_2025") if config.PROBLEMS == "auto" else config.PROBLEMS
    if name == "aime_2025":
        have = len(json.loads((ROOT / "data" / "aime_2025_key.json").read_text(encoding="utf-8"))["answers"])
    else:
        have = len(sets.load(name).problems)
    return min(have, config.LIMIT or have)


def _gpu(args: argparse.Namespace) -> tuple[Gpu, str]:
    if args.gpu and args.gpu_file:
        raise UserError("give --gpu or --gpu-file, not both")
    if args.gpu:
        return gpus.named(args.gpu), "as asked"
    if args.gpu_file:
        return gpus.from_file(Path(args.gpu_file)), "from the file"
    if here := gpus.detect():
        return here, "in this machine"
    return gpus.DEFAULT, "assumed: no NVIDIA GPU is here; --gpu names another"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. For help: bash scripts/plan.sh --help")


def main(argv: Sequence[str] | None = None) -> None:
    parser = _Parser(prog="plan.sh", description="What a run will take, before a token is spent.")
    parser.add_argument("experiment", nargs="?", default="", help="such as 02_rsa_basic")
    parser.add_argument("constants", nargs="*", metavar="NAME=value", help="constants, as for run.sh")
    parser.add_argument("--gpu", help="one of " + ", ".join(gpus.GPUS))
    parser.add_argument("--gpu-file", help="a GPU described in JSON")
    parser.add_argument("--kv", choices=("bf16", "fp8"), help="type of the KV cache; fp8 where the GPU supports it")
    parser.add_argument("--price", type=float, help="of one hour, in any currency")
    parser.add_argument("--problems", type=int, help="number of problems, where the set can't be read here")
    parser.add_argument("--embedded", action="store_true", help="the embedded engine, from measured results alone")
    with command():
        args = parser.parse_intermixed_args(argv)
        if args.price is not None and not 0 <= args.price <= 1e9:
            raise UserError(f"--price {args.price} is no price of an hour. Give a number from 0 up")
        if args.problems is not None and not 1 <= args.problems <= 1_000_000:
            raise UserError(f"--problems {args.problems} is no number of problems. Give one from 1 to 1,000,000")
        namespace = _experiment(args.experiment)
        config = constants.read(namespace, args.constants, constants.COMMON)
        count = _count(config, args.problems, args.embedded)
        name = Path(namespace["__file__"]).stem
        generations = namespace.get("generations")
        if not generations:
            raise UserError(
                f"{name} can't be planned: it has no generations(config), which core/scaffolds/__init__.py tells of"
            )
        folder = results_dir()
        if args.embedded:
            if any(load.kind == OTHERS for load in loads(config, count, ASSUMED, generations)):
                raise UserError(
                    f"{name} is no RSA: from measured lengths alone it can't be planned. Leave out --embedded"
                )
            lengths = measured(folder, embedded_name(), name)
            if lengths is None:
                raise UserError(f"no results of the embedded model in {folder}. Run {name} once with LIMIT=4")
            needed = {"answer"} if config.get("T") and _carry(config) == "answer" else set()
            needed |= {"verifications"} if config.get("VERIFY_MODE") == "verdict" else set()
            if lacking := sorted(needed.intersection(lengths.assumed)):
                raise UserError(f"no results in {folder} tell {' and '.join(lacking)}. Run {name} once with LIMIT=4")
            print(f"{name} on the embedded engine, {_problems(count)}: planned, not run\n")
            print(embedded_text(config, count, lengths, args.price))
            return
        gpu, why_gpu = _gpu(args)
        kv = args.kv or ("fp8" if gpu.fp8 else "bf16")
        if kv == "fp8" and not gpu.fp8:
            raise UserError(f"{gpu.name} has no fp8 arithmetic. Plan with --kv bf16")
        shape, why_shape = shape_of_model()
        lengths = measured(folder, weights.REPO, name) or ASSUMED
        plan = make(config, count, lengths, shape, gpu, kv, generations)
        print(f"{name} with QED-Nano on one {gpu.name}, {_problems(count)}: a computation on paper, nothing was run\n")
        print(text(plan, lengths, args.price, why_gpu, why_shape))


if __name__ == "__main__":
    main()
