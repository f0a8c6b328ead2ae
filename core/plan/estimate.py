"""Plan a run on a GPU: compute its hours from its tokens (core/plan/roofline.py), and format the plan."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.base.errors import UserError
from core.base.terminal import labelled, wrapped
from core.constants import Asking, Constants
from core.engines import dialect, gpus
from core.engines.gpus import Gpu
from core.engines.need import running
from core.engines.shape import Shape, kv_tokens
from core.plan.lengths import Lengths
from core.plan.loads import OTHERS, at_cap, at_most, loads
from core.plan.roofline import BEST, MIDDLE, WORST, Load, Machine, Reach
from core.plan.subject import OnGpu
from core.types import Bounded


@dataclass(frozen=True)
class Plan:
    """The estimate for one set of constants on one machine. `seconds` is the shortest and the longest total time."""

    config: Constants
    count: int
    loads: list[Load]
    machine: Machine
    seconds: tuple[float, float]
    planned: Bounded

    @property
    def middle(self) -> float:
        return sum(self.seconds) / 2


def machine(shape: Shape, gpu: Gpu, kv: str, config: Asking) -> Machine:
    """Return the server for a model of this `shape` on `gpu`. Raises UserError if the model does not fit."""
    tokens = kv_tokens(shape, gpu.memory, kv)
    if tokens == 0:
        raise UserError(
            f"the model does not fit. It needs memory for its weights ({shape.weight_bytes / 1e9:.1f} GB) and a KV "
            f"cache, but {gpu.name} has {gpu.memory / 1e9:.1f} GB. Choose a larger GPU"
        )
    return Machine(shape, gpu, kv, tokens, config.CONCURRENCY or running(tokens, config.MAX_TOKENS))


def make(config: Constants, count: int, lengths: Lengths, shape: Shape, gpu: Gpu, kv: str, planned: Bounded) -> Plan:
    """Return the plan of `config` for `count` problems. Its loads are for one run, and its seconds for all runs."""
    on, expected = machine(shape, gpu, kv, config), loads(config, count, lengths, planned)
    low, high = on.seconds(expected, count)
    return Plan(config, count, expected, on, (config.RUNS * low, config.RUNS * high), planned)


def bottleneck(plan: Plan) -> str:
    """Describe the bottleneck, the part that takes most of the time, midway between best and worst case."""
    on, runs = plan.machine, plan.config.RUNS
    parts = on.parts(plan.loads, plan.count, MIDDLE)
    if parts.path > parts.work:
        return (
            f"critical path: each step waits for its slowest member. The slowest members take "
            f"{hours([parts.path * runs] * 2)} in total, but the GPU is busy for only {hours([parts.work * runs] * 2)}"
        )
    share, name = max(
        (parts.weights, "weights bandwidth: reading the weights"),
        (parts.kv, "KV bandwidth: reading the KV cache"),
        (parts.compute, "compute: arithmetic for prompts and tokens"),
    )
    if share == parts.weights and all(on.fits(load.context, MIDDLE) < min(on.limit, load.count) for load in plan.loads):
        name = "KV capacity: few requests fit at a time, so that reading the weights"
    return f"{name} takes {share / parts.work:.0%} of the GPU's time"


def alternatives(config: Constants, kv: str, gpu: Gpu) -> Iterator[tuple[str, Constants, str]]:
    """Yield the name, constants and KV type of each plan that changes one value and may take less time. A count is
    lowered by one, a cap halved, and ANSWER_TOKENS or CONCURRENCY set to 0. A choice or KV takes another value."""
    values = vars(config)
    lower: list[tuple[str, Any]] = [
        (name, values[name] - 1)
        for name, lowest in {"T": 1, "K": 2, "N": 2, "VERIFY_SAMPLES": 2}.items()
        if values.get(name, 0) >= lowest and not (name == "N" and values["N"] == values.get("K"))
    ]
    lower += [
        (name, values[name] // 2)
        for name in ("MAX_TOKENS", "VERIFY_TOKENS", "CARRY_TOKENS")
        if values.get(name, 0) >= 2 and (name != "CARRY_TOKENS" or values.get("CARRY") == "tail")
    ]
    lower += [("CARRY", "answer"), ("CARRY", "tail"), ("VERIFY_MODE", "p_true"), ("ANSWER_TOKENS", 0)]
    for name, value in [*lower, ("CONCURRENCY", 0)]:
        if values.get(name, value) == value:
            continue
        one: dict[str, Any] = {name: value}
        yield f"{name}={value}", replace(config, **one), kv
    if kv == "bf16" and gpu.fp8:
        yield "KV=fp8", config, "fp8"


def savings(plan: Plan, lengths: Lengths) -> list[tuple[float, str, Plan]]:
    """Return (saved share of `middle`, name, plan) for each alternative that saves over 0.5%, the largest first."""
    on, rows = plan.machine, []
    for name, config, kv in alternatives(plan.config, on.kv, on.gpu):
        other = make(config, plan.count, lengths, on.shape, on.gpu, kv, plan.planned)
        rows.append((1 - other.middle / plan.middle, name, other))
    return sorted((row for row in rows if row[0] > 0.005), key=lambda row: -row[0])


def text(plan: Plan, lengths: Lengths, price: float | None, why_gpu: str, place: OnGpu, model: str) -> str:
    """Format the plan of the `model`. `price` is the price of an hour, and `why_gpu` the reason for the GPU."""
    on, gpu, shape = plan.machine, plan.machine.gpu, plan.machine.shape
    few, many = (_mean_in_flight(plan, reach) for reach in (WORST, BEST))
    context = sum(load.tokens * load.context for load in plan.loads) / sum(load.tokens for load in plan.loads)
    asked = min(on.limit, max(load.count for load in plan.loads))
    capped = make(plan.config, plan.count, at_cap(plan.config, lengths), shape, gpu, on.kv, plan.planned)
    sheet = f"{gpu.memory / gpus.GIB:.1f} GiB, {gpu.bandwidth / 1e9:,.0f} GB/s, {gpu.flops / 1e12:.0f} TFLOP/s"
    size = f"{shape.parameters / 1e9:.2f} B parameters, {shape.weight_bytes / 1e9:.1f} GB"
    rows = [
        ("GPU", f"{gpu.name} ({why_gpu}): {sheet}"),
        ("model", f"{model}, {size} ({place.why})"),
        *token_rows(plan.config, plan.count, plan.loads, lengths),
        ("KV cache", f"{on.kv_tokens:,} tokens in {on.kv}, {shape.kv_bytes(on.kv) / 1000:.1f} kB each"),
        ("in flight", f"{_range(few, many, 0)} requests of {context:,.0f} tokens on average ({asked} sent at a time)"),
        ("time", hours(plan.seconds)),
        ("at the cap", f"{hours(capped.seconds)}, if every completion is truncated"),
        *money(plan.seconds, price),
        ("seeds", _seeds(place.engine, plan.seconds)),
        ("bottleneck", bottleneck(plan)),
    ]
    saved = savings(plan, lengths)
    if saved:
        gain, name, other = saved[0]
        rows.append(("helps most", f"{name}: {hours(other.seconds)}, {gain:.0%} less time{_truncated(plan, other)}"))
        others = ", ".join(f"{name} -{gain:.0%}" for gain, name, _ in saved[1:])
        rows += [("then", others)] if others else []
    longest = max(load.prompt + float(load.lengths.max()) for load in plan.loads)
    notes = [
        f"the time is computed from data sheets. It assumes {BEST.bandwidth:.0%} to {WORST.bandwidth:.0%} of the "
        f"bandwidth, {BEST.compute:.0%} to {WORST.compute:.0%} of the FLOP/s, and {BEST.fill:.0%} to {WORST.fill:.0%} "
        "of the KV cache. Completions in the journal are not subtracted"
    ]
    if extra := plan.config.RUNS * sum(load.count for load in plan.loads if load.kind == OTHERS):
        notes.append(
            f"up to {extra:,} completions follow the first solutions. The plan counts each as a solution that reads "
            "one candidate. The scaffold may stop earlier, and its reviews and selections may be shorter"
        )
    if place.longest and longest > place.longest:
        notes.append(
            f"a request may need {longest:,.0f} tokens, but the model takes at most {place.longest:,}. Longer requests "
            "fail. Lower MAX_TOKENS, or K in RSA"
        )
    if longest > on.kv_tokens:
        notes.append(f"a request of {longest:,.0f} tokens does not fit the KV cache. Lower MAX_TOKENS, or K in RSA")
    return labelled(rows) + "".join(wrapped(f"\nnote: {note}", "  ") for note in notes)


def _seeds(engine: dialect.OnGpu, seconds: tuple[float, float]) -> str:
    """Describe whether the `engine` honours seeds, and how much longer a run takes if it does."""
    if not engine.deterministic_cost:
        return f"{engine.label} honours seeds"
    low, high = engine.deterministic_cost
    slower = hours([seconds[0] * (1 + low), seconds[1] * (1 + high)])
    return (
        f"{engine.label} ignores seeds. With DETERMINISTIC=1 it honours them, but its authors report {low:.0%} to "
        f"{high:.0%} more time: {slower}"
    )


def _truncated(plan: Plan, other: Plan) -> str:
    """Return the shares of truncated solutions as text if `other` truncates more of them than `plan`, else ""."""
    now, then = (float((p.loads[0].lengths >= p.config.MAX_TOKENS).mean()) for p in (plan, other))
    return f" (truncates {then:.0%} of the solutions instead of {now:.0%})" if then > now else ""


def _mean_in_flight(plan: Plan, reach: Reach) -> float:
    steps = sum(load.tokens / plan.machine.in_flight(load, reach) for load in plan.loads)
    return sum(load.tokens for load in plan.loads) / steps


def token_rows(config: Constants, count: int, expected: Sequence[Load], lengths: Lengths) -> list[tuple[str, str]]:
    total = sum(load.count for load in expected)
    most_prompt, most = (config.RUNS * tokens for tokens in at_most(config, expected, count, lengths.prompt))
    prompt = config.RUNS * sum(load.prompts for load in expected)
    completion = config.RUNS * sum(load.tokens for load in expected)
    source = lengths.source
    if lengths.cap < config.MAX_TOKENS:
        source += ". Without this cap, the truncated solutions will be longer"
    mean = np.mean([load.lengths.mean() for load in expected if isinstance(load.kind[0], int)])
    return [
        ("lengths", f"{source}. A solution has {mean:,.0f} tokens on average (cap: {config.MAX_TOKENS:,})"),
        ("completions", f"{config.RUNS * total:,} ({total // count} for each of {problems_of(count, config.RUNS)})"),
        ("output", f"{tokens(completion)} expected, {tokens(most)} at most"),
        ("input", f"{tokens(prompt)} expected, {tokens(most_prompt)} at most, without cache hits"),
    ]


def money(seconds: Sequence[float], price: float | None) -> list[tuple[str, str]]:
    if price is None:
        return []
    low, high = (price * s / 3600 for s in seconds)
    return [("cost", f"{low:,.2f} to {high:,.2f} at {price:g} an hour")]


def problems_of(count: int, runs: int = 1) -> str:
    return f"{count} problem{'s' if count != 1 else ''}" + (f" in each of {runs} runs" if runs > 1 else "")


def tokens(n: float) -> str:
    return f"{n / 1e6:,.1f}M tokens" if n >= 1e6 else f"{n:,.0f} tokens"


def hours(seconds: Sequence[float]) -> str:
    """Format the shortest and the longest time as a range of seconds, minutes or hours."""
    unit, size = ("hours", 3600) if seconds[1] >= 3600 else ("minutes", 60) if seconds[1] >= 60 else ("seconds", 1)
    return f"{_range(seconds[0] / size, seconds[1] / size, 1)} {unit}"


def _range(low: float, high: float, digits: int) -> str:
    """Format a range of numbers, or one number if both ends look equal."""
    shown = [f"{value:,.{digits}f}" for value in (low, high)]
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)
