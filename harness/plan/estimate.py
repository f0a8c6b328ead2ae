"""Compute the hours of a run on a GPU from its tokens (harness/plan/roofline.py), and format the rows
of plans."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from core.base.prices import shown
from core.constants import Constants
from core.engines import dialect, gpus
from core.types import Bounded
from harness.plan.lengths import Lengths
from harness.plan.roofline import BEST, MIDDLE, WORST, Load, Machine
from harness.plan.subject import OnGpu, Subject
from harness.plan.work import at_cap, loads

Rows = list[tuple[str, str]]


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
    """Describe the bottleneck, the part that takes most of the time, midway between best and worst
    case."""
    on, runs = plan.machine, plan.config.RUNS
    parts = on.parts(plan.loads, plan.count, MIDDLE)
    if parts.path > parts.work:
        return (
            "critical path: each step waits for its slowest member. The slowest members take "
            f"{hours([parts.path * runs] * 2)} in total, but the GPU is busy for only "
            f"{hours([parts.work * runs] * 2)}"
        )
    share, name = max(
        (parts.weights, "weights bandwidth: reading the weights"),
        (parts.kv, "KV bandwidth: reading the KV cache"),
        (parts.compute, "compute: arithmetic for prompts and tokens"),
    )
    if share == parts.weights and all(
        on.fits(load.context, MIDDLE) < min(on.limit, load.count) for load in plan.loads
    ):
        name = "KV capacity: few requests fit at a time, so that reading the weights"
    return f"{name} takes {share / parts.work:.0%} of the GPU's time"


def alternatives(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Yield the name and plan of each change of one value that may take less time. A count is
    lowered by one, a cap halved, and ANSWER_TOKENS or CONCURRENCY set to 0. A choice or KV takes
    another value."""
    values = vars(plan.config)
    # the lowest values that can be lowered
    lowest = {"T": 1, "K": 2, "N": values.get("K", 1) + 1, "VERIFY_SAMPLES": 2}
    halved = ("MAX_TOKENS", "VERIFY_TOKENS", "CARRY_TOKENS")
    changes = [
        (name, values[name] - 1) for name, least in lowest.items() if values.get(name, 0) >= least
    ]
    changes += [(name, values[name] // 2) for name in halved if values.get(name, 0) >= 2]
    changes += [("CARRY", "answer"), ("CARRY", "tail"), ("VERIFY_MODE", "p_true")]
    for name, value in [*changes, ("ANSWER_TOKENS", 0), ("CONCURRENCY", 0)]:
        if values.get(name, value) != value:
            one: dict[str, Any] = {name: value}
            yield f"{name}={value}", replace(plan, config=replace(plan.config, **one))
    if plan.on.kv == "bf16" and plan.on.gpu.fp8:
        yield "KV=fp8", replace(plan, on=replace(plan.on, kv="fp8"))


def savings(plan: Plan) -> Rows:
    """Return rows with the alternatives that save over 0.5% of the mean time, the largest saving
    first."""
    gains = [
        (1 - sum(other.seconds) / sum(plan.seconds), name, other)
        for name, other in alternatives(plan)
    ]
    saved = sorted((each for each in gains if each[0] > 0.005), key=lambda each: -each[0])
    if not saved:
        return []
    gain, name, best = saved[0]
    cut = (
        f" (truncates {best.cut:.0%} of the solutions instead of {plan.cut:.0%})"
        if best.cut > plan.cut
        else ""
    )
    rows = [("helps most", f"{name}: {hours(best.seconds)}, {gain:.0%} less time{cut}")]
    more = ", ".join(f"{name} -{gain:.0%}" for gain, name, _ in saved[1:])
    return [*rows, ("then", more)] if more else rows


def model_rows(on: OnGpu, model: str, whole: bool = True) -> Rows:
    """Return rows with the GPU and the `model`, if `whole` with their figures."""
    gpu, shape = on.gpu, on.shape
    sheet = (
        f": {gpu.memory / gpus.GIB:.1f} GiB, {gpu.bandwidth / 1e9:,.0f} GB/s, "
        f"{gpu.flops / 1e12:.0f} TFLOP/s"
    )
    size = f", {shape.weight_bytes / 1e9:.1f} GB ({on.why})"
    return [
        ("GPU", f"{gpu.name} ({on.why_gpu}){sheet if whole else ''}"),
        ("model", f"{model}, {shape.parameters / 1e9:.2f} B parameters{size if whole else ''}"),
    ]


def time_rows(plan: Plan, price: float | None) -> Rows:
    """Return the rows about KV cache, time and cost on the GPU. `price` is the price of an hour."""
    on, machine, written = plan.on, plan.machine, sum(load.tokens for load in plan.loads)
    steps = [
        sum(load.tokens / machine.in_flight(load, reach) for load in plan.loads)
        for reach in (WORST, BEST)
    ]
    few, many = (written / each for each in steps)
    context = sum(load.tokens * load.context for load in plan.loads) / written
    asked = min(machine.limit, max(load.count for load in plan.loads))
    capped = replace(plan, lengths=at_cap(plan.config, plan.lengths))
    return [
        (
            "KV cache",
            (
                f"{machine.kv_tokens:,} tokens in {on.kv}, {on.shape.kv_bytes(on.kv) / 1000:.1f} "
                "kB each"
            ),
        ),
        (
            "in flight",
            (
                f"{between(few, many, 0)} requests of {context:,.0f} tokens on average ({asked} "
                "sent at a time)"
            ),
        ),
        ("time", hours(plan.seconds)),
        ("at the cap", f"{hours(capped.seconds)}, if every completion is truncated"),
        *money(plan.seconds, price),
        ("seeds", _seeds(on.engine, plan.seconds)),
        ("bottleneck", bottleneck(plan)),
        *savings(plan),
    ]


def notes(plan: Plan) -> list[str]:
    """Return a note if requests are longer than the model's context or the KV cache."""
    longest = max(load.prompt + float(load.lengths.max()) for load in plan.loads)
    most = min(plan.on.longest or math.inf, plan.machine.kv_tokens)
    if longest <= most:
        return []
    return [
        f"a request may need {longest:,.0f} tokens, but the server takes at most {most:,}. Longer "
        "requests fail. Lower MAX_TOKENS, or K in RSA"
    ]


def _seeds(engine: dialect.OnGpu, seconds: tuple[float, float]) -> str:
    """Describe whether the `engine` honours seeds, and how much longer a run takes if it does."""
    if not engine.deterministic_cost:
        return f"{engine.label} honours seeds"
    low, high = engine.deterministic_cost
    slower = hours([seconds[0] * (1 + low), seconds[1] * (1 + high)])
    return (
        f"{engine.label} ignores seeds. With DETERMINISTIC=1 it honours them, but its authors "
        f"report {low:.0%} to {high:.0%} more time: {slower}"
    )


def sums(loads: Sequence[Load]) -> tuple[float, float, float, float]:
    """Return the prompt and completion tokens of `loads`, as expected and at most."""
    return (
        sum(load.prompts for load in loads),
        sum(load.tokens for load in loads),
        sum(load.count * load.most[0] for load in loads),
        sum(load.count * load.most[1] for load in loads),
    )


def token_rows(loads: Sequence[Load]) -> Rows:
    read, written, most_read, most_written = sums(loads)
    at_most = f", {tokens(most_read)} at most" if most_read else ""
    return [
        ("output", f"{tokens(written)} expected, {tokens(most_written)} at most"),
        ("input", f"{tokens(read)} expected{at_most}, without cache hits"),
    ]


def without_gpu(of: Subject, loads: Sequence[Load], lengths: Lengths, price: float | None) -> Rows:
    """Return the time with llama.cpp on this machine, or the cost of another server."""
    read, written, most_read, most_written = sums(loads)
    if isinstance(of.place, Path):
        if not lengths.speed:
            return [
                (
                    "time",
                    (
                        "not planned: no earlier results show this model's speed. Run 02_rsa_basic "
                        "LIMIT=1"
                    ),
                )
            ]
        seconds, most = (
            [count * speed for speed in lengths.speed] for count in (written, most_written)
        )
        at_cap = ("at the cap", f"{hours(most)}, if every completion is truncated")
        return [
            ("time", f"{hours(seconds)} for generating, at the measured speed"),
            at_cap,
            *money(seconds, price),
        ]
    if prices := of.card.price:
        expected = prices.dollars((round(read), 0, round(written))) or 0
        most_dollars = prices.dollars((round(most_read), 0, round(most_written))) or 0
        at_most = f", {shown(most_dollars)} at most" if most_read else ""
        cost = f"{shown(expected)} expected{at_most}, at prices of {prices.on}, without cache hits"
    else:
        lacks = (
            f"the card {of.card.name} has no table [price]"
            if of.card.name
            else f"{of.model} has no card"
        )
        cost = f"unknown: {lacks}. See data/models/template.toml"
    return [("cost", cost), ("time", "not planned: the speed of the server is unknown")]


def money(seconds: Sequence[float], price: float | None) -> Rows:
    """Return a row with the cost of this time, if the `price` of an hour is known."""
    if price is None:
        return []
    low, high = (price * s / 3600 for s in seconds)
    return [("cost", f"{low:,.2f} to {high:,.2f} at {price:g} an hour")]


def problems_of(count: int, runs: int = 1) -> str:
    return f"{count} problem{'s' if count != 1 else ''}" + (
        f" in each of {runs} runs" if runs > 1 else ""
    )


def tokens(n: float) -> str:
    return f"{n / 1e6:,.1f}M tokens" if n >= 1e6 else f"{n:,.0f} tokens"


def hours(seconds: Sequence[float]) -> str:
    """Format the shortest and the longest time as a range of seconds, minutes or hours."""
    unit, size = (
        ("hours", 3600)
        if seconds[1] >= 3600
        else ("minutes", 60)
        if seconds[1] >= 60
        else ("seconds", 1)
    )
    return f"{between(seconds[0] / size, seconds[1] / size, 1)} {unit}"


def between(low: float, high: float, digits: int) -> str:
    """Format a range of numbers, or one number if both ends look equal."""
    shown = [f"{value:,.{digits}f}" for value in (low, high)]
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)
