"""Plan a run on a GPU: compute its hours from its tokens (core/plan/roofline.py), and format the plan."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from core.constants import Constants
from core.engines import dialect, gpus
from core.plan.lengths import Lengths
from core.plan.roofline import BEST, MIDDLE, WORST, Load, Machine
from core.plan.rows import Rows, between, hours, money
from core.plan.subject import OnGpu
from core.plan.work import at_cap, loads
from core.types import Bounded


@dataclass(frozen=True)
class Plan:
    """The estimate for one set of constants and `count` problems on one GPU."""

    config: Constants
    count: int
    lengths: Lengths
    on: OnGpu
    planned: Bounded

    @cached_property
    def machine(self) -> Machine:
        """The server. Raises UserError if the model does not fit."""
        return Machine.of(self.on.shape, self.on.gpu, self.on.kv, self.config)

    @cached_property
    def loads(self) -> list[Load]:
        """The requests of one run."""
        return loads(self.config, self.count, self.lengths, self.planned)

    @cached_property
    def seconds(self) -> tuple[float, float]:
        """The shortest and the longest time of all runs."""
        low, high = self.machine.seconds(self.loads, self.count)
        return self.config.RUNS * low, self.config.RUNS * high

    @property
    def cut(self) -> float:
        """The share of truncated solutions."""
        return float((self.loads[0].lengths >= self.config.MAX_TOKENS).mean())


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


def alternatives(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Yield the name and plan of each change of one value that may take less time. A count is lowered by one, a cap
    halved, and ANSWER_TOKENS or CONCURRENCY set to 0. A choice or KV takes another value."""
    values = vars(plan.config)
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
        if values.get(name, value) != value:
            one: dict[str, Any] = {name: value}
            yield f"{name}={value}", replace(plan, config=replace(plan.config, **one))
    if plan.on.kv == "bf16" and plan.on.gpu.fp8:
        yield "KV=fp8", replace(plan, on=replace(plan.on, kv="fp8"))


def savings(plan: Plan) -> Rows:
    """Return rows with the alternatives that save over 0.5% of the mean time, the largest saving first."""
    gains = [(1 - sum(other.seconds) / sum(plan.seconds), name, other) for name, other in alternatives(plan)]
    saved = sorted((each for each in gains if each[0] > 0.005), key=lambda each: -each[0])
    if not saved:
        return []
    gain, name, best = saved[0]
    cut = f" (truncates {best.cut:.0%} of the solutions instead of {plan.cut:.0%})" if best.cut > plan.cut else ""
    rows = [("helps most", f"{name}: {hours(best.seconds)}, {gain:.0%} less time{cut}")]
    more = ", ".join(f"{name} -{gain:.0%}" for gain, name, _ in saved[1:])
    return [*rows, ("then", more)] if more else rows


def model_rows(on: OnGpu, model: str, whole: bool = True) -> Rows:
    """Return rows with the GPU and the `model`, if `whole` with their figures."""
    gpu, shape = on.gpu, on.shape
    sheet = f": {gpu.memory / gpus.GIB:.1f} GiB, {gpu.bandwidth / 1e9:,.0f} GB/s, {gpu.flops / 1e12:.0f} TFLOP/s"
    size = f", {shape.weight_bytes / 1e9:.1f} GB ({on.why})"
    return [
        ("GPU", f"{gpu.name} ({on.why_gpu}){sheet if whole else ''}"),
        ("model", f"{model}, {shape.parameters / 1e9:.2f} B parameters{size if whole else ''}"),
    ]


def time_rows(plan: Plan, price: float | None) -> Rows:
    """Return the rows about KV cache, time and cost on the GPU. `price` is the price of an hour."""
    on, machine, written = plan.on, plan.machine, sum(load.tokens for load in plan.loads)
    steps = [sum(load.tokens / machine.in_flight(load, reach) for load in plan.loads) for reach in (WORST, BEST)]
    few, many = (written / each for each in steps)
    context = sum(load.tokens * load.context for load in plan.loads) / written
    asked = min(machine.limit, max(load.count for load in plan.loads))
    capped = replace(plan, lengths=at_cap(plan.config, plan.lengths))
    return [
        ("KV cache", f"{machine.kv_tokens:,} tokens in {on.kv}, {on.shape.kv_bytes(on.kv) / 1000:.1f} kB each"),
        ("in flight", f"{between(few, many, 0)} requests of {context:,.0f} tokens on average ({asked} sent at a time)"),
        ("time", hours(plan.seconds)),
        ("at the cap", f"{hours(capped.seconds)}, if every completion is truncated"),
        *money(plan.seconds, price),
        ("seeds", _seeds(on.engine, plan.seconds)),
        ("bottleneck", bottleneck(plan)),
        *savings(plan),
    ]


def notes(plan: Plan) -> list[str]:
    """Return notes on requests that are longer than the model's context or the KV cache."""
    found, most = [], plan.on.longest
    longest = max(load.prompt + float(load.lengths.max()) for load in plan.loads)
    if most and longest > most:
        found.append(
            f"a request may need {longest:,.0f} tokens, but the model takes at most {most:,}. Longer requests "
            "fail. Lower MAX_TOKENS, or K in RSA"
        )
    if longest > plan.machine.kv_tokens:
        found.append(f"a request of {longest:,.0f} tokens does not fit the KV cache. Lower MAX_TOKENS, or K in RSA")
    return found


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
