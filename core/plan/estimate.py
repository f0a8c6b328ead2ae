"""The plan of a run on a GPU: from tokens to hours by the roofline (core/plan/roofline.py), and its rows for people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.base.errors import UserError
from core.base.terminal import wrapped
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
    """The estimate for one set of constants on one machine. Seconds are at best and at worst."""

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
    """Return the server as it would run on `gpu`. Raises UserError if the model does not fit."""
    tokens = kv_tokens(shape, gpu.memory, kv)
    if tokens == 0:
        raise UserError(
            f"{gpu.name} has {gpu.memory / 1e9:.1f} GB and the weights alone take {shape.weight_bytes / 1e9:.1f} GB: "
            "the model does not fit. Choose a larger GPU"
        )
    return Machine(shape, gpu, kv, tokens, config.CONCURRENCY or running(tokens, config.MAX_TOKENS))


def make(config: Constants, count: int, lengths: Lengths, shape: Shape, gpu: Gpu, kv: str, planned: Bounded) -> Plan:
    """Return the plan of `config` for `count` problems; its loads are those of one run."""
    on, made = machine(shape, gpu, kv, config), loads(config, count, lengths, planned)
    low, high = on.seconds(made, count)
    return Plan(config, count, made, on, (config.RUNS * low, config.RUNS * high), planned)


def bottleneck(plan: Plan) -> str:
    """Say what most of the time goes to, in the middle between best and worst."""
    on, runs = plan.machine, plan.config.RUNS
    parts = on.parts(plan.loads, plan.count, MIDDLE)
    if parts.path > parts.work:
        return (
            f"critical path: each step waits for its slowest member, {hours([parts.path * runs] * 2)} in a row; all "
            f"the work keeps the GPU busy for {hours([parts.work * runs] * 2)}"
        )
    share, name = max(
        (parts.weights, "weights bandwidth: reading the weights"),
        (parts.kv, "KV bandwidth: reading the KV cache"),
        (parts.compute, "compute: reading prompts and arithmetic"),
    )
    if share == parts.weights and all(on.fits(load.context, MIDDLE) < min(on.limit, load.count) for load in plan.loads):
        name = "KV capacity: so few requests fit that reading the weights"
    return f"{name} takes {share / parts.work:.0%} of the GPU's time"


def alternatives(config: Constants, kv: str, gpu: Gpu) -> Iterator[tuple[str, Constants, str]]:
    """Yield each plan that differs by one notch of one constant and may take less time (counts lowered by one, caps
    halved, choices set to each other value): its name, its constants and its KV type."""
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
    others = (
        ("CARRY", "answer"),
        ("CARRY", "tail"),
        ("VERIFY_MODE", "p_true"),
        ("ANSWER_TOKENS", 0),
        ("CONCURRENCY", 0),
    )
    lower += [(name, value) for name, value in others if values.get(name, value) != value]
    for name, value in lower:
        one: dict[str, Any] = {name: value}
        yield f"{name}={value}", replace(config, **one), kv
    if kv == "bf16" and gpu.fp8:
        yield "KV=fp8", config, "fp8"


def savings(plan: Plan, lengths: Lengths) -> list[tuple[float, str, Plan]]:
    """Return the alternatives that take less time, the greatest saving first: the share of the middle estimate that it
    saves, its name and its plan."""
    on = plan.machine
    made = [
        (name, make(config, plan.count, lengths, on.shape, on.gpu, kv, plan.planned))
        for name, config, kv in alternatives(plan.config, on.kv, on.gpu)
    ]
    rows = [(1 - other.middle / plan.middle, name, other) for name, other in made]
    return sorted((row for row in rows if row[0] > 0.005), key=lambda row: -row[0])


def text(plan: Plan, lengths: Lengths, price: float | None, why_gpu: str, place: OnGpu, model: str) -> str:
    """Return the plan of the `model` for people."""
    on, gpu, shape = plan.machine, plan.machine.gpu, plan.machine.shape
    few, many = (_mean_in_flight(plan, reach) for reach in (WORST, BEST))
    context = sum(load.tokens * load.context for load in plan.loads) / sum(load.tokens for load in plan.loads)
    asked = min(on.limit, max(load.count for load in plan.loads))
    capped = make(plan.config, plan.count, at_cap(plan.config, lengths), shape, gpu, on.kv, plan.planned)
    rows = [
        (
            "GPU",
            f"{gpu.name} ({why_gpu}): {gpu.memory / gpus.GIB:.1f} GiB, {gpu.bandwidth / 1e9:,.0f} GB/s, "
            f"{gpu.flops / 1e12:.0f} TFLOP/s",
        ),
        (
            "model",
            f"{model}, {shape.parameters / 1e9:.2f} B parameters, {shape.weight_bytes / 1e9:.1f} GB ({place.why})",
        ),
        *token_rows(plan.config, plan.count, plan.loads, lengths),
        ("KV cache", f"{on.kv_tokens:,} tokens in {on.kv}, {shape.kv_bytes(on.kv) / 1000:.1f} kB each"),
        (
            "in flight",
            f"{_range(few, many, 0)} requests of {context:,.0f} tokens on average ({asked} asked for at a time)",
        ),
        ("time", hours(plan.seconds)),
        ("at the cap", f"{hours(capped.seconds)}, if every completion runs into it"),
        *money(plan.seconds, price),
        ("seeds", _seeds(place.engine, plan.seconds)),
        ("bottleneck", bottleneck(plan)),
    ]
    saved = savings(plan, lengths)
    if saved:
        gain, name, other = saved[0]
        rows.append(("helps most", f"{name}: {hours(other.seconds)}, {gain:.0%} less{_cut(plan, other)}"))
        others = ", ".join(f"{name} -{gain:.0%}" for gain, name, _ in saved[1:])
        rows += [("then", others)] if others else []
    longest = max(load.prompt + float(load.lengths.max()) for load in plan.loads)
    notes = [
        f"on paper, from data sheets: {BEST.bandwidth:.0%} to {WORST.bandwidth:.0%} of the bandwidth, "
        f"{BEST.compute:.0%} to {WORST.compute:.0%} of the FLOP/s and a KV cache {BEST.fill:.0%} to {WORST.fill:.0%} "
        "full are assumed, and nothing is taken from the journal"
    ]
    if extra := plan.config.RUNS * sum(load.count for load in plan.loads if load.kind == OTHERS):
        notes.append(
            f"{extra:,} of the completions are what this scaffold makes besides its first solutions, at most: counted "
            "as solutions that read one candidate; it may stop earlier, and reviews and selections may be shorter"
        )
    if place.longest and longest > place.longest:
        notes.append(
            f"a request may take {longest:,.0f} tokens and the model was made for {place.longest:,}: such requests "
            "will fail. Lower MAX_TOKENS or K"
        )
    if longest > on.kv_tokens:
        notes.append(f"a request of {longest:,.0f} tokens does not fit the KV cache at all: such requests will fail")
    return aligned_rows(rows) + "".join(wrapped(f"\nnote: {note}", "  ") for note in notes)


def _seeds(engine: dialect.OnGpu, seconds: tuple[float, float]) -> str:
    """Say what an `engine` that honours seeds costs."""
    if not engine.deterministic_cost:
        return f"{engine.label} honours them"
    low, high = engine.deterministic_cost
    slower = hours([seconds[0] * (1 + low), seconds[1] * (1 + high)])
    return (
        f"{engine.label} ignores them; started with DETERMINISTIC=1 it honours them, for {low:.0%} to {high:.0%} more "
        f"time (its makers' figure): {slower}"
    )


def _cut(plan: Plan, other: Plan) -> str:
    """Say how many solutions a lower cap cuts off."""
    now, then = (float((p.loads[0].lengths >= p.config.MAX_TOKENS).mean()) for p in (plan, other))
    return f" (it cuts off {then:.0%} of the solutions, not {now:.0%})" if then > now else ""


def _mean_in_flight(plan: Plan, reach: Reach) -> float:
    steps = sum(load.tokens / plan.machine.in_flight(load, reach) for load in plan.loads)
    return sum(load.tokens for load in plan.loads) / steps


def token_rows(config: Constants, count: int, made: Sequence[Load], lengths: Lengths) -> list[tuple[str, str]]:
    """Return the completions and tokens, a name and a line each."""
    total = sum(load.count for load in made)
    most_prompt, most = (config.RUNS * tokens for tokens in at_most(config, made, count, lengths.prompt))
    prompt = config.RUNS * sum(load.prompts for load in made)
    completion = config.RUNS * sum(load.tokens for load in made)
    source = lengths.source
    if lengths.cap < config.MAX_TOKENS:
        source += "; those cut off will be longer now, by how much is not known"
    mean = np.mean([load.lengths.mean() for load in made if isinstance(load.kind[0], int)])
    return [
        ("lengths", f"{source}; {mean:,.0f} tokens a solution on average, cap {config.MAX_TOKENS:,}"),
        ("generations", f"{config.RUNS * total:,} ({total // count} for each of {problems_of(count, config.RUNS)})"),
        ("completion", f"{tokens(completion)} expected, {tokens(most)} at most"),
        ("prompt", f"{tokens(prompt)} expected, {tokens(most_prompt)} at most, before any cache"),
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
    """Format the least and the most, in the unit that fits."""
    unit, size = ("hours", 3600) if seconds[1] >= 3600 else ("minutes", 60) if seconds[1] >= 60 else ("seconds", 1)
    return f"{_range(seconds[0] / size, seconds[1] / size, 1)} {unit}"


def _range(low: float, high: float, digits: int) -> str:
    """Format both, or one if they read the same."""
    shown = [f"{value:,.{digits}f}" for value in (low, high)]
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)


def aligned_rows(rows: Sequence[tuple[str, str]]) -> str:
    """Format a plan: a name and a line each."""
    return "\n".join(wrapped(f"{name:<12} {value}", " " * 13) for name, value in rows)
